"""Where the parts of a state folder are kept: in files of this machine, or in objects behind a URL.

A part is a sealed state with a name. It is changed by a function that makes the next version of the present one, and
that a store may call again: when somebody else was quicker, the change is made anew on what they left.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Protocol, TypeAlias

from panprivacy.errors import CorruptState, PanPrivacyError
from panprivacy.memory import wipe
from panprivacy.privacy import coins
from panprivacy.state.disk import StateInUse
from panprivacy.state.file import StateFile
from panprivacy.state.sealed import Sealed, seal, unseal

Edit: TypeAlias = Callable[[Sealed], Sealed | None]
"""Makes the next version of a part, or None if there is nothing to change; it may be called more than once."""

_PATIENCE = 120.0  # seconds to wait for whoever is at a part
_KEPT = 1000  # versions that stay of a part that holds no bits: nobody is so late as to come after so many


class Store(Protocol):
    """Keeps parts by name."""

    ONCE: bool
    """Whether a change that was made is never made a second time."""

    def where(self, name: str) -> str:
        """Where a part is, as messages name it."""

    def create(self, name: str, parts: Sealed) -> None:
        """Write the first version of a part; `FileExistsError` if there is one."""

    def read(self, name: str) -> Sealed:
        """The present version of a part; `FileNotFoundError` if there is none."""

    def change(self, name: str, edit: Edit) -> None:
        """Put the next version of a part in the place of the present one; when this returns it will outlast a crash."""

    def erase(self, name: str) -> None:
        """Delete all of a part that nobody uses yet."""


def store_at(url: str | Path) -> Store:
    """The store behind a path or an fsspec URL."""
    scheme = re.match(r"([a-z][a-z0-9+.-]*)://", str(url))
    if scheme is None or scheme[1] in ("file", "local"):
        return Files(Path(str(url).removeprefix(scheme[0] if scheme else "")).absolute())
    try:
        import fsspec
    except ImportError:
        raise PanPrivacyError(f"{url}: a URL needs fsspec: pip install 'panprivacy[folder]'") from None
    filesystem, root = fsspec.core.url_to_fs(str(url))
    return Objects(filesystem, root)


class Files:
    """Parts in state files of one folder: locked while they are changed, and overwritten in place."""

    ONCE = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def where(self, name: str) -> str:
        """The path of a part."""
        return str(self._file(name).path)

    def create(self, name: str, parts: Sealed) -> None:
        """Write the first version of a part."""
        if self._folder.is_file():
            raise NotADirectoryError(f"{self._folder} is a file, and no folder can be made there")
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._locked(name) as file:
            if file.exists:
                raise FileExistsError(f"{file.path} exists already")
            file.write(parts)

    def read(self, name: str) -> Sealed:
        """The present version of a part."""
        file = self._file(name)
        if not file.exists:
            raise FileNotFoundError(f"{file.path} does not exist")
        with naming(str(file.path)):
            return file.read()

    def change(self, name: str, edit: Edit) -> None:
        """Lock the file, and bring it to its next version."""
        with self._locked(name) as file:
            if not file.exists:
                raise FileNotFoundError(f"{file.path} does not exist")
            with naming(str(file.path)):
                parts = file.read()
            _changed(parts, edit, file.write)

    def erase(self, name: str) -> None:
        """Overwrite and delete the file."""
        with self._locked(name) as file:
            file.erase()

    def _file(self, name: str) -> StateFile:
        return StateFile(self._folder / f"{name}.pp")

    @contextmanager
    def _locked(self, name: str) -> Iterator[StateFile]:
        """Wait for whoever has the file; the lock of a process that died is nobody's."""
        until = monotonic() + _PATIENCE
        while True:
            waiting = self._file(name).locked()
            try:
                file = waiting.__enter__()
                break
            except StateInUse:
                if monotonic() > until:
                    raise
                sleep(_pause())
        try:
            yield file
        except BaseException as error:
            if not waiting.__exit__(type(error), error, error.__traceback__):
                raise
        else:
            waiting.__exit__(None, None, None)


class Objects:
    """Parts in objects of an fsspec file system that can create an object only if there is none of that name.

    The name carries a number, the epoch of the version, and the highest is the present one. Whoever made a version from
    that of epoch e creates the object of epoch e+1; of two who do so one fails, and makes the change anew on what the
    other left. The versions before are deleted. So a late writer, whose epoch is long past, cannot undo anything: what
    it creates is either refused or below the present epoch, and then it sees that, and starts again. It cannot always
    tell that from a version of its own on which others have built meanwhile, and then makes its change a second time.
    """

    ONCE = False

    def __init__(self, filesystem: Any, root: str) -> None:
        self._files, self._root = filesystem, root.rstrip("/")

    def where(self, name: str) -> str:
        """The path of a part, without the epoch of its version."""
        return f"{self._root}/{name}"

    def create(self, name: str, parts: Sealed) -> None:
        """Write the first version of a part, having seen that this store tells who was first."""
        self._check_exclusive()
        if self._epochs(name):
            raise FileExistsError(f"{self._root}/{name} exists already")
        self._put(name, 1, parts)

    def read(self, name: str) -> Sealed:
        """The present version of a part."""
        return self._newest(name)[1]

    def change(self, name: str, edit: Edit) -> None:
        """Make the next version, as often as it takes to be the first who does."""
        until = monotonic() + _PATIENCE
        while True:
            epoch, parts = self._newest(name)
            mine = epoch + 1
            try:
                if not _changed(parts, edit, lambda made: self._put(name, mine, made)):  # noqa: B023 - called at once
                    return
            except FileExistsError:
                pass
            else:
                epochs = self._epochs(name)
                holds_bits = len(parts.words) > 0
                if not epochs or max(epochs) <= mine or not holds_bits:
                    self._delete(name, [old for old in epochs if old < mine - (0 if holds_bits else _KEPT)])
                    return
                # Ours may be a name that somebody deleted long ago. A change of bits may be made twice: make it again.
                self._delete(name, [mine])
            if monotonic() > until:
                raise PanPrivacyError(f"{self._root}/{name}: others keep changing it, and we get no turn")
            sleep(_pause())

    def erase(self, name: str) -> None:
        """Delete all versions."""
        self._delete(name, self._epochs(name))

    def _newest(self, name: str) -> tuple[int, Sealed]:
        for _ in range(100):
            epochs = self._epochs(name)
            if not epochs:
                break
            try:
                blob = self._files.cat_file(self._path(name, max(epochs)))
            except FileNotFoundError:  # the next version is there, and this one deleted
                continue
            with naming(self._path(name, max(epochs))):
                return max(epochs), unseal(blob)
        raise FileNotFoundError(f"{self._root}/{name} does not exist")

    def _epochs(self, name: str) -> list[int]:
        self._files.invalidate_cache()
        try:
            found = self._files.ls(self._root, detail=False)
        except FileNotFoundError:
            return []
        numbered = re.compile(rf"{re.escape(name)}\.([0-9]{{12}})\.pp")
        return [int(match[1]) for path in found if (match := numbered.fullmatch(path.rstrip("/").rsplit("/", 1)[-1]))]

    def _path(self, name: str, epoch: int) -> str:
        return f"{self._root}/{name}.{epoch:012d}.pp"

    def _put(self, name: str, epoch: int, parts: Sealed) -> None:
        self._files.pipe_file(self._path(name, epoch), seal(parts), mode="create")

    def _delete(self, name: str, epochs: list[int]) -> None:
        for epoch in epochs:
            try:
                self._files.rm_file(self._path(name, epoch))
            except FileNotFoundError:
                continue

    def _check_exclusive(self) -> None:
        """Refuse a store that would let two writers create the same object."""
        probe = f"{self._root}/.exclusive-{coins.system.randbelow(2**64):016x}"
        self._files.pipe_file(probe, b"one", mode="create")
        try:
            self._files.pipe_file(probe, b"two", mode="create")
        except FileExistsError:
            return
        finally:
            self._files.rm_file(probe)
        raise PanPrivacyError(f"{self._root}: this store lets two writers create the same object: states would be lost")


@contextmanager
def naming(where: str) -> Iterator[None]:
    """Let an error say which part it is that is corrupt."""
    try:
        yield
    except CorruptState as error:
        raise CorruptState(f"{where}: {error}") from None


def _changed(parts: Sealed, edit: Edit, write: Callable[[Sealed], None]) -> bool:
    """Write what an edit makes of a part, if anything, and wipe the bits of both."""
    made = None
    try:
        made = edit(parts)
        if made is not None:
            write(made)
        return made is not None
    finally:
        wipe(parts.words)
        if made is not None:
            wipe(made.words)


def _pause() -> float:
    """Some milliseconds, different for each who waits."""
    return 0.001 * (1 + coins.system.randbelow(20))

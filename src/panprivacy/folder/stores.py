"""Where the parts of a state folder are kept: in files of this machine, or in objects behind a URL.

A part is a sealed state with a name. It is changed by a function that makes the next version of the present one. A
store may call that function again: if another writer was quicker, the change is made anew on the other's version.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from pathlib import Path
from threading import Barrier
from time import monotonic, sleep
from typing import Any, TypeAlias, TypeVar

from panprivacy.errors import CorruptState, PanPrivacyError
from panprivacy.memory.scratch import wipe
from panprivacy.privacy import coins
from panprivacy.state.disk import StateInUse
from panprivacy.state.file import StateFile
from panprivacy.state.format import Snapshot, seal, sealed_size, unseal, unseal_start
from panprivacy.urls import local_path, located, scheme_of

Edit: TypeAlias = Callable[[str, Snapshot], Snapshot | None]
"""Makes the next version of the part of a name, or None if nothing changes; it may be called more than once."""

T = TypeVar("T")
Result = TypeVar("Result")

LEDGER = "ledger"
"""The name of the part without bits. It is made last and erased first: without it there is no folder."""

KEPT_LEDGERS = 100
"""Versions of the ledger that stay: a writer that is behind by no more finds the name of its version taken."""

_PATIENCE = 120.0  # seconds to wait for the other writers of a part
_AT_ONCE = 8  # requests to a store of objects
_TRIES = 8  # of a request that fails, with pauses that double
_MARK = 16  # random bytes behind every object, by which its writer knows it again
_START = 4096  # bytes of an object that hold all but its bits
_WHOLE = 2**40  # more bytes than an object has
_LARGE = 32 * 2**20  # bytes: some stores write larger objects in several requests
_LEAP = 10**6  # epochs: a writer that read a part before it was lost is not ahead of the new one


class Store(ABC):
    """Keeps parts by name."""

    ONCE: bool
    """Whether a change that was made is never made a second time."""
    TOGETHER: int
    """The bytes, at most, of parts that `change` can edit together."""

    @abstractmethod
    def where(self, name: str) -> str:
        """Where a part is, as messages name it."""

    @abstractmethod
    def claim(self, folder: bytes, largest: int) -> None:
        """Take the place for a new folder with parts of these sizes; `FileExistsError` if it is taken."""

    @abstractmethod
    def create(self, parts: Iterable[tuple[str, Snapshot]]) -> None:
        """Write the first versions of parts, and wipe their bits here; `FileExistsError` if one exists."""

    def read(self, name: str) -> Snapshot:
        """The present version of a part; `FileNotFoundError` if there is none."""
        return next(self.read_each([name]))[1]

    @abstractmethod
    def read_each(self, names: Iterable[str]) -> Iterator[tuple[str, Snapshot]]:
        """The present versions of several parts, in this order; the caller wipes each."""

    @abstractmethod
    def read_starts(self, names: Iterable[str]) -> Iterator[tuple[str, Snapshot]]:
        """The same without their bits, and perhaps without a look at their checksums."""

    @abstractmethod
    def change(self, names: Iterable[str], edit: Edit, *, together: bool = False) -> None:
        """Put the next version of each part in the place of the present one; when this returns it outlasts a crash.

        With `together`, nothing is written before every part was edited, so that an edit can refuse all of them.
        """

    @abstractmethod
    def replace(self, name: str, check: Callable[[Snapshot], object], made: Snapshot) -> bool:
        """Write a part in the place of one that is missing, or corrupt (`check` raises, too); False if it is whole."""

    @abstractmethod
    def give_up(self, names: Iterable[str]) -> None:
        """Delete the parts of a folder that could not be made, and give its place back."""


def store_at(url: str | Path, options: Mapping[str, Any] | None = None, *, versioned: bool = False) -> Store:
    """The store behind a path or an fsspec URL; `options` go to its file system."""
    text = str(url)
    if scheme_of(text) is None:
        return Files(Path(local_path(text)).absolute())
    place = located(text, options)
    return Objects(place.filesystem, place.path, versioned=versioned)


class Files(Store):
    """Parts in state files of one folder: locked while they are changed, and overwritten in place."""

    ONCE = True
    TOGETHER = 0  # that would lock all files at the same time

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def where(self, name: str) -> str:
        return str(self._file(name).path)

    def claim(self, folder: bytes, largest: int) -> None:  # noqa: ARG002
        """Make the folder; the first part that is created takes the place."""
        if self._folder.is_file():
            raise NotADirectoryError(f"{self._folder} is a file, and no folder can be made there")
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def create(self, parts: Iterable[tuple[str, Snapshot]]) -> None:
        for name, made in parts:
            try:
                self.create_one(name, made)
            finally:
                wipe(made.words)

    def create_one(self, name: str, parts: Snapshot) -> None:
        with self._locked(name) as file:
            if file.exists:
                raise FileExistsError(f"{file.path} exists already")
            file.write(parts)

    def read_each(self, names: Iterable[str]) -> Iterator[tuple[str, Snapshot]]:
        return ((name, self._read(name, self._file(name))) for name in names)

    @staticmethod
    def _read(name: str, file: StateFile) -> Snapshot:
        if not file.exists:
            raise _missing(name, str(file.path))
        with naming(name, str(file.path)):
            return file.read()

    def read_starts(self, names: Iterable[str]) -> Iterator[tuple[str, Snapshot]]:
        """Read them whole, and wipe their bits."""
        for name, parts in self.read_each(names):
            wipe(parts.words)
            yield name, parts

    def change(self, names: Iterable[str], edit: Edit, *, together: bool = False) -> None:
        assert not together, "each file is locked, read and written by itself"
        for name in names:
            self.change_one(name, edit)

    def change_one(self, name: str, edit: Edit) -> None:
        """Lock a file, and bring it to its next version."""
        with self._locked(name) as file:
            _changed(name, self._read(name, file), edit, file.write)

    def replace(self, name: str, check: Callable[[Snapshot], object], made: Snapshot) -> bool:
        """Look and write under one lock: what others feed to a new part is not replaced again."""
        with self._locked(name) as file:
            if file.exists:
                if _is_whole(file.read, check):
                    return False
                file.erase()
            file.write(made)
        return True

    def give_up(self, names: Iterable[str]) -> None:
        """Overwrite and delete the files; the folder may have been there before."""
        for name in names:
            with self._locked(name) as file:
                file.erase()

    def _file(self, name: str) -> StateFile:
        return StateFile(self._folder / f"{name}.pp")

    @contextmanager
    def _locked(self, name: str) -> Iterator[StateFile]:
        """Wait for the lock of a file; a process that died has released its lock."""
        until = monotonic() + _PATIENCE
        with ExitStack() as held:
            while True:
                try:
                    file = held.enter_context(self._file(name).locked())
                    break
                except StateInUse:
                    if monotonic() > until:
                        raise
                    sleep(_pause())
            yield file


class Objects(Store):
    """Parts in objects of an fsspec file system that can create an object only if there is none of that name.

    A name carries a number, the epoch of the version, and the highest is the present one. A writer that made a version
    from that of epoch e creates the object of epoch e+1. Of two that do so one fails, and makes the change anew on what
    the other left. The versions before are deleted. So a late writer, whose epoch is long past, cannot undo anything:
    what it creates is either refused or below the present epoch, and then it sees that, and starts again. It cannot
    always tell that from a version of its own on which others have built meanwhile, and then makes its change a second
    time.

    A name also carries the name of the folder, drawn when that is made and kept in one object, the claim. So a writer
    of a folder that was deleted cannot harm a folder that was made in its place.

    What a store answers may be lost or wrong: a write that was made may be answered by an error, and tried again it is
    answered that the object exists. Therefore the object itself is asked: it is ours if it ends with our random mark.
    """

    ONCE = False
    TOGETHER = 64 * 2**20  # they are all in memory at a time

    def __init__(self, filesystem: Any, root: str, *, versioned: bool = False) -> None:
        self.files: Any = filesystem
        self._root = root.rstrip("/")
        self._versioned = versioned
        self.own_name: str | None = None

    def where(self, name: str) -> str:
        """The path of a part, without the epoch of its version."""
        return f"{self._root}/{name}"

    def claim(self, folder: bytes, largest: int) -> None:
        """Create the object that names the folder, in a store that does not let two writers create the same object.

        Some file systems of fsspec look whether a file exists and then write it, which a test may pass by chance. They
        are known by the method that they inherit, and asked nothing. Others are tried: some writers create one object
        at the same moment.
        """
        exclusive, taken = creates_atomically(type(_unwrapped(self.files))), False
        if exclusive:
            taken = self._got(self._claim_path) is not None or bool(self._epochs())
            if not taken:
                if not self._versioned:
                    self._check_unversioned()
                exclusive = self._one_wins(64, _AT_ONCE) and (largest < _LARGE or self._one_wins(largest, 2))
        if not exclusive:
            raise PanPrivacyError(
                f"{self._root}: this store lets two writers create the same object, so states would be lost: use a "
                "store with conditional writes (S3, Google Cloud Storage, Azure), or a folder of this machine",
                code="store-not-exclusive",
            )
        if taken or not self.create_object(self._claim_path, _marked(folder.hex().encode())):
            raise FileExistsError(f"{self._root} has a folder already")
        self.own_name = folder.hex()

    def create(self, parts: Iterable[tuple[str, Snapshot]]) -> None:
        """Write several at a time."""
        for window in _windows(parts):
            sealed: dict[str, bytes] = {}
            for name, made in window:
                sealed[name] = _marked(seal(made))
                wipe(made.words)
            for name, done in self._at_once(sealed, lambda name: self.create_object(self._path(name, 1), sealed[name])):  # noqa: B023
                if not done:
                    raise FileExistsError(f"{self.where(name)} exists already")

    def read_each(self, names: Iterable[str]) -> Iterator[tuple[str, Snapshot]]:
        epochs = self._epochs()
        for name, (epoch, blob) in self._at_once(names, lambda name: self.newest(name, epochs)):
            yield name, self._unsealed(name, epoch, blob)

    def read_starts(self, names: Iterable[str]) -> Iterator[tuple[str, Snapshot]]:
        """Several at a time, only their first bytes; checksums are of whole objects, and not looked at."""
        epochs = self._epochs()
        for name, (epoch, blob) in self._at_once(names, lambda name: self.newest(name, epochs, _START)):
            with naming(name, self._path(name, epoch)):
                yield name, unseal_start(blob)

    def change(self, names: Iterable[str], edit: Edit, *, together: bool = False) -> None:
        """Make the next versions, several at a time, as often as it takes to be the first."""
        until = monotonic() + _PATIENCE
        left = list(names)
        at_once = len(left) if together else _AT_ONCE
        while left := self._change_once(left, edit, at_once):
            at_once = _AT_ONCE
            if monotonic() > until:
                raise PanPrivacyError(
                    f"{self.where(left[0])}: other writers keep changing it: try again later", code="store-busy"
                )
            sleep(_pause())

    def _change_once(self, names: list[str], edit: Edit, at_once: int) -> list[str]:
        """Try to make the next versions, `at_once` at a time; return the parts that another writer changed first."""
        epochs = self._epochs()
        mine: dict[str, int] = {}
        with_bits: set[str] = set()
        for window in _windows(names, at_once):
            sealed: dict[str, bytes] = {}
            for name, (epoch, blob) in self._at_once(window, lambda name: self.newest(name, epochs)):
                parts = self._unsealed(name, epoch, blob)
                with_bits |= {name} if len(parts.words) else set()
                mine[name] = epoch + 1
                if not _changed(name, parts, edit, lambda made: sealed.update({name: _marked(seal(made))})):  # noqa: B023
                    del mine[name]
            for name, done in self._at_once(
                sealed,
                lambda name: self.create_object(self._path(name, mine[name]), sealed[name]),  # noqa: B023
            ):
                if not done:
                    mine[name] = 0
        return self._settled(mine, with_bits)

    def _settled(self, mine: dict[str, int], with_bits: set[str]) -> list[str]:
        """Delete what our versions replace; return the parts whose change has to be made again."""
        written = {name: epoch for name, epoch in mine.items() if epoch}
        again = [name for name, epoch in mine.items() if not epoch]
        epochs = self._epochs() if written else {}
        if written and LEDGER not in epochs:
            self._delete([self._path(name, epoch) for name, epoch in written.items()])
            raise FileNotFoundError(f"{self._root}: the state folder that was opened is gone")
        old: list[str] = []
        for name, epoch in written.items():
            kept = 0 if name in with_bits else KEPT_LEDGERS
            if max(epochs.get(name, [0])) > epoch + kept:
                # Ours may have a name that was deleted long ago, which no process reads: make the change again. Bits
                # may be redrawn twice; a release that is made again was not shown, and is drawn anew.
                old.append(self._path(name, epoch))
                again.append(name)
            else:
                old += [self._path(name, each) for each in epochs.get(name, []) if each < epoch - kept]
        self._delete(old)
        return again

    def replace(self, name: str, check: Callable[[Snapshot], object], made: Snapshot) -> bool:
        """Create the version after a corrupt one; if none is left, one far above all parts. Then delete the others."""
        blob = _marked(seal(made))
        while True:
            epochs = self._epochs()
            if name in epochs:
                epoch, there = self.newest(name, epochs)
                if _is_whole(lambda: self._unsealed(name, epoch, there), check):  # noqa: B023
                    return False
            else:
                epoch = max((max(known) for part, known in epochs.items() if part != LEDGER), default=0) + _LEAP
            if self.create_object(self._path(name, epoch + 1), blob):
                self._settled({name: epoch + 1}, {name})
                return True

    def give_up(self, names: Iterable[str]) -> None:
        """Delete all versions, and then the claim."""
        epochs = self._epochs()
        self._delete([self._path(name, epoch) for name in names for epoch in epochs.get(name, [])])
        self._delete([self._claim_path])
        self.own_name = None

    # --- objects ------------------------------------------------------------------------------------------------

    def newest(self, name: str, epochs: Mapping[str, list[int]], up_to: int = _WHOLE) -> tuple[int, bytes]:
        """The epoch of the present version of a part, and its bytes, or the first of them."""
        for _ in range(100):
            if name not in epochs:
                break
            epoch = max(epochs[name])
            blob = self._got(self._path(name, epoch), up_to)
            if blob is not None:
                return epoch, blob
            epochs = self._epochs()  # the next version is there, and this one deleted
        raise _missing(name, self.where(name))

    def _unsealed(self, name: str, epoch: int, blob: bytes) -> Snapshot:
        """The part in an object; objects were written without a mark before version 0.2."""
        with naming(name, self._path(name, epoch)):
            marked = len(blob) == sealed_size(blob) + _MARK
            return unseal(blob[:-_MARK] if marked else blob)

    def _epochs(self) -> dict[str, list[int]]:
        """The versions of every part of this folder that are there: one request."""
        self.files.invalidate_cache()
        try:
            found = _tried(lambda: self.files.ls(self._root, detail=False))
        except FileNotFoundError:
            return {}
        own = self._folder_name()
        numbered = re.compile(rf"([a-z0-9-]+){re.escape('.' + own if own else '')}\.([0-9]{{12}})\.pp")
        epochs: dict[str, list[int]] = {}
        for path in found:
            if match := numbered.fullmatch(path.rstrip("/").rsplit("/", 1)[-1]):
                epochs.setdefault(match[1], []).append(int(match[2]))
        return epochs

    def _folder_name(self) -> str:
        """The name of the folder in the names of its objects; folders were made without one before version 0.2."""
        if self.own_name is None:
            claim = self._got(self._claim_path)
            if claim is None:
                return ""
            self.own_name = claim[:-_MARK].decode()
        return self.own_name

    @property
    def _claim_path(self) -> str:
        return f"{self._root}/folder.pp"

    def _path(self, name: str, epoch: int) -> str:
        own = self._folder_name()
        return f"{self._root}/{name}.{own}{'.' if own else ''}{epoch:012d}.pp"

    def create_object(self, path: str, blob: bytes) -> bool:
        """Create an object; False if it exists and is another writer's.

        Any failure may stand for a write that was made. So the object is read, and the write is tried again if there is
        none.
        """
        for pause in _pauses():
            try:
                self.files.pipe_file(path, blob, mode="create")
            except PermissionError:
                raise
            except Exception as error:
                there = self._got(path, up_to=_WHOLE)
                if there is not None:
                    return there[-_MARK:] == blob[-_MARK:]
                if isinstance(error, FileExistsError):
                    return False  # it was there, and is deleted: a later version is there
                if pause is None:
                    raise
                sleep(pause)
            else:
                return True
        raise AssertionError("the last try returns or raises")

    def _got(self, path: str, up_to: int = _WHOLE) -> bytes | None:
        """The bytes of an object; None if there is none."""
        try:
            blob: bytes = _tried(lambda: self.files.cat_file(path, start=0, end=up_to))
        except FileNotFoundError:
            return None
        return blob

    def _delete(self, paths: list[str]) -> None:
        """Delete objects, in one request where the store can."""
        try:
            if paths:
                _tried(lambda: self.files.rm(paths))
        except FileNotFoundError:
            for path in paths:
                with suppress(FileNotFoundError):
                    _tried(lambda: self.files.rm_file(path))  # noqa: B023

    @staticmethod
    def _at_once(names: Iterable[str], work: Callable[[str], Result]) -> Iterator[tuple[str, Result]]:
        """Each name and what `work` gives for it, in this order; `_AT_ONCE` of them are worked on at a time."""
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="panprivacy-store") as threads:
            for window in _windows(names):
                yield from zip(window, threads.map(work, window), strict=True)

    # --- what a store can do ------------------------------------------------------------------------------------

    def _check_unversioned(self) -> None:
        """Refuse a bucket that keeps deleted versions, where that can be asked: it would keep every past bit."""
        ask = getattr(self.files, "is_bucket_versioned", None)
        try:
            versioned = ask is not None and ask(self._root.split("/", 1)[0])
        except Exception:  # a store that does not know the question, or a user without the right to ask
            return
        if versioned:
            raise PanPrivacyError(
                f"{self._root}: this bucket keeps deleted versions, which is a history of the bits: switch versioning "
                "off, or say versioned=True if every version may be read",
                code="versioned",
            )

    def _one_wins(self, size: int, writers: int) -> bool:
        """Whether of some writers that create an object at the same moment exactly one does."""
        probe = f"{self._root}/.exclusive-{coins.system.randbelow(2**64):016x}"
        ready = Barrier(writers)

        def write(blob: bytes) -> bool:
            ready.wait()
            return self.create_object(probe, blob)

        blobs = [_marked(bytes(size)) for _ in range(writers)]
        try:
            with ThreadPoolExecutor(writers) as threads:
                won = [blob for blob, first in zip(blobs, threads.map(write, blobs), strict=True) if first]
            return won == [self._got(probe)]
        finally:
            self._delete([probe])


def _missing(name: str, where: str) -> FileNotFoundError:
    return FileNotFoundError(f"{where} does not exist{_help(name)}")


def _unwrapped(files: Any) -> Any:
    """The file system that writes: some of fsspec's hand everything to another one."""
    from fsspec.spec import AbstractFileSystem

    while isinstance(inner := getattr(files, "fs", None), AbstractFileSystem):
        files = inner
    return files


def creates_atomically(kind: Any) -> bool:
    """Whether a file system creates an object in one step, instead of looking first and then writing."""
    from fsspec.asyn import AsyncFileSystem
    from fsspec.spec import AbstractFileSystem

    if issubclass(kind, AsyncFileSystem):
        return kind._pipe_file is not AsyncFileSystem._pipe_file
    return kind.pipe_file is not AbstractFileSystem.pipe_file


def _marked(blob: bytes) -> bytes:
    """The bytes of an object, with the mark of its writer."""
    return blob + coins.system.randbelow(2 ** (8 * _MARK)).to_bytes(_MARK, "little")


def _pauses() -> Iterator[float | None]:
    """The pauses between tries, and None after the last of them."""
    yield from (0.05 * 2**tries for tries in range(_TRIES - 1))
    yield None


def _tried(request: Callable[[], Result]) -> Result:
    """Make a request that may be repeated until it succeeds, or until it fails for good."""
    for pause in _pauses():
        try:
            return request()
        except (FileNotFoundError, PermissionError, NotImplementedError):
            raise
        except Exception:
            if pause is None:
                raise
            sleep(pause)
    raise AssertionError("the last try returns or raises")


def _windows(things: Iterable[T], at_once: int = _AT_ONCE) -> Iterator[list[T]]:
    left = iter(things)
    while window := list(islice(left, at_once)):
        yield window


def _is_whole(read: Callable[[], Snapshot], check: Callable[[Snapshot], object]) -> bool:
    """Whether a part can be read, and passes a check."""
    try:
        parts = read()
        try:
            check(parts)
        finally:
            wipe(parts.words)
    except CorruptState:
        return False
    return True


@contextmanager
def naming(name: str, where: str) -> Iterator[None]:
    """Let an error say which part is corrupt, and what can be done."""
    try:
        yield
    except CorruptState as error:
        raise CorruptState(f"{where}: {error}{_help(name)}", code=error.code) from None


def _help(name: str) -> str:
    """What an error of a lost or corrupt part says in the end: a shard can be replaced."""
    shard = "; StateFolder.replace_shard, or panprivacy replace-shard, puts a new one there, and says at what cost"
    return "" if name == LEDGER else shard


def _changed(name: str, parts: Snapshot, edit: Edit, write: Callable[[Snapshot], None]) -> bool:
    """Write what an edit makes of a part, if anything, and wipe the bits of both."""
    made = None
    try:
        made = edit(name, parts)
        if made is not None:
            write(made)
        return made is not None
    finally:
        wipe(parts.words)
        if made is not None:
            wipe(made.words)


def _pause() -> float:
    """Some milliseconds, different for each that waits."""
    return 0.001 * (1 + coins.system.randbelow(20))

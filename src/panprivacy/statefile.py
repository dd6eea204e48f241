"""State files: written whole or not at all, by one process at a time, and read by their owner only."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from panprivacy.errors import PanPrivacyError

_OWNER_ONLY = 0o600


class StateFileError(PanPrivacyError):
    """A state file cannot be read, written or locked; what was on disk is still there."""


class StateFile:
    """One estimator on disk.

    A write goes to ``.NAME.new`` beside the file, reaches the disk (`fsync`), takes the file's place in one step
    (`rename`), and then the folder's entry reaches the disk too. A crash at any moment leaves the old state or
    the new one. A copy of a state is one more reading of it, so what a crash may leave in ``.NAME.new`` is deleted
    by the next process that locks the file.

    The lock is taken on ``.NAME.lock``, not on the file itself, which every write replaces. It ends with its
    process, however that ends.

    >>> import tempfile, panprivacy as pp
    >>> with tempfile.TemporaryDirectory() as folder, StateFile(Path(folder) / "flu.pp").locked() as file:
    ...     file.write(pp.Density(universe=1000, epsilon=1.0).to_bytes())
    ...     pp.load(file.read()).users
    1000
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        # A link is followed: replacing it would leave the state behind it forgotten, and twice on disk.
        self._target = self.path.resolve()
        self._new = self._target.with_name(f".{self._target.name}.new")
        self._lock = self._target.with_name(f".{self._target.name}.lock")

    @property
    def exists(self) -> bool:
        """Whether there is a state yet."""
        return self._target.exists()

    def read(self) -> bytes:
        """The bytes of the state."""
        try:
            return self._target.read_bytes()
        except OSError as error:
            raise self._failed("cannot be read", error) from None

    def write(self, blob: bytes) -> None:
        """Replace the state; when this returns, the new one is on disk."""
        try:
            self._write_new(blob)
            self._new.replace(self._target)
        except OSError as error:
            with suppress(OSError):
                self._new.unlink(missing_ok=True)
            raise self._failed("cannot be written, and is as it was", error) from None
        try:
            _sync_folder(self._target.parent)
        except OSError as error:
            raise self._failed("was written, and may not outlast a power cut", error) from None

    def _write_new(self, blob: bytes) -> None:
        self._new.unlink(missing_ok=True)
        handle = os.open(self._new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY)
        with os.fdopen(handle, "wb") as file:
            os.fchmod(handle, _OWNER_ONLY)  # whatever the umask is
            file.write(blob)
            file.flush()
            os.fsync(handle)

    @contextmanager
    def locked(self) -> Iterator["StateFile"]:
        """Keep other processes from writing; refuse at once if one is at it."""
        handle = self._take_lock()
        try:
            with suppress(OSError):
                self._new.unlink(missing_ok=True)
            yield self
        finally:
            # Deleted while it is still locked: whoever opened it meanwhile sees that it is gone, and tries again.
            with suppress(OSError):
                self._lock.unlink()
            os.close(handle)

    def _take_lock(self) -> int:
        import fcntl  # POSIX has it; without it, commands that keep no state still run

        while True:
            try:
                handle = os.open(self._lock, os.O_RDWR | os.O_CREAT, _OWNER_ONLY)
            except OSError as error:
                if error.errno in (errno.ENOENT, errno.ENOTDIR):
                    raise StateFileError(f"{self.path}: there is no folder {self._target.parent}") from None
                raise self._failed("cannot be locked", error) from None
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_at(handle, self._lock):
                    return handle
                os.close(handle)
            except OSError as error:
                os.close(handle)
                if error.errno in (errno.EAGAIN, errno.EACCES):
                    raise StateFileError(f"{self.path}: another process is using this state") from None
                raise self._failed("cannot be locked", error) from None

    def _failed(self, what: str, error: OSError) -> StateFileError:
        why = (error.strerror or str(error)).lower()
        return StateFileError(f"{self.path}: {what}: {why}")


def _is_at(handle: int, path: Path) -> bool:
    """Whether an open file is still the one at a path."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _sync_folder(folder: Path) -> None:
    """Make a rename outlast a power cut."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

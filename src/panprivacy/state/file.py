"""State files: written whole or not at all, one version at a time, by one process at a time, read by their owner.

`BoundLock` binds an estimator that was loaded from a path to its file: every change is in the file before it can be
seen.
"""

import errno
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import RLock
from types import TracebackType
from typing import Any
from weakref import WeakSet, ref

from panprivacy import registry
from panprivacy.errors import CorruptState, InvalidType, PanPrivacyError
from panprivacy.memory.scratch import wipe
from panprivacy.state import format
from panprivacy.state.disk import (
    MERGED,
    StateFileError,
    StateInUse,
    erase,
    is_at,
    is_there,
    no_writer,
    open_own,
    posix_locks,
    read_all,
    sync_folder,
    write_all,
)
from panprivacy.state.format import Content, Snapshot, unseal
from panprivacy.state.journal import Journal, Replacement, apply, recover

_PAUSES = [min(0.001 * 2**number, 0.1) for number in range(100)]
"""The seconds between tries to read a file that is not whole while another process has its lock: about ten in all."""


class StateFile:
    """One estimator on disk.

    A copy of a state is one more reading of it, so there is one version on disk, in blocks that are overwritten. A
    state of the same length goes into the file where it is, after it was written to a journal (``.NAME.journal``);
    another one takes its place by renaming (``.NAME.new``), and what was there before is overwritten (``.NAME.old``).
    Every write makes the same system calls, whatever has changed, so that lengths and times tell nothing of the bits.
    A crash at any moment leaves the old state or the new one; the next process that locks or reads the file mends the
    rest.

    The lock is taken on ``.NAME.lock`` and ends with its process, however that ends. Reading needs no lock. While a
    process has the lock, it may feed an estimator and save it here in turns; when it gives the file back, estimators
    that were saved here hold no bits any more, since others may change the file from then on.

    >>> import tempfile, panprivacy as pp
    >>> with tempfile.TemporaryDirectory() as folder, StateFile(Path(folder) / "flu.pp").locked() as file:
    ...     pp.Density(universe=1000, epsilon=1.0).save(file)
    ...     file.load().users
    1000
    """

    def __init__(self, path: str | Path) -> None:
        self.path: Path = Path(path)
        # A link is followed: replacing it would leave the state behind it forgotten, and twice on disk.
        self._target = self.path.resolve()
        self._lock = self._beside("lock")
        self._taken_over = self._beside("merged")  # names the file that this state is being merged into
        self._journal = Journal(self._beside("journal"))
        self._replacement = Replacement(self._target, self._beside("new"), self._beside("old"))
        self._holder: int | None = None  # the process that has locked it
        self._kept: WeakSet[Any] = WeakSet()  # estimators that this file has been the state of since it is locked
        self._sound = False  # whether the file is known to be whole: no write of it was broken off

    def _beside(self, what: str) -> Path:
        return self._target.with_name(f".{self._target.name}.{what}")

    @property
    def exists(self) -> bool:
        """Whether there is a state yet."""
        return self._target.exists()

    @property
    def held(self) -> bool:
        """Whether this process has locked the file: a forked one has not."""
        return self._holder == os.getpid()

    def same_as(self, other: "StateFile") -> bool:
        """Whether both are one file, by whatever names."""
        return self._target == other._target or (self.exists and other.exists and self._target.samefile(other._target))

    def keeps(self, estimator: Any) -> None:
        """Empty this estimator when the file is given back: from then on others may change the file."""
        self._kept.add(estimator)

    def _empty_kept(self) -> None:
        for estimator in list(self._kept):
            estimator.end(f"it was kept in {self.path}, which this process has given back: pp.load({str(self.path)!r})")
        self._kept.clear()

    # --- reading ------------------------------------------------------------------------------------------------

    def load(self, universe: Any = None) -> Any:
        """Bring the estimator back to life; its bits are read straight into its table."""
        try:
            return loaded(self.read(), universe)
        except CorruptState as error:
            raise CorruptState(f"{self.path}: {error}", code=error.code) from None

    def read(self) -> Snapshot:
        """The parts of the state, at a moment when no process was writing it."""
        if self._target.is_dir():
            raise StateFileError(
                f"{self.path}: is a folder, not a state file; a state folder is opened in Python, pp.StateFolder(path)",
                code="state-is-folder",
            )
        interrupted = is_there(self._journal.path) or self._replacement.interrupted or is_there(self._taken_over)
        if interrupted and not self.held:  # mend it; without the right to write, it can still be read
            with suppress(OSError, StateFileError), self._mended():
                pass
        try:
            return self._read_whole()
        except OSError as error:
            raise self._failed("cannot be read", error, "state-unreadable") from None

    def _read_whole(self) -> Snapshot:
        """Read the file until it is whole, or is corrupt although no other process is at it.

        A writer may have died while we waited for it. The next process that has the lock mends the file, and may die,
        too. So a file that is not whole is corrupt only if it is so under our own lock, after it was mended.
        """
        for pause in _PAUSES:
            try:
                return self._read()
            except CorruptState:
                if self.held:
                    raise
            with suppress(OSError, StateFileError), self._mended():
                return self._read()
            time.sleep(pause)  # another process has the lock, or we may not write
        return self._read()

    def _read(self) -> Snapshot:
        handle = open_own(self._target, os.O_RDONLY, beside=False)
        try:
            no_writer(handle)
            if not is_at(handle, self._target):  # replaced, and overwritten, while we waited
                return self._read()
            return format.read(os.fstat(handle).st_size, partial(read_all, handle))
        finally:
            os.close(handle)

    @contextmanager
    def _mended(self) -> Iterator[None]:
        """Mend the file, and keep other processes from writing it meanwhile."""
        handle = self._take_lock()
        try:
            self._mend()
            yield
        finally:
            self._sound = False
            self._give_back(handle)

    # --- writing ------------------------------------------------------------------------------------------------

    def write(self, parts: Snapshot) -> None:
        """Bring the file to this state; when this returns, it is on disk, and nothing of an older one is."""
        self._check_held("written")
        with format.content_of(parts) as content:
            try:
                if not self._sound:
                    self._mend()
                if self.exists and self._target.stat().st_size == content.size:
                    self._update(content)
                else:
                    self._journal.erase()  # it has the length of the file that is to be replaced
                    self._replacement.put(content)
            except OSError as error:
                raise self._failed("cannot be written, and is as it was", error, "state-unwritable") from None

    def _update(self, content: Content) -> None:
        handle = open_own(self._target, os.O_RDWR, beside=False)
        try:
            try:
                self._journal.commit(content)
            except OSError:
                with suppress(OSError):
                    self._journal.erase()
                raise
            self._sound = False
            try:
                apply(handle, content)
            except OSError as error:
                raise self._failed(
                    "is written in part; the next process that uses it completes it", error, "state-half-written"
                ) from None
            self._sound = True
        finally:
            os.close(handle)

    def leave_to(self, whole: "StateFile") -> None:
        """Note that this state is being merged into another file: once that exists, this one is erased."""
        self._check_held("merged")
        handle = open_own(self._taken_over, os.O_RDWR | os.O_CREAT)
        try:
            os.ftruncate(handle, 0)
            write_all(handle, memoryview(MERGED + os.fsencode(whole._target)), 0)
            os.fsync(handle)
        finally:
            os.close(handle)
        sync_folder(self._target.parent)

    def stay(self) -> None:
        """Take `leave_to` back."""
        self._taken_over.unlink(missing_ok=True)

    def _recover_merge(self) -> None:
        """Erase a state whose merge is on disk; forget a merge that did not come about."""
        if not is_there(self._taken_over):
            return
        handle = open_own(self._taken_over, os.O_RDONLY)
        try:
            whole = Path(os.fsdecode(os.read(handle, 2**16).removeprefix(MERGED)))
        finally:
            os.close(handle)
        if whole.name and whole.exists() and whole != self._target:
            erase(self._target, beside=False)
        self.stay()

    def erase(self) -> None:
        """Overwrite the state and delete it."""
        self._check_held("erased")
        try:
            erase(self._target, beside=False)
            self.stay()
        except OSError as error:
            raise self._failed("cannot be overwritten and deleted", error, "state-not-erased") from None

    @contextmanager
    def locked(self) -> Iterator["StateFile"]:
        """Keep other processes from writing; refuse at once if one is at it."""
        handle, process = self._take_lock(), os.getpid()
        try:
            try:
                self._mend()
            except OSError as error:
                raise self._failed("was left half written, and cannot be mended", error, "state-half-written") from None
            self._holder = process
            try:
                yield self
            finally:
                if os.getpid() == process:
                    self._empty_kept()
                    self._holder = None
                    with suppress(OSError, StateFileError):  # what cannot be mended now, the next one mends
                        self._mend()
                    self._sound = False
        finally:
            if os.getpid() == process:
                self._give_back(handle)
            else:  # a forked process: the file is its parent's
                os.close(handle)

    def _check_held(self, what: str) -> None:
        if not self.held:
            raise StateFileError(
                f"{self.path}: a state is {what} by the process that has locked it", code="state-not-locked"
            )

    def _take_lock(self) -> int:
        """Lock the file, or refuse at once; the lock ends with its process, however that ends."""
        fcntl = posix_locks()
        try:
            while True:
                handle = open_own(self._lock, os.O_RDWR | os.O_CREAT)
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError as error:
                    os.close(handle)
                    if error.errno in (errno.EAGAIN, errno.EACCES):
                        why = f"{self.path}: another process is using this state"
                        raise StateInUse(why, code="state-in-use") from None
                    raise
                if is_at(handle, self._lock):
                    return handle
                os.close(handle)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR):
                raise StateFileError(
                    f"{self.path}: there is no folder {self._target.parent}", code="no-folder"
                ) from None
            raise self._failed("cannot be locked", error, "state-unlockable") from None

    def _give_back(self, handle: int) -> None:
        """Delete the lock while it is held: a process that opened it meanwhile sees that, and tries again."""
        with suppress(OSError):
            self._lock.unlink()
        os.close(handle)

    def mend(self) -> None:
        """Finish or undo what a write that failed has broken off, so that the file can be read."""
        self._check_held("mended")
        try:
            self._mend()
        except OSError as error:
            raise self._failed("was left half written, and cannot be mended", error, "state-half-written") from None

    def _mend(self) -> None:
        """Finish or undo what a crash broke off, and erase what it left."""
        if self._sound:
            self._journal.erase()  # the file has all of it
        else:
            recover(self._journal.path, self._target)
            self._sound = True
        self._replacement.recover()
        self._recover_merge()

    def _failed(self, what: str, error: OSError, code: str) -> StateFileError:
        why = (error.strerror or str(error)).lower()
        return StateFileError(f"{self.path}: {what}: {why}", code=code)


def moved_to(path: str | Path) -> str:
    """Why an estimator that was saved to a path refuses all use."""
    return (
        f"its state was moved to {path} by save(): pp.load({str(path)!r}) goes on with it; to save after every batch, "
        f"hold the file, `with pp.StateFile({str(path)!r}).locked() as file:`, and est.save(file)"
    )


@contextmanager
def opened(file: str | Path | StateFile) -> Iterator[StateFile]:
    """A locked state file to write to: the given one, or the one at a path, locked meanwhile."""
    if isinstance(file, StateFile):
        yield file
    else:
        with StateFile(file).locked() as locked:
            yield locked


def load(source: bytes | str | Path, universe: Any = None, *, detached: bool = False) -> Any:
    """Read what `save` or `to_bytes` wrote, whichever estimator it was: from a file, or from bytes.

    An estimator that is loaded from a path stays bound to its file: each release, batch or other change is written to
    the file before the call returns. So a release is spent once, however often the file is loaded, and file and memory
    are one version of the state. If another process or object has changed the file meanwhile, the next change is
    refused: load it again. To feed single events or many small batches, hold the file and save now and then
    (`pp.StateFile`), which is faster.

    With ``detached=True`` the estimator is a copy that the file knows nothing of. A copy is one more reading of the
    state once either is fed, and each of the two can spend all releases that are left. So is one that is loaded from
    bytes.

    A list of users is not part of a state: give the same `pp.Users` again to feed more events. Without it the
    estimator can still release.

    >>> import tempfile, panprivacy as pp
    >>> path = tempfile.mkdtemp() + "/flu.pp"
    >>> pp.Density(universe=1000, epsilon=1.0).save(path)
    >>> released = pp.load(path).release()
    >>> pp.load(path).releases_left
    0
    """
    if isinstance(source, str | Path):
        file = StateFile(source)
        est = file.load(universe)
        if not detached:
            est.bind_to(file)
        return est
    if not isinstance(source, bytes | bytearray | memoryview):
        raise InvalidType(f"pp.load takes a path or bytes, got a {type(source).__name__}", code="load-type")
    return loaded(unseal(source), universe)


def loaded(parts: Snapshot, universe: Any = None) -> Any:
    """The estimator of a saved state."""
    return registry.class_of(parts.kind).from_sealed(parts, universe)


# --- an estimator that is bound to its file ---------------------------------------------------------------------------


class BoundLock:
    """Takes the place of an estimator's lock, and binds the estimator to its file.

    An estimator changes only while its lock is held. To enter this lock is to lock the file, too, which must still hold
    the state that the estimator has. To leave it is to write the file, before the result of the change is returned. So
    a release is booked in the file before it is shown, and file and memory are one version after every batch. `acquire`
    and `release` are for uses that change nothing: they leave the file alone.
    """

    def __init__(self, est: Any, file: StateFile) -> None:
        self._est = ref(est)  # no cycle: the bits of an estimator go when its last name does
        self.file: StateFile | None = file
        self._memory = RLock()
        self._entered = 0
        self._locked = ExitStack()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Keep other threads from changing the estimator."""
        return self._memory.acquire(blocking, timeout)

    def release(self) -> None:
        """Undo `acquire`."""
        self._memory.release()

    def renew(self) -> None:
        """In a forked child: forget that threads of the parent were at it."""
        self._memory, self._entered, self._locked = RLock(), 0, ExitStack()

    def unbind(self) -> None:
        """Be a plain lock from now on: the process holds the file itself."""
        self.file = None

    def __enter__(self) -> None:
        self._memory.acquire()
        try:
            est = self._est()
            if not self._entered and self.file is not None and est is not None and not est.emptied:
                with ExitStack() as opened:
                    file = opened.enter_context(self.file.locked())
                    with est.sealed_state(insecure=True) as now:
                        self.check_same(file, now)
                    self._locked = opened.pop_all()
            self._entered += 1
        except BaseException:
            self._memory.release()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self._entered -= 1
            if not self._entered:
                with self._locked.pop_all():
                    if self.file is not None and self.file.held:
                        self._write(self.file)
        finally:
            self._memory.release()

    def _write(self, file: StateFile) -> None:
        est = self._est()
        if est is None or est.emptied:
            return
        try:
            with est.sealed_state(insecure=True) as parts:
                file.write(parts)
        except BaseException:  # what the file does not know of must not be seen
            est.end(f"{file.path} could not be written: pp.load({str(file.path)!r}) goes on with what it holds")
            raise

    def check_same(self, file: StateFile, now: Snapshot) -> None:
        """Refuse a file that is not the one of this estimator, or that has another state by now."""
        if self.file is None:
            return
        if not file.same_as(self.file):
            raise PanPrivacyError(
                f"this estimator is bound to {self.file.path}, and {file.path} would be a second version of its state; "
                f"move the file itself, or pp.load({str(self.file.path)!r}, detached=True)",
                code="bound-to-file",
            )
        if not _holds(file, now):
            raise StateFileError(
                f"{file.path}: has changed since it was loaded; pp.load({str(file.path)!r}) reads it again",
                code="state-changed",
            )


def _holds(file: StateFile, now: Snapshot) -> bool:
    """Whether a file holds this state."""
    parts = file.read()
    try:
        return _same(parts, now)
    finally:
        wipe(parts.words)
        parts.parameters[:] = bytes(len(parts.parameters))  # type: ignore[index]


def _same(one: Snapshot, other: Snapshot) -> bool:
    """Whether two states are equal, without a copy of either."""
    return (
        one[:2] == other[:2]
        and one.parameters == other.parameters
        and len(one.words) == len(other.words)
        and one.words.data == other.words.data
    )

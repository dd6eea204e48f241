"""The lock of an estimator that was loaded from a path: with it, every change is in the file before it can be seen."""

from contextlib import ExitStack
from threading import RLock
from types import TracebackType
from typing import Any
from weakref import ref

from panprivacy.errors import PanPrivacyError
from panprivacy.memory.scratch import wipe
from panprivacy.state.disk import StateFileError
from panprivacy.state.file import StateFile, loaded
from panprivacy.state.format import VERSION, Snapshot


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
        if parts.version == VERSION:
            return _same(parts, now)
        with loaded(parts).sealed_state(insecure=True) as again:  # written by an earlier release: in other bytes
            return _same(again, now)
    finally:
        wipe(parts.words)
        parts.parameters[:] = bytes(len(parts.parameters))  # type: ignore[index]


def _same(one: Snapshot, other: Snapshot) -> bool:
    """Whether two states are equal, without a copy of either."""
    return (
        one[:2] == other[:2]
        and one.parameters == other.parameters
        and len(one.words) == len(other.words)
        and memoryview(one.words) == memoryview(other.words)  # type: ignore[arg-type]
    )

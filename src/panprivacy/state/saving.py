"""An estimator and its state: as bytes, in a file, or bound to a file that has every change before it can be seen."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from threading import RLock
from types import TracebackType
from typing import Any, NoReturn, Self
from weakref import ref

from panprivacy.errors import PanPrivacyError
from panprivacy.memory import intrinsics, ownership
from panprivacy.memory.scratch import wipe
from panprivacy.state.disk import StateFileError
from panprivacy.state.file import StateFile, loaded, moved_to, opened
from panprivacy.state.format import VERSION, Snapshot, seal, unseal


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


class Saveable(ownership.Locked, ABC):
    """What can be saved and loaded: every estimator, and `Continual`."""

    @abstractmethod
    def sealed_state(self, insecure: bool) -> AbstractContextManager[Snapshot]:
        """The parts of the saved state; the bits are the table's own, and it must not change meanwhile."""

    @classmethod
    @abstractmethod
    def from_sealed(cls, parts: Snapshot, universe: Any = None) -> Self:
        """Make an estimator of the parts of a saved state; their words become its table."""

    @property
    @abstractmethod
    def universe(self) -> Any:
        """The users there could be."""

    @property
    @abstractmethod
    def emptied(self) -> str | None:
        """Why this estimator holds nothing any more and refuses all use; None while it holds bits."""

    @abstractmethod
    def _empty(self, why: str) -> None:
        """Wipe the bits, and refuse all further use with this reason; the caller holds the lock."""

    def end(self, why: str) -> None:
        """Wipe the bits for good; every later use is refused with this reason."""
        with self.held():
            self._empty(why)

    def to_bytes(self, *, insecure: bool = False) -> bytes:
        """A copy of the whole state, to be read by `pp.load`.

        A copy is one more reading of the state: once the estimator is fed again, bytes and estimator are two versions,
        and each can release. `save` leaves no copy. An estimator on seeded coins is refused unless `insecure=True` says
        that this is known.
        """
        with self.sealed_state(insecure) as parts:
            return seal(parts)

    def save(self, file: str | Path | StateFile, *, insecure: bool = False) -> None:
        """Move the state to a file, or keep it in a file that this process holds.

        ``est.save("flu.pp")`` moves it: afterwards the file has the bits, and this object has none and refuses all
        use. ``pp.load("flu.pp")`` goes on with it. If both had bits, feeding one of them would make two versions of
        the state, which together tell who came.

        A program that feeds and saves in turns holds the file meanwhile, and saves after every batch. When it gives
        the file back, the object holds no bits any more:

        >>> import tempfile, panprivacy as pp
        >>> path = tempfile.mkdtemp() + "/flu.pp"
        >>> with pp.StateFile(path).locked() as file:
        ...     est = pp.Density(universe=1000, epsilon=1.0)
        ...     for batch in ([1, 2, 3], [500]):
        ...         est.update_many(batch)
        ...         est.save(file)
        >>> pp.load(path).users
        1000

        The bits go from the table to the disk, without a copy, and the file's earlier content is overwritten there.
        The file is written whole or not at all, and refused while another process has it. An estimator that
        `pp.load(path)` has bound to a file is saved by every change, and to no other file.
        """
        with opened(file) as kept, self.sealed_state(insecure) as parts:
            if isinstance(self._lock, BoundLock):
                self._lock.check_same(kept, parts)
            kept.write(parts)
            if isinstance(file, StateFile):
                file.keeps(self)
                if isinstance(self._lock, BoundLock):
                    self._lock.unbind()
            else:
                self._empty(moved_to(file))
        intrinsics.wipe_stack()

    def bind_to(self, file: StateFile) -> None:
        """Write every change to the file that this estimator was loaded from, before the change can be seen."""
        self._lock = BoundLock(self, file)

    def check_unbound(self, what: str) -> None:
        """Refuse to give the bits away, if a file would keep a second version of them."""
        file = getattr(self._lock, "file", None)
        if file is not None:
            raise PanPrivacyError(
                f"a {type(self).__name__} that is bound to {file.path} cannot be {what}: the file would keep a second "
                f"version of its bits; pp.load({str(file.path)!r}, detached=True), and erase the file afterwards",
                code="bound-to-file",
            )

    @classmethod
    def from_bytes(cls, blob: bytes, universe: Any = None) -> Self:
        """Read what `to_bytes` wrote; a list of users must be given again before more can be fed."""
        return cls.from_sealed(unseal(blob), universe)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_bytes, (self.to_bytes(), self.universe)

    __copy__: Callable[[Any], NoReturn] = ownership.refuse_copy

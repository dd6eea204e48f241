"""An estimator as bytes, and in a file."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NoReturn, Self

from panprivacy import state
from panprivacy.errors import PanPrivacyError
from panprivacy.memory import ownership
from panprivacy.memory.intrinsics import wipe_stack
from panprivacy.state import BoundLock, Snapshot, StateFile


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
            return state.seal(parts)

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
        with state.opened(file) as kept, self.sealed_state(insecure) as parts:
            if isinstance(self._lock, BoundLock):
                self._lock.check_same(kept, parts)
            kept.write(parts)
            if isinstance(file, StateFile):
                file.keeps(self)
                if isinstance(self._lock, BoundLock):
                    self._lock.unbind()
            else:
                self._empty(state.moved_to(file))
        wipe_stack()

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
        return cls.from_sealed(state.unseal(blob), universe)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_bytes, (self.to_bytes(), self.universe)

    __copy__: Callable[[Any], NoReturn] = ownership.refuse_copy

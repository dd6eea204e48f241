"""When an estimator's bits belong to somebody else: taken over, over, or copied by a fork.

Two estimators with one history are two readings of it as soon as one of them is fed. So an estimator whose bits have
gone elsewhere holds none, and refuses every use with the reason. A forked process is a copy of everything: its
estimators hold nothing, unless they were handed over to it by name, and then the parent's hold nothing.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from time import monotonic
from typing import Any, NoReturn, Protocol
from weakref import WeakSet

from panprivacy.errors import PanPrivacyError

_COPIED = (
    "this is a forked process, and its copy of the estimator holds nothing: feed and release in the process that made "
    "it, or fork inside `with est.hand_over():`"
)
_NO_COPY = (
    "copy.copy is refused: the copy would have the same bits and could spend the same epsilon once more; "
    "copy.deepcopy(est) makes such a copy if that is what you mean"
)
_HANDED_OVER = "this estimator was handed over to a forked process, and holds nothing here any more"


class Emptied:
    """Stands where the table was, and says why it is gone to whoever would use it."""

    def __init__(self, why: str) -> None:
        self.why = why

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):  # what copying and printing ask for
            raise AttributeError(name)
        raise PanPrivacyError(self.why)


def refuse_copy(self: Any) -> NoReturn:  # noqa: ARG001 - it is the method __copy__ of whoever holds bits
    """Refuse `copy.copy`, which looks as if it copied no bits."""
    raise PanPrivacyError(_NO_COPY)


class Owner(Protocol):
    """An estimator, as far as its bits may be taken from it."""

    def _arrived(self) -> None:
        """In the child that an estimator was handed over to: keep its bits from the children of that child."""

    def _empty(self, why: str) -> None:
        """Wipe the bits, and refuse all further use with this reason."""


_lock_holders: "WeakSet[Any]" = WeakSet()
_owners: "WeakSet[Any]" = WeakSet()
_leaving: "WeakSet[Any]" = WeakSet()  # estimators that the next forked child is to have

_PATIENCE = 60.0  # seconds that a fork waits for batches in other threads


def register(owner: Owner) -> None:
    """See to it that this estimator is emptied in a forked child."""
    _owners.add(owner)


def give_lock(holder: Any, rank: int = 2) -> None:
    """Give an object the attribute `_lock`, and a new one in a forked child.

    Who holds a lock may take one of a higher rank: `Windows` has rank 0, `Continual` 1, estimators 2.
    """
    holder._lock = RLock()
    holder._lock_rank = rank
    _lock_holders.add(holder)


@contextmanager
def leaving(owner: Owner) -> Iterator[None]:
    """Let the first child that is forked meanwhile have the estimator, and this process no longer."""
    _leaving.add(owner)
    try:
        yield
    finally:
        _leaving.discard(owner)


class _Fork:
    """One fork: no batch is in flight when it happens, and the parent knows whether there is a child."""

    def __init__(self) -> None:
        self._taken: list[Any] = []
        self._line: tuple[int, int] | None = None

    def before(self) -> None:
        """Wait until no thread is in a batch, whose scratch the child would have for ever."""
        patience = monotonic() + _PATIENCE
        for holder in sorted(_lock_holders, key=lambda holder: (holder._lock_rank, id(holder))):
            lock = holder._lock
            if hasattr(lock, "acquire") and lock.acquire(timeout=max(patience - monotonic(), 0.0)):
                self._taken.append(lock)
        self._line = os.pipe() if len(_leaving) else None

    def in_parent(self) -> None:
        """Empty what was handed over, if there is a child to have it: Python comes here also when a fork fails."""
        if self._line is not None:
            read, write = self._line
            os.close(write)  # now a child alone can write
            if os.read(read, 1):
                for owner in list(_leaving):
                    owner._empty(_HANDED_OVER)
                _leaving.clear()
            os.close(read)
        self._done()
        while self._taken:
            self._taken.pop().release()

    def in_child(self) -> None:
        """Hold nothing but what was handed over; the locks of the parent's threads are left to them."""
        for holder in list(_lock_holders):
            holder._lock = RLock()
        for owner in list(_owners):
            if owner in _leaving:
                owner._arrived()
            else:
                owner._empty(_COPIED)
        _leaving.clear()
        if self._line is not None:
            read, write = self._line
            os.close(read)
            os.write(write, b"+")
            os.close(write)
        self._taken.clear()
        self._done()

    def _done(self) -> None:
        self._line = None


_fork = _Fork()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_fork.before, after_in_child=_fork.in_child, after_in_parent=_fork.in_parent)

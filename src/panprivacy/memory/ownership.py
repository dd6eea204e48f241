"""Which object holds the bits of an estimator: after a takeover, after its end, after a fork.

Two copies of one state, once either is updated, amount to two readings. So an estimator whose bits were taken over
holds none, and refuses every use with the reason. A forked process is a copy of everything: its estimators hold
nothing, unless the parent handed them over. Then the parent's hold nothing.
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


def refuse_copy(self: Any) -> NoReturn:  # noqa: ARG001 - it is the method __copy__ of objects with bits
    """Refuse `copy.copy`, which looks as if it copied no bits."""
    raise PanPrivacyError(_NO_COPY, code="copied")


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
    """Empty this estimator in every forked child."""
    _owners.add(owner)


class Locked:
    """An object with a lock, which is free in a forked child."""

    _lock: Any
    _lock_rank: int

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other threads from changing the object. Whatever else its lock does is left undone."""
        lock = self._lock
        lock.acquire()
        try:
            yield
        finally:
            lock.release()


def give_lock(holder: Locked, rank: int = 2) -> None:
    """Give an object its lock.

    Who holds a lock may take one of a higher rank: `Windows` has rank 0, `Continual` 1, estimators 2.
    """
    holder._lock = RLock()
    holder._lock_rank = rank
    _lock_holders.add(holder)


@contextmanager
def leaving(owner: Owner) -> Iterator[None]:
    """Hand the estimator over to the first child that is forked meanwhile; this process then has none."""
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
        self._line = None
        while self._taken:
            self._taken.pop().release()

    def in_child(self) -> None:
        """Hold nothing but what was handed over; the locks of the parent's threads are left to them."""
        for holder in list(_lock_holders):
            if hasattr(holder._lock, "renew"):
                holder._lock.renew()
            else:
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
        self._line = None


_fork = _Fork()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_fork.before, after_in_child=_fork.in_child, after_in_parent=_fork.in_parent)

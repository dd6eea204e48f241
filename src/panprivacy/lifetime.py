"""When an estimator's bits belong to somebody else: taken over, over, or copied by a fork.

Two estimators with one history are two readings of it as soon as one of them is fed. So an estimator whose bits have
gone elsewhere holds none, and refuses every use with the reason. A forked process is a copy of everything: its
estimators hold nothing, unless they were handed over to it by name, and then the parent's hold nothing.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any, NoReturn, Protocol
from weakref import WeakSet

from panprivacy.errors import PanPrivacyError

_COPIED = (
    "this is a forked process, and its copy of the estimator holds nothing: feed and release in the process that made "
    "it, or fork inside `with est.hand_over():`"
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


class Owner(Protocol):
    """An estimator, as far as its bits may be taken from it."""

    def _arrived(self) -> None:
        """In the child that an estimator was handed over to: keep its bits from the children of that child."""

    def _empty(self, why: str) -> None:
        """Wipe the bits, and refuse all further use with this reason."""


_lock_holders: "WeakSet[Any]" = WeakSet()
_owners: "WeakSet[Any]" = WeakSet()
_leaving: "WeakSet[Any]" = WeakSet()  # estimators that the next forked child is to have
_left: "WeakSet[Any]" = WeakSet()  # estimators that a forked child has


def register(owner: Owner) -> None:
    """See to it that this estimator is emptied in a forked child."""
    _owners.add(owner)


def give_lock(holder: Any) -> None:
    """Give an object the attribute `_lock`, and a new one in a forked child."""
    holder._lock = RLock()
    _lock_holders.add(holder)


@contextmanager
def leaving(owner: Owner) -> Iterator[None]:
    """Let the first child that is forked meanwhile have the estimator, and this process no longer."""
    _leaving.add(owner)
    try:
        yield
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.ENOMEM):  # there was no fork, though Python runs its hooks
            _left.discard(owner)
        raise
    finally:
        _leaving.discard(owner)
        if owner in _left:
            _left.discard(owner)
            owner._empty(_HANDED_OVER)


def _in_child() -> None:
    for holder in list(_lock_holders):
        holder._lock = RLock()  # the old one may be held by a thread that is not here
    for owner in list(_owners):
        if owner in _leaving:
            owner._arrived()
        else:
            owner._empty(_COPIED)
    _leaving.clear()


def _in_parent() -> None:
    _left.update(_leaving)
    _leaving.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child, after_in_parent=_in_parent)

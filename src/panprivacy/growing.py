"""Estimators whose universe may grow: what every user owns stays with it, and newcomers get a new one."""

from abc import abstractmethod
from typing import Any, TypeVar

from panprivacy.errors import PanPrivacyError
from panprivacy.estimator import Estimator
from panprivacy.memory import Scratch
from panprivacy.privacy.coins import CHUNK
from panprivacy.privacy.stack import wipe_stack
from panprivacy.slots import Asked, Every, SlotMap
from panprivacy.universe import Range, Universe, Users
from panprivacy.universe.growth import grown, moved

R = TypeVar("R")


class Growing(Estimator[R]):
    """An estimator in which every user may own a bit, or a counter and a bit."""

    def grow(self, more: Any) -> None:
        """Take more users into the universe: ids that come to a list, or the new size of a range.

        Every user still owns one bit. A new user's bit is drawn with p0, as all bits were at first, and its counter, if
        it has one, anew; those of the others move, as they are, to the positions that their users have in the larger
        list. So the state has the law that it would have if the newcomers had been there from the start and had not
        appeared, and `epsilon` covers them and everybody else as before: the budget stays, and what is spent of it
        stays spent. That the list grew, and when, is public, as the list is.

        Later releases are about the larger universe, and their error is that of its size. `last` is forgotten: it was
        about the smaller one. A sample, a shard and an estimator with categories cannot grow, since other users would
        own their bits; where users have groups, newcomers come as ``pp.Users(ids, groups=...)``.

        >>> import panprivacy as pp
        >>> clinic = pp.Density(universe=pp.Users(["grace", "mary"]), epsilon=2.0)
        >>> clinic.update("mary")
        >>> clinic.grow(["ada", "rosalind"])
        >>> clinic.update("ada"); clinic.users
        4
        """
        with self._lock:
            self._table.in_use()
            self._check_grows()
            universe = grown(self._universe, more)
            if universe.size > self._universe.size:
                self._move_to(universe)

    def _check_grows(self) -> None:
        """Refuse what cannot grow, and say why."""
        slots, kind = self._slots, type(self).__name__
        if not isinstance(slots, Every) or slots.size < self._universe.size:
            sample = f"a {kind} with categories" if isinstance(slots, Asked) else "a sample"
            part = "a shard" if isinstance(slots, Every) else sample
            raise PanPrivacyError(f"{part} cannot grow: only a {kind} with a bit for every user can")
        if slots.groups is not None and isinstance(self._universe, Range):
            raise PanPrivacyError(
                "users 0..N-1 with groups cannot grow: nobody knows the groups of new ones; list them with pp.Users"
            )

    def _move_to(self, universe: Universe) -> None:
        """Draw a table for a larger universe, move what everybody owned before into it, and wipe the old."""
        groups = universe.groups if isinstance(universe, Users) else None
        slots, before = self._slots_of(Every(universe.size, 0, universe.size, groups)), self._table
        table = self._drawn_table(slots)
        try:
            with Scratch() as scratch:
                for start in range(0, before.size, CHUNK):
                    stop = min(start + CHUNK, before.size)
                    table.place(before, start, moved(self._universe, universe, start, stop, scratch))
                    scratch.sweep()
        except BaseException:
            table.wipe()
            raise
        self._slots, self._table = slots, table
        self._know(universe)
        self._ledger = self._ledger.with_releases(self._ledger.releases)
        before.wipe()
        wipe_stack()

    def _slots_of(self, slots: Every) -> SlotMap:
        """The slots of this estimator for a bit for every user."""
        return slots

    @abstractmethod
    def _drawn_table(self, slots: SlotMap) -> Any:
        """A table for these slots in which nobody has appeared."""

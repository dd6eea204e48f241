"""Estimators of a known universe: users may have groups, events categories, tables shards; or a key deals out parts."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from struct import Struct
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from panprivacy.display import Rows, counted, format_bytes
from panprivacy.errors import CannotMerge, InvalidValue, PanPrivacyError
from panprivacy.estimates.estimate import OfPart
from panprivacy.estimators.base import Estimator
from panprivacy.memory.intrinsics import wipe_stack
from panprivacy.memory.scratch import Scratch
from panprivacy.memory.threads import CHUNK
from panprivacy.privacy.budget import Published
from panprivacy.privacy.pairs import Pair
from panprivacy.slots import AllUsers, OneCategoryPerUser, Ranges, Slots
from panprivacy.slots.choosing import slots_bytes, slots_from, universe_bytes, universe_from
from panprivacy.slots.parts import PermutedParts
from panprivacy.slots.users import joined
from panprivacy.table import Table
from panprivacy.universe import Range, Universe, Users, grown, moved
from panprivacy.universe.categories import Categories, by_categories
from panprivacy.universe.groups import Groups
from panprivacy.universe.users import in_groups

R = TypeVar("R")


class UniverseEstimator(Estimator[R]):
    """An estimator in which every user may own a bit, or a counter and a bit."""

    OVERLAPPING: ClassVar[str]
    """Why estimators that saw the same users cannot be merged."""

    _slots: Any
    _table: Any

    users: ClassVar[OfPart[int]] = OfPart("_slots")
    """How many users own a bit, or a counter and a bit."""

    population: ClassVar[OfPart[int]] = OfPart("_slots")
    """How many users of the universe the bits speak for: the users of a shard, or all."""

    @property
    def bits(self) -> range:
        """Which bits of the whole table are here: a sample, a shard, or all."""
        return range(self._slots.first, self._slots.first + self._slots.size)

    @property
    def categories(self) -> Categories | None:
        """The categories of events, where there are some."""
        return self._slots.categories if isinstance(self._slots, OneCategoryPerUser) else None

    @property
    def _edges(self) -> NDArray[np.int64]:
        """Where each group or category begins among the slots, and where the last ends; without any, of all users."""
        return np.array([0, self._slots.size]) if self._slots.ranges is None else self._slots.ranges.bounds

    # --- what leaves --------------------------------------------------------------------------------------------

    def _counts(self, scratch: Scratch) -> NDArray[np.int64]:
        counts: NDArray[np.int64] = scratch.empty("counts", self._counts_released(), np.int64)
        self._table.count_ones(self._edges, counts)
        return counts

    @abstractmethod
    def _law(self, ranges: Ranges | None = None, pair: Pair | None = None) -> Any:
        """The law of the errors of all users together, or of each range, with the coins of now or other ones."""

    def _tracked(self, ranges: Ranges | None, pair: Pair | None) -> tuple[Any, ...]:
        """What an `ErrorModel` needs."""
        pair, noise, slots = pair or self._ledger.pair, self._ledger.split.noise, self._slots
        if ranges is None:
            return pair, slots.size, slots.users, slots.population, noise, self._answers
        return pair, ranges.bits, ranges.users, ranges.population, noise

    @abstractmethod
    def _estimates(self, law: Any, noisy: NDArray[np.int64], level: float) -> Iterable[tuple[Any, float]]:
        """For each row of noisy counts, the estimates of a release, and the standard deviation of their noise."""

    @abstractmethod
    def _release(self, **parts: Any) -> R:
        """A release of these parts."""

    def _interpret(self, published: Published) -> R:
        cost, ranges = self._cost_of(published), self._slots.ranges
        pair = self._ledger.split.pair_after(published.redraws)
        noisy, rows = np.array(published.noisy).reshape(self._answers, -1), []
        if ranges is not None:
            found = self._estimates(self._law(ranges, pair), noisy, cost.level)
            columns = ranges.labels, ranges.users.tolist(), ranges.population.tolist()
            rows = [
                self._release(
                    estimates=each, cost=cost, universe=universe, noise_stderr=noise, group=group, users=users
                )
                for group, users, universe, (each, noise) in zip(*columns, found, strict=True)
            ]
        whole = {"cost": cost, "universe": self.population, "groups": tuple(rows)}
        if self.categories:
            return self._release(estimates={}, **whole)
        total = noisy.sum(axis=0, keepdims=True)
        ((estimates, noise),) = self._estimates(self._law(pair=pair), total, cost.level)
        return self._release(estimates=estimates, noise_stderr=noise, **whole)

    # --- shards -------------------------------------------------------------------------------------------------

    @classmethod
    def _merged(cls, parts: Sequence[Self], *, overlapping: bool) -> Self:
        """Put shards that own neighbouring slots together."""
        if overlapping:
            raise CannotMerge(cls.OVERLAPPING, code="overlapping-shards")
        if any(part._slots.ranges is not None for part in parts):
            raise CannotMerge(
                f"a {cls.__name__} with groups or categories has no shards: feed one with the whole stream",
                code="merge-with-groups",
            )
        head, *others = ordered = sorted(parts, key=lambda part: part._slots.first)
        for part in others:
            if different := head._differences(part):
                raise CannotMerge(f"the parts have different {' and '.join(different)}", code="different-plans")
        return cls._of_parts(
            head._universe,
            joined([part._slots for part in ordered]),
            head._ledger.with_releases(max(part._ledger.releases for part in parts)),
            head._table.joined([part._table for part in ordered]),
            head._coins,
            secure=all(part.secure for part in parts),
        )

    def _differences(self, other: Self) -> list[str]:
        """In what two shards differ that must not."""
        different = [] if universe_bytes(self._universe) == universe_bytes(other._universe) else ["universes"]
        return different + self._ledger.differences(other._ledger)

    # --- growing ------------------------------------------------------------------------------------------------

    def grow(self, more: Any) -> None:
        """Take more users into the universe: ids that come to a list, or the new size of a range.

        Every user still owns one bit. A new user's bit is drawn with p0, as all bits were at first, and its counter, if
        it has one, anew; the bits of the others move, unchanged, to the positions that their users have in the larger
        list. So the state has the law that it would have if the newcomers had been there from the start and had not
        appeared, and `epsilon` covers them and all others as before: the budget stays, and spent epsilon
        stays spent. That the list grew, and when, is public, as the list is.

        Later releases are about the larger universe, and their error follows from its size. `last` is forgotten: it was
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
            self._check_in_use()
            self._check_grows()
            universe = grown(self._universe, more)
            if universe.size > self._universe.size:
                self._move_to(universe)

    def _check_grows(self) -> None:
        """Refuse what cannot grow, and say why."""
        slots, kind = self._slots, type(self).__name__
        if not isinstance(slots, AllUsers) or slots.size < self._universe.size:
            sample = f"a {kind} with categories" if isinstance(slots, OneCategoryPerUser) else "a sample"
            part = "a shard" if isinstance(slots, AllUsers) else sample
            raise PanPrivacyError(
                f"{part} cannot grow: only a {kind} with a bit for every user can", code="cannot-grow"
            )
        if slots.groups is not None and isinstance(self._universe, Range):
            raise PanPrivacyError(
                "users 0..N-1 with groups cannot grow: the groups of new users are not known; list them with pp.Users",
                code="cannot-grow",
            )

    def _move_to(self, universe: Universe) -> None:
        """Draw a table for a larger universe, move the bits of all earlier users into it, and wipe the old table."""
        groups, before = universe.groups if isinstance(universe, Users) else None, self._table
        slots = replace(self._slots, universe=universe.size, first=0, size=universe.size, groups=groups)
        table = self._drawn_table(slots, self._ledger.pair, self._coins)
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
        self._set_universe(universe)
        self._ledger = self._ledger.with_releases(self._ledger.releases)
        before.wipe()
        wipe_stack()

    # --- what it says of itself ---------------------------------------------------------------------------------

    def _whom(self) -> str:
        """Whom it counts: the universe, and by what it is divided."""
        if self.categories:
            return self._universe.describe() + by_categories(self.categories)
        listed = isinstance(self._universe, Users)  # which says so itself
        return self._universe.describe() + in_groups(None if listed else getattr(self._slots, "groups", None))

    def _group_rows(self, errors_of: Callable[[Ranges], Any], of: str = "") -> Rows:
        """The errors of the largest and of the smallest group."""
        ranges = self._slots.ranges
        if ranges is None or self.categories:
            return ()
        errors = errors_of(ranges).ravel()
        said = (
            f"{ranges.labels[i]} ± {errors[i]:.4f} ({counted(int(ranges.users[i]), 'user')})"
            for i in (int(errors.argmin()), int(errors.argmax()))
        )
        return (("groups", f"{len(ranges):,}, {of}from {' to '.join(said)}"),)

    # --- bytes --------------------------------------------------------------------------------------------------

    def _parameters(self) -> bytes:
        return universe_bytes(self._universe) + slots_bytes(self._slots)

    def _from_parameters(self, parameters: bytes, universe: Any) -> tuple[Universe, Slots | OneCategoryPerUser]:
        known, rest = universe_from(parameters, universe)
        return known, slots_from(rest, known.size)


class PartedEstimator(Estimator[R]):
    """An estimator of a known universe, of whose parts each answers another question."""

    MORE: ClassVar[Struct]
    """The layout of what a saved state has behind the slots: `_more`. A zone and groups follow, where there are any."""

    _slots: PermutedParts
    _table: Table

    users: ClassVar[OfPart[int]] = OfPart("_slots")
    """How many users own a bit."""

    def _tracked(self) -> str:
        """Whom it counts, and in how much memory."""
        tracked = "all" if self.users == self._universe.size else f"{self.users:,}"
        return f"{self._universe.describe()}, {tracked} tracked in {format_bytes(self.memory)}"

    # --- bytes --------------------------------------------------------------------------------------------------

    @abstractmethod
    def _more(self) -> tuple[Any, ...]:
        """The time zone of its days, UTC without days, and the values that `MORE` packs."""

    @abstractmethod
    def _keep_more(self, slots: PermutedParts, zone: str, *saved: Any) -> bool:
        """Take over what `_more` gave, or refuse it; return whether there can be this number of parts."""

    def _parameters(self) -> bytes:
        zone, *values = self._more()
        groups = self._slots.groups
        named = b"" if zone == "UTC" and groups is None else bytes([len(zone)]) + zone.encode()
        known = universe_bytes(self._universe) + self._slots.to_bytes() + self.MORE.pack(*values)
        return known + named + (b"" if groups is None else groups.to_bytes())

    def _from_parameters(self, parameters: bytes, universe: Any) -> tuple[Universe, PermutedParts]:
        known, rest = universe_from(parameters, universe)
        slots, rest = PermutedParts.from_bytes(rest, known.size)
        saved, rest = self.MORE.unpack_from(rest), rest[self.MORE.size :]
        zone, rest = (rest[1 : 1 + rest[0]].decode(), rest[1 + rest[0] :]) if rest else ("UTC", b"")
        if not self._keep_more(slots, zone, *saved):
            raise InvalidValue(f"{slots.parts} parts of its users are not possible", code="parts-range")
        groups = Groups.from_bytes(rest) if rest else None
        if groups is not None and groups.size != known.size:
            raise ValueError("the groups belong to other users")
        return known, slots if groups is None else replace(slots, groups=groups)

"""Groups of users and categories of events in a plan: how many users each has, and how much each errs."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from panprivacy.checks import check_whole
from panprivacy.errors import InvalidType, InvalidValue
from panprivacy.slots.choosing import check_ranges, grouped, parse_categories
from panprivacy.slots.users import AllUsers, Ranges, places_for
from panprivacy.universe import Range, Universe, universe_of
from panprivacy.universe.categories import Categories
from panprivacy.universe.groups import Groups, Label

_RIVALS = 16  # sizes just above the smallest, whose error can be a hair larger: counts are whole numbers
_SIZES = 48  # numbers of users for which an error is computed; a group between two has that of the smaller one


class Part(NamedTuple):
    """The bits of a group or category, and whom they speak for."""

    bits: int
    users: int
    population: int


class GroupError(NamedTuple):
    """How much the last release of a plan errs about one group or category."""

    group: Label
    users: int
    """How many users own a bit: of a category, the expected number."""
    stderr: float
    """Standard error, at the truth of `Plan.stderr`."""
    alpha: float
    """The error that is reached with probability beta at most, whatever the truth."""


@dataclass(frozen=True, eq=False)
class Parts:
    """The groups, or the categories, that every release has a number of."""

    groups: Groups | None
    categories: Categories | None

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def labels(self) -> tuple[Label, ...]:
        """What they are called, in the order of a release."""
        if self.groups is not None:
            return self.groups.labels
        assert self.categories is not None
        return self.categories.labels

    @property
    def noun(self) -> str:
        """What one of them is."""
        return "category" if self.categories else "group"

    @property
    def plural(self) -> str:
        """What several of them are."""
        return "categories" if self.categories else "groups"

    def ranges(self, population: int, size: int) -> Ranges:
        """The bits of each in a table of this size; of a category, with the expected number of users."""
        if self.groups is not None:
            ranges = AllUsers(population, 0, population, self.groups).ranges
            assert ranges is not None
            return ranges
        places = places_for(population)
        bounds = (places if size >= population else size) * np.arange(len(self) + 1) // len(self)
        users = np.rint(np.diff(bounds) * (population / places)).astype(np.int64)
        return Ranges(self.labels, bounds, users, np.full(len(self), population))

    def worst(self, population: int, size: int) -> list[Part]:
        """The smallest part, and those that are hardly larger, each size once.

        More users err less, but for ripples: counts are whole numbers, and one count more or less of about
        ``sqrt(users)`` is worth as much as twice that many users.
        """
        parts = sorted(set(parts_of(self.ranges(population, size))), key=lambda part: part.users)
        near = parts[0].users + 3 * sqrt(parts[0].users)
        return [part for part in parts if part.users <= near][:_RIVALS]

    def planned(self, population: int, size: int, law: Callable[[Part], tuple[float, float]]) -> "PlannedParts":
        """The same in a plan with this law of standard errors and alphas."""
        return PlannedParts(self, self.ranges(population, size), law)

    def arguments(self) -> dict[str, Any]:
        """What the estimator is told of them; users of a list have their groups with them."""
        if self.groups is not None:
            return {"groups": np.repeat(np.array(self.groups.labels), self.groups.sizes)}
        assert self.categories is not None
        listed = self.categories.labels[: len(self.categories) - self.categories.other]
        return {"categories": list(listed)} | ({"other": True} if self.categories.other else {})


def parts_of(ranges: Ranges) -> list[Part]:
    """The parts of a table, in order."""
    return [Part(*map(int, each)) for each in zip(ranges.bits, ranges.users, ranges.population, strict=True)]


def planned_parts(
    universe: Any, groups: Any, categories: Iterable[Label] | None = None, other: bool = False, bits: int | None = None
) -> tuple[Universe | None, Parts | None]:
    """The universe of a plan, and its groups or categories, by the arguments of `plan`."""
    if isinstance(groups, Mapping):
        universe, ranges = _of_sizes(universe, groups)
    elif universe is None:
        if groups is not None or categories is not None or other:
            raise InvalidValue(
                "groups and categories need a universe: say how many users there could be", code="plan-groups"
            )
        return None, None
    else:
        universe, ranges = grouped(universe_of(universe), groups)
    kinds = parse_categories(categories, other)
    check_ranges(ranges, kinds, sampled=bits is not None and bits < universe.size, shard=None)
    if kinds is not None and len(kinds) > universe.size:
        raise InvalidValue(
            f"{len(kinds):,} categories are too many for {universe.size:,} users, of whom each is asked about one",
            code="too-many-categories",
        )
    return universe, None if ranges is None and kinds is None else Parts(ranges, kinds)


def _of_sizes(universe: Any, sizes: Mapping[Label, int]) -> tuple[Universe, Groups]:
    """Users 0..N-1 in groups of these sizes, one after the other."""
    counts = [check_whole(size, f"the number of users in group {label!r}") for label, size in sizes.items()]
    if not counts or min(counts) < 1:
        raise InvalidValue("each group has one user or more: groups={'north': 40_000, ...}", code="groups-number")
    total = sum(counts)
    known = Range(total) if universe is None else universe_of(universe)
    if not isinstance(known, Range):
        raise InvalidType(
            "listed users have their groups with them: pp.Users(ids, groups=...)", code="groups-of-listed-users"
        )
    if known.size != total:
        raise InvalidValue(
            f"the groups have {total:,} users in all, and the universe has {known.size:,}; leave universe out, or add "
            "a group for the others",
            code="groups-length",
        )
    return known, Groups(tuple(sizes), np.append(0, np.cumsum(counts)))


@dataclass(frozen=True, eq=False)
class PlannedParts:
    """The groups or categories of a plan, with the law of their errors."""

    parts: Parts
    ranges: Ranges
    law: Callable[[Part], tuple[float, float]]
    """Standard error and alpha of a part."""

    @cached_property
    def errors(self) -> tuple[GroupError, ...]:
        """The error of each. Of very many sizes some are computed, and the others have the next larger error."""
        parts = parts_of(self.ranges)
        sizes = sorted(set(parts), key=lambda part: part.users)
        chosen = [sizes[i] for i in sorted({round(i) for i in np.linspace(0, len(sizes) - 1, _SIZES)})]
        known: dict[Part, tuple[float, float]] = {}
        below = 0
        found = [self.law(part) for part in chosen]
        for part in sizes:
            while below + 1 < len(chosen) and chosen[below + 1].users <= part.users:
                below += 1
            known[part] = found[below]
        rows = zip(self.ranges.labels, parts, strict=True)
        return tuple(GroupError(label, part.users, *known[part]) for label, part in rows)

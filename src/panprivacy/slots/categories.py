r"""One category per user: which bit, if any, does an event in a category redraw?

An event is in a category, and a user may appear in all of them. A bit for each category would multiply the loss by
their number, and a limit on the categories of a user would need a record of them. So each user is asked about one
category, which the key chooses, and owns one bit. Events in other categories leave no trace.

The key permutes the users (see `UserSample`), and the places are cut into as many ranges as there are categories, of
equal sizes, give or take one. So the users who are asked about a category are a random sample of all users, drawn
without replacement, and their bits stand together.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from panprivacy.errors import InvalidValue
from panprivacy.memory.scratch import Scratch
from panprivacy.slots import category_kernels, kernels
from panprivacy.slots.users import (
    NO_SLOT,
    AllUsers,
    CountedUsers,
    Ranges,
    Slots,
    UserSample,
    front,
)
from panprivacy.universe.categories import Categories
from panprivacy.universe.integers import Lookup, Words


@dataclass(frozen=True)
class OneCategoryPerUser:
    """Every user who has a place is asked about one category, and owns one bit."""

    lookup = Lookup.HASHED
    KERNELS = ("slots.category_kernels", "universe.lookup_kernels")  # categories are looked up

    places: UserSample
    categories: Categories
    ranges: Ranges = field(init=False, repr=False, compare=False)
    """The categories, each with the bits of the users who are asked about it."""
    first: int = field(init=False, default=0, repr=False, compare=False)
    size: int = field(init=False, repr=False, compare=False)
    """How many bits there are."""
    users: int = field(init=False, repr=False, compare=False)
    """How many users own a bit."""
    population: int = field(init=False, repr=False, compare=False)
    """How many users the bits stand for."""

    def __post_init__(self) -> None:
        bounds = self.places.size * np.arange(len(self.categories) + 1) // len(self.categories)
        unowned = np.zeros(len(self.categories), dtype=np.int64)
        for slots in self.places.unowned():
            unowned += np.histogram(slots.astype(np.int64), bounds)[0]
        population = np.full(len(self.categories), self.places.universe)
        users = np.diff(bounds) - unowned
        ranges = Ranges(self.categories.labels, bounds, users, population)
        sizes = {"size": self.places.size, "users": self.places.users, "population": self.places.universe}
        for name, value in ({"ranges": ranges} | sizes).items():
            object.__setattr__(self, name, value)
        _ = self._bounds  # found now: found at the first event, its presence would tell of that event

    @cached_property
    def _bounds(self) -> NDArray[np.uint64]:
        return self.ranges.bounds.astype(np.uint64)

    def slot(self, index: Any) -> int:
        """The bit of one user and category; -1 if the user is not asked about it."""
        user, code = index
        place, rank = self.places.slot(user), self.categories.rank(code)
        return place if self.ranges.bounds[rank] <= place < self.ranges.bounds[rank + 1] else NO_SLOT

    def select(self, indices: Any, scratch: Scratch) -> Words:
        """The bits of the events that have one, in order; `IndexError` for a user outside the universe."""
        users, codes = indices
        slots: Words = scratch.empty("slots", len(users) + 1, np.uint64)
        window = scratch.empty("window", 3 * kernels.WINDOW, np.uint32)
        located = (self.places.network, self.places.universe, self._bounds, self.categories.ranks)
        return front(slots, category_kernels.locate_in_category(users, codes, *located, slots, window))


@dataclass(frozen=True)
class CountedCategory(OneCategoryPerUser):
    """Every user who has a place is asked about one category, and has a counter and a bit."""

    up_to: int = field(kw_only=True)
    """How many places a counter has: how many appearances of a user in the category it tells apart."""


CountedSlots: TypeAlias = CountedUsers | CountedCategory
"""Slots that have a counter each."""


def with_counters(slots: Slots | OneCategoryPerUser, up_to: int) -> CountedSlots:
    """These slots, with a counter for each."""
    if isinstance(slots, OneCategoryPerUser):
        return CountedCategory(slots.places, slots.categories, up_to=up_to)
    if isinstance(slots, AllUsers):
        return CountedUsers(slots.universe, slots.first, slots.size, slots.groups, up_to=up_to)
    raise InvalidValue("a sample of the users has no counters", code="sample-and-counters")

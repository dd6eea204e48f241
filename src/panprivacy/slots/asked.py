r"""One category a user: which bit, if any, does an event in a category redraw?

An event is in a category, and a user may appear in all of them. A bit for each category would multiply the loss by
their number; nothing can see to it that a user is in a few only, without remembering in which. So every user is asked
about one category, which the key chooses, and owns one bit. Events in other categories leave no trace.

The key permutes the users (see `places`), and the places are cut into as many ranges as there are categories, all of
one size, give or take one. So those who are asked about a category are a random sample of all users, drawn without
replacement, and their bits stand together.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panprivacy.lazily import loaded
from panprivacy.memory import Scratch
from panprivacy.slots.places import Sampled, front
from panprivacy.slots.ranges import Ranges
from panprivacy.universe.categories import Categories
from panprivacy.universe.words import Words

_NOWHERE = -1


@dataclass(frozen=True)
class Asked:
    """Every user who has a place is asked about one category."""

    places: Sampled
    categories: Categories
    ranges: Ranges = field(init=False, repr=False, compare=False)
    """The categories, each with the bits of those who are asked about it."""

    def __post_init__(self) -> None:
        bounds = self.places.size * np.arange(len(self.categories) + 1) // len(self.categories)
        nobodies = np.zeros(len(self.categories), dtype=np.int64)
        for slots in self.places.nobodies():
            nobodies += np.histogram(slots.astype(np.int64), bounds)[0]
        population = np.full(len(self.categories), self.places.universe)
        users = np.diff(bounds) - nobodies
        object.__setattr__(self, "ranges", Ranges(self.categories.labels, bounds, users, population))
        _ = self._bounds  # found now: found at the first event, its presence would tell of that event

    @property
    def first(self) -> int:
        """The first slot."""
        return 0

    @property
    def size(self) -> int:
        """How many bits there are."""
        return self.places.size

    @property
    def users(self) -> int:
        """How many users own a bit."""
        return self.places.users

    @property
    def population(self) -> int:
        """How many users the bits speak for."""
        return self.places.universe

    @cached_property
    def _bounds(self) -> NDArray[np.uint64]:
        return self.ranges.bounds.astype(np.uint64)

    def slot(self, index: Any) -> int:
        """The bit of one user and category; -1 if the user is not asked about it."""
        user, code = index
        place, rank = self.places.slot(user), self.categories.rank(code)
        return place if self.ranges.bounds[rank] <= place < self.ranges.bounds[rank + 1] else _NOWHERE

    def select(self, indices: Any, scratch: Scratch) -> Words:
        """The bits of those visits that have one, in order; `IndexError` for a user outside the universe."""
        kernels, (users, codes) = loaded("panprivacy.slots.kernels"), indices
        slots: Words = scratch.empty("slots", len(users) + 1, np.uint64)
        window = scratch.empty("window", 3 * kernels.WINDOW, np.uint32)
        located = (self.places.network, self.places.universe, self._bounds, self.categories.ranks)
        return front(slots, kernels.locate_asked(users, codes, *located, slots, window))

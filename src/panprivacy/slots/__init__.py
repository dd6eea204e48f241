"""Slots: which bit, if any, does this user own?"""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from panprivacy.slots.edges import Edges
from panprivacy.slots.places import LARGEST_UNIVERSE, Every, Indices, Sampled, Slots
from panprivacy.slots.range import Range
from panprivacy.slots.users import Users

__all__ = ["Edges", "Every", "Range", "Sampled", "SlotMap", "Slots", "Universe", "Users", "universe_of"]


class Universe(Protocol):
    """The users there could be, each with a position."""

    @property
    def size(self) -> int:
        """How many there are."""

    def as_batch(self, ids: Any) -> Any:
        """Bring ids as they were given into a form that `batches` can cut by rows."""

    def index(self, user: Any) -> int:
        """The position of one user, or `OutsideUniverse`."""

    def indices(self, chunk: Any) -> Indices:
        """The positions of a chunk of users, or `OutsideUniverse`."""

    def inside(self, chunk: Any) -> NDArray[np.bool_]:
        """Of each of a chunk of users, whether it is one of them."""

    def unchecked(self, chunk: Any) -> Indices:
        """The same, but users outside may have positions outside, where it is quicker to let the slots find them."""

    def describe(self) -> str:
        """What the universe is, in a few words."""


class SlotMap(Protocol):
    """Which bit a position owns."""

    @property
    def size(self) -> int:
        """How many bits there are."""

    def slot(self, index: int) -> int:
        """The bit of one position; -1 if it has none."""

    def select(self, indices: Indices) -> Indices:
        """The bits of those positions that have one, in order; `IndexError` for a position outside the universe."""


def universe_of(given: Any) -> Universe:
    """Turn what the user gave, a number or a universe, into a universe."""
    universe = Range(given.__index__()) if hasattr(given, "__index__") else given
    if not isinstance(universe, Range | Users | Edges):
        raise TypeError(f"universe must be a number, pp.Users(...) or pp.Edges(...), got {given!r}")
    if not 1 <= universe.size <= LARGEST_UNIVERSE:
        raise ValueError(f"a universe has 1 to 2**44 users, got {universe.size}")
    return universe

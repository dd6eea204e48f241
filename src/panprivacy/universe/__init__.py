"""Universes: who could appear, and the position that each id has among them."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from panprivacy.memory import Scratch
from panprivacy.universe.edges import Edges
from panprivacy.universe.ids import Ids
from panprivacy.universe.range import Range
from panprivacy.universe.users import Users
from panprivacy.universe.words import Words

__all__ = ["LARGEST_UNIVERSE", "Edges", "Ids", "Range", "Universe", "Users", "universe_of"]

LARGEST_UNIVERSE = 2**44


class Universe(Protocol):
    """The users there could be, each with a position."""

    @property
    def size(self) -> int:
        """How many there are."""

    def as_batch(self, ids: Any) -> Any:
        """Bring ids as they were given into a form that `batches` can cut by rows."""

    def index(self, user: Any) -> int:
        """The position of one user, or `OutsideUniverse`."""

    def indices(self, chunk: Any, scratch: Scratch) -> Words:
        """The positions of a chunk of users, or `OutsideUniverse`."""

    def inside(self, chunk: Any) -> NDArray[np.bool_]:
        """Of each of a chunk of users, whether it is one of them."""

    def unchecked(self, chunk: Any, scratch: Scratch) -> Words:
        """The same, but users outside may have positions outside, where it is quicker to let the slots find them."""

    def describe(self) -> str:
        """What the universe is, in a few words."""


def universe_of(given: Any) -> Universe:
    """Turn what the user gave, a number or a universe, into a universe."""
    universe = Range(given.__index__()) if hasattr(given, "__index__") else given
    if not isinstance(universe, Range | Users | Edges):
        raise TypeError(f"universe must be a number, pp.Users(...) or pp.Edges(...), got {given!r}")
    if not 1 <= universe.size <= LARGEST_UNIVERSE:
        raise ValueError(f"a universe has 1 to 2**44 users, got {universe.size}")
    return universe

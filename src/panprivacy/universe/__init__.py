"""Universes: who could appear, and the position that each id has among them."""

from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from panprivacy.memory import Scratch
from panprivacy.universe.edges import Edges
from panprivacy.universe.ids import Ids
from panprivacy.universe.range import Range
from panprivacy.universe.users import Users
from panprivacy.universe.words import Words

__all__ = ["LARGEST_UNIVERSE", "Edges", "Ids", "Range", "Universe", "Users", "ungrouped", "universe_of"]

LARGEST_UNIVERSE = 2**44


class Universe(Protocol):
    """The users there could be, each with a position."""

    @property
    def size(self) -> int:
        """How many users there could be."""

    def as_column(self, ids: Any) -> Any:
        """Bring ids as they were given into one column, in a form that `batches` can cut by rows."""

    def index(self, user: Any) -> int:
        """The position of one user, or `OutsideUniverse`."""

    def indices(self, chunk: Any, scratch: Scratch) -> Words:
        """The positions of a chunk of users, or `OutsideUniverse`."""

    def inside(self, chunk: Any) -> NDArray[np.bool_]:
        """Whether each user of a chunk is in the universe."""

    def unchecked(self, chunk: Any, scratch: Scratch) -> Words:
        """`indices`, but a user outside the universe may have a position outside it, which the slots then refuse."""

    def describe(self) -> str:
        """What the universe is, in a few words."""


def universe_of(given: Any) -> Universe:
    """Turn what the user gave, a number or a universe, into a universe."""
    universe = Range(given.__index__()) if hasattr(given, "__index__") else given
    if not isinstance(universe, Range | Users | Edges):
        instead = "; if it holds the ids, pp.Users(it)" if isinstance(given, Iterable) else ""
        raise TypeError(  # the type only: what a column holds are people
            f"universe must be a number, pp.Users(...) or pp.Edges(...), got a {type(given).__name__}{instead}"
        )
    if not 1 <= universe.size <= LARGEST_UNIVERSE:
        raise ValueError(f"a universe has 1 to 2**44 users, got {universe.size}")
    return universe


def ungrouped(universe: Universe, whose: str) -> Universe:
    """Refuse users with groups where nothing is released by group: they would be dropped without a word."""
    if isinstance(universe, Users) and universe.groups is not None:
        raise ValueError(f"{whose} has no groups: list its users without, pp.Users(ids); a Density releases by group")
    return universe

"""Universes: who could appear, and the position that each id has among them."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from panprivacy.checks import is_truth
from panprivacy.errors import InvalidType, InvalidValue, PanPrivacyError
from panprivacy.memory.scratch import Scratch
from panprivacy.universe.columns import Ids
from panprivacy.universe.edges import Edges
from panprivacy.universe.integers import Words
from panprivacy.universe.range import Range, Universe
from panprivacy.universe.users import Users

__all__ = [
    "LARGEST_UNIVERSE",
    "Edges",
    "Ids",
    "Range",
    "Universe",
    "Users",
    "grown",
    "moved",
    "ungrouped",
    "universe_of",
]

LARGEST_UNIVERSE = 2**44


def universe_of(given: Any) -> Universe:
    """Turn what the user gave, a number or a universe, into a universe."""
    universe = Range(given.__index__()) if hasattr(given, "__index__") and not is_truth(given) else given
    if not isinstance(universe, Range | Users | Edges):
        instead = "; if it holds the ids, pp.Users(it)" if isinstance(given, Iterable) else ""
        raise InvalidType(  # the type only: what a column holds are people
            f"universe must be a number, pp.Users(...) or pp.Edges(...), got a {type(given).__name__}{instead}",
            code="universe-type",
        )
    check_size(universe)
    return universe


def check_size(universe: Universe) -> None:
    """Refuse a universe that has too many users, or none."""
    if not 1 <= universe.size <= LARGEST_UNIVERSE:
        raise InvalidValue(f"a universe has 1 to 2**44 users, got {universe.size}", code="universe-size")


def grown(universe: Universe, more: Any) -> Range | Users:
    """The universe with more users: for a range the new number of users, for a list the ids that come to it."""
    if not isinstance(universe, Range | Users):
        raise PanPrivacyError(
            f"{universe.describe()} cannot grow: only a range and a list of users that is loaded can",
            code="cannot-grow",
        )
    larger = universe.grown(more)
    check_size(larger)
    return larger


def moved(smaller: Universe, larger: Universe, start: int, stop: int, scratch: Scratch) -> Words:
    """Where users from `start` up to `stop` of the smaller universe stand in the larger one; all of it is public."""
    if isinstance(smaller, Users):
        return larger.indices(smaller.listed(start, stop), scratch)
    return np.arange(start, stop, dtype=np.uint64)


def ungrouped(universe: Universe, whose: str) -> Universe:
    """Refuse users with groups where nothing is released by group: they would be dropped without a word."""
    if isinstance(universe, Users) and universe.groups is not None:
        raise InvalidValue(
            f"{whose} has no groups: list its users without, pp.Users(ids); a Density releases by group",
            code="groups-not-supported",
        )
    return universe

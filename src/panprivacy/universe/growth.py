"""Universes that grow: the larger one, and where in it each user of the smaller one stands."""

from typing import Any

import numpy as np

from panprivacy.errors import PanPrivacyError
from panprivacy.memory import Scratch
from panprivacy.universe import Universe, universe_of
from panprivacy.universe.range import Range, first_of
from panprivacy.universe.users import Users
from panprivacy.universe.words import Words


def grown(universe: Universe, more: Any) -> Universe:
    """The universe with more users: for a range the new number of users, for a list the ids that come to it."""
    if isinstance(universe, Range):
        if not hasattr(more, "__index__"):
            raise TypeError(f"the users are 0..{universe.size - 1}: say how many there are to be, as in grow(2000)")
        if more.__index__() < universe.size:
            raise ValueError(f"a universe only grows: it has {universe.size:,} users, and {more} were asked for")
        return universe_of(more)
    if isinstance(universe, Users):
        return universe_of(universe.grown(more))
    raise PanPrivacyError(f"{universe.describe()} cannot grow: only a range and a list of users that is loaded can")


def moved(smaller: Universe, larger: Universe, start: int, stop: int, scratch: Scratch) -> Words:
    """The positions in the larger universe of the users at `start` up to `stop` of the smaller one; all are public."""
    if isinstance(smaller, Users):
        return larger.indices(smaller.listed(start, stop), scratch)
    return np.arange(start, stop, dtype=np.uint64)


def check_holds(larger: Users, smaller: Users) -> None:
    """Refuse a list that lacks users of the one that it is to take the place of."""
    ids = smaller.listed(0, smaller.size)
    inside = larger.inside(ids)
    lacking = int((~inside).sum())
    if lacking:
        named = repr(first_of(ids, ~inside)[0])
        more = f" and {lacking - 1:,} more" if lacking > 1 else ""
        raise PanPrivacyError(
            f"a list only grows: user {named}{more} of the old list {'are' if more else 'is'} missing"
        )

"""Slots of a table of counters: which of them users own, and how far each counts."""

from dataclasses import dataclass, field
from typing import TypeAlias

from panprivacy.slots.asked import Asked
from panprivacy.slots.places import Every, Slots


@dataclass(frozen=True)
class Counted(Every):
    """Every user of a universe, or of one block of it, has a counter and a bit."""

    up_to: int = field(kw_only=True)
    """How many places a counter has: how often a user can be seen to have appeared."""


@dataclass(frozen=True)
class CountedAsked(Asked):
    """Every user who has a place has a counter and a bit, and is asked about one category."""

    up_to: int = field(kw_only=True)
    """How many places a counter has: how often a user can be seen to have appeared in that category."""


CountedSlots: TypeAlias = Counted | CountedAsked


def with_counters(slots: Slots | Asked, up_to: int) -> CountedSlots:
    """These slots, with a counter for each."""
    if isinstance(slots, Asked):
        return CountedAsked(slots.places, slots.categories, up_to=up_to)
    if isinstance(slots, Every):
        return Counted(slots.universe, slots.first, slots.size, slots.groups, up_to=up_to)
    raise ValueError("a sample of the users has no counters")

"""Slots of a table of counters: which of them users own, and how far each counts."""

from dataclasses import dataclass, field

from panprivacy.slots.places import Every


@dataclass(frozen=True)
class Counted(Every):
    """Every user of a universe, or of one block of it, has a counter and a bit."""

    up_to: int = field(kw_only=True)
    """How many places a counter has: how often a user can be seen to have appeared."""

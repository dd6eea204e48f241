"""Slots: which bit, if any, does the user at a position own?"""

from typing import Any, Protocol

from panprivacy.memory import Scratch
from panprivacy.slots.asked import Asked
from panprivacy.slots.places import Every, Sampled, Slots
from panprivacy.slots.ranges import Ranges
from panprivacy.universe.words import Words

__all__ = ["Asked", "Every", "Ranges", "Sampled", "SlotMap", "Slots"]


class SlotMap(Protocol):
    """Which bit a position owns."""

    @property
    def size(self) -> int:
        """How many bits there are."""

    def slot(self, index: int) -> int:
        """The bit of one position; -1 if it has none."""

    def select(self, indices: Words, scratch: Scratch) -> Any:
        """The bits of those positions that have one, in order; `IndexError` for a position outside the universe."""

"""Slots: which bit, if any, does the user at a position own?"""

from typing import Any, Protocol

from panprivacy.memory.scratch import Scratch
from panprivacy.slots.users import AllUsers, OneCategoryPerUser, Ranges, Slots, UserSample
from panprivacy.universe.integers import Lookup, Words

__all__ = ["AllUsers", "OneCategoryPerUser", "Ranges", "SlotMap", "Slots", "UserSample"]


class SlotMap(Protocol):
    """Which bit a position owns."""

    @property
    def size(self) -> int:
        """How many bits there are."""

    @property
    def lookup(self) -> Lookup:
        """How long it takes to find the bit of a position."""

    def slot(self, index: int) -> int:
        """The bit of one position; -1 if it has none."""

    def select(self, indices: Words, scratch: Scratch) -> Any:
        """The bits of those positions that have one, in order; `IndexError` for a position outside the universe."""

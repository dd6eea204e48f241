"""Where a hash stands in a list of hashes: an index by their first bits."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panprivacy.memory.scratch import Scratch, mask
from panprivacy.universe import lookup_kernels as kernels
from panprivacy.universe.integers import Words

NOT_THERE = 2**64 - 1
"""Stands for the position of a hash, a user or an edge that is not in the universe."""


class LookedUp(ABC):
    """A universe that has to look every user up: that is the check, too."""

    KERNELS = ("universe.lookup_kernels",)

    @abstractmethod
    def places(self, chunk: Any, scratch: Scratch) -> tuple[Words, int]:
        """The position of each of a chunk of users, `NOT_THERE` for one who is not in it, and how many are not."""

    @abstractmethod
    def indices(self, chunk: Any, scratch: Scratch) -> Words:
        """The positions of a chunk of users, or `OutsideUniverse`."""

    def unchecked(self, chunk: Any, scratch: Scratch) -> Words:
        """The positions of a chunk of users, or `OutsideUniverse`."""
        return self.indices(chunk, scratch)

    def inside(self, chunk: Any) -> NDArray[np.bool_]:
        """Whether each user of a chunk is in the universe."""
        with Scratch() as scratch:
            places = self.places(chunk, scratch)[0]
            return np.not_equal(places, NOT_THERE, out=mask(len(places)))


class HashIndex:
    """The positions of 64-bit hashes that are all different, found through their first bits: one or two steps each.

    A second hash of the same ids, if given, must agree as well: together they are as good as the ids themselves.

    >>> hashes = HashIndex(np.array([70, 5, 2**63], dtype=np.uint64))
    >>> with Scratch() as scratch:
    ...     found, missing = hashes.find(np.array([5, 2**63], dtype=np.uint64), None, scratch)
    ...     found.tolist(), missing, hashes.find_one(70), hashes.find_one(6)
    ([1, 2], 0, 0, -1)
    """

    def __init__(self, hashes: Words, checks: Words | None = None) -> None:
        order, bits = np.argsort(hashes), len(hashes).bit_length()
        firsts = np.arange(2**bits, dtype=np.uint64) << np.uint64(64 - bits)
        starts = np.searchsorted(hashes, firsts, sorter=order)
        self._starts = np.append(starts, len(hashes)).astype(np.uint32 if len(hashes) < 2**32 else np.uint64)
        # The first bits of a hash say where to look, so an entry needs only the others, and has room for the position.
        places = hashes << np.uint64(bits) | np.arange(len(hashes), dtype=np.uint64)
        self._entries = np.column_stack([places, hashes if checks is None else checks])[order]
        self._bits = bits

    def find(self, hashes: Words, checks: Words | None, scratch: Scratch) -> tuple[Words, int]:
        """The position of each hash, `NOT_THERE` if it is not in the list, and how many are not."""
        found: Words = scratch.empty("found", len(hashes), np.uint64)
        bits, second = np.uint64(self._bits), hashes if checks is None else checks
        return found, int(kernels.find(hashes, second, bits, self._starts, self._entries, found))

    def find_one(self, wanted: int, check: int | None = None) -> int:
        """The position of one hash, -1 if it is not there."""
        first, rest = divmod(wanted, 2 ** (64 - self._bits))
        for place in range(self._starts.item(first), self._starts.item(first + 1)):
            entry, checked = self._entries[place].tolist()
            found, position = divmod(entry, 2**self._bits)
            if found == rest and checked == (wanted if check is None else check):
                return int(position)
        return -1

"""Where a 64-bit hash stands in a list of them: a directory by first bits."""

import numpy as np
from numpy.typing import NDArray

from panprivacy.slots.places import Indices


class Directory:
    """The positions of hashes that are all different, found through their first bits: one or two steps each.

    >>> directory = Directory(np.array([70, 5, 2**63], dtype=np.uint64))
    >>> directory.find(np.array([5, 6, 2**63], dtype=np.uint64)).tolist(), directory.find_one(70)
    ([1, -1, 2], 0)
    """

    def __init__(self, hashes: Indices) -> None:
        order = np.argsort(hashes)
        bits = max(len(hashes) - 1, 1).bit_length()
        self._shift = 64 - bits
        self._hashes = hashes[order]
        self._positions = order.astype(np.uint32 if len(hashes) < 2**32 else np.uint64)
        firsts = np.arange(2**bits, dtype=np.uint64) << np.uint64(self._shift)
        self._starts = np.append(np.searchsorted(self._hashes, firsts), len(hashes)).astype(self._positions.dtype)

    def find(self, hashes: Indices) -> NDArray[np.int64]:
        """The position of each hash, -1 for one that is not there."""
        from panprivacy.kernels import find

        found = np.empty(len(hashes), dtype=np.int64)
        find(hashes, np.uint64(self._shift), self._starts, self._hashes, self._positions, found)
        return found

    def find_one(self, wanted: int) -> int:
        """The position of one hash, -1 if it is not there."""
        first = wanted >> self._shift
        for place in range(self._starts.item(first), self._starts.item(first + 1)):
            if self._hashes.item(place) == wanted:
                return int(self._positions[place])
        return -1

"""A long batch that is gathered first and drawn afterwards, so that several threads can work on it.

The order of the events of a batch, and how often a user is in it, say nothing: a bit has the law of one coin, drawn at
the last of them. So every thread marks the users that it meets, in a table of marks of its own, and then each user who
is marked gets one coin. No two threads touch one word, and the bits themselves are changed in one go at the end: if
anything is wrong with the batch, nothing has happened yet.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from panprivacy.lazily import loaded
from panprivacy.memory import Scratch
from panprivacy.privacy.coins import CHUNK, Coins
from panprivacy.threads import each

Words = NDArray[np.uint64]

_FAR = 2**22  # bytes from which on most words are in no cache that is near


class Gathered:
    """Who came in a batch: marks of users, made by several threads, and a coin for each of them.

    Everything lies in the scratch of whoever gathers, who wipes it.
    """

    def __init__(self, size: int, scratch: Scratch) -> None:
        self._size, self._scratch = size, scratch
        self._free: list[Words] = []  # tables of marks that no thread is writing to at present
        self._kernels = loaded("panprivacy.table.kernels")

    def add(self, slots: NDArray[np.unsignedinteger], scratch: Scratch) -> None:  # noqa: ARG002 - as `Parted.add`
        """Mark these slots; `IndexError` if one is outside the table."""
        try:
            marks = self._free.pop()
        except IndexError:
            marks = self._scratch.own(np.zeros(-(-self._size // 64), dtype=np.uint64))
        touch = self._kernels.touch if marks.nbytes < _FAR else self._kernels.touch_far
        inside = touch(marks, np.uint64(self._size), slots)
        self._free.append(marks)
        if not inside:
            raise IndexError(f"a slot is outside this table of {self._size}")

    def drawn(self, threshold: int, coins: Coins, threads: int) -> tuple[Words, Words]:
        """The marks of all threads together, and a coin for every slot that is marked, 0 for the others."""
        if not self._free:
            self.add(np.empty(0, dtype=np.uint64), self._scratch)
        marks, *others = self._free
        flips: Words = self._scratch.empty("flips of all", len(marks), np.uint64)

        def draw(start: int, scratch: Scratch) -> None:
            n = min(CHUNK, self._size - start)
            part = slice(start // 64, -(-(start + n) // 64))
            for other in others:
                np.bitwise_or(marks[part], other[part], out=marks[part])
            octets: Any = scratch.empty("flips", -(-n // 64) * 64, np.uint8)
            octets[n:] = 0
            coins.draw(threshold, octets[:n])
            packed = scratch.own(np.packbits(octets, bitorder="little")).view("<u8")
            np.bitwise_and(packed, marks[part], out=flips[part])

        starts = range(0, self._size, CHUNK)
        each(iter(starts), draw, min(threads, len(starts)))
        return marks, flips

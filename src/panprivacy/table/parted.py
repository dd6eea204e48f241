"""Events of a long batch, parted by the stretch of the table that they change, so that several threads can count them.

First every thread looks up some of the users, and deals their slots to the stretches; then every thread takes a stretch
and draws for all the slots in it. So no two threads touch one word, and each has a smaller table to look into.
"""

from collections.abc import Callable, Iterator
from itertools import count, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panprivacy.lazily import loaded
from panprivacy.memory import Scratch
from panprivacy.threads import each

Slots = NDArray[np.unsignedinteger]

ROUND = 16
"""Chunks whose slots are kept at a time."""

PAYS = 2**23
"""Bytes of a table from which on dealing pays by itself: a word is far, and fetching it takes longer than to deal."""

_WIDEST = 2**32  # slots of a stretch: their numbers are kept in 32 bits


class Parted:
    """The slots of some chunks, dealt to stretches of a table; each slot is counted from the first of its stretch.

    Stretches are as many as there are threads, rounded up to a power of two. A stretch begins with a word, however many
    bits a slot has. Everything lies in the scratch of whoever parts, who wipes it.
    """

    def __init__(self, size: int, threads: int, scratch: Scratch) -> None:
        self._halvings = max((threads - 1).bit_length(), (size // _WIDEST).bit_length())
        self._step = -(-size // (64 << self._halvings)) * 64
        self._size, self._scratch = size, scratch
        self._dealt: list[list[Slots]] = []
        self._numbers: Iterator[int] = count()

    @property
    def stretches(self) -> list[tuple[int, int]]:
        """The first slot of each stretch, and the first that is none of it."""
        bounds = (min(i * self._step, self._size) for i in range((1 << self._halvings) + 1))
        return [stretch for stretch in pairwise(bounds) if stretch[0] < stretch[1]]

    def add(self, slots: Slots, scratch: Scratch) -> None:
        """Deal these slots; `IndexError` if one is outside the table."""
        halve = loaded("panprivacy.table.kernels").halve
        dtype = (
            np.uint32 if self._halvings else np.uint64
        )  # slots outside a table are seen where it is halved, or drawn
        kept = self._scratch.empty(f"dealt {next(self._numbers)}", len(slots), dtype)
        parts, limit = [slots], self._size
        if not self._halvings:
            np.copyto(kept, slots)
            parts = [kept]
        for level in reversed(range(self._halvings)):
            halves = kept if level == 0 else scratch.empty(f"halves {level}", len(slots), np.uint32)
            middle, finer, start = self._step << level, list[Slots](), 0
            for part in parts:
                into = halves[start : start + len(part)]
                low = halve(part, limit, middle, into)
                if low < 0:
                    raise IndexError(f"a slot is outside this table of {self._size}")
                finer += [into[:low], into[low:]]
                start += len(part)
            parts, limit = finer, middle
        self._dealt.append(parts)

    def count_each(self, work: Callable[[int, int, Slots, Scratch], Any], threads: int) -> None:
        """Do some work on the slots of every stretch, and forget them."""

        def all_of(stretch: tuple[int, tuple[int, int]], scratch: Scratch) -> None:
            number, (first, stop) = stretch
            for parts in self._dealt:
                work(first, stop, parts[number], scratch)

        each(iter(enumerate(self.stretches)), all_of, threads)
        self._dealt.clear()
        self._numbers = count()

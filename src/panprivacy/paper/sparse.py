"""The table as a set: the slots whose bit is 1, instead of a bit for each slot."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from panprivacy import memory
from panprivacy.lazily import loaded
from panprivacy.memory import Scratch
from panprivacy.privacy.coins import Coins
from panprivacy.privacy.pairs import Pair
from panprivacy.table import Table
from panprivacy.table.bits import Restored, drawn_words

_NOBODY = 2**64 - 1
"""Fills the places of the list that no slot takes."""


@dataclass
class SparseTable:
    """The same bits as a `Table` of that size, kept as the ascending list of the slots whose bit is 1.

    The list has room for every slot, so its length tells nothing. The list is all that is kept: a hash table of the
    slots would also show in which order they came. A change spreads the list out into bits in scratch, sets those,
    and writes the list anew over the old one.

    Examples
    --------
    >>> table = SparseTable.empty(4)
    >>> table.redraw_one(3, True); table.redraw_one(1, True); table.redraw_one(3, False)
    >>> table.slots(), table.ones(), len(table.words)
    ([1], 1, 4)

    Notes
    -----
    The paper's M_DS, at a level that never changes. A slot takes 64 bits where `Table` takes one.
    """

    THREADED: ClassVar[bool] = False

    size: int
    words: NDArray[np.uint64]

    def __post_init__(self) -> None:
        loaded("panprivacy.paper.sparse_kernels")  # now: loaded at the first event, it would tell that there was one

    @property
    def nbytes(self) -> int:
        """Bytes that the words take."""
        return self.words.nbytes

    @classmethod
    def drawn(cls, size: int, pair: Pair, coins: Coins) -> Self:
        """A table in which nobody has appeared: every bit a flip of p0."""
        table = cls.empty(size)
        with Scratch() as scratch:
            bits = table._spread(scratch)
            for place, flips in drawn_words(size, pair.absent, coins):
                bits[place] = flips
            table._list(bits)
        return table

    @classmethod
    def empty(cls, size: int) -> Self:
        """A table of zeros."""
        words = memory.bits(size)
        words.fill(_NOBODY)
        return cls(size, words)

    @classmethod
    def from_words(cls, size: int, words: NDArray[np.uint64]) -> Self:
        """A table that was saved; of older states, the list ends with its last slot."""
        table = cls.empty(size)
        if len(words) > size or not loaded("panprivacy.paper.sparse_kernels").is_list(words, size):
            raise ValueError(f"these words are not an ascending list of slots below {size}")
        table.words[: len(words)] = words
        memory.wipe(words)
        return table

    def redraw_one(self, slot: int, flip: bool) -> None:
        """Set one bit to a flip."""
        with Scratch() as scratch:
            slots, flips = scratch.empty("slots", 1, np.uint64), scratch.empty("flips", 1, np.uint8)
            slots[0], flips[0] = slot, flip
            self._set(slots, flips)

    def redraw(self, slots: NDArray[np.unsignedinteger], threshold: int, coins: Coins, scratch: Scratch) -> None:
        """Redraw the bits of these slots, each with a coin of its own; `IndexError` if one is outside the table."""
        flips = scratch.empty("flips", len(slots), np.uint8)
        coins.draw(threshold, flips)
        self._set(slots, flips)

    def _set(self, slots: NDArray[np.unsignedinteger], flips: NDArray[np.uint8]) -> None:
        with Scratch() as scratch:
            bits = self._spread(scratch)
            if not loaded("panprivacy.table.kernels").redraw(bits, np.uint64(self.size), slots, flips):
                raise IndexError(f"a slot is outside this table of {self.size}")
            self._list(bits)

    def flip_each(self, threshold: int, coins: Coins) -> None:
        """Flip every bit with the same probability: randomised response on the whole table."""
        with Scratch() as scratch:
            bits = self._spread(scratch)
            for place, flips in drawn_words(self.size, threshold, coins):
                bits[place] ^= flips
            self._list(bits)

    def restored_on_error(self) -> AbstractContextManager[None]:
        """Put the list back as it was if anything goes wrong."""
        return Restored(self.words)

    def count_ones(self, edges: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
        """Write how many bits are 1 between each edge and the next one; the caller wipes the counts."""
        loaded("panprivacy.paper.sparse_kernels").count_ones(self.words, edges, counts)

    def ones(self) -> int:
        """How many bits are 1."""
        return int(np.searchsorted(self.words, self.size))

    def slots(self) -> list[int]:
        """A copy of the list, for experiments: it is not wiped."""
        slots: list[int] = self.words[: self.ones()].tolist()
        return slots

    def in_use(self) -> None:
        """Do nothing; what stands in the place of a table that is gone refuses this like everything else."""

    def wipe(self) -> None:
        """Overwrite the list with zeros: nobody may use this table any more."""
        memory.wipe(self.words)

    def _spread(self, scratch: Scratch) -> NDArray[np.uint64]:
        """The list as bits."""
        bits: NDArray[np.uint64] = scratch.empty("bits", Table.words_for(self.size), np.uint64)
        loaded("panprivacy.paper.sparse_kernels").spread(self.words, np.uint64(self.size), bits)
        return bits

    def _list(self, bits: NDArray[np.uint64]) -> None:
        """Write the list anew."""
        loaded("panprivacy.paper.sparse_kernels").gather(bits, self.words)

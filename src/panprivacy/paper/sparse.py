"""The table as a set: the slots whose bit is 1, instead of a bit for each slot."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from panprivacy.coins import CHUNK, Coins, Flips
from panprivacy.pairs import Pair
from panprivacy.table import Table


@dataclass
class SparseTable(Table):
    """The same bits as a `Table` of that size, kept as the ascending list of the slots whose bit is 1.

    The list is all that is kept: a hash table of the slots would also show in which order they came. Replaced lists
    are wiped, since an old list beside the new one would be a second reading of the state.

    Examples
    --------
    >>> from panprivacy.coins import system
    >>> table = SparseTable.empty(100)
    >>> table.redraw_one(7, True); table.redraw_one(3, True); table.redraw_one(7, False)
    >>> table.words.tolist(), table.ones()
    ([3], 1)

    Notes
    -----
    The paper's M_DS, at a level that never changes. A slot takes 64 bits where `Table` takes one for every slot, so
    this saves memory only if fewer than one bit in 64 is 1, and with the paper's pairs nearly half of them are.
    """

    def __post_init__(self) -> None:
        pass  # no view of the words, as `Table` has: they are replaced, and it would keep the old ones

    @classmethod
    def drawn(cls, size: int, pair: Pair, coins: Coins) -> "SparseTable":
        return cls(size, _ones_drawn(size, pair.absent, coins))

    @classmethod
    def empty(cls, size: int) -> "SparseTable":
        return cls(size, np.empty(0, dtype=np.uint64))

    @classmethod
    def from_words(cls, size: int, words: NDArray[np.uint64]) -> "SparseTable":
        if (words[1:] <= words[:-1]).any() or (words >= size).any():
            raise ValueError(f"these words are not an ascending list of slots below {size}")
        return cls(size, words)

    def redraw_one(self, slot: int, flip: bool) -> None:
        self._set(np.array([slot]), np.array([flip]))

    def redraw(self, slots: NDArray[np.integer], threshold: int, coins: Coins) -> None:
        self._set(slots, coins.below(threshold, len(slots)))

    def flip_each(self, threshold: int, coins: Coins) -> None:
        self._replace(np.setxor1d(self.words, _ones_drawn(self.size, threshold, coins), assume_unique=True))

    def ones(self) -> int:
        return len(self.words)

    def bits(self, start: int, stop: int) -> NDArray[np.bool_]:
        return np.isin(np.arange(start, stop, dtype=np.uint64), self.words)

    @contextmanager
    def restored_on_error(self) -> Iterator[None]:
        before = self.words.copy()
        try:
            yield
        except BaseException:
            self._replace(before.copy())
            raise
        finally:
            before.fill(0)

    def _set(self, slots: NDArray[np.integer], flips: Flips) -> None:
        """Set the bit of each slot to its flip, the last one where a slot stands several times."""
        touched, last = np.unique(slots[::-1].astype(np.uint64), return_index=True)
        if len(touched) and touched[-1] >= self.size:
            raise self._no_slot()
        kept = self.words[~np.isin(self.words, touched, assume_unique=True)]
        self._replace(np.sort(np.concatenate([kept, touched[flips[::-1][last]]])))

    def _replace(self, words: NDArray[np.uint64]) -> None:
        before, self.words = self.words, words
        before.fill(0)


def _ones_drawn(size: int, threshold: int, coins: Coins) -> NDArray[np.uint64]:
    """The slots whose flip is true, of one flip for each slot."""
    ones = [start + np.flatnonzero(coins.below(threshold, min(CHUNK, size - start))) for start in range(0, size, CHUNK)]
    return np.concatenate(ones).astype(np.uint64)

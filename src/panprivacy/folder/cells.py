"""What a slot of a folder has: a bit, or a counter and a bit. All that differs between them is here."""

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from panprivacy.folder.marks import Marked, Marks, Tallied, Touched
from panprivacy.memory import Scratch
from panprivacy.privacy.coins import Coins
from panprivacy.privacy.pairs import Pair
from panprivacy.table import Counters, Table

AnyTable: TypeAlias = Any
"""A `Table` or a `Counters`; which of them it is, its cells know."""


class Cells(Protocol):
    """Makes the tables and the marks of one kind of slots."""

    repeatable: ClassVar[bool]
    """Whether an event that is fed twice is as good as fed once."""

    def words_for(self, size: int) -> int:
        """How many words so many slots take."""

    def empty(self, size: int) -> AnyTable:
        """A table of zeros, to be filled from elsewhere."""

    def table(self, size: int, words: NDArray[np.uint64]) -> AnyTable:
        """A table that was saved; `ValueError` if these words are none."""

    def marks(self, size: int) -> Marks:
        """Nothing touched yet."""

    def redraw(self, table: AnyTable, touched: Touched, pair: Pair, coins: Coins, *, remove: bool) -> None:
        """What events of these slots do to a table."""


@dataclass(frozen=True)
class OneBit:
    """A bit, which every event redraws."""

    repeatable: ClassVar[bool] = True

    def words_for(self, size: int) -> int:
        """How many words so many bits take."""
        return Table.words_for(size)

    def empty(self, size: int) -> Table:
        """A table of zeros."""
        return Table.empty(size)

    def table(self, size: int, words: NDArray[np.uint64]) -> Table:
        """A table that was saved."""
        return Table.from_words(size, words)

    def marks(self, size: int) -> Marked:
        """Nothing touched yet."""
        return Marked(size)

    def redraw(self, table: Table, touched: Touched, pair: Pair, coins: Coins, *, remove: bool) -> None:
        """Redraw the touched bits."""
        with Scratch() as scratch:
            table.redraw(touched.slots, pair.absent if remove else pair.present, coins, scratch)


@dataclass(frozen=True)
class Counter:
    """A counter and a bit, which is redrawn where the counter wraps."""

    up_to: int

    repeatable: ClassVar[bool] = False

    def words_for(self, size: int) -> int:
        """How many words so many counters take."""
        return Counters.words_for(size, self.up_to)

    def empty(self, size: int) -> Counters:
        """A table of zeros."""
        return Counters.empty(size, self.up_to)

    def table(self, size: int, words: NDArray[np.uint64]) -> Counters:
        """A table that was saved."""
        return Counters.from_words(size, words, self.up_to)

    def marks(self, size: int) -> Tallied:
        """Nothing touched yet."""
        return Tallied(size, self.up_to)

    def redraw(self, table: Counters, touched: Touched, pair: Pair, coins: Coins, *, remove: bool) -> None:
        """Move every counter so often as it is touched."""
        assert touched.times is not None
        threshold = pair.absent if remove else pair.present
        with Scratch() as scratch:
            table.redraw_often(touched.slots, touched.times, threshold, coins, scratch, back=remove)


def cells_of(slots: Any) -> Cells:
    """What the slots of an estimator have."""
    up_to = getattr(slots, "up_to", None)
    return OneBit() if up_to is None else Counter(up_to)

"""The slots that a batch touches and, for counters, how often: marked in memory that is wiped.

Marks are not protected: they show which users are in a batch. They live as long as a batch does. To be sent to another
process they are packed, slot by slot if these are few, and else with a place for every slot. A slot of a folder is a
bit, or a counter and a bit: `Cells` is all that differs between the two.
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from panprivacy.errors import CorruptState
from panprivacy.folder import kernels
from panprivacy.memory.scratch import Scratch, bit_pages, wipe
from panprivacy.privacy.coins import Coins
from panprivacy.privacy.pairs import Pair
from panprivacy.table import Counters, Table
from panprivacy.table import kernels as table_kernels
from panprivacy.table.bits import Restored

_LISTED, _EACH = 0, 1  # how marks are packed
_LARGEST_LISTED = 2**32  # slots beyond have no room in a list

AnyTable: TypeAlias = Any
"""A `Table` or a `Counters`; which of them it is, its cells know."""


class Touched(NamedTuple):
    """Some slots, and how often each is touched; None if that makes no difference."""

    slots: NDArray[np.uint64]
    times: NDArray[np.uint16] | None


class Marks(Protocol):
    """What slots are marked in."""

    def add(self, slots: NDArray[np.unsignedinteger]) -> None:
        """Mark these slots; `IndexError` if one is outside."""

    def between(self, first: int, end: int, scratch: Scratch) -> Touched:
        """The marked slots from `first` up to `end`, counted from `first`."""

    def packed(self, first: int, end: int, head: bytes, scratch: Scratch) -> NDArray[np.uint8]:
        """The same as bytes, behind some that come first."""

    def add_packed(self, octets: NDArray[np.uint8]) -> None:
        """Mark what was packed elsewhere, and covers as many slots as these."""

    def restored_on_error(self) -> AbstractContextManager[None]:
        """Put the marks back as they were if anything goes wrong."""

    def wipe(self) -> None:
        """Forget everything; these can then be used again."""


class Marked:
    """A bit a slot: it is touched or not."""

    def __init__(self, size: int) -> None:
        self._table = Table.empty(size)

    def add(self, slots: NDArray[np.unsignedinteger]) -> None:
        """Mark these slots."""
        if not table_kernels.touch(self._table.words, np.uint64(self._table.size), slots):
            raise IndexError(f"a slot is outside this table of {self._table.size}")

    def discard(self, slots: NDArray[np.unsignedinteger]) -> None:
        """Take the marks off these slots, which are inside."""
        kernels.untouch(self._table.words, slots)

    def between(self, first: int, end: int, scratch: Scratch) -> Touched:
        """The marked slots from `first` up to `end`, counted from `first`."""
        slots = scratch.empty("touched", self._table.ones(first, end), np.uint64)
        table_kernels.touched_in(self._table.words, first, end, slots)
        return Touched(slots, None)

    def packed(self, first: int, end: int, head: bytes, scratch: Scratch) -> NDArray[np.uint8]:
        """The same as bytes: four for a slot, or a bit for each."""
        listed, each = kernels.SLOT * self._table.ones(first, end), 8 * Table.words_for(end - first)
        if listed < each and end - first < _LARGEST_LISTED:
            octets, marked = _laid_out(head, _LISTED, listed, scratch)
            kernels.pack_slots(self.between(first, end, scratch).slots, marked)
            return octets
        octets, marked = _laid_out(head, _EACH, each, scratch)
        part = self._table.cut(first, end)
        try:
            marked[:] = part.words.view(np.uint8)
        finally:
            part.wipe()
        return octets

    def add_packed(self, octets: NDArray[np.uint8]) -> None:
        """Mark what was packed elsewhere."""
        words, size = self._table.words, self._table.size
        form, marked = octets[:1].tolist(), octets[1:]
        if form == [_LISTED] and len(marked) % kernels.SLOT == 0:
            if kernels.touch_listed(words, size, marked):
                return
        elif form == [_EACH] and len(marked) == words.nbytes:
            np.bitwise_or(words.view(np.uint8), marked, out=words.view(np.uint8))
            if self._table.ones() == self._table.ones(0, len(words) * 64):
                return
        raise CorruptState(f"these are no marks of {size} slots", code="not-marks")

    def restored_on_error(self) -> AbstractContextManager[None]:
        """Put the marks back as they were if anything goes wrong."""
        return self._table.restored_on_error()

    def wipe(self) -> None:
        """Forget everything."""
        self._table.wipe()


class Tallied:
    """A number a slot: how often it is touched, up to what makes a difference to a counter."""

    def __init__(self, size: int, up_to: int) -> None:
        self._words = bit_pages(-(-size // 4))
        self._times = self._words.view(np.uint16)[:size]
        self._up_to = up_to

    def add(self, slots: NDArray[np.unsignedinteger]) -> None:
        """Count every slot once more."""
        if not kernels.tally(self._times, len(self._times), self._up_to, slots):
            raise IndexError(f"a slot is outside this table of {len(self._times)}")

    def between(self, first: int, end: int, scratch: Scratch) -> Touched:
        """The touched slots from `first` up to `end`, counted from `first`, and how often each is."""
        many = kernels.tallied(self._times, first, end)
        slots, times = scratch.empty("touched", many, np.uint64), scratch.empty("times", many, np.uint16)
        kernels.tallied_in(self._times, first, end, slots, times)
        return Touched(slots, times)

    def packed(self, first: int, end: int, head: bytes, scratch: Scratch) -> NDArray[np.uint8]:
        """The same as bytes: six for a slot that is touched, or two for each."""
        listed, each = kernels.SLOT_AND_TIMES * kernels.tallied(self._times, first, end), 2 * (end - first)
        if listed < each and end - first < _LARGEST_LISTED:
            octets, marked = _laid_out(head, _LISTED, listed, scratch)
            kernels.pack_tally(*self.between(first, end, scratch), marked)
            return octets
        octets, marked = _laid_out(head, _EACH, each, scratch)
        marked[:] = self._times[first:end].view(np.uint8)
        return octets

    def add_packed(self, octets: NDArray[np.uint8]) -> None:
        """Add what was packed elsewhere."""
        size = len(self._times)
        form, marked = octets[:1].tolist(), octets[1:]
        if form == [_LISTED] and len(marked) % kernels.SLOT_AND_TIMES == 0:
            if kernels.tally_listed(self._times, size, self._up_to, marked):
                return
        elif form == [_EACH] and len(marked) == 2 * size:
            kernels.tally_each(self._times, self._up_to, marked)
            return
        raise CorruptState(f"these are no marks of {size} slots", code="not-marks")

    def restored_on_error(self) -> AbstractContextManager[None]:
        """Put the marks back as they were if anything goes wrong."""
        return Restored(self._words)

    def wipe(self) -> None:
        """Forget everything."""
        wipe(self._words)


def _laid_out(head: bytes, form: int, size: int, scratch: Scratch) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Room for bytes that come first, for how the marks are packed, and for the marks; and the last part alone."""
    start = np.frombuffer(head + bytes([form]), dtype=np.uint8)
    octets: NDArray[np.uint8] = scratch.own(np.empty(len(start) + size, dtype=np.uint8))
    octets[: len(start)] = start
    return octets, octets[len(start) :]


class Cells(Protocol):
    """Makes the tables and the marks of one kind of slots."""

    repeatable: ClassVar[bool]
    """Whether an event that is fed twice is as good as fed once."""

    def words_for(self, size: int) -> int:
        """The number of words that this number of slots takes."""

    def empty(self, size: int) -> AnyTable:
        """A table of zeros, to be filled from elsewhere."""

    def drawn(self, size: int, pair: Pair, coins: Coins) -> AnyTable:
        """A table of slots of which nobody has appeared."""

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
        """The number of words that this number of bits takes."""
        return Table.words_for(size)

    def empty(self, size: int) -> Table:
        """A table of zeros."""
        return Table.empty(size)

    def drawn(self, size: int, pair: Pair, coins: Coins) -> Table:
        """A table of bits of users who have not appeared."""
        return Table.drawn(size, pair, coins)

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
        """The number of words that this number of counters takes."""
        return Counters.words_for(size, self.up_to)

    def empty(self, size: int) -> Counters:
        """A table of zeros."""
        return Counters.empty(size, self.up_to)

    def drawn(self, size: int, pair: Pair, coins: Coins) -> Counters:
        """A table of counters of users who have not appeared."""
        return Counters.drawn(size, pair, coins, self.up_to)

    def table(self, size: int, words: NDArray[np.uint64]) -> Counters:
        """A table that was saved."""
        return Counters.from_words(size, words, self.up_to)

    def marks(self, size: int) -> Tallied:
        """Nothing touched yet."""
        return Tallied(size, self.up_to)

    def redraw(self, table: Counters, touched: Touched, pair: Pair, coins: Coins, *, remove: bool) -> None:
        """Move every counter as often as it is touched."""
        assert touched.times is not None
        threshold = pair.absent if remove else pair.present
        with Scratch() as scratch:
            table.redraw_often(touched.slots, touched.times, threshold, coins, scratch, back=remove)


def cells_of(slots: Any) -> Cells:
    """What the slots of an estimator have."""
    up_to = getattr(slots, "up_to", None)
    return OneBit() if up_to is None else Counter(up_to)

"""Which slots a batch touches, and, where they are counters, how often: marked in memory that is wiped.

Marks are plain: they say who is in a batch. They live as long as a batch does. To be sent to another process they are
packed, slot by slot if these are few, and else with a place for every slot.
"""

from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from panprivacy import memory
from panprivacy.errors import CorruptState
from panprivacy.lazily import loaded
from panprivacy.memory import Scratch
from panprivacy.table import Table
from panprivacy.table.bits import Restored

_LISTED, _EACH = 0, 1  # how marks are packed
_LARGEST_LISTED = 2**32  # slots beyond have no room in a list


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
        if not loaded("panprivacy.table.kernels").touch(self._table.words, np.uint64(self._table.size), slots):
            raise IndexError(f"a slot is outside this table of {self._table.size}")

    def discard(self, slots: NDArray[np.unsignedinteger]) -> None:
        """Take the marks off these slots, which are inside."""
        loaded("panprivacy.folder.kernels").untouch(self._table.words, slots)

    def between(self, first: int, end: int, scratch: Scratch) -> Touched:
        """The marked slots from `first` up to `end`, counted from `first`."""
        slots = scratch.empty("touched", self._table.ones(first, end), np.uint64)
        loaded("panprivacy.table.kernels").touched_in(self._table.words, first, end, slots)
        return Touched(slots, None)

    def packed(self, first: int, end: int, head: bytes, scratch: Scratch) -> NDArray[np.uint8]:
        """The same as bytes: four for a slot, or a bit for each."""
        kernels = loaded("panprivacy.folder.kernels")
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
        kernels, words, size = loaded("panprivacy.folder.kernels"), self._table.words, self._table.size
        form, marked = octets[:1].tolist(), octets[1:]
        if form == [_LISTED] and len(marked) % kernels.SLOT == 0:
            if kernels.touch_listed(words, size, marked):
                return
        elif form == [_EACH] and len(marked) == words.nbytes:
            np.bitwise_or(words.view(np.uint8), marked, out=words.view(np.uint8))
            if self._table.ones() == self._table.ones(0, len(words) * 64):
                return
        raise CorruptState(f"these are no marks of {size} slots")

    def restored_on_error(self) -> AbstractContextManager[None]:
        """Put the marks back as they were if anything goes wrong."""
        return self._table.restored_on_error()

    def wipe(self) -> None:
        """Forget everything."""
        self._table.wipe()


class Tallied:
    """A number a slot: how often it is touched, up to what makes a difference to a counter."""

    def __init__(self, size: int, up_to: int) -> None:
        self._words = memory.bits(-(-size // 4))
        self._times = self._words.view(np.uint16)[:size]
        self._up_to = up_to

    def add(self, slots: NDArray[np.unsignedinteger]) -> None:
        """Count every slot once more."""
        if not loaded("panprivacy.folder.kernels").tally(self._times, len(self._times), self._up_to, slots):
            raise IndexError(f"a slot is outside this table of {len(self._times)}")

    def between(self, first: int, end: int, scratch: Scratch) -> Touched:
        """The touched slots from `first` up to `end`, counted from `first`, and how often each is."""
        kernels = loaded("panprivacy.folder.kernels")
        many = kernels.tallied(self._times, first, end)
        slots, times = scratch.empty("touched", many, np.uint64), scratch.empty("times", many, np.uint16)
        kernels.tallied_in(self._times, first, end, slots, times)
        return Touched(slots, times)

    def packed(self, first: int, end: int, head: bytes, scratch: Scratch) -> NDArray[np.uint8]:
        """The same as bytes: six for a slot that is touched, or two for each."""
        kernels = loaded("panprivacy.folder.kernels")
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
        kernels, size = loaded("panprivacy.folder.kernels"), len(self._times)
        form, marked = octets[:1].tolist(), octets[1:]
        if form == [_LISTED] and len(marked) % kernels.SLOT_AND_TIMES == 0:
            if kernels.tally_listed(self._times, size, self._up_to, marked):
                return
        elif form == [_EACH] and len(marked) == 2 * size:
            kernels.tally_each(self._times, self._up_to, marked)
            return
        raise CorruptState(f"these are no marks of {size} slots")

    def restored_on_error(self) -> AbstractContextManager[None]:
        """Put the marks back as they were if anything goes wrong."""
        return Restored(self._words)

    def wipe(self) -> None:
        """Forget everything."""
        memory.wipe(self._words)


def _laid_out(head: bytes, form: int, size: int, scratch: Scratch) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Room for bytes that come first, for how the marks are packed, and for the marks; and the last part alone."""
    start = np.frombuffer(head + bytes([form]), dtype=np.uint8)
    octets: NDArray[np.uint8] = scratch.own(np.empty(len(start) + size, dtype=np.uint8))
    octets[: len(start)] = start
    return octets, octets[len(start) :]

"""The slots that a batch touches and, for counters, how often: marked in memory that is wiped.

Marks are not protected: they show which users are in a batch. They live as long as a batch does. To be sent to another
process they are packed, slot by slot if these are few, and else with a place for every slot. A slot of a folder is a
bit, or a counter and a bit: `BitsElsewhere` makes what differs between the two.

A process that looked ids up sends packed sets of slots to the process that has the bits. Folders, engines and the
service use one format (docs/how-to/scale.md). A set says which users are in a batch, so its holder wipes it.
"""

import struct
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from hashlib import sha256
from typing import Any, ClassVar, NamedTuple, NoReturn, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from panprivacy.checks import check_whole
from panprivacy.errors import CorruptState, InvalidValue, PanPrivacyError
from panprivacy.folder import kernels
from panprivacy.memory.scratch import Scratch, bit_pages, has_bits_beyond, wipe
from panprivacy.privacy.coins import ONE, Coins
from panprivacy.table import Counters, Table
from panprivacy.table import kernels as table_kernels
from panprivacy.table.bits import Restored

MAGIC, VERSION = b"PPslots\0", 1
LAYOUT = 16
"""Bytes of the fingerprint of a layout: it decides which user owns which slot."""

_HEAD = struct.Struct(f"<8sHBBI{LAYOUT}sQQQ")  # magic, version, form, bytes of times, 0, layout, first, slots, length
_LENGTH = slice(_HEAD.size - 8, _HEAD.size)  # where a head says how many bytes follow it
_CHECK = 8  # bytes of a checksum of all the rest
HEAD = _HEAD.size + _CHECK
MOST_SETS = 1000
"""Packed sets that may stand one behind the other: each takes time, also an empty one."""


class PackedSlots(NamedTuple):
    """A set of slots that was checked: complete, of this version, and unaltered."""

    layout: bytes
    first: int
    """The first slot that it covers."""
    end: int
    """The first slot behind those that it covers."""
    times: int
    """Bytes that tell how often a slot is touched: 0 where that makes no difference."""
    form: int
    marked: NDArray[np.uint8]

    def add_to(self, marks: "Marks", first: int, end: int) -> None:
        """Mark these slots in marks of the slots from `first` up to `end`; nothing, if they do not fit."""
        if self.times != marks.TIMES or not first <= self.first <= self.end <= end:
            raise CorruptState("these slots belong to another counter", code="not-marks")
        marks.add_packed(self.form, self.marked, self.first - first, self.end - first)


def fingerprint(layout: bytes) -> bytes:
    """What a packed set says of the layout that it was gathered for."""
    return sha256(layout).digest()[:LAYOUT]


def check_part(number: Any, parts: int) -> int:
    """The number of a part; `ValueError` if there is none of this number."""
    checked = check_whole(number, "the number of a part")
    if not 0 <= checked < parts:
        raise InvalidValue(f"there are parts 0 to {parts - 1}, and none of number {number}", code="no-such-shard")
    return checked


def part_bounds(number: int, parts: int, size: int) -> tuple[int, int]:
    """Which of `size` slots a part has: from the first up to the second."""
    return number * size // parts, (number + 1) * size // parts


def pack(marks: "Marks", layout: bytes, first: int, end: int, scratch: Scratch) -> NDArray[np.uint8]:
    """The marks of the slots from `first` up to `end`, in scratch."""
    form, octets = marks.packed(first, end, HEAD, scratch)
    head = _HEAD.pack(MAGIC, VERSION, form, marks.TIMES, 0, layout, first, end - first, len(octets) - HEAD)
    octets[: _HEAD.size] = np.frombuffer(head, dtype=np.uint8)
    octets[_HEAD.size : HEAD] = _checksum(octets, scratch)
    return octets


def unpack(octets: NDArray[np.uint8]) -> PackedSlots:
    """Read a packed set where it lies; `CorruptState` if it is something else, cut off or altered."""
    if len(octets) < HEAD or octets[: len(MAGIC)].tobytes() != MAGIC:
        raise CorruptState("this is no packed set of slots, or only its beginning", code="slots-altered")
    _, version, form, times, zero, layout, first, slots, length = _HEAD.unpack(octets[: _HEAD.size].tobytes())
    if version != VERSION:
        raise CorruptState(f"these slots are packed in version {version}; known is {VERSION}", code="slots-version")
    with Scratch() as scratch:
        whole = length == len(octets) - HEAD and zero == 0
        if not whole or not np.array_equal(_checksum(octets, scratch), octets[_HEAD.size : HEAD]):
            raise CorruptState("these slots were altered, or cut off: their checksum is another", code="slots-altered")
    return PackedSlots(layout, first, first + slots, times, form, octets[HEAD:])


def unpack_each(octets: NDArray[np.uint8]) -> list[PackedSlots]:
    """Read packed sets that stand one behind the other; `CorruptState` if one of them cannot be read."""
    sets: list[PackedSlots] = []
    while len(octets) or not sets:
        if len(sets) == MOST_SETS:
            raise CorruptState(f"there are more than {MOST_SETS:,} sets one behind the other", code="too-many-sets")
        end = HEAD + int.from_bytes(octets[_LENGTH].tobytes(), "little")
        sets.append(unpack(octets[:end]))
        octets = octets[end:]
    return sets


def _checksum(octets: NDArray[np.uint8], scratch: Scratch) -> NDArray[np.uint8]:
    check = sha256(octets[: _HEAD.size].data)
    check.update(octets[HEAD:].data)
    digest = scratch.own(np.frombuffer(check.digest(), dtype=np.uint8))  # of few slots, it tells which they are
    return digest[:_CHECK]


# --- marks of a batch -------------------------------------------------------------------------------------------------


LISTED, EACH = 0, 1
"""How marks are packed: slots in rising order, or a place for every slot."""
_MOST_TIMES = 2**15  # twice as many have room in two bytes
_LARGEST_LISTED = 2**32  # slots beyond have no room in a list

AnyTable: TypeAlias = Any
"""A `Table` or a `Counters`; which of them it is, `BitsElsewhere` knows."""


class Touched(NamedTuple):
    """Some slots, and how often each is touched; None if that makes no difference."""

    slots: NDArray[np.uint64]
    times: NDArray[np.uint16] | None


class Taker(Protocol):
    """Takes the slots that events touch."""

    def add(self, slots: NDArray[np.unsignedinteger], *, remove: bool = False) -> None:
        """Take these slots, which are touched by insertions or by deletions; `IndexError` if one is outside."""

    def restored_on_error(self) -> AbstractContextManager[object]:
        """Go back to what was taken before if anything goes wrong."""


class Marks(ABC):
    """What slots are marked in, whatever is to be done with them: a `Taker`."""

    TIMES: ClassVar[int]
    """Bytes that tell how often a slot is touched."""
    words: NDArray[np.uint64]

    @abstractmethod
    def add(self, slots: NDArray[np.unsignedinteger], *, remove: bool = False) -> None:
        """Mark these slots; `IndexError` if one is outside."""

    @abstractmethod
    def insert(self, slots: NDArray[np.unsignedinteger], gone: Self) -> None:
        """Mark these slots by insertions, after all events marked here and in `gone`; `IndexError` as in `add`."""

    @abstractmethod
    def delete(self, slots: NDArray[np.unsignedinteger], gone: Self) -> None:
        """The same by deletions. Those that take no insertion back are marked in `gone`, which is written first."""

    @abstractmethod
    def between(self, first: int, end: int, scratch: Scratch) -> Touched:
        """The marked slots from `first` up to `end`, counted from `first`."""

    @abstractmethod
    def packed(self, first: int, end: int, head: int, scratch: Scratch) -> tuple[int, NDArray[np.uint8]]:
        """The same as bytes, behind room for a head: how they are packed, and all of it."""

    @abstractmethod
    def add_packed(self, form: int, marked: NDArray[np.uint8], first: int, end: int) -> None:
        """Mark what was packed elsewhere, of the slots from `first` up to `end`; nothing if that is malformed."""

    def restored_on_error(self) -> AbstractContextManager[None]:
        """Put the marks back as they were if anything goes wrong."""
        return Restored(self.words)

    def wipe(self) -> None:
        """Forget everything; these can then be used again."""
        wipe(self.words)


class Marked(Marks):
    """A bit a slot: it is touched or not."""

    TIMES: ClassVar[int] = 0

    def __init__(self, size: int) -> None:
        self._table = Table.empty(size)
        self.words = self._table.words

    def add(self, slots: NDArray[np.unsignedinteger], *, remove: bool = False) -> None:  # noqa: ARG002
        if not table_kernels.touch(self.words, np.uint64(self._table.size), slots):
            raise IndexError(f"a slot is outside this table of {self._table.size}")

    def insert(self, slots: NDArray[np.unsignedinteger], gone: Self) -> None:
        """Mark slots by an insertion: of a bit, the last event counts."""
        self.add(slots)
        kernels.untouch(gone.words, slots)

    def delete(self, slots: NDArray[np.unsignedinteger], gone: Self) -> None:
        gone.insert(slots, self)

    def between(self, first: int, end: int, scratch: Scratch) -> Touched:
        slots = scratch.empty("touched", self._table.ones(first, end), np.uint64)
        table_kernels.touched_in(self.words, first, end, slots)
        return Touched(slots, None)

    def packed(self, first: int, end: int, head: int, scratch: Scratch) -> tuple[int, NDArray[np.uint8]]:
        """The same as bytes: four for a slot, or a bit for each."""
        listed, each = kernels.SLOT * self._table.ones(first, end), 8 * Table.words_for(end - first)
        form, octets = _room(listed, each, end - first, head, scratch)
        if form == LISTED:
            kernels.pack_slots(self.between(first, end, scratch).slots, octets[head:])
        else:
            part = self._table.cut(first, end)
            try:
                octets[head:] = part.words.view(np.uint8)
            finally:
                part.wipe()
        return form, octets

    def add_packed(self, form: int, marked: NDArray[np.uint8], first: int, end: int) -> None:
        if form == LISTED and kernels.are_rising(marked, kernels.SLOT, end - first):
            kernels.touch_listed(self.words, first, marked)
        elif form == EACH and len(marked) == 8 * Table.words_for(end - first):
            with Scratch() as scratch:
                bits = _aligned(marked, scratch).view(np.uint64)
                if has_bits_beyond(bits, end - first):
                    raise _no_marks(end - first)
                table_kernels.copy_bits(self.words, first, bits, end - first)
        else:
            raise _no_marks(end - first)


class Tallied(Marks):
    """A number a slot: how often it is touched, up to what makes a difference to a counter."""

    TIMES: ClassVar[int] = kernels.SLOT_AND_TIMES - kernels.SLOT

    def __init__(self, size: int, up_to: int) -> None:
        self.words = bit_pages(-(-size // 4))
        self._times = self.words.view(np.uint16)[:size]
        self._up_to = up_to

    def add(self, slots: NDArray[np.unsignedinteger], *, remove: bool = False) -> None:  # noqa: ARG002
        """Count every slot once more."""
        if not kernels.tally(self._times, len(self._times), self._up_to, slots):
            raise IndexError(f"a slot is outside this table of {len(self._times)}")

    def insert(self, slots: NDArray[np.unsignedinteger], gone: Self) -> None:  # noqa: ARG002 - deletions come first
        self.add(slots)

    def delete(self, slots: NDArray[np.unsignedinteger], gone: Self) -> None:
        """Take an insertion of every slot back, or, where none waits, count a deletion, which comes before them."""
        if not kernels.take_back(self._times, gone._times, len(self._times), self._up_to, slots):
            raise IndexError(f"a slot is outside this table of {len(self._times)}")

    def between(self, first: int, end: int, scratch: Scratch) -> Touched:
        many = kernels.tallied(self._times, first, end)
        slots, times = scratch.empty("touched", many, np.uint64), scratch.empty("times", many, np.uint16)
        kernels.tallied_in(self._times, first, end, slots, times)
        return Touched(slots, times)

    def packed(self, first: int, end: int, head: int, scratch: Scratch) -> tuple[int, NDArray[np.uint8]]:
        """The same as bytes: six for a slot that is touched, or two for each."""
        listed, each = kernels.SLOT_AND_TIMES * kernels.tallied(self._times, first, end), 2 * (end - first)
        form, octets = _room(listed, each, end - first, head, scratch)
        if form == LISTED:
            kernels.pack_tally(*self.between(first, end, scratch), octets[head:])
        else:
            octets[head:] = self._times[first:end].view(np.uint8)
        return form, octets

    def add_packed(self, form: int, marked: NDArray[np.uint8], first: int, end: int) -> None:
        times = self._times[first:end]
        if form == LISTED and kernels.are_rising(marked, kernels.SLOT_AND_TIMES, end - first):
            kernels.tally_listed(times, self._up_to, marked)
        elif form == EACH and len(marked) == 2 * len(times):
            kernels.tally_each(times, self._up_to, marked)
        else:
            raise _no_marks(end - first)


def _room(listed: int, each: int, slots: int, head: int, scratch: Scratch) -> tuple[int, NDArray[np.uint8]]:
    """The shorter one of two forms, by the bytes that they take, and room for it behind a head."""
    form = LISTED if listed < each and slots < _LARGEST_LISTED else EACH
    return form, scratch.own(np.empty(head + (listed if form == LISTED else each), dtype=np.uint8))


def _aligned(octets: NDArray[np.uint8], scratch: Scratch) -> NDArray[np.uint8]:
    """Bytes that can be read as words where they lie, or a copy of them in scratch."""
    return octets if octets.view(np.uint64).flags.aligned else scratch.own(octets.copy())


def _no_marks(slots: int) -> CorruptState:
    return CorruptState(f"these are no marks of {slots} slots", code="not-marks")


class BitsElsewhere:
    """The table of an estimator whose bits are not in this process: it tells a taker which slots events touch.

    It makes the marks, and parts of the table, that fit its slots: of a bit each, or of a counter and a bit each.
    """

    threaded = False

    def __init__(self, slots: Any) -> None:
        self.size: int = slots.size
        self.up_to: int = getattr(slots, "up_to", 1)
        """How far the counters count; 1 if there are none, and every event redraws the bit."""
        self.kind: type[Table | Counters] = Table if self.up_to == 1 else Counters
        self.words: NDArray[np.uint64] = np.zeros(0, dtype=np.uint64)
        self.repeatable: bool = self.kind.repeatable
        self._taker: Taker | None = None

    @property
    def nbytes(self) -> int:
        """Bytes that the bits take, wherever they are."""
        return 8 * self.kind.words_for(self.size, self.up_to)

    def empty(self, size: int) -> AnyTable:
        """A table of zeros, to be filled from elsewhere."""
        return self.kind.empty(size, self.up_to)

    def marks(self, size: int) -> Marks:
        """Nothing touched yet."""
        return Marked(size) if self.up_to == 1 else Tallied(size, self.up_to)

    def marks_of_both(self) -> tuple[Marks, Marks]:
        """Nothing touched yet by insertions, nor by deletions, which may come in any order (`Marks.insert`).

        Those of counters are exact up to 2^16 events of a user.
        """
        if self.up_to == 1:
            return Marked(self.size), Marked(self.size)
        many = _MOST_TIMES // self.up_to * self.up_to
        return Tallied(self.size, many), Tallied(self.size, many)

    @contextmanager
    def fed_to(self, taker: Taker) -> Iterator[None]:
        """Give slots that are redrawn inside the `with` block to this taker, and change nothing else."""
        before, self._taker = self._taker, taker
        try:
            yield
        finally:
            self._taker = before

    def redraw(
        self,
        slots: NDArray[np.unsignedinteger],
        threshold: int,
        coins: Coins,  # noqa: ARG002 - drawn where the bits are changed
        scratch: Scratch,  # noqa: ARG002
        *,
        back: bool = False,
    ) -> None:
        """Note that these slots are touched; `IndexError` if one is outside the table."""
        absent = 2 * threshold < ONE  # the coin of absent users rarely falls on 1
        self._taken().add(slots, remove=back or absent)

    def _taken(self) -> Taker:
        return self._taker or self._refuse()

    def restored_on_error(self) -> AbstractContextManager[object]:
        """Put the marks back as they were if anything goes wrong; nothing is written before the end of a batch."""
        return self._taken().restored_on_error()

    def wipe(self) -> None:
        """Do nothing: no bits are here."""

    def _refuse(self, *_: Any) -> NoReturn:
        raise PanPrivacyError("feed, release and rerandomise a folder through its own verbs", code="use-the-folder")

    redraw_one = count_ones = flip_each = _refuse

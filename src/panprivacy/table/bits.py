"""The table: one bit a slot, packed in 64-bit words, redrawn from the coins of a pair."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from panprivacy.memory.scratch import Scratch, are_bits, bit_pages, has_bits_beyond, wipe
from panprivacy.memory.threads import CHUNK
from panprivacy.privacy.coins import Coins
from panprivacy.privacy.pairs import Pair
from panprivacy.table import kernels

Slots: TypeAlias = NDArray[np.unsignedinteger]

_WITHIN_WORD = 0 if sys.byteorder == "little" else 7  # where the first octet of a word stands
_FAR = 2**20  # bytes; a larger table does not stay in a near cache, which a file that is being decoded uses as well


class Bits(Protocol):
    """The verbs of a table: bits in words that only it uses, dense as in `Table` or otherwise."""

    threaded: bool
    """Whether it can be cut into stretches, which several threads redraw at a time."""
    repeatable: bool
    """Whether an event that is repeated leaves the same law of the bits as one."""
    size: int
    words: NDArray[np.uint64]

    @classmethod
    def drawn(cls, size: int, pair: Pair, coins: Coins) -> Self:
        """Bits that are each a flip of p0: no user has appeared."""

    @classmethod
    def from_words(cls, size: int, words: NDArray[np.uint64]) -> Self:
        """A table that was saved."""

    @property
    def nbytes(self) -> int:
        """Bytes that the bits take, wherever they are."""
        return self.words.nbytes

    def redraw_one(self, slot: int, flip: bool, back: bool = False) -> None:
        """Set one bit to a flip; `back` says that an event is taken back, which only counters have to know."""

    def redraw(self, slots: Slots, threshold: int, coins: Coins, scratch: Scratch, *, back: bool = False) -> None:
        """Redraw the bits of these slots, each with a coin of its own; `IndexError` if one is outside the table."""

    def redraw_often(
        self,
        slots: Slots,
        times: Any,  # noqa: ARG002 - for counters
        threshold: int,
        coins: Coins,
        scratch: Scratch,
        *,
        back: bool = False,
    ) -> None:
        """`redraw` of slots that are touched as often as `times` says each: of a bit, the last event counts."""
        self.redraw(slots, threshold, coins, scratch, back=back)

    def flip_each(self, threshold: int, coins: Coins) -> None:
        """Flip every bit with the same probability."""

    def restored_on_error(self) -> AbstractContextManager[None]:
        """Put the bits back as they were if anything goes wrong."""
        return Restored(self.words)

    def count_ones(self, edges: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
        """Write how many bits are 1 between each edge and the next one; the caller wipes the counts."""

    def wipe(self) -> None:
        """Overwrite all words with zeros. The table must not be used after this."""
        wipe(self.words)


@dataclass
class Fields(Bits):
    """Fields of one width, one after the other in words that are in memory of their own (`memory.scratch.bit_pages`).

    A field is a bit in its lowest place, and a counter below `up_to`: none, if that is 1. It may begin in one word and
    end in the next. Beyond the last field the bits are zero.
    """

    threaded = True

    size: int
    words: NDArray[np.uint64]
    up_to: int = 1

    @property
    def width(self) -> int:
        """Bits of a field."""
        return width_of(self.up_to)

    @classmethod
    def empty(cls, size: int, up_to: int = 1) -> Self:
        """A table of zeros, to be filled from elsewhere."""
        return cls(size, bit_pages(cls.words_for(size, up_to)), up_to)

    @staticmethod
    def words_for(size: int, up_to: int = 1) -> int:
        """The number of words that the fields of this number of slots take."""
        return -(-size * width_of(up_to) // 64)

    @classmethod
    def from_words(cls, size: int, words: NDArray[np.uint64], up_to: int = 1) -> Self:
        """A table that was saved; words that are not in memory of their own yet move there, and are wiped."""
        if len(words) != cls.words_for(size, up_to) or has_bits_beyond(words, size * width_of(up_to)):
            raise ValueError(f"these words do not hold {size} {f'counters up to {up_to}' if up_to > 1 else 'bits'}")
        table = cls(size, words, up_to)
        table.check()
        if are_bits(words):
            return table
        moved = cls.empty(size, up_to)
        moved.words[:] = words
        wipe(words)
        return moved

    def check(self) -> None:
        """Refuse counters that are beyond the last place."""

    def stretch(self, first: int, stop: int) -> Self:
        """Some slots, the first a multiple of 64, as a table of their own that has the same words."""
        words = self.words[first // 64 * self.width : self.words_for(stop, self.up_to)]
        return type(self)(stop - first, words, self.up_to)

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """The fields of several tables, one after the other."""
        table, at = cls.empty(sum(part.size for part in parts), parts[0].up_to), 0
        for part in parts:
            table.put(part, at)
            at += part.size
        return table

    def put(self, part: Self, at: int) -> None:
        """Write the fields of another table over zeros, from a slot on."""
        kernels.copy_bits(self.words, at * self.width, part.words, part.size * part.width)

    def cut(self, start: int, stop: int) -> Self:
        """A copy of some fields in a table of their own, which the caller wipes."""
        part = self.empty(stop - start, self.up_to)
        kernels.cut_bits(self.words, start * self.width, part.words, part.size * part.width)
        return part


def width_of(up_to: int) -> int:
    """Bits of a field: one, and the bits of a counter below `up_to`.

    >>> [width_of(up_to) for up_to in (1, 2, 3, 8, 16, 256)]
    [1, 2, 3, 4, 5, 9]
    """
    return 1 + (up_to - 1).bit_length()


@dataclass
class Table(Fields):
    """Bits that are only ever drawn, never computed from what they were.

    A bit says nothing but the coin that drew it last: `p0` before its user appeared or after a deletion, `p1` after
    an event. No method leaves a copy of the words, or of the flips that it drew, anywhere else.
    """

    repeatable = True

    _octets: memoryview = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._octets = self.words.data.cast("B")

    @classmethod
    def drawn(cls, size: int, pair: Pair, coins: Coins) -> Self:
        """A table in which no user has appeared: every bit a flip of p0."""
        table = cls.empty(size)
        for place, flips in drawn_words(size, pair.absent, coins):
            table.words[place] = flips
        return table

    def redraw_one(self, slot: int, flip: bool, back: bool = False) -> None:  # noqa: ARG002 - for counters
        octets, at, bit = self._octets, slot >> 3 ^ _WITHIN_WORD, 1 << (slot & 7)  # small numbers are quick in Python
        octets[at] = octets[at] | bit if flip else octets[at] & ~bit

    def redraw(self, slots: Slots, threshold: int, coins: Coins, scratch: Scratch, *, back: bool = False) -> None:  # noqa: ARG002 - for counters
        flips = scratch.empty("flips", len(slots), np.uint8)
        coins.draw(threshold, flips)
        kernel = kernels.redraw if self.words.nbytes < _FAR else kernels.redraw_far
        if not kernel(self.words, np.uint64(self.size), slots, flips):
            raise IndexError(f"a slot is outside this table of {self.size}")

    def replace_marked(self, marks: NDArray[np.uint64], flips: NDArray[np.uint64]) -> None:
        """Set the bits that are marked to their flips."""
        kernels.replace_marked(self.words, marks, flips)

    def flip_each(self, threshold: int, coins: Coins) -> None:
        """Flip every bit with the same probability: randomised response on the whole table."""
        for place, flips in drawn_words(self.size, threshold, coins):
            self.words[place] ^= flips

    def invert(self, start: int) -> None:
        """Turn every bit from `start` on into the other one, in place."""
        masks = np.full(len(self.words) - start // 64, 2**64 - 1, dtype=np.uint64)
        masks[0] <<= np.uint64(start % 64)
        masks[-1] &= np.uint64(2**64 - 1 >> -self.size % 64)
        self.words[start // 64 :] ^= masks

    def count_ones(self, edges: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
        kernels.count_ones(self.words, edges, counts)

    def count_in_parts(self, slots: Slots, counts: NDArray[np.int64]) -> None:
        """Add to a count for each of several equal parts of the table how many of these bits in it are 1."""
        kernels.count_in_parts(self.words, slots, self.size, counts)

    def ones(self, start: int = 0, stop: int | None = None) -> int:
        """How many bits are 1, of all of them or of those from `start` up to `stop`, as an integer that is not wiped.

        For marks, tests and experiments: a release counts with `count_ones`.
        """
        return int(kernels.ones(self.words, start, self.size if stop is None else stop))

    def place(self, source: "Table", first: int, places: NDArray[np.uint64]) -> None:
        """Copy the bits of another table from `first` on, one to each of these places."""
        kernels.place_bits(self.words, source.words, first, places)

    def bits(self, start: int, stop: int) -> NDArray[np.bool_]:
        """A copy of the bits from `start`, a multiple of 64, up to `stop`, for experiments: it is not wiped."""
        words = self.words[start // 64 : -(-stop // 64)]
        return np.unpackbits(words.astype("<u8").view(np.uint8), bitorder="little", count=stop - start).view(np.bool_)


class Restored:
    """Puts words back as they were if the `with` block is left by an exception; the copy is wiped in any case.

    A class and not a generator: a generator that is dropped half used would put the words back.
    """

    _before = np.empty(0, dtype=np.uint64)

    def __init__(self, words: NDArray[np.uint64]) -> None:
        self._words = words
        self._before = np.empty(len(words), dtype=np.uint64)

    def __enter__(self) -> None:
        np.copyto(self._before, self._words)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None:
            np.copyto(self._words, self._before)
        self._before.fill(0)

    def __del__(self) -> None:
        self._before.fill(0)  # in case an interrupt kept `__exit__` from wiping the copy


def drawn_words(size: int, threshold: int, coins: Coins) -> Iterator[tuple[slice, NDArray[np.uint64]]]:
    """Draw a flip for each slot, chunk by chunk: the place of the chunk among the words of a table, and its words."""
    with Scratch() as scratch:
        for start in range(0, size, CHUNK):
            n = min(CHUNK, size - start)
            flips = scratch.empty("flips", -(-n // 64) * 64, np.uint8)
            flips[n:] = 0
            coins.draw(threshold, flips[:n])
            words = scratch.own(np.packbits(flips, bitorder="little")).view("<u8")
            yield slice(start // 64, start // 64 + len(words)), words
            scratch.sweep()

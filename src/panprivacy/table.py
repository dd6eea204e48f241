"""The table: one bit a slot, packed in 64-bit words, redrawn from the coins of a pair."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from panprivacy.coins import CHUNK, Coins
from panprivacy.pairs import Pair

_WITHIN_WORD = 0 if sys.byteorder == "little" else 7  # where the first octet of a word stands
_FAR = 2**24  # bytes from which on most words are in no cache


@dataclass
class Table:
    """Bits that are only ever drawn, never computed from what they were.

    A bit says nothing but the coin that drew it last: `p0` before its user appeared or after a deletion, `p1` after
    an event. The bits beyond `size` in the last word are zero.
    """

    size: int
    words: NDArray[np.uint64]
    _octets: memoryview = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._octets = memoryview(self.words).cast("B")  # type: ignore[arg-type]

    @classmethod
    def drawn(cls, size: int, pair: Pair, coins: Coins) -> "Table":
        """A table in which nobody has appeared: every bit a flip of p0."""
        table = cls.empty(size)
        for start in range(0, size, CHUNK):
            flips = coins.below(pair.absent, min(CHUNK, size - start))
            table._pack(start, flips)
        return table

    @classmethod
    def empty(cls, size: int) -> "Table":
        """A table of zeros, to be filled from elsewhere."""
        return cls(size, np.zeros(-(-size // 64), dtype=np.uint64))

    @classmethod
    def from_words(cls, size: int, words: NDArray[np.uint64]) -> "Table":
        """A table that was saved."""
        used = size % 64
        if len(words) != -(-size // 64) or (used and int(words[-1]) >> used):
            raise ValueError(f"these words do not hold {size} bits")
        return cls(size, words)

    def redraw_one(self, slot: int, flip: bool) -> None:
        """Set one bit to a flip."""
        octets, at, bit = self._octets, slot >> 3 ^ _WITHIN_WORD, 1 << (slot & 7)  # small numbers are quick in Python
        octets[at] = octets[at] | bit if flip else octets[at] & ~bit

    def redraw(self, slots: NDArray[np.integer], threshold: int, coins: Coins) -> None:
        """Redraw the bits of these slots, each with a coin of its own; `IndexError` at the first that is none."""
        from panprivacy.kernels import redraw, redraw_far

        flips = coins.below(threshold, len(slots)).view(np.uint8)
        kernel = redraw if self.words.nbytes < _FAR else redraw_far
        if not kernel(self.words, np.uint64(self.size), slots, flips):
            raise self._no_slot()

    def _no_slot(self) -> IndexError:
        return IndexError(f"a slot is outside this table of {self.size}")

    @contextmanager
    def restored_on_error(self) -> Iterator[None]:
        """Put the bits back as they were if anything goes wrong; the copy is wiped in any case."""
        before = self.words.copy()
        try:
            yield
        except BaseException:
            self.words[:] = before
            raise
        finally:
            before.fill(0)

    def flip_each(self, threshold: int, coins: Coins) -> None:
        """Flip every bit with the same probability: randomised response on the whole table."""
        for start in range(0, self.size, CHUNK):
            flips = coins.below(threshold, min(CHUNK, self.size - start))
            packed = _packed(flips)
            self.words[start // 64 : start // 64 + len(packed)] ^= packed

    def ones(self) -> int:
        """How many bits are 1."""
        step = 2**20
        return sum(
            int(np.bitwise_count(self.words[i : i + step]).sum(dtype=np.int64)) for i in range(0, len(self.words), step)
        )

    def copy_bits(self, source: "Table", at: int) -> None:
        """Write another table's bits from position `at` on."""
        for start in range(0, source.size, CHUNK):
            stop = min(start + CHUNK, source.size)
            self._pack(at + start, source.bits(start, stop))

    def bits(self, start: int, stop: int) -> NDArray[np.bool_]:
        """The bits from `start`, a multiple of 64, up to `stop`."""
        words = self.words[start // 64 : -(-stop // 64)]
        return np.unpackbits(words.astype("<u8").view(np.uint8), bitorder="little", count=stop - start).view(np.bool_)

    def _pack(self, at: int, bits: NDArray[np.bool_]) -> None:
        """Or the bits into zeros from position `at` on."""
        packed = _packed(np.concatenate([np.zeros(at % 64, dtype=np.bool_), bits]))
        self.words[at // 64 : at // 64 + len(packed)] |= packed


def _packed(bits: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Pack bits into words, the first bit lowest."""
    padded = np.zeros(-(-len(bits) // 64) * 8, dtype=np.uint8)
    octets = np.packbits(bits, bitorder="little")
    padded[: len(octets)] = octets
    return padded.view("<u8").astype(np.uint64)

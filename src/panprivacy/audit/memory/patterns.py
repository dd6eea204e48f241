"""Patterns of secrets: windows of 64 secret bits, and runs of secret numbers.

A window counts as found only together with enough of its neighbours that chance is excluded. What chance could do, for
an image of 2**29 bytes and 2**23 windows, hence 2**52 comparisons:

| what | bits that must agree | chance of a find |
|---|---|---|
| a word of a table and its neighbour | 128, of at least 0.85 bits of entropy each at epsilon 1 | 2**-56 |
| three words of marks in a row, one bit in eight set or fewer | 192 x 0.33 = 63 | 2**-11 if all memory were like that |
| 24 numbers in a row, 8 of them not zero: slots that a batch touched | 19 + 8 x 3 = 43 | as for ids: new memory only |
| three words of marks in a row, with 20 turns from zeros to ones or back | log2 of 20 out of 192 = 88 | 2**-36 |
| 24 counts of ones in neighbouring words | 24 x 3.9 = 93 | 2**-41 |
| 24 counters of 8 places in a row | 24 x 3 = 72 | 2**-20 if all memory were bytes below 8 |
| an id or a hash of 64 bits, from which the image before the batch was free | 63 | 2**-11 if all memory were random |
| a text of 12 letters out of 32 | 60 | 2**-8 if all memory were random letters |
| 8 ids in the order of a batch, of 10^4 users or more | 8 x 13 = 104 | 2**-52 |
| 24 ids in ascending order, of which one in eight came | 23 x 4.3 + 13 = 112 | 2**-60 |
| 16 bytes of keystream | 128 | 2**-76 |

The memory that is random at all is a small part, the tables themselves: a thousandth of an image of 10^6 users. So the
two rows that look likeliest are far below a millionth in practice.
"""

from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from panprivacy.audit.memory.images import Octets

Words: TypeAlias = NDArray[np.uint64]

IN_ORDER, ASCENDING = 8, 24
"""How many numbers in a row are a find: in the order of a batch, and in ascending order, where less is by chance."""
_SMALLEST, _LARGEST = 4, 60  # a word of nearly only zeros, or ones, is everywhere
_TELLING = 8  # numbers that are not zero, of 24 in a row
_TURNS = 20  # of three words of marks, below which they may be anywhere: zeros, and ones from some place on


@dataclass
class Windows:
    """Windows of one secret, and which of them were found."""

    keys: Words
    positions: NDArray[np.int64]
    """Where each window begins: a bit of a table, or the number of an id."""
    before: Words
    after: Words
    sides: NDArray[np.uint8]
    """1 for a neighbour before it, 2 for one after it, 3 for both."""
    need: int
    """How many neighbours must agree."""
    step: int = 8
    """How many eighths of a window are between it and its neighbour."""
    new: bool = False
    """Whether only what did not stand there before the first batch counts."""
    per_bit: bool = False
    """Whether bits that take a number each are looked for as well."""
    found: NDArray[np.bool_] = field(init=False)
    where: set[str] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        self.found = np.zeros(len(self.keys), dtype=np.bool_)

    def only(self, which: NDArray[np.bool_]) -> "Windows":
        """These windows without the others."""
        chosen = {name: getattr(self, name)[which] for name in ("keys", "positions", "before", "after", "sides")}
        return replace(self, **chosen)


@dataclass
class Run:
    """A secret sequence of numbers, and which of them were found."""

    values: Words
    need: int
    """How many in a row are a find."""
    new: bool = True
    """Whether only what did not stand there before the first batch counts."""
    swapped: bool = False
    """Whether numbers the other way round are looked for as well."""
    skip: Words = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    """An ascending sequence that may be there: of two numbers that are neighbours in it, too, nothing is looked for."""
    found: NDArray[np.bool_] = field(init=False)
    where: set[str] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        self.found = np.zeros(len(self.values), dtype=np.bool_)


def in_a_row(words: Words, need: int, *, new: bool = False, per_bit: bool = False) -> Windows:
    """A window for each word, with those around it as neighbours; if none is needed, each is a find by itself."""
    padded = np.concatenate([words[:1], words, words[-1:]])
    sides = np.full(len(words), 3, dtype=np.uint8)
    if len(words):
        sides[0] &= 2
        sides[-1] &= 1
    return Windows(words, np.arange(len(words)), padded[:-2], padded[2:], sides, need, new=new, per_bit=per_bit)


def of_bits(
    octets: Octets, size: int, present: Octets | None = None, *, need: int = 1, per_bit: bool = True
) -> list[Windows]:
    """Windows of packed bits at all eight offsets; only those that differ from the bits that are there at present."""
    found = []
    for offset in range(8):
        windows = in_a_row(_words_at(octets, size, offset), need, per_bit=per_bit)
        ones = np.bitwise_count(windows.keys)
        telling = (ones >= _SMALLEST) & (ones <= _LARGEST)
        if present is not None:
            telling &= windows.keys != _words_at(present, size, offset)
        windows.positions *= 64
        windows.positions += offset
        found.append(windows.only(telling))
    return found


def of_marks(octets: Octets, size: int, present: Octets | None) -> list[Windows]:
    """Windows of packed bits that are mostly zeros: with both neighbours, and where the three turn often enough."""
    found = []
    for windows in of_bits(octets, size, present, need=2):
        around = np.stack([windows.before, windows.keys, windows.after])
        turns = np.bitwise_count(around ^ (around >> np.uint64(1))).sum(axis=0)  # bits that differ from the next
        found.append(windows.only((turns >= _TURNS) & (windows.sides == 3)))
    return found


def _words_at(octets: Octets, size: int, offset: int) -> Words:
    """The words that begin at a bit of the first byte."""
    padded = np.concatenate([octets, np.zeros(1, dtype=np.uint8)]).astype(np.uint16)
    shifted = ((padded[:-1] | padded[1:] << 8) >> offset).astype(np.uint8)
    return shifted[: max(size - offset, 0) // 64 * 8].view(np.uint64)


def of_counts(counts: Octets, present: Octets | None) -> Windows:
    """Eight small numbers a window, a byte each; only where they differ from the present."""
    windows = in_a_row(_eights(counts), need=2)
    return windows if present is None else windows.only(windows.keys != _eights(present))


def of_times(times: Octets) -> Windows:
    """How often each of eight slots is touched, a window; only where many are, since zeros are everywhere."""
    windows = in_a_row(_eights(times), need=2, new=True)
    windows.positions *= 8
    touched = np.convolve((times[: len(times) // 8 * 8].reshape(-1, 8) > 0).sum(axis=1), np.ones(3), "same")
    return windows.only(touched >= _TELLING)


def of_numbers(values: Words) -> list[Windows]:
    """Numbers of 64 random bits, each a find by itself: as they are, and as digits of 30 bits of Python's integers."""
    low, high = values & np.uint64(2**30 - 1), (values >> np.uint64(30)) & np.uint64(2**30 - 1)
    return [in_a_row(each, need=0, new=True) for each in (values, low | high << np.uint64(32))]


def of_texts(texts: NDArray[np.bytes_]) -> Windows:
    """Texts of twelve bytes: the first eight, and the last eight as what must follow."""
    octets = np.ascontiguousarray(texts).view(np.uint8).reshape(len(texts), -1)
    keys, after = (np.ascontiguousarray(octets[:, at : at + 8]).view(np.uint64).ravel() for at in (0, 4))
    sides = np.full(len(texts), 2, dtype=np.uint8)
    return Windows(keys, np.arange(len(texts)), after, after, sides, need=1, step=4, new=True)


def of_octets(secret: bytes) -> Windows:
    """Bytes that are secret wherever sixteen of them stand together."""
    return in_a_row(np.frombuffer(secret[: len(secret) // 8 * 8], dtype=np.uint64), need=1)


def _eights(counts: Octets) -> Words:
    return counts[: len(counts) // 8 * 8].view(np.uint64)

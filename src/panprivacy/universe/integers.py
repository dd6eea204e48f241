"""Ids as 64-bit words, which is all that the kernels take; and where a hash stands in a list of hashes."""

from enum import IntEnum
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from panprivacy.errors import InvalidType
from panprivacy.memory.scratch import Scratch
from panprivacy.universe import lookup_kernels as kernels
from panprivacy.universe.columns import floats_refused, refuse_floats, refuse_missing


class Lookup(IntEnum):
    """How long it takes to find the position of a user, or its slot; the slowest way first."""

    SEARCHED = 0
    """In a list of users."""
    HASHED = 1
    """A number is hashed or permuted."""
    DIRECT = 2
    """The number is the position, or the position the slot."""


Words: TypeAlias = NDArray[np.uint64]
"""Ids, hashes or positions as words in a row, of 64 bits unless `narrow` ones will do; negative numbers are huge."""

_BOOLEANS = {bool, np.bool_}
_WORD = 2**64


class TooLarge(ValueError):
    """An integer does not fit 64 bits; `row` says where in its chunk it stands."""

    def __init__(self, row: int) -> None:
        super().__init__(f"the integer in row {row} does not fit 64 bits")
        self.row = row


def as_words(chunk: Any, scratch: Scratch, *, narrow: bool = False) -> tuple[Words, bool]:
    """Read a chunk of one column as words, and tell whether they are signed; `TooLarge` for what does not fit.

    An array that is in this form already is not copied. Where words of 32 bits will do, `narrow`, one of those is not
    copied either.
    """
    array = integers(chunk, scratch)
    if array.ndim != 1:
        raise InvalidType(f"ids must be one column, got an array of shape {array.shape}", code="ids-shape")
    return words_of(array, scratch, narrow=narrow)


def words_of(array: NDArray[Any], scratch: Scratch, name: str = "words", *, narrow: bool = False) -> tuple[Words, bool]:
    """Read an integer array of any shape as words."""
    if array.dtype == object:
        return _of_objects(array, scratch)
    signed = array.dtype.kind == "i"
    size, flags = array.dtype.itemsize, array.flags
    if (size == 8 or (narrow and size == 4)) and flags.c_contiguous and flags.aligned and array.dtype.isnative:
        words: Any = array.view(np.uint64 if size == 8 else np.uint32)
    else:
        copied = scratch.empty(name, array.size, np.uint64).reshape(array.shape)
        np.copyto(copied.view(np.int64) if signed else copied, array, casting="unsafe")
        words = copied.view()
    words.flags.writeable = False  # of this view: the kernels take one type only
    return words, signed


def _of_objects(array: NDArray[Any], scratch: Scratch) -> tuple[Words, bool]:
    """Python's integers, of which some do not fit a signed word."""
    words = scratch.empty("words", array.size, np.uint64)
    for row, number in enumerate(array.flat):
        if not -(_WORD // 2) <= number < _WORD:
            raise TooLarge(row)
        words[row] = number % _WORD
    signed = any(number < 0 for number in array.flat)
    words = words.reshape(array.shape)
    words.flags.writeable = False
    return words, signed


def integers(chunk: Any, scratch: Scratch) -> NDArray[np.integer]:
    """Turn a chunk into an integer array, and refuse anything but integers: booleans, floats, times, text.

    An array of objects comes back where Python's integers fit no 64-bit type together.
    """
    if type(chunk) is np.ndarray and chunk.dtype.kind in "iu" and chunk.size:
        return chunk
    refuse_floats(chunk)
    # NumPy would make an object of every number in a range, which could not be wiped.
    array = np.arange(chunk.start, chunk.stop, chunk.step) if isinstance(chunk, range) else np.asarray(chunk)
    if array is not chunk and not hasattr(chunk, "__array__") and array.flags.owndata and array.dtype != object:
        scratch.own(array)  # made here: what `__array__` gives may be the caller's own
    if array.size == 0:
        return np.empty(array.shape if array.ndim == 2 else 0, dtype=np.uint64)
    if array.dtype.kind in "iu" and not (isinstance(chunk, list | tuple) and _BOOLEANS & set(map(type, chunk))):
        return array
    objects = np.asarray(chunk, dtype=object)
    if array.dtype.kind in "fO":  # NumPy makes floats of Python's integers too, if no type of its own holds them all
        floats = {type(x).__name__ for x in objects.flat if isinstance(x, float | np.floating)}
        if floats:
            raise floats_refused(min(floats))
    times = array.dtype.kind in "mM"  # counted in nanoseconds they become numbers
    if not times and all(isinstance(x, int | np.integer) and not isinstance(x, bool) for x in objects.flat):
        return objects
    refuse_missing(sum(x is None for x in objects.flat))
    kinds = {"O": "mixed objects", "U": "text", "S": "bytes", "T": "text", "i": "a mixture with True or False"}
    if all(isinstance(x, str) for x in objects.flat):
        kinds["O"] = "text"  # as pandas holds it
    elif len(types := {type(x).__name__ for x in objects.flat}) == 1:
        kinds["O"] = types.pop()  # such as Decimal, as databases hold numbers
    kind = kinds.get(array.dtype.kind)
    raise InvalidType(
        f"ids must be integers, got {kind or array.dtype}; for other ids, list them with pp.Users(...)", code="ids-type"
    )


NOT_THERE = 2**64 - 1
"""Stands for the position of a hash, a user or an edge that is not in the universe."""


class HashIndex:
    """The positions of 64-bit hashes that are all different, found through their first bits: one or two steps each.

    A second hash of the same ids, if given, must agree as well: together they are as good as the ids themselves.

    >>> hashes = HashIndex(np.array([70, 5, 2**63], dtype=np.uint64))
    >>> with Scratch() as scratch:
    ...     found, missing = hashes.find(np.array([5, 2**63], dtype=np.uint64), None, scratch)
    ...     found.tolist(), missing, hashes.find_one(70), hashes.find_one(6)
    ([1, 2], 0, 0, -1)
    """

    def __init__(self, hashes: Words, checks: Words | None = None) -> None:
        order, bits = np.argsort(hashes), len(hashes).bit_length()
        firsts = np.arange(2**bits, dtype=np.uint64) << np.uint64(64 - bits)
        starts = np.searchsorted(hashes, firsts, sorter=order)
        self._starts = np.append(starts, len(hashes)).astype(np.uint32 if len(hashes) < 2**32 else np.uint64)
        # The first bits of a hash say where to look, so an entry needs only the others, and has room for the position.
        places = hashes << np.uint64(bits) | np.arange(len(hashes), dtype=np.uint64)
        self._entries = np.column_stack([places, hashes if checks is None else checks])[order]
        self._bits = bits

    def find(self, hashes: Words, checks: Words | None, scratch: Scratch) -> tuple[Words, int]:
        """The position of each hash, `NOT_THERE` if it is not in the list, and how many are not."""
        found: Words = scratch.empty("found", len(hashes), np.uint64)
        bits, second = np.uint64(self._bits), hashes if checks is None else checks
        return found, int(kernels.find(hashes, second, bits, self._starts, self._entries, found))

    def find_one(self, wanted: int, check: int | None = None) -> int:
        """The position of one hash, -1 if it is not there."""
        first, rest = divmod(wanted, 2 ** (64 - self._bits))
        for place in range(self._starts.item(first), self._starts.item(first + 1)):
            entry, checked = self._entries[place].tolist()
            found, position = divmod(entry, 2**self._bits)
            if found == rest and checked == (wanted if check is None else check):
                return int(position)
        return -1

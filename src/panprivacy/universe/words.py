"""Integer ids as 64-bit words, which is all that the kernels take."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from panprivacy.lazily import loaded
from panprivacy.memory import Scratch
from panprivacy.universe.batches import refuse_missing

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
        raise TypeError(f"ids must be one column, got an array of shape {array.shape}")
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
    """Turn a chunk into an integer array, refusing what only looks like one; whole floats are those numbers.

    An array of objects comes back where Python's integers fit no 64-bit type together.
    """
    # NumPy would make an object of every number in a range, and nobody could wipe those.
    array = np.arange(chunk.start, chunk.stop, chunk.step) if isinstance(chunk, range) else np.asarray(chunk)
    if array is not chunk and not hasattr(chunk, "__array__") and array.flags.owndata and array.dtype != object:
        scratch.own(array)  # made here: what `__array__` gives may be the caller's own
    if array.size == 0:
        return np.empty(array.shape if array.ndim == 2 else 0, dtype=np.uint64)
    if array.dtype.kind in "iu" and not (isinstance(chunk, list | tuple) and _BOOLEANS & set(map(type, chunk))):
        return array
    if array.dtype.kind == "f" and not _are_large(chunk):
        return _whole(array, scratch)
    objects = np.asarray(chunk, dtype=object)
    times = array.dtype.kind in "mM"  # counted in nanoseconds they become numbers
    if not times and all(isinstance(x, int | np.integer) and not isinstance(x, bool) for x in objects.flat):
        return objects
    refuse_missing(sum(x is None for x in objects.flat))
    kinds = {"O": "mixed objects", "U": "text", "S": "bytes", "T": "text", "i": "a mixture with True or False"}
    if all(isinstance(x, str) for x in objects.flat):
        kinds["O"] = "text"  # as pandas holds it
    kind = kinds.get(array.dtype.kind)
    raise TypeError(f"ids must be integers, got {kind or array.dtype}; for other ids, list them with pp.Users(...)")


def _are_large(chunk: Any) -> bool:
    """Whether NumPy has made floats of a list of Python's integers because no integer type of its own holds them."""
    if not isinstance(chunk, list | tuple):
        return False
    return not any(isinstance(x, float | np.floating) for x in np.asarray(chunk, dtype=object).flat)


def _whole(array: NDArray[Any], scratch: Scratch) -> NDArray[np.int64]:
    floats = scratch.empty("floats", array.size, np.float64)
    np.copyto(floats.reshape(array.shape), array, casting="unsafe")
    numbers: NDArray[np.int64] = scratch.empty("numbers", array.size, np.int64)
    row = int(loaded("panprivacy.universe.kernels").whole_numbers(floats, numbers))
    if row >= 0:
        raise TypeError(f"ids must be integers, got {array.flat[row]}; a float is an id only if it is a whole number")
    return numbers.reshape(array.shape)

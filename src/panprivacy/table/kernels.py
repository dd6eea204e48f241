"""The loops that set and count bits, compiled by numba and run without the GIL.

They draw nothing themselves: flips come in as arrays, so the same machine code runs under the operating system's
coins and under the auditor's. They make no array of their own either: what they need comes in as scratch, which the
caller wipes. Their types are fixed, so they are compiled or loaded when this module is, and no event changes them.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-untyped-decorators=False
# mypy: disable-error-code="call-arg, var-annotated"
import numpy as np
from numba import njit, types

from panprivacy.memory.intrinsics import ones_in, prefetch

_AHEAD = 64  # events between asking for a word and using it

u64 = np.uint64

_ALL_BITS = u64(0xFFFFFFFFFFFFFFFF)

WORDS = types.uint64[::1]
READ_WORDS, READ_OCTETS, READ_PLACES = (
    types.Array(t, 1, "C", readonly=True) for t in (types.uint64, types.uint8, types.uint32)
)


@njit(types.int64(READ_WORDS, types.int64, types.int64), nogil=True, cache=True)
def ones(words, start, stop):
    """How many of the bits from `start` up to `stop` are 1."""
    if start >= stop:
        return 0
    first, last = start >> 6, (stop - 1) >> 6
    from_first = _ALL_BITS << u64(start & 63)
    to_last = _ALL_BITS >> u64(63 - ((stop - 1) & 63))
    if first == last:
        return np.int64(ones_in(words[first] & from_first & to_last))
    total = ones_in(words[first] & from_first)
    total += ones_in(words[last] & to_last)
    for i in range(first + 1, last):
        total += ones_in(words[i])
    return np.int64(total)


@njit(types.void(READ_WORDS, types.Array(types.int64, 1, "C", readonly=True), types.int64[::1]), nogil=True, cache=True)
def count_ones(words, edges, counts):
    """Write how many bits are 1 between each edge and the next one."""
    for i in range(len(counts)):
        counts[i] = ones(words, edges[i], edges[i + 1])


@njit(types.void(READ_WORDS, READ_WORDS, types.int64, types.int64[::1]), nogil=True, cache=True)
def count_in_parts(words, slots, size, counts):
    """Add to a count for each of several equal parts of `size` bits how many of these bits in it are 1."""
    parts = len(counts)
    for i in range(len(slots)):
        slot = slots[i]
        bit = (words[slot >> u64(6)] >> (slot & u64(63))) & u64(1)
        counts[((np.int64(slot) + 1) * parts - 1) // size] += np.int64(bit)


@njit(types.void(WORDS, types.int64, READ_WORDS, types.int64), nogil=True, cache=True)
def copy_bits(words, at, source, size):
    """Write the first `size` bits of another table over zeros from position `at` on."""
    shift = u64(at & 63)
    for i in range((size + 63) >> 6):
        word, place = source[i], (at >> 6) + i
        words[place] |= word << shift
        if shift and place + 1 < len(words):
            words[place + 1] |= word >> (u64(64) - shift)


@njit(nogil=True, inline="always")
def _having(one, other, pattern):
    """The bits of a word in which two words have a pattern: 0 for two zeros, 1, 2, and 3 for two ones."""
    return (one if pattern & 2 else ~one) & (other if pattern & 1 else ~other)


@njit(types.int64(READ_WORDS, READ_WORDS, types.int64, types.int64), nogil=True, cache=True)
def count_pattern(one, other, size, pattern):
    """In how many of `size` places two tables have a pattern of bits."""
    total = u64(0)
    for i in range(0, size, 64):
        kept = _ALL_BITS >> u64(64 - min(64, size - i))
        total += ones_in(_having(one[i >> 6], other[i >> 6], pattern) & kept)
    return np.int64(total)


@njit(types.void(READ_WORDS, READ_WORDS, types.int64, types.int64, READ_OCTETS, WORDS), nogil=True, cache=True)
def scatter(one, other, size, pattern, flips, words):
    """Give the flips, one after the other, to the places where two tables have a pattern of bits."""
    used = 0
    for i in range(size):
        word, bit = i >> 6, u64(i & 63)
        if _having(one[word], other[word], pattern) >> bit & u64(1):
            words[word] |= u64(flips[used]) << bit
            used += 1


@njit(nogil=True, inline="always")
def _set_bit(words, slot, flip):
    word = slot >> u64(6)
    bit = slot & u64(63)
    words[word] = (words[word] & ~(u64(1) << bit)) | (u64(flip) << bit)


@njit(types.void(WORDS, READ_WORDS, types.int64, READ_WORDS), nogil=True, cache=True)
def place_bits(words, source, first, places):
    """Copy the bits of another table from `first` on, one to each of these places."""
    for i in range(len(places)):
        at = u64(first + i)
        _set_bit(words, places[i], (source[at >> u64(6)] >> (at & u64(63))) & u64(1))


@njit(nogil=True, inline="always")
def _slot_ahead(words, slots, i, last):
    """The slot of an event. Its word was asked for some events before; now ask for the word of a later one."""
    prefetch(words, u64(slots[min(i + _AHEAD, last)]) >> u64(6))
    return u64(slots[i])


_REDRAW = [types.boolean(WORDS, types.uint64, slots, READ_OCTETS) for slots in (READ_WORDS, READ_PLACES)]


@njit(_REDRAW, nogil=True, cache=True)
def redraw(words, size, slots, flips):
    """Set the bit of each slot to its flip, 0 or 1 in a byte; stop, and return False, at a slot outside the table."""
    for i in range(len(slots)):
        slot = u64(slots[i])
        if slot >= size:
            return False
        _set_bit(words, slot, flips[i])
    return True


@njit(_REDRAW, nogil=True, cache=True)
def redraw_far(words, size, slots, flips):
    """`redraw` for a table that is larger than the caches."""
    last = len(slots) - 1
    for i in range(len(slots)):
        slot = _slot_ahead(words, slots, i, last)
        if slot >= size:
            return False
        _set_bit(words, slot, flips[i])
    return True


_TOUCH = [types.boolean(WORDS, types.uint64, slots) for slots in (READ_WORDS, READ_PLACES)]


@njit(_TOUCH, nogil=True, cache=True)
def touch(words, size, slots):
    """Set the bit of each slot; stop, and return False, at a slot outside the table."""
    for i in range(len(slots)):
        slot = u64(slots[i])
        if slot >= size:
            return False
        words[slot >> u64(6)] |= u64(1) << (slot & u64(63))
    return True


@njit(_TOUCH, nogil=True, cache=True)
def touch_far(words, size, slots):
    """`touch` for a table that is larger than the caches."""
    last = len(slots) - 1
    for i in range(len(slots)):
        slot = _slot_ahead(words, slots, i, last)
        if slot >= size:
            return False
        words[slot >> u64(6)] |= u64(1) << (slot & u64(63))
    return True


@njit(
    [types.int64(slots, types.uint64, types.uint64, types.uint32[::1]) for slots in (READ_WORDS, READ_PLACES)]
    + [types.int64(types.uint32[::1], types.uint64, types.uint64, types.uint32[::1])],
    nogil=True,
    cache=True,
)
def halve(slots, limit, middle, halves):
    """Write the slots below the middle to the front, and the others, less the middle, to the back, last ones first.

    Returns how many are at the front, or -1 if a slot is at the limit or beyond.
    """
    low, outside, last = 0, False, len(slots) - 1
    for i in range(len(slots)):
        slot = u64(slots[i])
        outside |= slot >= limit
        below, above = int(slot < middle), int(slot >= middle)
        halves[low + (last - i) * above] = np.uint32(slot - middle * u64(above))
        low += below
    return -1 if outside else low


@njit(types.void(WORDS, READ_WORDS, READ_WORDS), nogil=True, cache=True)
def replace_marked(words, marks, flips):
    """Set every bit that is marked to its flip. In one go: between forgetting and drawing, a table tells who came."""
    for i in range(len(words)):
        words[i] = words[i] & ~marks[i] | flips[i]


@njit(types.int64(READ_WORDS, types.int64, types.int64, WORDS), nogil=True, cache=True)
def touched_in(words, start, stop, slots):
    """Write down which bits from `start` up to `stop` are set, counted from `start`, and return how many."""
    found = 0
    for i in range(start >> 6, (stop + 63) >> 6):
        word = words[i]
        if i == start >> 6:
            word &= _ALL_BITS << u64(start & 63)
        if stop - (i << 6) < 64:
            word &= (u64(1) << u64(stop - (i << 6))) - u64(1)
        while word:
            rest = word & (word - u64(1))
            slots[found] = u64((i << 6) - start) + ones_in((word ^ rest) - u64(1))
            found += 1
            word = rest
    return found


@njit(types.void(READ_WORDS, types.int64, WORDS, types.int64), nogil=True, cache=True)
def cut_bits(words, start, part, size):
    """Copy `size` bits from `start` on to the front of a table of zeros."""
    shift = u64(start & 63)
    for i in range((size + 63) >> 6):
        at = (start >> 6) + i
        word = words[at] >> shift
        if shift and at + 1 < len(words):
            word |= words[at + 1] << (u64(64) - shift)
        part[i] = word
    if size & 63:
        part[size >> 6] &= _ALL_BITS >> u64(64 - (size & 63))

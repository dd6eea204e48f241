"""The loops that move counters, compiled by numba and run without the GIL.

They draw nothing themselves and make no array of their own, as those in `kernels`. A field of `width` bits has its bit
in the lowest place and its counter above; fields lie one after the other, so that some begin in one word and end in
the next.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-untyped-decorators=False
# mypy: disable-error-code="call-arg, var-annotated"
import numpy as np
from numba import njit, types

from panprivacy.memory.intrinsics import load_pair, prefetch_near, store_pair
from panprivacy.table.kernels import READ_OCTETS, READ_PLACES, READ_WORDS, WORDS

AHEAD = 32
"""Events between asking for a field and moving it."""
WINDOW = 2_048
"""Events whose places are found at a time, in loops that vectorise; they stay in the first-level cache."""
FLIP = 512
"""Where `changes` begin for a flip of 1: behind all fields, the widest of which has 9 bits."""

u64 = np.uint64

_SHIFT, _AT = u64(63), u64(10)  # a place in one number: bit 0 to 5 where in its byte, bit 9 the flip, above the byte


@njit(types.void(WORDS, types.uint64, types.int64, READ_OCTETS, READ_OCTETS), nogil=True, cache=True)
def plant(words, width, first, counters, flips):
    """Write counters and bits over zeros, from a slot on."""
    for i in range(len(counters)):
        place = u64(first + i) * width
        at, shift = place >> u64(6), place & u64(63)
        field = u64(counters[i]) << u64(1) | u64(flips[i])
        words[at] |= field << shift
        if shift + width > u64(64):
            words[at + u64(1)] |= field >> (u64(64) - shift)


@njit(types.void(WORDS, READ_WORDS, types.uint64, types.int64, READ_WORDS), nogil=True, cache=True)
def place_fields(words, source, width, first, places):
    """Copy the fields of another table from `first` on, one to each of these places, bit by bit."""
    for i in range(len(places)):
        start, place = u64(first + i) * width, places[i] * width
        for bit in range(width):
            copied, at = start + u64(bit), place + u64(bit)
            one = source[copied >> u64(6)] >> (copied & u64(63)) & u64(1)
            kept = words[at >> u64(6)] & ~(u64(1) << (at & u64(63)))
            words[at >> u64(6)] = kept | one << (at & u64(63))


_READ_CHANGES = types.Array(types.uint16, 1, "C", readonly=True)


@njit(
    [
        types.boolean(WORDS, types.uint64, types.uint64, _READ_CHANGES, slots, READ_OCTETS, WORDS)
        for slots in (READ_WORDS, READ_PLACES)
    ],
    nogil=True,
    cache=True,
)
def count(words, size, width, changes, slots, flips, places):
    """Count an event of each slot; stop, and return False, before a window with a slot outside the table.

    `changes` tells, for a field and a flip, which bits of the field an event turns: a step of the counter, or its wrap
    and a new bit. A look there takes no branch, of which the processor would guess one wrap in `up_to` wrongly. A field
    of up to 9 bits is in two neighbouring bytes wherever it begins; the last byte of the table goes with the one before
    it. `places` is scratch for a window and `AHEAD` more.
    """
    octets = words.view(np.uint8)
    last, mask = u64(len(octets) - 2), (u64(1) << width) - u64(1)
    for start in range(0, len(slots), WINDOW):
        window, coins = slots[start : start + WINDOW], flips[start : start + WINDOW]
        n, outside = len(window), False
        for i in range(n):
            slot = u64(window[i])
            outside |= slot >= size
            bit = slot * width
            at = min(bit >> u64(3), last)
            places[i] = at << _AT | u64(coins[i]) * u64(FLIP) | bit - (at << u64(3))
        if outside:
            return False
        places[n : n + AHEAD] = places[n - 1]
        for i in range(n):
            prefetch_near(octets, places[i + AHEAD] >> _AT)
            place = places[i]
            at, shift = place >> _AT, place & _SHIFT
            pair = load_pair(octets, at)
            change = u64(changes[pair >> shift & mask | place & u64(FLIP)])
            store_pair(octets, at, pair ^ change << shift)
    return True


@njit(types.boolean(READ_WORDS, types.int64, types.int64, types.uint64, types.int64[::1]), nogil=True, cache=True)
def tally(words, start, stop, width, sums):
    """Add 1 for every bit that is 1, and -1 for every other, to the sum of the place where its counter stands.

    Of the slots from `start` up to `stop`. Ends, and returns False, at a counter that stands beyond the last place.
    """
    mask = (u64(1) << width) - u64(1)
    for slot in range(start, stop):
        place = u64(slot) * width
        at, shift = place >> u64(6), place & u64(63)
        field = words[at] >> shift
        if shift + width > u64(64):
            field |= words[at + u64(1)] << (u64(64) - shift)
        field &= mask
        if field >> u64(1) >= u64(len(sums)):
            return False
        sums[field >> u64(1)] += np.int64(field & u64(1)) * 2 - 1
    return True


@njit(nogil=True, inline="always")
def _moved_often(field, up_to, times, flip, back):
    """A field after this number of events: its bit becomes the flip if the counter wraps, however often."""
    counter, bit = field >> u64(1), field & u64(1)
    wraps = times > counter if back else counter + times >= up_to
    moved = (counter + (up_to - times % up_to if back else times)) % up_to
    return moved << u64(1) | (u64(flip) if wraps else bit)


@njit(
    types.boolean(
        WORDS,
        types.uint64,
        types.uint64,
        types.uint64,
        READ_WORDS,
        types.Array(types.uint16, 1, "C", readonly=True),
        READ_OCTETS,
        types.boolean,
    ),
    nogil=True,
    cache=True,
)
def count_often(words, size, width, up_to, slots, times, flips, back):
    """Count each slot as often as `times` says. One flip is enough: of several redraws of a bit the last one counts."""
    mask = (u64(1) << width) - u64(1)
    for i in range(len(slots)):
        if slots[i] >= size:
            return False
        place = slots[i] * width
        at, shift = place >> u64(6), place & u64(63)
        across = shift + width > u64(64)
        field = words[at] >> shift
        if across:
            field |= words[at + u64(1)] << (u64(64) - shift)
        field &= mask
        change = field ^ _moved_often(field, up_to, u64(times[i]), flips[i], back)
        words[at] ^= change << shift
        if across:
            words[at + u64(1)] ^= change >> (u64(64) - shift)
    return True

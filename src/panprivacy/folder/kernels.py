"""The loops that tell how often a batch touches each slot, and pack that for another process.

`times` has a number for every slot. A counter of t places that moves n times is where one is that moves t + n mod t
times, and both have wrapped, if n is 2t or more: so no number is above 2t - 1. They make no array of their own.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-untyped-decorators=False
# mypy: disable-error-code="call-arg, var-annotated"
import numpy as np
from numba import njit, types

from panprivacy.table.kernels import READ_OCTETS, READ_PLACES, READ_WORDS, WORDS

u64 = np.uint64

TIMES, OCTETS = types.uint16[::1], types.uint8[::1]
READ_TIMES = types.Array(types.uint16, 1, "C", readonly=True)

SLOT, SLOT_AND_TIMES = 4, 6
"""Bytes that a slot takes where slots are listed, without and with how often it is touched."""


@njit([types.void(WORDS, slots) for slots in (READ_WORDS, READ_PLACES)], nogil=True, cache=True)
def untouch(words, slots):
    """Clear the bit of each slot."""
    for i in range(len(slots)):
        slot = u64(slots[i])
        words[slot >> u64(6)] &= ~(u64(1) << (slot & u64(63)))


@njit(nogil=True, inline="always")
def _sum(one, other, up_to):
    both = u64(one) + u64(other)
    return np.uint16(both if both < u64(2) * up_to else up_to + both % up_to)


@njit(nogil=True, inline="always")
def _number(octets, at, length):
    """A number of some bytes, the lowest first."""
    found = u64(0)
    for i in range(length):
        found |= u64(octets[at + i]) << u64(8 * i)
    return found


@njit(nogil=True, inline="always")
def _write(octets, at, length, number):
    for i in range(length):
        octets[at + i] = np.uint8(number >> u64(8 * i) & u64(255))


@njit(
    [types.boolean(TIMES, types.uint64, types.uint64, slots) for slots in (READ_WORDS, READ_PLACES)],
    nogil=True,
    cache=True,
)
def tally(times, size, up_to, slots):
    """Count every slot once more; stop, and return False, at a slot outside the table."""
    for i in range(len(slots)):
        slot = u64(slots[i])
        if slot >= size:
            return False
        times[slot] = _sum(times[slot], 1, up_to)
    return True


@njit(
    [types.boolean(TIMES, TIMES, types.uint64, types.uint64, slots) for slots in (READ_WORDS, READ_PLACES)],
    nogil=True,
    cache=True,
)
def take_back(times, gone, size, up_to, slots):
    """Take one event of every slot back, or, where none is left, count it as `gone`; return False as `tally` does."""
    for i in range(len(slots)):
        slot = u64(slots[i])
        if slot >= size:
            return False
        if times[slot]:
            times[slot] = np.uint16(times[slot] - 1)
        else:
            gone[slot] = _sum(gone[slot], 1, up_to)
    return True


@njit(types.int64(READ_TIMES, types.int64, types.int64), nogil=True, cache=True)
def tallied(times, start, stop):
    """How many slots from `start` up to `stop` are touched."""
    found = 0
    for i in range(start, stop):
        found += times[i] > 0
    return found


@njit(types.void(READ_TIMES, types.int64, types.int64, WORDS, TIMES), nogil=True, cache=True)
def tallied_in(times, start, stop, slots, often):
    """Write down which slots from `start` up to `stop` are touched, counted from `start`, and how often."""
    found = 0
    for i in range(start, stop):
        if times[i]:
            slots[found] = u64(i - start)
            often[found] = times[i]
            found += 1


@njit(types.void(READ_WORDS, OCTETS), nogil=True, cache=True)
def pack_slots(slots, octets):
    """List slots."""
    for i in range(len(slots)):
        _write(octets, SLOT * i, SLOT, slots[i])


@njit(types.void(READ_WORDS, READ_TIMES, OCTETS), nogil=True, cache=True)
def pack_tally(slots, often, octets):
    """List slots, and how often each is touched."""
    for i in range(len(slots)):
        _write(octets, SLOT_AND_TIMES * i, SLOT, slots[i])
        _write(octets, SLOT_AND_TIMES * i + SLOT, SLOT_AND_TIMES - SLOT, u64(often[i]))


@njit(types.boolean(READ_OCTETS, types.int64, types.uint64), nogil=True, cache=True)
def are_rising(octets, width, size):
    """Whether these are whole entries of `width` bytes, whose slots rise and are below `size`."""
    least = u64(0)
    for at in range(0, len(octets) // width * width, width):
        slot = _number(octets, at, SLOT)
        if slot < least or slot >= size:
            return False
        least = slot + u64(1)
    return len(octets) % width == 0


@njit(types.void(WORDS, types.uint64, READ_OCTETS), nogil=True, cache=True)
def touch_listed(words, first, octets):
    """Set the bits of listed slots, which count from `first`."""
    for at in range(0, len(octets), SLOT):
        slot = first + _number(octets, at, SLOT)
        words[slot >> u64(6)] |= u64(1) << (slot & u64(63))


@njit(types.void(TIMES, types.uint64, READ_OCTETS), nogil=True, cache=True)
def tally_listed(times, up_to, octets):
    """Count listed slots, each as often as it is touched."""
    for at in range(0, len(octets), SLOT_AND_TIMES):
        slot = _number(octets, at, SLOT)
        times[slot] = _sum(times[slot], _number(octets, at + SLOT, SLOT_AND_TIMES - SLOT), up_to)


@njit(types.void(TIMES, types.uint64, READ_OCTETS), nogil=True, cache=True)
def tally_each(times, up_to, octets):
    """Add a number for every slot, two bytes each."""
    for slot in range(len(times)):
        times[slot] = _sum(times[slot], _number(octets, 2 * slot, 2), up_to)

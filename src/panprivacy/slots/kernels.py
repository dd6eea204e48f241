"""The loops that find the slot of every position, compiled by numba and run without the GIL.

Positions come as 64-bit words that are read only, and leave as slots. Arrays to work in come in as scratch, which
the caller wipes. The types are fixed, so that the kernels are compiled or loaded when this module is, and no event
changes them. Numba widens 32-bit arithmetic to 64 bits; the casts below keep it at 32, so that eight lanes fit a vector
register.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-untyped-decorators=False
# mypy: disable-error-code="call-arg, var-annotated"
import numpy as np
from numba import njit, types

from panprivacy.memory.intrinsics import shift_right

WINDOW = 2_048
"""Positions that are worked on at a time: their halves stay in the first-level cache."""

u32, u64 = np.uint32, np.uint64

_WIDE, _NARROW = (types.Array(t, 1, "C", readonly=True) for t in (types.uint64, types.uint32))
_NETWORK = types.Array(types.uint32, 1, "C", readonly=True)
_OUT = types.uint64[::1]


@njit(
    [types.int64(ids, types.uint64, types.uint64, types.uint64, _OUT) for ids in (_WIDE, _NARROW)],
    nogil=True,
    cache=True,
)
def select_block(ids, universe, first, size, slots):
    """Write the ids that fall in ``first .. first+size-1``, less `first`, to the front of `slots`.

    Returns how many there are, or -1 if an id is outside ``0..universe-1``. `slots` needs room for one more.
    """
    found = 0
    for i in range(len(ids)):
        if ids[i] >= universe:
            return -1
        place = u64(ids[i]) - first
        slots[found] = place
        found += int(place < size)
    return found


@njit(nogil=True, inline="always")
def _mix(value, key, tweak):
    """Hash 32 bits under a key; the high bits are the good ones."""
    h = u32(u32(value ^ key) * u32(0x9E3779B1))
    return u32(u32(h ^ u32(h >> u32(15)) ^ tweak) * u32(0x85EBCA77))


@njit(nogil=True, inline="always")
def _two_rounds(left, right, down, blocks, key_a, tweak_a, key_b, tweak_b):
    """Add a hash of `left` to `right` modulo 2**shift, then a hash of the new `right` to `left` modulo `blocks`.

    Either step can be undone, so any number of them is a permutation: an unbalanced Feistel network. `left` comes
    last because it alone decides, but for one block, who is in a sample.
    """
    right = u32(right ^ shift_right(_mix(left, key_a, tweak_a), down))
    add = u32(u32(_mix(right, key_b, tweak_b) >> u32(16)) * blocks)  # blocks is at most 2**16
    left = u32(left + u32(add >> u32(16)))
    return min(left, u32(left - blocks)), right  # the remainder: below `blocks`, subtracting wraps to something larger


@njit(nogil=True)
def _two_rounds_each(left, right, down, blocks, key_a, tweak_a, key_b, tweak_b):
    for i in range(len(left)):
        left[i], right[i] = _two_rounds(left[i], right[i], down, blocks, key_a, tweak_a, key_b, tweak_b)


@njit(nogil=True)
def permute(window, left, right, universe, network):
    """Write the halves of the places of some ids; False if an id is outside ``0..universe-1``."""
    shift, down, blocks, keys = network[0], u32(u32(32) - network[0]), network[1], network[2:]
    mask = (u64(1) << u64(shift)) - u64(1)
    largest = u64(0)
    for i in range(len(window)):
        index = u64(window[i])
        largest = max(largest, index)
        left[i] = u32(index >> u64(shift))
        right[i] = u32(index & mask)
    if largest >= universe:
        return False
    for r in range(0, len(keys), 4):
        _two_rounds_each(left, right, down, blocks, keys[r], keys[r + 1], keys[r + 2], keys[r + 3])
    return True


@njit(
    [
        types.int64(ids, _NETWORK, types.uint64, types.uint64, types.uint64, _OUT, types.uint32[::1])
        for ids in (_WIDE, _NARROW)
    ],
    nogil=True,
    cache=True,
)
def locate(ids, network, universe, first, size, slots, scratch):
    """Permute the ids; write the places that fall in ``first .. first+size-1``, less `first`, to the front of `slots`.

    Returns how many there are, or -1 if an id is outside ``0..universe-1``. Several loops over a window instead of
    one, since most of them vectorise by themselves. `slots` needs room for one more than there are ids; `scratch`
    is for three numbers of each id of a window. `network` is shift, blocks and the keys of the rounds.
    """
    shift = network[0]
    left, right = scratch[:WINDOW], scratch[WINDOW : 2 * WINDOW]
    near = scratch[2 * WINDOW :].view(np.uint16)
    lowest = u32(first >> u64(shift))  # the left halves of the first place and of the last
    span = u32(u32((first + size - u64(1)) >> u64(shift)) - lowest)
    found = 0
    for start in range(0, len(ids), WINDOW):
        window = ids[start : start + WINDOW]
        n = len(window)
        if not permute(window, left[:n], right[:n], universe, network):
            return -1
        close = 0
        for i in range(n):
            near[close] = i
            close += int(u32(left[i] - lowest) <= span)
        for k in near[:close]:
            place = ((u64(left[k]) << u64(shift)) | u64(right[k])) - first
            slots[found] = place
            found += int(place < size)
    return found


@njit(types.uint64(types.uint64, _NETWORK), nogil=True, cache=True)
def permute_one(index, network):
    """The place of one index; the same as `locate` for an array of one."""
    shift, down, blocks, keys = network[0], u32(u32(32) - network[0]), network[1], network[2:]
    left, right = u32(index >> u64(shift)), u32(index & ((u64(1) << u64(shift)) - u64(1)))
    for r in range(0, len(keys), 4):
        left, right = _two_rounds(left, right, down, blocks, keys[r], keys[r + 1], keys[r + 2], keys[r + 3])
    return (u64(left) << u64(shift)) | u64(right)

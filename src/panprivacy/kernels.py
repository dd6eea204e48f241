"""The loops that touch every event, compiled by numba and run without the GIL.

They draw nothing themselves: flips come in as arrays, so the same machine code runs under the operating system's
coins and under the auditor's.

Numba widens 32-bit arithmetic to 64 bits; the casts below keep it at 32, so that eight lanes fit a vector register.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-untyped-decorators=False
import numpy as np
from numba import njit

_WINDOW = 4_096  # ids permuted at a time: their halves stay in the first-level cache

u32, u64 = np.uint32, np.uint64


@njit(nogil=True, inline="always")
def _mix(value, key, tweak):
    """Hash 32 bits under a key; the high bits are the good ones."""
    h = u32(u32(value ^ key) * u32(0x9E3779B1))
    return u32(u32(h ^ u32(h >> u32(15)) ^ tweak) * u32(0x85EBCA77))


@njit(nogil=True, cache=True)
def _two_rounds(left, right, shift, blocks, key_a, tweak_a, key_b, tweak_b):
    """Add a hash of `right` to `left` modulo `blocks`, then a hash of the new `left` to `right` modulo 2**shift.

    Either step can be undone, so any number of them is a permutation: an unbalanced Feistel network.
    """
    down = u32(u32(32) - shift)
    for i in range(len(left)):
        a = u32(u32(_mix(right[i], key_a, tweak_a) >> u32(16)) * blocks)  # blocks is at most 2**16
        moved = u32(left[i] + u32(a >> u32(16)))
        # The remainder by `blocks`: below it, subtracting wraps around to something larger.
        left[i] = min(moved, u32(moved - blocks))
        right[i] = u32(right[i] ^ u32(_mix(left[i], key_b, tweak_b) >> down))


@njit(nogil=True, cache=True)
def locate(ids, shift, blocks, keys, first, size, slots):
    """Permute the ids; write the places that fall in ``first .. first+size-1``, less `first`, to the front of `slots`.

    Returns how many there are. Three loops over a window instead of one, since each of them vectorises by itself.
    `slots` needs room for one more than there are ids.
    """
    left = np.empty(_WINDOW, u32)
    right = np.empty(_WINDOW, u32)
    mask = (u64(1) << u64(shift)) - u64(1)
    found = u64(0)
    for start in range(0, len(ids), _WINDOW):
        window = ids[start : start + _WINDOW]
        n = len(window)
        for i in range(n):
            index = u64(window[i])
            left[i] = u32(index >> u64(shift))
            right[i] = u32(index & mask)
        for r in range(0, len(keys), 4):
            _two_rounds(left[:n], right[:n], shift, blocks, keys[r], keys[r + 1], keys[r + 2], keys[r + 3])
        for i in range(n):
            place = ((u64(left[i]) << u64(shift)) | u64(right[i])) - first
            slots[found] = place
            found += u64(place < size)
    return found


@njit(nogil=True, cache=True)
def permute_one(index, shift, blocks, keys):
    """The place of one index; the same as `locate` for an array of one."""
    left = np.full(1, u64(index) >> u64(shift), u32)
    right = np.full(1, u64(index) & ((u64(1) << u64(shift)) - u64(1)), u32)
    for r in range(0, len(keys), 4):
        _two_rounds(left, right, shift, blocks, keys[r], keys[r + 1], keys[r + 2], keys[r + 3])
    return (u64(left[0]) << u64(shift)) | u64(right[0])


@njit(nogil=True, cache=True)
def redraw(words, slots, flips):
    """Set the bit of each slot to its flip."""
    for i in range(len(slots)):
        slot = u64(slots[i])
        word = slot >> u64(6)
        bit = slot & u64(63)
        words[word] = (words[word] & ~(u64(1) << bit)) | (u64(flips[i]) << bit)

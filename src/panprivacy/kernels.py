"""The loops that touch every event, compiled by numba and run without the GIL.

They draw nothing themselves: flips come in as arrays, so the same machine code runs under the operating system's
coins and under the auditor's.

Numba widens 32-bit arithmetic to 64 bits; the casts below keep it at 32, so that eight lanes fit a vector register.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-untyped-decorators=False
import numpy as np
from numba import njit

from panprivacy.prefetch import prefetch

_WINDOW = 2_048  # ids permuted at a time: their halves stay in the first-level cache

_AHEAD = 64  # events between asking for a word and using it

u32, u64 = np.uint32, np.uint64


@njit(nogil=True, cache=True)
def compare(words, bound, below):
    """Tell of each 16-bit word whether it is below the bound, wipe it, and return where words equal the bound."""
    ties = np.empty(len(words), np.int64)
    bound = np.uint16(bound)
    found = 0
    for start in range(0, len(words), _WINDOW):
        window = words[start : start + _WINDOW]
        out = below[start : start + _WINDOW]
        tied = False
        for i in range(len(window)):
            out[i] = window[i] < bound
            tied |= window[i] == bound
        if tied:
            for i in range(len(window)):
                if window[i] == bound:
                    ties[found] = start + i
                    found += 1
        window[:] = 0
    return ties[:found].copy()


@njit(nogil=True, inline="always")
def _mix(value, key, tweak):
    """Hash 32 bits under a key; the high bits are the good ones."""
    h = u32(u32(value ^ key) * u32(0x9E3779B1))
    return u32(u32(h ^ u32(h >> u32(15)) ^ tweak) * u32(0x85EBCA77))


@njit(nogil=True, cache=True)
def _two_rounds(left, right, down, blocks, key_a, tweak_a, key_b, tweak_b):
    """Add a hash of `left` to `right` modulo 2**shift, then a hash of the new `right` to `left` modulo `blocks`.

    Either step can be undone, so any number of them is a permutation: an unbalanced Feistel network. `left` comes
    last because it alone decides, but for one block, who is in a sample.
    """
    for i in range(len(left)):
        a, b = left[i], right[i]
        b = u32(b ^ u32(_mix(a, key_a, tweak_a) >> down))
        add = u32(u32(_mix(b, key_b, tweak_b) >> u32(16)) * blocks)  # blocks is at most 2**16
        a = u32(a + u32(add >> u32(16)))
        left[i] = min(a, u32(a - blocks))  # the remainder: below `blocks`, subtracting wraps to something larger
        right[i] = b


@njit(nogil=True, cache=True)
def locate(ids, network, first, size, slots):
    """Permute the ids; write the places that fall in ``first .. first+size-1``, less `first`, to the front of `slots`.

    Returns how many there are. Three loops over a window instead of one, since each of them vectorises by itself.
    `slots` needs room for one more than there are ids. `network` is shift, blocks and the keys of the rounds.
    """
    shift, down, blocks, keys = network[0], u32(u32(32) - network[0]), network[1], network[2:]
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
            _two_rounds(left[:n], right[:n], down, blocks, keys[r], keys[r + 1], keys[r + 2], keys[r + 3])
        for i in range(n):
            place = ((u64(left[i]) << u64(shift)) | u64(right[i])) - first
            slots[found] = place
            found += u64(place < size)
    return found


@njit(nogil=True, cache=True)
def permute_one(index, network):
    """The place of one index; the same as `locate` for an array of one."""
    shift, down, blocks, keys = network[0], u32(u32(32) - network[0]), network[1], network[2:]
    left = np.full(1, u64(index) >> u64(shift), u32)
    right = np.full(1, u64(index) & ((u64(1) << u64(shift)) - u64(1)), u32)
    for r in range(0, len(keys), 4):
        _two_rounds(left, right, down, blocks, keys[r], keys[r + 1], keys[r + 2], keys[r + 3])
    return (u64(left[0]) << u64(shift)) | u64(right[0])


@njit(nogil=True, inline="always")
def _set_bit(words, slot, flip):
    word = slot >> u64(6)
    bit = slot & u64(63)
    words[word] = (words[word] & ~(u64(1) << bit)) | (u64(flip) << bit)


@njit(nogil=True, cache=True)
def redraw(words, slots, flips):
    """Set the bit of each slot to its flip, 0 or 1 in a byte."""
    for i in range(len(slots)):
        _set_bit(words, u64(slots[i]), flips[i])


@njit(nogil=True, cache=True)
def redraw_far(words, slots, flips):
    """`redraw` for a table beyond the caches: ask for each word some events before its turn."""
    last = len(slots) - 1
    for i in range(len(slots)):
        prefetch(words, u64(slots[min(i + _AHEAD, last)]) >> u64(6))  # type: ignore[call-arg]
        _set_bit(words, u64(slots[i]), flips[i])


@njit(nogil=True, cache=True)
def hash_ids(ids, first_key, second_key, hashes):
    """Mix 64-bit ids under two keys: two rounds of xorshift and multiply, and a last shift.

    The constants are those of Evensen's moremur, a finaliser chosen by search for its avalanche.
    """
    for i in range(len(ids)):
        h = ids[i] ^ first_key
        h = (h ^ (h >> u64(33))) * u64(0x3C79AC492BA7B653)
        h = (h ^ (h >> u64(27)) ^ second_key) * u64(0x1C69B3F74AC4AE35)
        hashes[i] = h ^ (h >> u64(33))


@njit(nogil=True, cache=True)
def cells(hashes, levels, buckets, slots):
    """Find the cell of each hash: level = trailing zeros, at most levels-1; bucket = high half times buckets / 2**32.

    The lowest set bit is turned into a float, whose exponent is its position: unlike counting zeros this vectorises.
    """
    cap = u64(1) << u64(levels - 1)
    lowest = np.empty(_WINDOW, np.float64)
    exponents = lowest.view(np.uint64)
    for start in range(0, len(hashes), _WINDOW):
        window = hashes[start : start + _WINDOW]
        out = slots[start : start + _WINDOW]
        for i in range(len(window)):
            low = np.int64(window[i] | cap)
            lowest[i] = np.float64(low & -low)
        for i in range(len(window)):
            level = (exponents[i] >> u64(52)) - u64(1023)
            out[i] = u32(level * u64(buckets) + (((window[i] >> u64(32)) * u64(buckets)) >> u64(32)))

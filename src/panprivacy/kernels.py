"""The loops that touch every event, compiled by numba and run without the GIL.

They draw nothing themselves: flips come in as arrays, so the same machine code runs under the operating system's
coins and under the auditor's.

Numba widens 32-bit arithmetic to 64 bits; the casts below keep it at 32, so that eight lanes fit a vector register.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-untyped-decorators=False
import numpy as np
from numba import njit

from panprivacy.instructions import prefetch, shift_right

_WINDOW = 2_048  # ids permuted at a time: their halves stay in the first-level cache

_AHEAD = 64  # events between asking for a word and using it
_SOON = 32  # the same, where one thing must be there before the next can be asked for

u32, u64 = np.uint32, np.uint64

_EACH_BYTE, _LOW_BITS, _ALL_BITS = u64(0x0101010101010101), u64(0x7F7F7F7F7F7F7F7F), u64(0xFFFFFFFFFFFFFFFF)


@njit(nogil=True, cache=True)
def compare(octets, bound):
    """Put 1 for each byte below the bound and 0 for the others; return where bytes equalled the bound.

    Eight bytes at a time are searched for equal ones: a byte of `differences` is zero where they are.
    """
    ties = np.empty(len(octets) + 8, np.uint32)  # most of it is never touched, and costs nothing
    found = 0
    whole = len(octets) // 8 * 8
    words = octets[:whole].view(np.uint64)
    pattern = u64(bound) * _EACH_BYTE
    for w in range(len(words)):
        differences = words[w] ^ pattern
        if ((differences & _LOW_BITS) + _LOW_BITS | differences | _LOW_BITS) != _ALL_BITS:
            for i in range(8 * w, 8 * w + 8):
                ties[found] = i
                found += int(octets[i] == bound)
    for i in range(whole, len(octets)):
        if octets[i] == bound:
            ties[found] = i
            found += 1
    for i in range(len(octets)):
        octets[i] = octets[i] < bound
    return ties[:found].copy()


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
    right = u32(right ^ shift_right(_mix(left, key_a, tweak_a), down))  # type: ignore[call-arg]
    add = u32(u32(_mix(right, key_b, tweak_b) >> u32(16)) * blocks)  # blocks is at most 2**16
    left = u32(left + u32(add >> u32(16)))
    return min(left, u32(left - blocks)), right  # the remainder: below `blocks`, subtracting wraps to something larger


@njit(nogil=True, cache=True)
def _two_rounds_each(left, right, down, blocks, key_a, tweak_a, key_b, tweak_b):
    for i in range(len(left)):
        left[i], right[i] = _two_rounds(left[i], right[i], down, blocks, key_a, tweak_a, key_b, tweak_b)


@njit(nogil=True, cache=True)
def locate(ids, network, universe, first, size, slots):
    """Permute the ids; write the places that fall in ``first .. first+size-1``, less `first`, to the front of `slots`.

    Returns how many there are, or -1 if an id is outside ``0..universe-1``. Several loops over a window instead of
    one, since most of them vectorise by themselves. `slots` needs room for one more than there are ids. `network` is
    shift, blocks and the keys of the rounds.
    """
    shift, down, blocks, keys = network[0], u32(u32(32) - network[0]), network[1], network[2:]
    left = np.empty(_WINDOW, u32)
    right = np.empty(_WINDOW, u32)
    mask = (u64(1) << u64(shift)) - u64(1)
    lowest = u32(first >> u64(shift))  # the left halves of the first place and of the last
    span = u32(u32((first + size - u64(1)) >> u64(shift)) - lowest)
    near = np.empty(_WINDOW + 1, np.uint16)
    found = 0
    for start in range(0, len(ids), _WINDOW):
        window = ids[start : start + _WINDOW]
        n = len(window)
        largest = u64(0)
        for i in range(n):
            index = u64(window[i])
            largest = max(largest, index)
            left[i] = u32(index >> u64(shift))
            right[i] = u32(index & mask)
        if largest >= universe:
            return -1
        for r in range(0, len(keys), 4):
            _two_rounds_each(left[:n], right[:n], down, blocks, keys[r], keys[r + 1], keys[r + 2], keys[r + 3])
        close = 0
        for i in range(n):
            near[close] = i
            close += int(u32(left[i] - lowest) <= span)
        for k in near[:close]:
            place = ((u64(left[k]) << u64(shift)) | u64(right[k])) - first
            slots[found] = place
            found += int(place < size)
    return found


@njit(nogil=True, cache=True)
def permute_one(index, network):
    """The place of one index; the same as `locate` for an array of one."""
    shift, down, blocks, keys = network[0], u32(u32(32) - network[0]), network[1], network[2:]
    left, right = u32(u64(index) >> u64(shift)), u32(u64(index) & ((u64(1) << u64(shift)) - u64(1)))
    for r in range(0, len(keys), 4):
        left, right = _two_rounds(left, right, down, blocks, keys[r], keys[r + 1], keys[r + 2], keys[r + 3])
    return (u64(left) << u64(shift)) | u64(right)


@njit(nogil=True, inline="always")
def _set_bit(words, slot, flip):
    word = slot >> u64(6)
    bit = slot & u64(63)
    words[word] = (words[word] & ~(u64(1) << bit)) | (u64(flip) << bit)


@njit(nogil=True, cache=True)
def redraw(words, size, slots, flips):
    """Set the bit of each slot to its flip, 0 or 1 in a byte; stop, and return False, at a slot that is none."""
    for i in range(len(slots)):
        slot = u64(slots[i])  # a negative number becomes a huge one
        if slot >= size:
            return False
        _set_bit(words, slot, flips[i])
    return True


@njit(nogil=True, cache=True)
def redraw_far(words, size, slots, flips):
    """`redraw` for a table beyond the caches: ask for each word some events before its turn."""
    last = len(slots) - 1
    for i in range(len(slots)):
        prefetch(words, u64(slots[min(i + _AHEAD, last)]) >> u64(6))  # type: ignore[call-arg]
        slot = u64(slots[i])
        if slot >= size:
            return False
        _set_bit(words, slot, flips[i])
    return True


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


@njit(nogil=True, cache=True)
def find(wanted, checks, shift, starts, entries, found):
    """Find each wanted hash among sorted entries, of which those that begin with b are starts[b] .. starts[b+1]-1.

    An entry is a hash, a check that must agree too, and the position to be found.
    """
    last = len(wanted) - 1
    flat = entries.ravel()
    for i in range(len(wanted)):
        prefetch(starts, wanted[min(i + 2 * _SOON, last)] >> shift)  # type: ignore[call-arg]
        prefetch(flat, u64(3) * u64(starts[wanted[min(i + _SOON, last)] >> shift]))
        first = wanted[i] >> shift
        found[i] = -1
        for place in range(starts[first], starts[first + u64(1)]):
            if entries[place, 0] == wanted[i] and entries[place, 1] == checks[i]:
                found[i] = entries[place, 2]

"""The loops that turn keystream into flips, compiled by numba and run without the GIL.

They make no array of their own: what they need comes in as scratch, which the caller wipes. Their types are fixed, so
they are compiled or loaded when this module is, and no event changes them.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-untyped-decorators=False
import numpy as np
from numba import njit, types

u32, u64 = np.uint32, np.uint64

_EACH_BYTE, _LOW_BITS, _ALL_BITS = u64(0x0101010101010101), u64(0x7F7F7F7F7F7F7F7F), u64(0xFFFFFFFFFFFFFFFF)

_OCTETS, _PLACES = types.uint8[::1], types.uint32[::1]


@njit(types.int64(_OCTETS, types.uint8, _PLACES), nogil=True, cache=True)
def compare(octets, bound, ties):
    """Put 1 for each byte below the bound and 0 for the others; list in `ties` where bytes equalled the bound.

    Returns how many ties there are; one more place of `ties` may be written to. Eight bytes at a time are searched
    for equal ones: a byte of `differences` is zero where they are.
    """
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
    return found


@njit(types.void(_OCTETS, _PLACES, _PLACES, types.uint32), nogil=True, cache=True)
def settle(octets, ties, words, bound):
    """Decide the bytes that tied: 1 where the high 24 bits of the tie's own word are below the bound."""
    for i in range(len(words)):
        octets[ties[i]] = u32(words[i] >> u32(8)) < bound


@njit(types.int64(_OCTETS, types.int64), nogil=True, cache=True)
def keep_remainders(octets, n):
    """Move the remainders modulo n to the front, of all bytes below the largest multiple of n; return how many."""
    end = 256 // n * n
    kept = 0
    for i in range(len(octets)):
        octet = octets[i]
        octets[kept] = octet % n
        kept += int(octet < end)
    return kept

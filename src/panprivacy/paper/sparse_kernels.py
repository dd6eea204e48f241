"""Between a list of slots and bits: loops, compiled by numba when this module is loaded."""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-untyped-decorators=False
import numpy as np
from numba import njit, types

from panprivacy.table.kernels import READ_WORDS, WORDS

u64 = np.uint64


@njit(types.void(READ_WORDS, types.uint64, WORDS), nogil=True, cache=True)
def spread(listed, size, bits):
    """Set the bits of the listed slots, up to the first that is `size` or more, and no others."""
    bits[:] = u64(0)
    for slot in listed:
        if slot >= size:
            break
        bits[slot >> u64(6)] |= u64(1) << (slot & u64(63))


@njit(types.void(READ_WORDS, WORDS), nogil=True, cache=True)
def gather(bits, listed):
    """List the slots whose bit is 1, in ascending order; the rest of the list becomes 2**64-1."""
    found = 0
    for slot in range(len(listed)):
        if bits[slot >> 6] >> u64(slot & 63) & u64(1):
            listed[found] = slot
            found += 1
    listed[found:] = u64(0xFFFFFFFFFFFFFFFF)


@njit(types.void(READ_WORDS, types.Array(types.int64, 1, "C", readonly=True), types.int64[::1]), nogil=True, cache=True)
def count_ones(listed, edges, counts):
    """Write how many of the listed slots are between each edge and the next one."""
    counts[:] = 0
    for slot in listed:
        for i in range(len(counts)):
            if u64(edges[i]) <= slot < u64(edges[i + 1]):
                counts[i] += 1


@njit(types.boolean(READ_WORDS, types.uint64), nogil=True, cache=True)
def is_list(words, size):
    """Whether these are ascending slots below `size`, and after them 2**64-1 only."""
    for i in range(len(words)):
        if words[i] >= size and words[i] != u64(0xFFFFFFFFFFFFFFFF):
            return False
        if i and words[i] <= words[i - 1] and words[i - 1] < size:
            return False
        if i and words[i] < size and words[i - 1] >= size:
            return False
    return True

"""The loops that find the position of every id, compiled by numba and run without the GIL.

Ids come as 64-bit words that are not written to; results go to scratch, which the caller wipes. The types
are fixed, so that the kernels are compiled or loaded when this module is, and no event changes them.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-untyped-decorators=False
import numpy as np
from numba import njit, types

from panprivacy.memory.intrinsics import prefetch

_SOON = 32  # events between asking for one thing and for the next that depends on it

u64 = np.uint64

_MISSING = u64(0xFFFFFFFFFFFFFFFF)

_IDS, _PAIRS = (types.Array(types.uint64, n, "C", readonly=True) for n in (1, 2))
_OUT = types.uint64[::1]


@njit(types.void(_IDS, types.uint64, types.uint64, _OUT), nogil=True, cache=True)
def hash_ids(ids, first_key, second_key, hashes):
    """Mix 64-bit ids under two keys: two rounds of xorshift and multiply, and a last shift.

    The constants are from Evensen's moremur, a finaliser chosen by search for its avalanche.
    """
    for i in range(len(ids)):
        h = ids[i] ^ first_key
        h = (h ^ (h >> u64(33))) * u64(0x3C79AC492BA7B653)
        h = (h ^ (h >> u64(27)) ^ second_key) * u64(0x1C69B3F74AC4AE35)
        hashes[i] = h ^ (h >> u64(33))


_STARTS = (types.Array(t, 1, "C", readonly=True) for t in (types.uint32, types.uint64))


@njit([types.int64(_IDS, _IDS, types.uint64, starts, _PAIRS, _OUT) for starts in _STARTS], nogil=True, cache=True)
def find(wanted, checks, bits, starts, entries, found):
    """Find each wanted hash among sorted entries, of which those that begin with b are starts[b] .. starts[b+1]-1.

    An entry is the hash without these first bits, the position to be found in as many last bits, and a check that must
    agree too. Writes 2**64-1 for a hash that is not there, and returns how many are not.
    """
    last, missing = len(wanted) - 1, 0
    flat, shift, positions = entries.ravel(), u64(64) - bits, (u64(1) << bits) - u64(1)
    for i in range(len(wanted)):
        prefetch(starts, wanted[min(i + 2 * _SOON, last)] >> shift)  # type: ignore[call-arg]
        prefetch(flat, u64(2) * u64(starts[wanted[min(i + _SOON, last)] >> shift]))
        first, rest = wanted[i] >> shift, wanted[i] << bits
        position = _MISSING
        for place in range(u64(2) * u64(starts[first]), u64(2) * u64(starts[first + u64(1)]), u64(2)):
            if flat[place] ^ rest <= positions and flat[place + u64(1)] == checks[i]:
                position = flat[place] & positions
                break
        found[i] = position
        missing += int(position == _MISSING)
    return missing


@njit(types.int64(_IDS, _OUT), nogil=True, cache=True)
def miss_high(ids, found):
    """Note as not found the ids from 2**63 on, which as words look like negative numbers; return how many were."""
    missed = 0
    for i in range(len(ids)):
        if ids[i] >> u64(63) and found[i] != _MISSING:
            found[i] = _MISSING
            missed += 1
    return missed


@njit(types.int64(_PAIRS, types.uint64, types.boolean, _OUT), nogil=True, cache=True)
def edge_indices(ends, nodes, directed, indices):
    """Write the position of every edge; 2**64-1 for a pair that joins no two different nodes. Returns how many such."""
    wrong = 0
    for i in range(len(ends)):
        source, target = ends[i, 0], ends[i, 1]
        low, high = min(source, target), max(source, target)
        if high >= nodes or low == high:
            indices[i] = _MISSING
            wrong += 1
        elif directed:
            indices[i] = source * (nodes - u64(1)) + target - u64(target > source)
        else:
            indices[i] = high * (high - u64(1)) // u64(2) + low
    return wrong

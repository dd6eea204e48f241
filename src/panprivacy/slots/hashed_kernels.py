"""The loops that find the cell of every hash; see `panprivacy.slots.kernels`."""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-untyped-decorators=False
# mypy: disable-error-code="call-arg, var-annotated"
import numpy as np
from numba import njit, types

from panprivacy.memory.intrinsics import ones_in
from panprivacy.slots.kernels import WINDOW

u32, u64 = np.uint32, np.uint64

_WIDE = types.Array(types.uint64, 1, "C", readonly=True)
_OUT = types.uint64[::1]


@njit(types.void(_WIDE, types.int64, types.int64, types.uint32[::1], types.float64[::1]), nogil=True, cache=True)
def cells(hashes, levels, buckets, slots, lowest):
    """Find the cell of each hash: level = trailing zeros, at most levels-1; bucket = high half times buckets / 2**32.

    The lowest set bit is turned into a float, whose exponent is its position: unlike counting zeros this vectorises.
    `lowest` is scratch for a window.
    """
    cap = u64(1) << u64(levels - 1)
    exponents = lowest.view(np.uint64)
    for start in range(0, len(hashes), WINDOW):
        window = hashes[start : start + WINDOW]
        out = slots[start : start + WINDOW]
        for i in range(len(window)):
            low = np.int64(window[i] | cap)
            lowest[i] = np.float64(low & -low)
        for i in range(len(window)):
            level = (exponents[i] >> u64(52)) - u64(1023)
            out[i] = u32(level * u64(buckets) + (((window[i] >> u64(32)) * u64(buckets)) >> u64(32)))


@njit(nogil=True, inline="always")
def _digit(hash_, categories):
    """The category of a hash: mixed once more, so that it goes with every level and bucket alike."""
    h = (hash_ ^ (hash_ >> u64(33))) * u64(0x3C79AC492BA7B653)
    h = (h ^ (h >> u64(27))) * u64(0x1C69B3F74AC4AE35)
    return ((h >> u64(32)) * categories) >> u64(32)


@njit(types.int64(_WIDE, _WIDE, _WIDE, types.int64, types.int64, types.int64, _OUT), nogil=True, cache=True)
def category_cells(hashes, codes, ranks, categories, levels, buckets, slots):
    """Write the cell of each hash that is asked about the category of its event to the front of `slots`.

    Category `ranks[code]` has the levels x buckets cells from ``rank * levels * buckets`` on; a code beyond the last is
    the last. Returns how many there are. `slots` needs room for one more.
    """
    cap, last = u64(1) << u64(levels - 1), u64(len(ranks) - 1)
    found = 0
    for i in range(len(hashes)):
        hash_ = hashes[i]
        rank = ranks[min(codes[i], last)]
        low = hash_ | cap
        level = ones_in((low & (~low + u64(1))) - u64(1))
        bucket = ((hash_ >> u64(32)) * u64(buckets)) >> u64(32)
        slots[found] = (rank * u64(levels) + level) * u64(buckets) + bucket
        found += int(_digit(hash_, u64(categories)) == rank)
    return found

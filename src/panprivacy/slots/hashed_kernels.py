"""The loops that find slots by category, and cells by hash; only some estimators need them. See `slots.kernels`."""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-untyped-decorators=False
# mypy: disable-error-code="call-arg, var-annotated"
import numpy as np
from numba import njit, types

from panprivacy.memory.intrinsics import ones_in
from panprivacy.slots.kernels import WINDOW, permute

u32, u64 = np.uint32, np.uint64

_WIDE, _NARROW = (types.Array(t, 1, "C", readonly=True) for t in (types.uint64, types.uint32))
_OUT = types.uint64[::1]


@njit(
    [types.int64(ids, _WIDE, _NARROW, types.uint64, _WIDE, _WIDE, _OUT, types.uint32[::1]) for ids in (_WIDE, _NARROW)],
    nogil=True,
    cache=True,
)
def locate_in_category(ids, codes, network, universe, bounds, ranks, slots, scratch):
    """Permute the ids; write the places of those who are asked about the category of their event to `slots`.

    Category `ranks[code]` has the places ``bounds[rank] .. bounds[rank+1]-1``; a code beyond the last is the last.
    Returns how many there are, or -1 if an id is outside ``0..universe-1``, whatever its category. The rest is as in
    `locate`, where most ids have a place beyond those that are looked for; here most have one.
    """
    shift = network[0]
    left, right = scratch[:WINDOW], scratch[WINDOW : 2 * WINDOW]
    last = u64(len(ranks) - 1)
    found = 0
    for start in range(0, len(ids), WINDOW):
        window = ids[start : start + WINDOW]
        asked = codes[start : start + WINDOW]
        n = len(window)
        if not permute(window, left[:n], right[:n], universe, network):
            return -1
        for i in range(n):
            place = (u64(left[i]) << u64(shift)) | u64(right[i])
            rank = ranks[min(asked[i], last)]
            slots[found] = place
            found += int(bounds[rank] <= place < bounds[rank + u64(1)])
    return found


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

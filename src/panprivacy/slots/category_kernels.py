"""The loop that finds the slots of users who are asked about a category; see `panprivacy.slots.kernels`."""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-untyped-decorators=False
# mypy: disable-error-code="call-arg, var-annotated"
import numpy as np
from numba import njit, types

from panprivacy.slots.kernels import WINDOW, permute

u64 = np.uint64

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

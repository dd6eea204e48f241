"""The loop that looks for ids outside a range, compiled by numba and run without the GIL.

The types are fixed, so that the kernel is compiled or loaded when this module is, and no event changes that.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-untyped-decorators=False
from numba import njit, types

_IDS, _NARROW = (types.Array(t, 1, "C", readonly=True) for t in (types.uint64, types.uint32))


@njit([types.int64(ids, types.uint64) for ids in (_IDS, _NARROW)], nogil=True, cache=True)
def count_outside(ids, size):
    """How many ids are ``size`` or more; a negative number, read as a word, is one of them."""
    outside = 0
    for i in range(len(ids)):
        outside += int(ids[i] >= size)
    return outside

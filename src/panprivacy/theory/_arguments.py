"""Checking arguments, and returning a Python float when only scalars came in."""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
Real = float | FloatArray


def inside(
    name: str,
    value: ArrayLike,
    low: float,
    high: float,
    *,
    ends: Literal["()", "(]", "[]"] = "()",
    whole: bool = False,
) -> FloatArray:
    """Return ``value`` as floats, or say which of its entries is outside the interval."""
    array = np.asarray(value, dtype=np.float64)
    good = (array > low) & (array < high)
    good |= (ends[0] == "[") & (array == low) | (ends[1] == "]") & (array == high)
    if whole:
        good &= array == np.floor(array)
    if not good.all():
        kind = "a whole number" if whole else "a number"
        wanted = f"{kind} in {ends[0]}{low:g}, {high:g}{ends[1]}"
        raise ValueError(f"{name} = {array[~good].flat[0]:g} must be {wanted}")
    return array


def positive(name: str, value: ArrayLike) -> FloatArray:
    return inside(name, value, 0, np.inf)


def count(name: str, value: ArrayLike) -> FloatArray:
    """Check a number of users; beyond 2**53 floats no longer hold every integer."""
    return inside(name, value, 1, 2**53, ends="[]", whole=True)


def plain(result: ArrayLike) -> Real:
    """Turn a zero-dimensional result into a float and leave arrays alone."""
    array = np.asarray(result, dtype=np.float64)
    return float(array) if array.ndim == 0 else array

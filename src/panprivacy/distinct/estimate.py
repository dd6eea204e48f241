"""A count with its error, and how the counts of several tables add up."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import hypot, sqrt


@dataclass(frozen=True)
class Estimate:
    """The most likely count, its standard error, and the ends of the interval that the likelihood leaves."""

    count: float
    stderr: float
    low: float
    high: float


def total(parts: Sequence[Estimate]) -> Estimate:
    """The estimate of a sum: counts add, variances add, and so do the squares of the distances to the ends.

    The last is the method of variance estimates recovery (Zou and Donner 2008), which keeps intervals lopsided where
    those of the parts are, and one part's interval as it is.

    >>> total([Estimate(100.0, 30.0, low=40.0, high=180.0), Estimate(200.0, 40.0, low=120.0, high=350.0)])
    Estimate(count=300.0, stderr=50.0, low=200.0, high=470.0)
    """
    count = sum(part.count for part in parts)
    return Estimate(
        count=count,
        stderr=sqrt(sum(part.stderr**2 for part in parts)),
        low=count - hypot(*(part.count - part.low for part in parts)),
        high=count + hypot(*(part.high - part.count for part in parts)),
    )


def not_negative(found: Estimate) -> Estimate:
    """The same estimate, knowing that no count is negative.

    The interval of a negative estimate c holds what a test against zero, the likeliest count that remains, would let
    pass: n with ``(n-c)^2 - c^2 <= (high-c)^2``. It always holds zero.
    """
    if found.count >= 0:
        return replace(found, low=max(found.low, 0.0))
    high = found.count + hypot(found.high - found.count, found.count)
    return Estimate(0.0, found.stderr, 0.0, high)

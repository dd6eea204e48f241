"""For which counts a table of levels and buckets keeps to an error.

The relative standard error falls like 1/count while the table is nearly empty, is about the same from 4 x buckets users
on, and grows without bound when the last level is full. So an error holds from some count up to another, and a smaller
error takes more buckets and holds from a larger count on.
"""

from math import ceil

import numpy as np

from panprivacy.distinct.likelihood import CountModel

_STEPS_AN_OCTAVE = 4  # of the grid of counts on which the error is first looked at


def relative_stderr(model: CountModel, count: float) -> float:
    """The standard error at a true count, as a share of it."""
    return model.stderr(count) / count


def counts_within(model: CountModel, error: float) -> tuple[int, int] | None:
    """The smallest and the largest count at which the relative standard error is at most `error`; None if nowhere.

    >>> from fractions import Fraction
    >>> from panprivacy.privacy.noise import Laplace
    >>> from panprivacy.privacy.pairs import symmetric
    >>> model = CountModel(symmetric(0.9), levels=10, buckets=4096, noise=Laplace(Fraction(14, 100)))
    >>> counts_within(model, error=0.04)
    (5603, 3415382)
    """
    most = np.log2(64.0 * model.buckets) + model.levels  # by then even the last level is full
    counts = 2.0 ** (np.arange(most * _STEPS_AN_OCTAVE + 1) / _STEPS_AN_OCTAVE)
    errors = np.array([relative_stderr(model, count) for count in counts.tolist()])
    within = np.flatnonzero(errors <= error)
    if not len(within):
        return None
    start, stop = int(within[0]), int(within[-1])
    first = _furthest(model, error, ceil(counts[start]), int(counts[start - 1]) if start else 0)
    last = _furthest(model, error, int(counts[stop]), ceil(counts[min(stop + 1, len(counts) - 1)]))
    return first, last


def _furthest(model: CountModel, error: float, within: int, outside: int) -> int:
    """The last count that is within the error, on the way from one that is to one that is not."""
    while abs(outside - within) > 1:
        middle = (within + outside) // 2
        if relative_stderr(model, middle) <= error:
            within = middle
        else:
            outside = middle
    return within

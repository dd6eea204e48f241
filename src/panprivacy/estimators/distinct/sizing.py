"""How large a table of levels and buckets a wanted error takes, and for which counts the error holds.

The relative standard error falls like 1/count while the table is nearly empty, is about the same from 3 x buckets users
on, and grows without bound when the last level is full. So an error holds from some count up to another, and a smaller
error takes more buckets and holds from a larger count on.
"""

from functools import lru_cache
from math import ceil, log2

import numpy as np

from panprivacy.errors import InvalidValue
from panprivacy.estimators.distinct.likelihood import CountModel
from panprivacy.privacy.noise import Noise
from panprivacy.privacy.pairs import Pair
from panprivacy.privacy.splitting import best_split
from panprivacy.slots.hashed import LARGEST_BUCKETS, LARGEST_LEVELS

LARGEST_COUNT = 10**12
"""The count that the levels have room for unless told otherwise."""
_ABOUT = 1.001  # the error still moves a little, up and down, when it has settled
_STEPS_AN_OCTAVE = 4  # of the grid of counts on which the error is first looked at


def levels_for(buckets: int, count: int = LARGEST_COUNT) -> int:
    """Levels enough for half of the last one to stay empty when `count` users have come; at most 32.

    >>> levels_for(4096), levels_for(4096, count=10**6), levels_for(4096, count=100)
    (29, 9, 1)
    """
    return min(max(1 + ceil(log2(count / buckets)), 1), LARGEST_LEVELS)


def buckets_for(
    error: float, epsilon: float, releases: int = 1, intrusions: int = 0, delta: float | None = None
) -> int:
    """The least number of buckets, give or take 1 %, whose relative standard error is at most `error`.

    >>> buckets_for(0.02, epsilon=1.0)
    9598
    """
    if not 0 < error < 1:
        raise InvalidValue(f"error is a relative standard error between 0 and 1, got {error}", code="error-range")

    def excess(buckets: int) -> float:
        split = best_split(epsilon, buckets, releases, intrusions, delta)
        return relative_error(split.pair_after(intrusions), buckets, split.noise) / error

    buckets = 64
    for _ in range(8):  # the error is nearly one over the square root of the buckets: a few steps come close
        buckets = min(max(ceil(buckets * excess(buckets) ** 2), 2), LARGEST_BUCKETS)
    low, high, step = 0, buckets, max(buckets // 256, 1)
    while excess(high) > 1:
        if high == LARGEST_BUCKETS:
            raise InvalidValue(
                f"an error of {error} takes more than {high:,} buckets; allow more error or epsilon",
                code="error-too-small",
            )
        low, high, step = high, min(high + step, LARGEST_BUCKETS), 2 * step
    while low and high - low > max(low // 256, 1):
        middle = (low + high) // 2
        low, high = (middle, high) if excess(middle) > 1 else (low, middle)
    return high


def relative_error(pair: Pair, buckets: int, noise: Noise) -> float:
    """The relative standard error at every count from about 3 x buckets on, for releases with this noise.

    >>> from fractions import Fraction
    >>> from panprivacy.privacy.noise import Laplace
    >>> from panprivacy.privacy.pairs import symmetric
    >>> round(relative_error(symmetric(0.9), 4096, Laplace(Fraction(14, 100))), 4)
    0.0317
    """
    count = 1024.0 * buckets
    return model_of(pair, 24, buckets, noise).stderr(count) / count


@lru_cache(maxsize=64)
def model_of(pair: Pair, levels: int, buckets: int, noise: Noise, share: float = 1.0) -> CountModel:
    """The law of the counts of such a table, kept for the next release."""
    return CountModel(pair, levels, buckets, noise, share)


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


@lru_cache(maxsize=64)
def settled_from(model: CountModel, error: float) -> int:
    """The count from which on the relative standard error stays at `error`, rounded up to two digits.

    `error` is that of `relative_error`. At epsilon 1 this is about 3 x buckets; with more noise it is more.
    """
    found = counts_within(model, error * _ABOUT)
    first = model.buckets if found is None else found[0]
    unit: int = 10 ** max(len(str(first)) - 2, 0)
    return -(-first // unit) * unit


def _furthest(model: CountModel, error: float, within: int, outside: int) -> int:
    """The last count within the error, between a count within and a count outside of it."""
    while abs(outside - within) > 1:
        middle = (within + outside) // 2
        if relative_stderr(model, middle) <= error:
            within = middle
        else:
            outside = middle
    return within

"""How large a table of levels and buckets a wanted error takes."""

from functools import lru_cache
from math import ceil, log2

from panprivacy.distinct.likelihood import CountModel
from panprivacy.privacy.noise import Noise
from panprivacy.privacy.pairs import Pair
from panprivacy.privacy.splitting import best_split
from panprivacy.slots.hashed import LARGEST_BUCKETS, LARGEST_LEVELS

LARGEST_COUNT = 10**12
"""The count that the levels have room for unless told otherwise."""


def levels_for(buckets: int, count: int = LARGEST_COUNT) -> int:
    """Levels enough for half of the last one to stay empty when so many users have come; at most 32.

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
        raise ValueError(f"error is a relative standard error between 0 and 1, got {error}")

    def excess(buckets: int) -> float:
        split = best_split(epsilon, buckets, releases, intrusions, delta)
        return relative_error(split.pair_after(intrusions), buckets, split.noise) / error

    buckets = 64
    for _ in range(8):  # the error is nearly one over the square root of the buckets: a few steps come close
        buckets = min(max(ceil(buckets * excess(buckets) ** 2), 2), LARGEST_BUCKETS)
    while excess(buckets) > 1:
        if buckets == LARGEST_BUCKETS:
            raise ValueError(f"an error of {error} takes more than {buckets:,} buckets; allow more error or epsilon")
        buckets = min(buckets + max(buckets // 256, 1), LARGEST_BUCKETS)
    return buckets


def relative_error(pair: Pair, buckets: int, noise: Noise) -> float:
    """The relative standard error at every count from about 4 x buckets on, for releases with this noise.

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

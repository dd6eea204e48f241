"""What so many hits in so many runs tell of a probability, with a stated chance of being wrong."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Counts: TypeAlias = NDArray[np.int64]
Reals: TypeAlias = NDArray[np.float64]


def clopper_pearson(hits: Counts, runs: int, error: float) -> tuple[Reals, Reals]:
    """A lower and an upper bound of a probability, each wrong with probability at most `error`.

    They are exact (Clopper and Pearson 1934): the probabilities at which as many hits or more, or as many or fewer,
    come with probability `error`.

    >>> low, high = clopper_pearson(np.array([50]), 100, 0.025)
    >>> round(float(low[0]), 4), round(float(high[0]), 4)
    (0.3983, 0.6017)
    """
    from scipy.special import betaincinv

    low = np.where(hits > 0, betaincinv(np.maximum(hits, 1), runs - hits + 1, error), 0.0)
    high = np.where(hits < runs, betaincinv(hits + 1, np.maximum(runs - hits, 1), 1 - error), 1.0)
    return low, high

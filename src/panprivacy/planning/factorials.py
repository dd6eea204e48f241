"""Hypergeometric probabilities of any size to ten digits or more.

Differences of logarithms of the factorials of a billion keep only five digits. As in Loader, "Fast and accurate
computation of binomial probabilities" (2000), the large parts are therefore put together before they are computed:

    ln n! = n ln n - n + rest(n),

and the sum of ``n ln n`` over the four cells of the table (seen or not, sampled or not) is, up to a constant, the sum
of ``e * ((1+t) ln(1+t) - t)``, where t is the share by which a cell exceeds its expectation e.
"""

from math import pi
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Reals: TypeAlias = NDArray[np.float64]

_SMALL_SHARE = 1e-3  # below it the series is exact to the last digit, and the formula is not
_SMALL_NUMBER = 24  # from here on so is Stirling's


def log_hypergeometric(excess: Reals, population: int, seen: int, users: int) -> Reals:
    """``ln P(S = E S + excess)`` for ``S ~ Hypergeometric(population, seen, users)``, up to a constant.

    >>> p = np.exp(log_hypergeometric(np.array([-1.0, 0.0, 1.0]), population=4, seen=2, users=2))
    >>> (p / p.sum()).round(6).tolist()
    [0.166667, 0.666667, 0.166667]
    """
    mean = users * seen / population
    neither = population - seen - users + mean
    total = np.zeros_like(excess)
    for expected, more in ((mean, excess), (seen - mean, -excess), (users - mean, -excess), (neither, excess)):
        total += expected * _divergence(more / expected) + _rest(np.maximum(expected + more, 0.0))
    return -total


def _divergence(t: Reals) -> Reals:
    """``(1+t) ln(1+t) - t``."""
    from scipy.special import xlog1py

    series = t**2 * (1 / 2 - t * (1 / 6 - t * (1 / 12 - t * (1 / 20 - t / 30))))
    return np.where(np.abs(t) < _SMALL_SHARE, series, xlog1py(1 + np.maximum(t, -1.0), np.maximum(t, -1.0)) - t)


def _rest(n: Reals) -> Reals:
    """``ln n! - n ln n + n``: Stirling's series, or the definition where n is small."""
    from scipy.special import gammaln, xlogy

    large = np.maximum(n, _SMALL_NUMBER)
    inverse = 1 / large**2
    series = (1 / 12 - inverse * (1 / 360 - inverse * (1 / 1260 - inverse / 1680))) / large
    small = np.minimum(n, _SMALL_NUMBER)
    return np.where(
        n < _SMALL_NUMBER, gammaln(small + 1) - xlogy(small, small) + small, series + np.log(2 * pi * large) / 2
    )

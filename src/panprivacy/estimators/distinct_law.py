r"""The law of the noisy counts of a table: how many users make them likely, and how large a table an error takes.

Of n users, each is in level l with probability ``q_l = 2**-(l+1)`` (the last level takes the rest) and there in one
of B buckets, so a bucket of level l is occupied with probability ``o_l(n) = 1 - (1 - q_l/B)**n``. An occupied bucket
holds a 1 with probability p1, an empty one with p0. Hence the ones of level l have

    mean      mu_l = B*r_l,      r_l = p0 + (p1 - p0)*o_l,
    variance  B*r_l*(1 - r_l) = B*p0*p1 + (p1 - p0)**2 * B*o_l*(1 - o_l),

coins and occupancy together, and the release adds noise. The score, the derivative of the log-likelihood, is

    S(n) = sum over l of  mu_l'(n) * psi_l(noisy_l - mu_l(n)),

psi_l being the score of a location under normal plus Laplace noise (`estimates.errors`), or under the normal law that
Gaussian noise only widens. That is the score of the exact
binomial law where there is no noise, since there ``psi_l(x) = x / variance``, and that of the sum of both where there
are enough buckets for the ones to be normal. Maximum likelihood is the root of S; likelihood ratios are its integral.

**Levels are taken as independent**, which they would be if n were Poisson. For a fixed n they are not, and that only
helps: the covariance is ``D - n mu' mu'^T`` up to terms of relative order 1/n, so by Sherman and Morrison the best
weights stay those of D alone, and the variance of the estimate falls from ``1/I`` to ``1/I - n``, where
``I = mu'^T D^-1 mu'``. Standard errors subtract n, and likelihood ratios are divided by ``1 - n*I``.

Below zero the means go on in a straight line. No truth lies there, but an estimate may: estimates cut off at zero are
biased, and the bias would add up in a sum of them.

**Size.** The relative standard error falls like 1/count while the table is nearly empty, is about the same from 3 x
buckets users on, and grows without bound when the last level is full. So an error holds from some count up to another,
and a smaller error takes more buckets and holds from a larger count on.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import asinh, ceil, hypot, inf, log2, sinh, sqrt
from typing import NamedTuple

import numpy as np

from panprivacy.errors import InvalidValue
from panprivacy.estimates.errors import Reals, information, interval_within, score
from panprivacy.estimates.estimate import Estimate
from panprivacy.privacy.noise import Laplace, Noise
from panprivacy.privacy.pairs import Pair
from panprivacy.privacy.splitting import best_split
from panprivacy.slots.users import LARGEST_BUCKETS, LARGEST_LEVELS

_STEP = 0.2  # of the grid on which the peak is first looked for
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(4)
_INTEGERS = 1 / 12  # variance of rounding to a whole number: no count is surer than that


@dataclass(frozen=True)
class CountModel:
    """The law of the noisy counts of ones, level by level, given the number of users.

    >>> from fractions import Fraction
    >>> from panprivacy.privacy.pairs import symmetric
    >>> model = CountModel(symmetric(0.9), levels=28, buckets=4096, noise=Laplace(Fraction(14, 100)))
    >>> round(model.stderr(1e6) / 1e6, 4)
    0.0317
    >>> found = model.fit(np.rint(model.at(np.array([1e6])).means[0]), level=0.95)
    >>> abs(found.value / 1e6 - 1) < 0.01, found.interval[0] < 1e6 < found.interval[1]
    (True, True)
    """

    pair: Pair
    levels: int
    buckets: int
    noise: Noise
    share: float = 1.0
    """The share of users that the hash sends to this table: a user is in level l with ``share * 2**-(l+1)``."""

    @cached_property
    def _rates(self) -> Reals:
        """``-ln(1 - q_l/B)``: how fast the buckets of each level fill."""
        exponents = np.minimum(np.arange(1, self.levels + 1), self.levels - 1)
        return -np.log1p(-np.ldexp(self.share / self.buckets, -exponents))

    @cached_property
    def _scale(self) -> float:
        """Scale of the Laplace law with the variance of the noise; none, if the noise is Gaussian."""
        return sqrt(self.noise.variance / 2) if isinstance(self.noise, Laplace) else 0.0

    @cached_property
    def at_zero(self) -> float:
        """Standard error of the estimate when no user has come."""
        return self.stderr(0.0)

    @cached_property
    def grid(self) -> tuple[Reals, Reals, "_Levels", Reals]:
        """What the likelihood of all counts needs: a grid of u, points between, their laws, and `fixed` on the grid."""
        full = 40.0 / float(self._rates[-1])  # beyond it even the last level is full
        grid = np.arange(-5.0, asinh(full / self.at_zero) + _STEP, _STEP)
        middles = ((grid[:-1, None] + _STEP / 2) + _STEP / 2 * _NODES).ravel()
        n = self.at_zero * np.sinh(grid)
        return grid, middles, self.at(self.at_zero * np.sinh(middles)), self.fixed(n, self.at(n))

    def at(self, n: Reals) -> "_Levels":
        """The law of the ones of each level, a row for each n."""
        exposure = np.minimum(n[:, None] * self._rates, 100.0)  # beyond 100 a level is full to the last digit
        filled = np.maximum(exposure, 0.0)
        p0, gap, buckets = float(self.pair.p0), self.pair.gap, self.buckets
        occupied = -np.expm1(-filled)
        ones = p0 + gap * occupied
        normal = _INTEGERS + (0.0 if self._scale else self.noise.variance)
        return _Levels(
            means=buckets * (ones + gap * np.minimum(exposure, 0.0)),
            slopes=buckets * gap * self._rates * np.exp(-filled),
            variances=buckets * ones * (1 - ones) + normal,
        )

    def score(self, noisy: Reals, at: "_Levels") -> Reals:
        """S(n), for each n."""
        total: Reals = (at.slopes * score(noisy - at.means, np.sqrt(at.variances), self._scale)).sum(axis=1)
        return total

    def fixed(self, n: Reals, at: "_Levels") -> Reals:
        """``1 - n*I``, with the information under normal noise, which is the smaller and errs on the safe side."""
        normal = (at.slopes**2 / (at.variances + 2 * self._scale**2)).sum(axis=1)
        return np.asarray(np.maximum(1 - np.maximum(n, 0.0) * normal, 1e-9))

    def stderr(self, n: float) -> float:
        """Standard error of the estimate at a true count, ``sqrt(1/I - n)``, from the Fisher information I."""
        n = max(n, 0.0)
        at = self.at(np.array([n]))
        total = float(at.slopes[0] ** 2 @ information(np.sqrt(at.variances[0]), self._scale))
        return sqrt(max(1 / total - n, 0.0)) if total else inf

    def noise_stderr(self, n: float) -> float:
        """What the noise adds to the standard error at a true count, taking it for normal."""
        at = self.at(np.array([max(n, 0.0)]))
        slopes = at.slopes[0]
        weights = slopes / (at.variances[0] + 2 * self._scale**2)
        whole = float(weights @ slopes)
        return sqrt(self.noise.variance * float(weights @ weights)) / whole if whole else inf

    def fit(self, noisy: Reals, level: float) -> Estimate:
        """The most likely count, which may be negative, and the likelihood-ratio interval around it.

        The interval holds every n that a chi-squared test of one degree of freedom lets pass. It ends at infinity
        if the counts suggest more users than the levels can tell apart.
        """
        from scipy.optimize import brentq
        from scipy.special import chdtri

        # The log-likelihood over n = unit*sinh(u), a scale that is even near zero and geometric far from it.
        unit, (grid, middles, at_middles, fixed) = self.at_zero, self.grid

        def slope(u: Reals, at: _Levels | None = None) -> Reals:
            return self.score(noisy, self.at(unit * np.sinh(u)) if at is None else at) * unit * np.cosh(u)

        heights = np.append(0.0, np.cumsum(slope(middles, at_middles).reshape(-1, len(_NODES)) @ _WEIGHTS * _STEP / 2))

        def height(u: float) -> float:
            start = min(max(int((u - grid[0]) / _STEP), 0), len(grid) - 1)
            half = (u - grid[start]) / 2
            return float(heights[start] + half * (slope(grid[start] + half * (1 + _NODES)) @ _WEIGHTS))

        best = int(np.argmax(heights))
        left, right = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
        rising, falling = slope(np.array([left, right]))
        peak = float(grid[best])
        if rising > 0 > falling:  # else it is at the end of the grid
            peak = float(brentq(lambda u: float(slope(np.array([u]))[0]), left, right, xtol=1e-9))
        top, allowed = height(peak), float(chdtri(1, 1 - level))

        def excess(u: float) -> float:
            n = np.array([unit * sinh(u)])
            return 2 * (top - height(u)) / float(self.fixed(n, self.at(n))[0]) - allowed

        points = np.append(grid[2 * (top - heights) / fixed <= allowed], peak)
        before, after = grid[grid < points.min()], grid[grid > points.max()]
        low = unit * sinh(brentq(excess, before[-1], points.min(), xtol=1e-6)) if len(before) else -inf
        high = unit * sinh(brentq(excess, points.max(), after[0], xtol=1e-6)) if len(after) else inf
        count = unit * sinh(peak)
        return Estimate(count, self.stderr(count), (low, high), count, "users")


class _Levels(NamedTuple):
    """The law of the ones of each level, a row for each of several numbers of users."""

    means: Reals
    slopes: Reals
    """Derivatives of the means."""
    variances: Reals
    """Of the parts that are about normal: the ones, and Gaussian noise."""


def total(parts: Sequence[Estimate]) -> Estimate:
    """The estimate of a sum: counts add, variances add, and so do the squares of the distances to the ends.

    The last is the method of variance estimates recovery (Zou and Donner 2008), which keeps intervals lopsided where
    those of the parts are, and one part's interval as it is. No count is negative, though a part may be, and the
    interval of a negative sum holds zero.

    >>> total([Estimate(100.0, 30.0, (40.0, 180.0)), Estimate(200.0, 40.0, (120.0, 350.0))])
    Estimate(value=300.0, stderr=50.0, interval=(200.0, 470.0), raw=300.0, unit='users')
    """
    count = sum(part.value for part in parts)
    below = hypot(*(part.value - part.interval[0] for part in parts))
    above = hypot(*(part.interval[1] - part.value for part in parts))
    stderr = sqrt(sum((part.stderr or 0.0) ** 2 for part in parts))
    return Estimate(max(count, 0.0), stderr, interval_within(count, below, above, inf), count, "users")


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


model_of = lru_cache(maxsize=64)(CountModel)
"""The law of the counts of such a table, kept for the next release."""


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

    def errs_more(count: int) -> bool:
        return relative_stderr(model, count) > error

    low, last = int(counts[start - 1]) + 1 if start else 1, int(counts[stop])
    beyond = range(last + 1, ceil(counts[min(stop + 1, len(counts) - 1)]))
    first = low + bisect_left(range(low, ceil(counts[start])), True, key=lambda count: not errs_more(count))
    return first, last + bisect_left(beyond, True, key=errs_more)


@lru_cache(maxsize=64)
def settled_from(model: CountModel, error: float) -> int:
    """The count from which on the relative standard error stays at `error`, rounded up to two digits.

    `error` is that of `relative_error`. At epsilon 1 this is about 3 x buckets; with more noise it is more.
    """
    found = counts_within(model, error * _ABOUT)
    first = model.buckets if found is None else found[0]
    unit: int = 10 ** max(len(str(first)) - 2, 0)
    return -(-first // unit) * unit

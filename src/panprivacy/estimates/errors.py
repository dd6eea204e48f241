r"""How much estimates err: by the coins of the bits, by sampling and by the noise of releases; and their intervals.

Everything here works on numbers, and on arrays with a number for each of many tables.

**Normal plus Laplace.** The errors by drawn bits and by the noise of a release sum to ``N(0, sigma^2) +
Laplace(scale)``, whose density is ``e^(sigma^2/(2 scale^2)) / (2 scale) * (right + left)`` with

    right = e^(-x/scale) * Phi(x/sigma - sigma/scale),        left = e^(x/scale) * Phi(-x/sigma - sigma/scale).
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import erfc, exp, hypot, log, sqrt
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from panprivacy.checks import check_level
from panprivacy.estimates.estimate import NOTHING, Estimate
from panprivacy.privacy.coins import ONE
from panprivacy.privacy.noise import Gaussian, Laplace, Noise
from panprivacy.privacy.pairs import Pair

Reals: TypeAlias = NDArray[np.float64]

_FAR = 50.0  # standard errors: no law here leaves a probability that a float could tell from 0 beyond
_MANY = 8  # noises whose sum is about normal
LEAST_KNOWN = 4.0
"""By how many standard errors the whole is above zero, at least, for a ratio whose bias is small beside its error."""
_LOWERED, _RAISED, _FALL = 3.0, 6.0, 1.3
"""How far the whole of a ratio is lowered at that limit, in standard errors; how often its variance is added; and how
fast both fall beyond the limit. Chosen by measurement, for a bias below half a standard error in ratios that are told
in one of twenty releases or more, and intervals that hold: `benchmarks/headlines.py`."""
_LARGEST = 0.5  # the standard deviation of a share, at most
_EXACT, _MOST_STEPS = 1e-13, 64  # how near a crossing is found, and in how many steps: some 12 are enough
_FEW = 24  # tables: up to so many are faster one by one
_UNDERFLOW = -36.0  # below it the normal law is no full float
_LOST = 1e-3  # noise this small beside sigma only adds to the variance


def _log_sides(x: Reals, sigma: Reals, scale: float) -> tuple[Reals, Reals]:
    """Logarithms of `right` and `left`."""
    from scipy.special import log_ndtr

    z, ratio = x / sigma, sigma / scale
    return -x / scale + log_ndtr(z - ratio), x / scale + log_ndtr(-z - ratio)


def score(x: Reals, sigma: Reals, scale: float) -> Reals:
    """Derivative of the log-density by the location: ``(right - left) / (right + left) / scale``.

    It is ``x / sigma^2`` near zero noise, and never beyond ``1/scale``: one outlier cannot carry the estimate off.

    >>> bool(np.isclose(score(np.array(1.0), np.array(2.0), 1e-9), 0.25))
    True
    >>> float(score(np.array(90.0), np.array(1.0), 4.0))
    0.25
    """
    if scale < _LOST * sigma.min():
        return np.asarray(x / (sigma**2 + 2 * scale**2))
    right, left = _log_sides(x, sigma, scale)
    return np.asarray(np.tanh((right - left) / 2) / scale)


def information(sigma: Reals, scale: float) -> Reals:
    """Fisher information of the location: the mean square of the score, summed over a grid.

    It lies between the ``1/(sigma^2 + 2*scale^2)`` of a normal law and the ``1/scale^2`` of a Laplace law.

    >>> information(np.array([3.0, 0.01]), 1.0).round(4).tolist()
    [0.0911, 0.9897]
    """
    if scale < _LOST * sigma.min():
        return np.asarray(1 / (sigma**2 + 2 * scale**2))
    # Even in the logarithm near zero and far out, so that both scales are resolved wherever they differ much.
    x = np.sinh(np.linspace(0, 1, 120)[:, None] * np.arcsinh(10 * (1 + 3 * scale / sigma))) * sigma
    right, left = _log_sides(x, sigma, scale)
    less = np.exp(left - right)  # at most 1, since no x is negative
    density_times_square = np.exp(right + (sigma / scale) ** 2 / 2) * (1 - less) ** 2 / (1 + less)
    return np.asarray(np.trapezoid(density_times_square, x, axis=0) / scale**3)


def normal_laplace_cdf(x: Any, sigma: Any, scale: Any) -> Any:
    """Distribution function of ``N(0, sigma^2) + Laplace(scale)``, of numbers or of arrays.

    >>> round(normal_laplace_cdf(0.0, 1.0, 2.0), 6)
    0.5
    >>> normal_laplace_cdf(np.array([0.0, -1.0]), np.array([1.0, 0.0]), np.array([2.0, 1.0])).round(4).tolist()
    [0.5, 0.1839]
    """
    return _cdf_of_many(x, sigma, scale) if isinstance(x, np.ndarray) else _cdf_of_one(x, sigma, scale)


def _cdf_of_one(x: float, sigma: float, scale: float) -> float:
    """The same for numbers, ten times as fast: a search for an interval asks thirty times."""
    if scale < _LOST * sigma:
        return _normal_cdf(x / sqrt(sigma**2 + 2 * scale**2))
    if sigma == 0:
        return 0.5 * exp(x / scale) if x < 0 else 1 - 0.5 * exp(-x / scale)
    z, ratio = x / sigma, sigma / scale
    half = ratio**2 / 2
    right = exp(half - x / scale + _log_normal_cdf(z - ratio))
    left = exp(half + x / scale + _log_normal_cdf(-z - ratio))
    return _normal_cdf(z) - 0.5 * (right - left)


def _normal_cdf(z: float) -> float:
    return 0.5 * erfc(-z / sqrt(2))


def _log_normal_cdf(z: float) -> float:
    if z <= _UNDERFLOW:
        from scipy.special import log_ndtr
    return log(_normal_cdf(z)) if z > _UNDERFLOW else float(log_ndtr(z))


def _cdf_of_many(x: Reals, sigma: Any, scale: Any) -> Reals:
    from scipy.special import log_ndtr, ndtr

    lost, certain = scale < _LOST * sigma, sigma == 0
    width, rate = np.where(certain, 1.0, sigma), np.where(lost, sigma, scale)  # where neither is used, any will do
    z, ratio = x / width, width / rate
    with np.errstate(over="ignore", invalid="ignore"):
        right = np.exp(ratio**2 / 2 - x / rate + log_ndtr(z - ratio))
        left = np.exp(ratio**2 / 2 + x / rate + log_ndtr(-z - ratio))
        both = ndtr(z) - 0.5 * (right - left)
        tails = 0.5 * np.exp(-np.abs(x) / rate)
    normal = ndtr(x / np.hypot(width, np.sqrt(2) * scale))
    return np.asarray(np.where(lost, normal, np.where(certain, np.where(x < 0, tails, 1 - tails), both)))


_MOST_LAPLACES = 64  # terms; a sum of more is normal up to a hundredth of its excess


def normal_laplaces_cdf(x: Any, sigma: Any, scale: Any, times: int) -> Any:
    """Distribution function of ``N(0, sigma^2)`` plus `times` independent ``Laplace(scale)``, of numbers or of arrays.

    Their sum is ``N(0, 2*scale^2*G)`` with G drawn from a Gamma law of shape `times`, over which it is averaged.

    >>> one, two = normal_laplace_cdf(-3.0, 1.0, 2.0), normal_laplaces_cdf(-3.0, 1.0, 2.0, 1)
    >>> bool(abs(one - two) < 1e-3)
    True
    """
    from scipy.special import ndtr

    if times > _MOST_LAPLACES:
        return ndtr(x / np.sqrt(sigma**2 + 2 * times * scale**2))
    gammas, weights = _mixture(times)
    widths = np.sqrt(np.square(sigma)[..., None] + 2 * np.square(scale)[..., None] * gammas)
    return ndtr(np.asarray(x)[..., None] / widths) @ weights


@lru_cache(maxsize=64)
def _mixture(times: int) -> tuple[Reals, Reals]:
    """Nodes and weights of a quadrature over a Gamma law of this shape."""
    from scipy.special import roots_genlaguerre

    gammas, weights = roots_genlaguerre(48, times - 1)
    return gammas, weights / weights.sum()


class _Operations(NamedTuple):
    """The functions of formulas: of Python's numbers, which is ten times as fast for one, or of arrays."""

    least: Callable[..., Any]
    largest: Callable[..., Any]
    sqrt: Callable[[Any], Any]
    hypot: Callable[[Any, Any], Any]
    where: Callable[[Any, Any, Any], Any]


_OF_ONE = _Operations(min, max, sqrt, hypot, lambda first, one, other: one if first else other)
_OF_MANY = _Operations(np.minimum, np.maximum, np.sqrt, np.hypot, np.where)


def _for(number: Any) -> _Operations:
    return _OF_MANY if isinstance(number, np.ndarray) else _OF_ONE


def within(raw: Any) -> Any:
    """An estimate of a share, brought into [0, 1]."""
    do = _for(raw)
    return do.least(do.largest(raw, 0.0), 1.0)


def interval_within(raw: Any, below: Any, above: Any, most: float = 1.0, width: Any = 0.0) -> tuple[Any, Any]:
    """The interval of an estimate that is known to be between 0 and `most`.

    Without bounds it would reach from ``end - below`` to ``end + above`` around the nearest possible value, `end`. An
    estimate beyond an end has the interval that a test against that end, the likeliest value that remains, would let
    pass: x with ``(x-raw)^2 - (end-raw)^2 <= above^2``, or ``below^2``. It is at least `width` wide.

    >>> interval_within(0.5, 0.2, 0.3), interval_within(-1.0, 0.1, 0.75)
    ((0.3, 0.8), (0.0, 0.25))
    """
    do = _for(raw)
    away = do.least(do.largest(raw, 0.0), most) - raw
    low = do.largest(do.least(raw - do.hypot(below, away), most - width), 0.0)
    high = do.least(do.largest(raw + do.hypot(above, away), width), most)
    return low, high


@dataclass(frozen=True)
class SampleDesign:
    """A table of `bits`, of which `users` are somebody's, a sample without replacement of a `population`.

    >>> from panprivacy.privacy.pairs import symmetric
    >>> design = SampleDesign(symmetric(1.0), bits=1000, users=1000, population=1000)
    >>> round(design.whole, 1), round(design.bit_variance(0.5), 1), design.sample_variance(0.5)
    (462.1, 196.6, 0.0)
    """

    pair: Pair
    bits: int
    users: int
    population: int

    @property
    def whole(self) -> float:
        """How many more ones there are on average once all users have appeared."""
        return self.users * self.pair.gap

    def bit_variance(self, share: Any) -> Any:
        """Variance of the number of ones by the coins alone, if this share of the users has appeared."""
        p0, p1 = self.pair.absent / ONE, self.pair.present / ONE
        seen = share * self.users
        return (self.bits - seen) * p0 * (1 - p0) + seen * p1 * (1 - p1)

    def sample_variance(self, share: Any) -> Any:
        """Variance of the number of sampled users among those who appeared: sampling without replacement."""
        return self.users * share * (1 - share) * self.unsampled

    @property
    def unsampled(self) -> Any:
        """What sampling without replacement leaves of the variance of sampling with it; 0 if all users are sampled."""
        return (self.population - self.users) / (self.population - 1 + (self.population == 1))


@dataclass(frozen=True)
class ErrorModel(SampleDesign):
    """The law of an estimate around the density: bits and sampling, about normal, plus the noise of the release.

    For many tables at once, `bits`, `users` and `population` are arrays; so are the answers then.
    """

    bits: Any
    users: Any
    population: Any
    noise: Noise
    times: int = 1
    """How many counts were added up, each with noise of its own."""

    def estimate(self, noisy_ones: int, level: float) -> Estimate:
        """The density that a noisy number of ones speaks for, with its error."""
        raw = self.density(noisy_ones)
        value = within(raw)
        return Estimate(value, self.stderr(value), self.interval(raw, level), raw)

    def estimates(self, noisy_ones: Any, level: float) -> list[Estimate]:
        """The same for many tables: an estimate for each."""
        if len(self.bits) <= _FEW:
            tables = zip(self.bits.tolist(), self.users.tolist(), self.population.tolist(), noisy_ones, strict=True)
            return [replace(self, bits=b, users=u, population=p).estimate(n, level) for b, u, p, n in tables]
        raw = self.density(np.asarray(noisy_ones))
        value = within(raw)
        low, high = self.interval(raw, level)
        columns = (each.tolist() for each in (value, self.stderr(value), low, high, raw))
        return [Estimate(v, error, (a, b), unbounded) for v, error, a, b, unbounded in zip(*columns, strict=True)]

    def density(self, noisy_ones: Any) -> Any:
        """``(noisy - bits*p0) / (users*(p1-p0))``: unbiased for the density of the sampled users."""
        return (noisy_ones - self.bits * (self.pair.absent / ONE)) / self.whole

    def normal_variance(self, density: Any) -> Any:
        """Variance of the drawn bits and of the sampling, for a true density.

        Sampling without replacement: ``d(1-d)/users * (population-users)/(population-1)``.
        """
        return self.bit_variance(density) / self.whole**2 + self.sample_variance(density) / self.users**2

    @cached_property
    def noise_stderr(self) -> Any:
        """Standard deviation of the noise, in units of density."""
        return sqrt(self.times * self.noise.variance) / self.whole

    def variance_at(self, raw: float) -> "ErrorVariance":
        """The variance of an estimate, taking it for the truth."""
        return ErrorVariance(float(self.normal_variance(within(raw))), self.noise_stderr**2, self.noise)

    def difference_variance(self, touched: float, share: float) -> "ErrorVariance":
        r"""The variance of the share that changed between two releases, o1 and then o2: ``(o1 - o2) / whole``.

        Bits that no event touched are the same in both, and cancel. A bit that was touched is drawn anew, so that

            Var(o1 - o2) = 2 b m p1 p0 + 2 V,        Cov(o1, o1 - o2) = b m p1 p0 + V,

        with b the share `touched` of the m users, and V the variance of the noise of a release.
        """
        bits, noise = self._of_difference(touched)
        return ErrorVariance(2 * bits + self.sample_variance(share) / self.users**2, 2 * noise, self.noise)

    def difference_covariance(self, touched: float, share: float, before: float) -> "ErrorVariance":
        """With the estimate of the share before, of which the share that changed is a part."""
        bits, noise = self._of_difference(touched)
        return ErrorVariance(bits + share * (1 - before) * self.unsampled / self.users, noise, self.noise)

    def _of_difference(self, touched: float) -> tuple[float, float]:
        """``b m p1 p0`` and V, as squares of a share. By whichever coin a bit was drawn, its variance is p1 p0."""
        coin = float(self.pair.p1 * self.pair.p0)
        return touched * self.users * coin / self.whole**2, self.times * self.noise.variance / self.whole**2

    def stderr(self, density: Any) -> Any:
        """Standard error of the estimate, for a true density."""
        variance = self.normal_variance(density)
        do = _for(variance)
        return do.hypot(do.sqrt(variance), self.noise_stderr)

    def cdf(self, error: Any, density: Any) -> Any:
        """Probability that the estimate is above a true density by at most this much."""
        v0, v1, v2 = self._quadratic
        inside = within(density)
        variance = v0 + inside * (v1 + inside * v2)
        do = _for(variance)
        normal = do.sqrt(do.largest(variance, 0.0))
        if isinstance(self.noise, Laplace) and self.times > 1:
            return normal_laplaces_cdf(error, normal, self.noise_stderr / sqrt(2 * self.times), self.times)
        if isinstance(self.noise, Laplace):
            return normal_laplace_cdf(error, normal, self.noise_stderr / sqrt(2))
        from scipy.special import ndtr

        return ndtr(error / do.hypot(normal, self.noise_stderr))

    def interval(self, estimate: Any, level: float) -> tuple[Any, Any]:
        """All densities that a two-sided test at this level would not reject, given an estimate within [0, 1].

        An estimate far below 0, or far above 1, would have every density rejected. One that is beyond an end has the
        interval of `interval_within`: more than the first test leaves, and at least half a count wide. So near an end
        intervals hold the truth more often than `level`: with up to ``(1 + level) / 2``, and yet more often where both
        ends are near.
        """
        end = within(estimate)
        low, high = self._unbounded(end, level)
        return interval_within(estimate, end - low, high - end, width=0.5 / self.whole)

    def _unbounded(self, estimate: Any, level: float) -> tuple[Any, Any]:
        """The interval that an estimate would have if densities had no bounds."""
        tail = (1 - check_level(level)) / 2
        # Counts are whole numbers. Without half of one to either side, intervals of few counts (epsilon above 10) miss
        # up to four times as often as they say.
        half = 0.5 / self.whole
        normal = self._end(estimate - half, -1, tail), self._end(estimate + half, 1, tail)
        if isinstance(self.noise, Gaussian):
            return normal
        far = min(_FAR, 2 / sqrt(tail)) * (self.stderr(0.5) + half)  # by Chebyshev's inequality, twice over
        low = _crossing(lambda d: 1 - self.cdf(estimate - half - d, d) - tail, estimate - far, estimate, normal[0])
        high = _crossing(lambda d: tail - self.cdf(estimate + half - d, d), estimate, estimate + far, normal[1])
        return low, high

    def _end(self, estimate: Any, side: int, tail: float) -> Any:
        """The density d below (side -1) or above (1) an estimate with ``(estimate-d)^2 = z^2 * variance(d)``.

        All is normal here, and the variance a quadratic in d, so d is a root of one. Outside [0, 1] the variance is
        that of the end.
        """
        z, (v0, v1, v2) = _deviations(tail), self._quadratic
        end = 0.0 if side < 0 else 1.0
        beyond = estimate + side * z * self.stderr(end)
        a, b = 1 - z**2 * v2, estimate + z**2 * v1 / 2  # a*d^2 - 2*b*d + c = 0
        c = estimate**2 - z**2 * (v0 + self.noise_stderr**2)
        do = _for(b)
        root = (b + side * do.sqrt(do.largest(b**2 - a * c, 0.0))) / a
        return do.where(side * (beyond - end) >= 0, beyond, root)

    @cached_property
    def _quadratic(self) -> tuple[Any, Any, Any]:
        """The coefficients of 1, d and d^2 in `normal_variance`."""
        at_0, at_half, at_1 = (self.normal_variance(d) for d in (0.0, 0.5, 1.0))
        bend = 2 * (at_0 + at_1 - 2 * at_half)
        return at_0, at_1 - at_0 - bend, bend


@lru_cache(maxsize=64)
def _deviations(tail: float) -> float:
    """How many standard deviations out a normal law leaves this tail."""
    from scipy.special import ndtri

    return float(-ndtri(tail))


def _crossing(rising: Callable[[Any], Any], low: Any, high: Any, guess: Any) -> Any:
    """Where rising functions cross zero, each between two bounds; the nearer bound of one that does not.

    Both searches look near a guess first.
    """
    near = (high - low) / 24
    if isinstance(low, np.ndarray):
        left, right = guess - near, guess + near
        return _crossings(rising, np.where(rising(left) < 0, left, low), np.where(rising(right) >= 0, right, high))
    from scipy.optimize import brentq

    for left, right in ((guess - near, guess + near), (low, high)):
        with suppress(ValueError):  # both bounds are on one side of zero
            return float(brentq(rising, left, right, xtol=1e-12))
    return low if rising(low) >= 0 else high


def _crossings(rising: Callable[[Reals], Reals], low: Reals, high: Reals) -> Reals:
    """The crossings of many functions, by the rule of false position: a bound that stays weighs less each time."""
    at_low, at_high = rising(low), rising(high)
    found, none, was_above = np.where(at_low >= 0, low, high), (at_low >= 0) | (at_high < 0), None
    for _ in range(_MOST_STEPS):
        share = np.divide(at_low, at_low - at_high, out=np.zeros_like(low), where=~none)
        point = np.where(none, found, low + (high - low) * share)
        value = rising(point)
        near, found, above = np.abs(point - found), point, value >= 0
        if (near < _EXACT).all():
            break
        lighter = np.where(above == was_above, 0.5, 1.0)
        at_low, at_high = np.where(above, lighter * at_low, value), np.where(above, value, lighter * at_high)
        low, high, was_above = np.where(above, low, point), np.where(above, point, high), above
    return found


# --- sums and differences of estimates ------------------------------------------------------------------------------


@dataclass(frozen=True)
class ErrorVariance:
    """The variance of an estimate in two parts, about normal and by noise; of two estimates, their covariances.

    The noise of several releases is taken for that of one with the same variance. Its tails are heavier than those of a
    sum, so intervals of sums are rather too wide than too narrow.

    >>> from fractions import Fraction
    >>> round(ErrorVariance(1.0, 0.0, Laplace(Fraction(1))).half_width(0.95), 4)
    1.96
    """

    normal: float
    """By bits and sampling."""
    released: float
    """By the noise of releases."""
    noise: Noise

    @property
    def stderr(self) -> float:
        """Standard deviation."""
        return sqrt(self.normal + self.released)

    def less(self, share: float, other: "ErrorVariance", both: "ErrorVariance") -> "ErrorVariance":
        """The error of this estimate less a share of another one; `both` are their covariances."""
        normal, released = (
            mine - 2 * share * common + share**2 * others
            for mine, common, others in (
                (self.normal, both.normal, other.normal),
                (self.released, both.released, other.released),
            )
        )
        return ErrorVariance(max(normal, 0.0), max(released, 0.0), self.noise)

    def times(self, unit: float) -> "ErrorVariance":
        """The error of the estimate in another unit."""
        return ErrorVariance(unit**2 * self.normal, unit**2 * self.released, self.noise)

    def half_width(self, level: float) -> float:
        """The distance that the error stays within with this probability."""
        from scipy.optimize import brentq
        from scipy.special import ndtri

        tail = (1 + level) / 2
        if not isinstance(self.noise, Laplace) or not self.released:
            return float(ndtri(tail)) * self.stderr
        far = _FAR * self.stderr
        return float(brentq(lambda x: self._cdf(x) - tail, 0.0, far, xtol=1e-12 * far))

    def beyond(self, error: float) -> float:
        """The probability of an error of this size, or a larger one, in either direction."""
        return 2 * self._cdf(-error)

    def _cdf(self, error: float) -> float:
        if isinstance(self.noise, Laplace):
            return _cdf_of_one(error, sqrt(self.normal), sqrt(self.released / 2))
        return _normal_cdf(error / self.stderr)

    def estimate(self, raw: float, level: float) -> Estimate:
        """An estimate of a share with this error."""
        arm = self.half_width(level)
        return Estimate(within(raw), self.stderr, interval_within(raw, arm, arm), raw)


def mean_of(counts: Sequence[tuple[ErrorModel, int]]) -> tuple[float, ErrorVariance]:
    """The mean of the shares that independent counts speak for, and its error; noise of many is about normal."""
    raws = [law.density(noisy) for law, noisy in counts]
    errors = [law.variance_at(raw) for (law, _), raw in zip(counts, raws, strict=True)]
    errors_of = ((error.normal, error.released) for error in errors)
    normal, released = (sum(parts) / len(errors) ** 2 for parts in zip(*errors_of, strict=True))
    together = ErrorVariance(normal, released, errors[0].noise)
    if len(errors) >= _MANY:
        together = ErrorVariance(normal + released, 0.0, errors[0].noise)
    return sum(raws) / len(raws), together


def ratio_of(
    part: float, whole: float, errors: tuple[ErrorVariance, ErrorVariance, ErrorVariance], level: float
) -> Estimate:
    r"""The ratio of two estimates, the first of a part of the second, by Fieller's theorem (1954).

    The interval holds the ratios q that a test of ``part - q*whole = 0`` would let pass: an inequality of the second
    degree in q. Unless the whole is above zero by `LEAST_KNOWN` standard errors, there is not enough data: the ratio is
    nan, and the interval [0, 1]. What the two have in common is first taken out of the whole: else a ratio would be
    told rather where an error makes both larger, and a small one would be biased.

    A whole just beyond that limit came out too large on average. So there it is lowered, and its variance raised, both
    by ``exp(-_FALL*x)``, with x its distance from the limit in standard errors. No correction is exact, and this one
    leaves less than half a standard error: explanation/retention.md has the proof, and the measurement.

    `errors` are those of the part and of the whole, and their covariances.
    """
    of_part, of_whole, of_both = errors
    covariance = of_both.normal + of_both.released
    common = covariance / of_part.stderr**2
    own = sqrt(max(of_whole.stderr**2 - common * covariance, 0.0))
    beyond = whole - common * part - LEAST_KNOWN * own
    if beyond <= 0 or whole <= LEAST_KNOWN / 2 * of_whole.stderr:
        return NOTHING._replace(raw=None)
    near = exp(-_FALL * beyond / own) if own else 0.0
    whole = max(whole - _LOWERED * near * own, own)
    of_whole = replace(of_whole, normal=of_whole.normal + _RAISED * near * own**2)
    part = min(max(part, 0.0), whole)
    value = part / whole
    around = of_part.less(value, of_whole, of_both)
    square = (around.half_width(level) / around.stderr) ** 2
    a, b, c = (  # the test passes if a q^2 - 2 b q + c <= 0
        whole**2 - square * of_whole.stderr**2,
        part * whole - square * covariance,
        part**2 - square * of_part.stderr**2,
    )
    root = sqrt(max(b**2 - a * c, 0.0))
    low = c / (b + root) if c > 0 else 0.0
    high = (b + root) / a if a > 0 else 1.0
    return Estimate(value, min(around.stderr / whole, _LARGEST), (min(low, value), min(max(high, value), 1.0)))

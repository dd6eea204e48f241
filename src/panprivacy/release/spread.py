"""The law of an estimate around the density that it estimates, and the intervals that follow from it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import hypot, sqrt

from panprivacy.checks import check_level
from panprivacy.privacy.noise import Gaussian, Laplace, Noise
from panprivacy.release.normal_laplace import normal_laplace_cdf, normal_laplaces_cdf
from panprivacy.release.tracked import Tracked

_FAR = 50.0  # standard errors: no law here leaves a probability that a float could tell from 0 beyond


@dataclass(frozen=True)
class Spread(Tracked):
    """The law of the estimate around a density: bits and sampling, about normal, plus the noise of the release."""

    noise: Noise
    times: int = 1
    """How many counts were added up, each with noise of its own."""

    def density(self, noisy_ones: int) -> float:
        """``(noisy - bits*p0) / (users*(p1-p0))``: unbiased for the density of the sampled users."""
        return float((noisy_ones - self.bits * float(self.pair.p0)) / self.whole)

    def normal_variance(self, density: float) -> float:
        """Variance of the drawn bits and of the sampling, for a true density.

        Sampling without replacement: ``d(1-d)/users * (population-users)/(population-1)``.
        """
        variance = self.bit_variance(density) / self.whole**2 + self.sample_variance(density) / self.users**2
        return float(variance)

    @cached_property
    def noise_stderr(self) -> float:
        """Standard deviation of the noise, in units of density."""
        return float(sqrt(self.times * self.noise.variance) / self.whole)

    def stderr(self, density: float) -> float:
        """Standard error of the estimate, for a true density."""
        return hypot(sqrt(self.normal_variance(density)), self.noise_stderr)

    def cdf(self, error: float, density: float) -> float:
        """Probability that the estimate is above a true density by at most this much."""
        normal = sqrt(self._normal_variance_at(min(max(density, 0.0), 1.0)))
        if isinstance(self.noise, Laplace) and self.times > 1:
            return float(normal_laplaces_cdf(error, normal, self.noise_stderr / sqrt(2 * self.times), self.times))
        if isinstance(self.noise, Laplace):
            return normal_laplace_cdf(error, normal, self.noise_stderr / sqrt(2))
        from scipy.special import ndtr

        return float(ndtr(error / hypot(normal, self.noise_stderr)))

    def interval(self, estimate: float, level: float) -> tuple[float, float]:
        """All densities that a two-sided test at this level would not reject, given an estimate within [0, 1].

        An estimate far below 0, or far above 1, would have every density rejected. One that is beyond an end e has
        the densities d that a test against e, the likeliest density that remains, would let pass, as in
        `DistinctCount`: ``(d-estimate)^2 - (e-estimate)^2 <= (arm of the interval of e)^2``. These are more than the
        first test leaves, and their interval has width: half a count, at least. So near an end intervals hold the
        truth more often than `level`: with up to ``(1 + level) / 2``, and yet more often where both ends are near.
        """
        end = min(max(estimate, 0.0), 1.0)
        low, high = self._unbounded(end, level)
        if estimate < end:
            high = max(estimate + hypot(high - end, end - estimate), self._half_a_count)
        elif estimate > end:
            low = min(estimate - hypot(end - low, estimate - end), 1 - self._half_a_count)
        return max(low, 0.0), min(high, 1.0)

    def _unbounded(self, estimate: float, level: float) -> tuple[float, float]:
        """The interval that an estimate would have if densities had no bounds."""
        tail = (1 - check_level(level)) / 2
        # Counts are whole numbers. Without half of one to either side, intervals of few counts (epsilon above 10) miss
        # up to four times as often as they say.
        half = self._half_a_count
        if isinstance(self.noise, Gaussian):
            return self._end(estimate - half, -1, tail), self._end(estimate + half, 1, tail)
        far = _FAR * (self.stderr(0.5) + half)
        low = _crossing(lambda d: 1 - self.cdf(estimate - half - d, d) - tail, estimate - far, estimate)
        high = _crossing(lambda d: tail - self.cdf(estimate + half - d, d), estimate, estimate + far)
        return low, high

    def _end(self, estimate: float, side: int, tail: float) -> float:
        """The density d below (side -1) or above (1) an estimate with ``(estimate-d)^2 = z^2 * variance(d)``.

        All is normal here, and the variance a quadratic in d, so d is a root of one. Outside [0, 1] the variance is
        that of the end.
        """
        z, (v0, v1, v2) = _deviations(tail), self._quadratic
        end = 0.0 if side < 0 else 1.0
        beyond = estimate + side * z * self.stderr(end)
        if side * (beyond - end) >= 0:
            return beyond
        a, b = 1 - z**2 * v2, estimate + z**2 * v1 / 2  # a*d^2 - 2*b*d + c = 0
        c = estimate**2 - z**2 * (v0 + self.noise_stderr**2)
        return (b + side * sqrt(max(b**2 - a * c, 0.0))) / a

    @cached_property
    def _quadratic(self) -> tuple[float, float, float]:
        """The coefficients of 1, d and d^2 in `normal_variance`."""
        at_0, at_half, at_1 = (self.normal_variance(d) for d in (0.0, 0.5, 1.0))
        bend = 2 * (at_0 + at_1 - 2 * at_half)
        return at_0, at_1 - at_0 - bend, bend

    def _normal_variance_at(self, density: float) -> float:
        v0, v1, v2 = self._quadratic
        return max(v0 + density * (v1 + density * v2), 0.0)

    @property
    def _half_a_count(self) -> float:
        """Half of what one bit more adds to the estimate."""
        return float(0.5 / self.whole)


@lru_cache(maxsize=64)
def _deviations(tail: float) -> float:
    """How many standard deviations out a normal law leaves this tail."""
    from scipy.special import ndtri

    return float(-ndtri(tail))


def _crossing(rising: Callable[[float], float], low: float, high: float) -> float:
    """Where a rising function crosses zero, between two bounds; the nearer bound if it does not."""
    from scipy.optimize import brentq

    if rising(low) >= 0:
        return low
    if rising(high) <= 0:
        return high
    return float(brentq(rising, low, high, xtol=1e-12))

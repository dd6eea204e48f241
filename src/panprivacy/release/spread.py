"""The law of an estimate around the density that it estimates, and the intervals that follow from it."""

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt

from panprivacy.checks import check_level
from panprivacy.privacy import noise
from panprivacy.privacy.pairs import Pair
from panprivacy.release.normal_laplace import normal_laplace_cdf


@dataclass(frozen=True)
class Spread:
    """The law of the estimate around a density: bits and sampling, about normal, plus Laplace noise."""

    pair: Pair
    bits: int
    users: int
    population: int
    noise_variance: float

    def density(self, noisy_ones: int) -> float:
        """``(noisy - bits*p0) / (users*(p1-p0))``: unbiased for the density of the sampled users."""
        return (noisy_ones - self.bits * float(self.pair.p0)) / (self.users * self.pair.gap)

    def normal_variance(self, density: float) -> float:
        """Variance of the drawn bits and of the sampling, for a true density.

        Sampling without replacement: ``d(1-d)/users * (population-users)/(population-1)``.
        """
        p0, p1 = float(self.pair.p0), float(self.pair.p1)
        seen = density * self.users
        bits = (self.bits - seen) * p0 * (1 - p0) + seen * p1 * (1 - p1)
        unsampled = (self.population - self.users) / max(self.population - 1, 1)
        return bits / (self.users * self.pair.gap) ** 2 + density * (1 - density) / self.users * unsampled

    @property
    def laplace_scale(self) -> float:
        """Scale of the Laplace law with the variance of the noise, in units of density."""
        return sqrt(self.noise_variance / 2) / (self.users * self.pair.gap)

    def stderr(self, density: float) -> float:
        """Standard error of the estimate, for a true density."""
        return sqrt(self.normal_variance(density) + 2 * self.laplace_scale**2)

    def interval(self, estimate: float, level: float) -> tuple[float, float]:
        """All densities that a two-sided test at this level would not reject, given the estimate."""
        tail = (1 - check_level(level)) / 2
        # Counts are whole numbers. Without half of one to either side, intervals of few counts (epsilon above 10) miss
        # up to four times as often as they say.
        half = 0.5 / (self.users * self.pair.gap)
        low = _crossing(lambda d: 1 - self._cdf(estimate - half - d, d) - tail)
        high = _crossing(lambda d: tail - self._cdf(estimate + half - d, d))
        return low, high

    def _cdf(self, error: float, density: float) -> float:
        return normal_laplace_cdf(error, sqrt(self.normal_variance(density)), self.laplace_scale)


def spread_of(pair: Pair, bits: int, users: int, population: int, epsilon: float) -> Spread:
    """The law of an estimate released with noise of this epsilon."""
    return Spread(pair, bits, users, population, noise.variance(epsilon))


def _crossing(rising: Callable[[float], float]) -> float:
    """Where a rising function of the density crosses zero, within [0, 1]."""
    from scipy.optimize import brentq

    if rising(0.0) >= 0:
        return 0.0
    if rising(1.0) <= 0:
        return 1.0
    return float(brentq(rising, 0.0, 1.0, xtol=1e-12))

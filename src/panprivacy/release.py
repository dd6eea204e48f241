"""What leaves: a noisy count of ones, and everything that may be said from it without seeing the state again."""

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, sqrt
from typing import TYPE_CHECKING

from panprivacy import noise
from panprivacy.checks import check_level
from panprivacy.pairs import Pair

if TYPE_CHECKING:
    from rich.table import Table as RichTable


@dataclass(frozen=True)
class Release:
    """An estimate of the density, with its error, that cost the stated part of the budget."""

    density: float
    """The fraction of the universe that has appeared, within [0, 1]."""
    count: float
    """The number of users that have appeared: density times universe."""
    stderr: float
    """Standard error of the density, sampling included."""
    interval: tuple[float, float]
    """Confidence interval for the density."""
    level: float
    """Confidence level of the interval."""
    raw_density: float
    """The unbiased estimate before it was brought into [0, 1]."""
    universe: int
    """How many users the estimate speaks for."""
    number: int
    """Which of the planned releases this is, from 1."""
    epsilon_spent: float
    """Worst-case loss up to and with this release, one reading of the state included."""
    epsilon_remaining: float
    """What the releases still planned may spend."""
    secure: bool
    """False if the coins were not the operating system's: such a release protects nobody."""

    @property
    def count_interval(self) -> tuple[float, float]:
        """Confidence interval for the count."""
        low, high = self.interval
        return low * self.universe, high * self.universe

    def __str__(self) -> str:
        low, high = self.interval
        warning = "" if self.secure else "; NOT PRIVATE: seeded coins"
        return (
            f"density {self.density:.4f} ± {self.stderr:.4f} ({100 * self.level:g}% interval {low:.4f} to {high:.4f}), "
            f"about {self.count:,.0f} of {self.universe:,} users; epsilon spent {self.epsilon_spent:.4g}, "
            f"left {self.epsilon_remaining:.4g}{warning}"
        )

    def __rich__(self) -> "RichTable":
        from rich.table import Table

        low, high = self.interval
        grid = Table(title=f"Release {self.number}", show_header=False)
        grid.add_row("density", f"{self.density:.4f} ± {self.stderr:.4f}")
        grid.add_row(f"{100 * self.level:g}% interval", f"{low:.4f} to {high:.4f}")
        grid.add_row("users", f"about {self.count:,.0f} of {self.universe:,}")
        grid.add_row("epsilon", f"{self.epsilon_spent:.4g} spent, {self.epsilon_remaining:.4g} left")
        if not self.secure:
            grid.add_row("warning", "[bold red]not private: seeded coins")
        return grid


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


def normal_laplace_cdf(x: float, sigma: float, scale: float) -> float:
    """Distribution function of ``N(0, sigma^2) + Laplace(scale)``.

    >>> round(normal_laplace_cdf(0.0, 1.0, 2.0), 6)
    0.5
    """
    from scipy.special import log_ndtr, ndtr

    if scale < 1e-3 * sigma:  # the noise is lost beside the bits
        return float(ndtr(x / sqrt(sigma**2 + 2 * scale**2)))
    if sigma == 0:
        return 0.5 * exp(x / scale) if x < 0 else 1 - 0.5 * exp(-x / scale)
    z, ratio = x / sigma, sigma / scale
    half = ratio**2 / 2
    right = exp(half - x / scale + float(log_ndtr(z - ratio)))
    left = exp(half + x / scale + float(log_ndtr(-z - ratio)))
    return float(ndtr(z)) - 0.5 * (right - left)


def _crossing(rising: Callable[[float], float]) -> float:
    """Where a rising function of the density crosses zero, within [0, 1]."""
    from scipy.optimize import brentq

    if rising(0.0) >= 0:
        return 0.0
    if rising(1.0) <= 0:
        return 1.0
    return float(brentq(rising, 0.0, 1.0, xtol=1e-12))

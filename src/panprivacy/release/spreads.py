"""The laws of many estimates at once, each around the density that it estimates: `Spread` for many groups.

Looking for the ends of one interval takes a millisecond. Here those of all groups are looked for together, by halving;
a test holds the two to the same numbers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from panprivacy.checks import check_level
from panprivacy.privacy.noise import Laplace, Noise
from panprivacy.release.normal_laplace import Reals, normal_laplace_cdfs, normal_laplaces_cdf
from panprivacy.release.tracked import Tracked

_FAR = 50.0  # standard errors, as in `Spread`
_HALVINGS = 56  # from there down to the last digits of a float


@dataclass(frozen=True, eq=False)
class Spreads(Tracked):
    """`Spread` whose bits, users and population are arrays, a number for each group; so are its answers."""

    bits: Any
    users: Any
    population: Any
    noise: Noise
    times: int = 1
    """How many counts were added up to each, each with noise of its own."""

    def densities(self, noisy_ones: Any) -> Reals:
        """``(noisy - bits*p0) / (users*(p1-p0))``: unbiased."""
        return np.asarray((np.asarray(noisy_ones) - self.bits * float(self.pair.p0)) / self.whole)

    @property
    def noise_stderr(self) -> Reals:
        """Standard deviation of the noise, in units of density."""
        return np.asarray(np.sqrt(self.times * self.noise.variance) / self.whole)

    def stderr(self, density: Any) -> Reals:
        """Standard errors of the estimates, for true densities."""
        return np.hypot(self._normal(density), self.noise_stderr)

    def intervals(self, estimates: Reals, level: float) -> tuple[Reals, Reals]:
        """The ends of the intervals; `Spread.interval` says how they are found."""
        ends = np.clip(estimates, 0.0, 1.0)
        tail, half = (1 - check_level(level)) / 2, 0.5 / self.whole
        far = _FAR * (self.stderr(0.5) + half)
        low = _crossings(lambda d: 1 - self._cdf(ends - half - d, d) - tail, ends - far, ends)
        high = _crossings(lambda d: tail - self._cdf(ends + half - d, d), ends, ends + far)
        below, above = estimates < ends, estimates > ends
        high = np.where(below, np.maximum(estimates + np.hypot(high - ends, ends - estimates), half), high)
        low = np.where(above, np.minimum(estimates - np.hypot(ends - low, estimates - ends), 1 - half), low)
        return np.maximum(low, 0.0), np.minimum(high, 1.0)

    def _normal(self, density: Any) -> Reals:
        """Standard deviations by the drawn bits and the sampling."""
        variance = self.bit_variance(density) / self.whole**2 + self.sample_variance(density) / self.users**2
        return np.asarray(np.sqrt(variance))

    def _cdf(self, error: Reals, density: Reals) -> Reals:
        """Probabilities that the estimates are above true densities by at most this much."""
        normal = self._normal(np.clip(density, 0.0, 1.0))
        if isinstance(self.noise, Laplace) and self.times > 1:
            scale = self.noise_stderr / np.sqrt(2 * self.times)
            return np.asarray(normal_laplaces_cdf(error, normal, scale, self.times))
        if isinstance(self.noise, Laplace):
            return normal_laplace_cdfs(error, normal, self.noise_stderr / np.sqrt(2))
        from scipy.special import ndtr

        return np.asarray(ndtr(error / np.hypot(normal, self.noise_stderr)))


def _crossings(rising: Callable[[Reals], Reals], low: Reals, high: Reals) -> Reals:
    """Where rising functions cross zero, each between two bounds; the nearer bound of one that does not."""
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        above = rising(middle) >= 0
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return (low + high) / 2

"""How often intervals hold the truth, computed instead of simulated: no luck, and every setting takes a moment.

The number of ones is a sum of two binomials, mixed over the number of sampled users that have appeared, plus discrete
Laplace or Gaussian noise. Its law is summed up exactly, and the counts whose interval holds the truth are found by
bisection, since both ends of an interval rise with the count.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import replace
from math import sqrt

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import signal, stats

import panprivacy as pp
from checks import laplace_pmf
from panprivacy.estimates import ErrorModel
from panprivacy.privacy.noise import Gaussian, Laplace, Noise
from panprivacy.testing import gaussian_noise

pytestmark = pytest.mark.slow

LEVEL = 0.95
NEAR = 2.1  # standard errors from 0 or 1
KEY = bytes(range(16))


def law_of_ones(law: ErrorModel, seen: int) -> NDArray[np.float64]:
    """Probability of each number of ones when so many users of the population have appeared."""
    p0, p1 = float(law.pair.p0), float(law.pair.p1)
    sampled = stats.hypergeom(law.population, seen, law.users)
    low, high = (int(sampled.ppf(q)) for q in (1e-9, 1 - 1e-9))
    total = np.zeros(law.bits + 1)
    for k in range(low, high + 1):
        present = stats.binom.pmf(np.arange(k + 1), k, p1)
        absent = stats.binom.pmf(np.arange(law.bits - k + 1), law.bits - k, p0)
        total += sampled.pmf(k) * signal.fftconvolve(present, absent)
    return total


def law_of_noise(noise: Noise, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
    """Probability of each number as noise."""
    if isinstance(noise, Laplace):
        return laplace_pmf(float(noise.epsilon), numbers)
    weights = np.exp(-(numbers**2) / (2 * float(noise.square)))
    return np.asarray(weights / weights.sum())


def misses(law: ErrorModel, stated: ErrorModel, density: float) -> tuple[float, float]:
    """Probability that the truth is below and above the interval that `stated` gives."""
    reach = int(20 * sqrt(law.noise.variance / 2)) + 2
    noise = law_of_noise(law.noise, np.arange(-reach, reach + 1))
    mass = signal.fftconvolve(law_of_ones(law, round(density * law.population)), noise)
    counts = range(-reach, law.bits + reach + 1)
    rising_low = bisect_right(counts, density, key=lambda count: stated.interval(stated.density(count), LEVEL)[0])
    rising_high = bisect_left(counts, density, key=lambda count: stated.interval(stated.density(count), LEVEL)[1])
    return float(mass[rising_low:].sum()), float(mass[:rising_high].sum())


def assert_covers(
    est: pp.Density,
    density: float,
    *,
    least: float = 0.93,
    most: float = 0.97,
    spoil: Callable[[ErrorModel], ErrorModel] = lambda law: law,
) -> None:
    """Assert that the interval of the next release holds the truth as often as it says; near the ends, more often."""
    law = est._law()
    below, above = misses(law, spoil(law), density)
    if density in (0, 1):  # there one side cannot miss
        least = (1 + least) / 2
    near = [distance < NEAR * est.density_stderr_at(density) for distance in (density, 1 - density)]
    if any(near):  # and here an estimate beyond the end does not
        most = 1.0 if all(near) else (1 + most) / 2 + 0.005
    assert least <= 1 - below - above <= most, f"covers {1 - below - above:.4f}, not {least} to {most}"


DENSITIES = [0.0, 0.01, 0.25, 0.63, 1.0]


@pytest.mark.parametrize("density", DENSITIES)
@pytest.mark.parametrize("epsilon", [0.1, 0.4, 1.0, 5.0])
@pytest.mark.parametrize(("universe", "sample"), [(1_000, None), (100_000, 1_000), (8_000, 4_000)])
def test_intervals_hold_the_truth_as_often_as_they_say(
    universe: int, sample: int | None, epsilon: float, density: float
) -> None:
    assert_covers(pp.Density(universe, epsilon, sample=sample, key=KEY), density)


@pytest.mark.parametrize("density", DENSITIES)
def test_intervals_hold_with_many_releases_and_after_a_redraw(density: float) -> None:
    assert_covers(pp.Density(1_000, 1.0, releases=20), density)
    redrawn = pp.Density(2_000, 3.0, intrusions=1)
    redrawn.rerandomize()
    assert_covers(redrawn, density)


@pytest.mark.parametrize("density", DENSITIES)
@pytest.mark.parametrize("releases", [1, 20, 365])
@pytest.mark.parametrize(("universe", "sample"), [(3_000, None), (100_000, 1_000)])
def test_intervals_hold_with_gaussian_noise(universe: int, sample: int | None, releases: int, density: float) -> None:
    with gaussian_noise():  # also for one release
        est = pp.Density(universe, 2.0, sample=sample, key=KEY, releases=releases, delta=1e-6)
    assert_covers(est, density)


@pytest.mark.parametrize("density", DENSITIES)
@pytest.mark.parametrize("epsilon", [8.0, 12.0, 20.0])
def test_where_a_count_more_or_less_matters_intervals_err_on_the_wide_side(epsilon: float, density: float) -> None:
    assert_covers(pp.Density(1_000, epsilon), density, least=LEVEL - 0.01, most=1.0)


def narrower(noise: Noise) -> Noise:
    """Noise whose standard deviation is 30 % smaller."""
    if isinstance(noise, Laplace):
        return Laplace(noise.epsilon * 13 / 10)
    return Gaussian(noise.square * 100 / 169)


BUGS: dict[str, tuple[int, Callable[[ErrorModel], ErrorModel]]] = {
    "noise 30 % too small": (60, lambda law: replace(law, noise=narrower(law.noise))),
    "sampling left out": (1, lambda law: replace(law, population=law.users)),
    "users miscounted": (1, lambda law: replace(law, users=round(law.users * 1.05), bits=round(law.bits * 1.05))),
}


@pytest.mark.parametrize("delta", [None, 1e-6], ids=["Laplace", "Gaussian"])
@pytest.mark.parametrize("bug", BUGS)
def test_an_interval_from_a_wrong_law_is_caught(bug: str, delta: float | None) -> None:
    releases, spoil = BUGS[bug]
    with gaussian_noise():
        est = pp.Density(40_000, 5.0, sample=1_000, releases=releases, delta=delta, key=KEY)
    assert_covers(est, 0.25)
    with pytest.raises(AssertionError, match="covers"):
        assert_covers(est, 0.25, spoil=spoil)

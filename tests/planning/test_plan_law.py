"""The law of a release is that of the estimator, coin by coin."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations, product
from math import ceil, exp, sqrt

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from panprivacy.estimates import ErrorModel
from panprivacy.planning.law import Design, Ones
from panprivacy.privacy.noise import Laplace, Noise
from panprivacy.privacy.pairs import Pair, dwork
from panprivacy.privacy.splitting import best_split
from panprivacy.testing import refused

DELTAS = pytest.mark.parametrize("delta", [None, 1e-6], ids=["Laplace", "Gaussian"])


def designed(
    epsilon: float, bits: int, users: int, population: int, *, delta: float | None = None, releases: int = 1
) -> Design:
    split = best_split(epsilon, bits, releases, delta=delta)
    return Design(split.pair, bits, users, population, split.noise)


def law_of_the_noise(noise: Noise) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Every number that the noise may be, far enough out, and how probable it is."""
    if isinstance(noise, Laplace):
        far = ceil(40 / noise.epsilon)
        numbers = np.arange(-far, far + 1)
        weights = np.exp(-float(noise.epsilon) * np.abs(numbers))
    else:
        far = ceil(9 * sqrt(noise.square)) + 1
        numbers = np.arange(-far, far + 1)
        weights = np.exp(-(numbers**2) / (2 * float(noise.square)))
    return numbers, weights / weights.sum()


def every_outcome(design: Design, seen: int) -> Iterator[tuple[float, float]]:
    """Released density and its probability, for every sample, every bit and every noise that matters."""
    spread = ErrorModel(design.pair, design.bits, design.users, design.population, design.noise)
    law = [each.tolist() for each in law_of_the_noise(design.noise)]
    samples = list(combinations(range(design.population), design.users))
    for sample, bits in product(samples, product((0, 1), repeat=design.bits)):
        chance = 1 / len(samples)
        for slot, bit in enumerate(bits):
            present = slot < design.users and sample[slot] < seen
            one = float(design.pair.p1 if present else design.pair.p0)
            chance *= one if bit else 1 - one
        for noise, probability in zip(*law, strict=True):
            density = min(max(spread.density(sum(bits) + noise), 0.0), 1.0)
            yield density, chance * probability


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon", "bits", "users", "population"),
    [(1.0, 1, 1, 1), (2.0, 4, 4, 4), (1.0, 3, 3, 5), (3.0, 4, 3, 4), (6.0, 5, 5, 6), (0.7, 2, 1, 3)],
)
@pytest.mark.parametrize("alpha", [Fraction(1, 100), Fraction(1, 3), Fraction(1, 2), Fraction(7, 10)])
@DELTAS
def test_tail_is_the_sum_over_every_outcome(
    epsilon: float, bits: int, users: int, population: int, *, alpha: Fraction, delta: float | None
) -> None:
    design = designed(epsilon, bits, users, population, delta=delta)
    for seen in range(population + 1):
        truth = seen / population
        # 1e-12 so that rounding does not turn an error of exactly alpha into less.
        expected = sum(p for density, p in every_outcome(design, seen) if abs(density - truth) >= alpha - 1e-12)
        assert design.error_probability(seen, alpha) == pytest.approx(expected, abs=1e-13)


def window(n: int, p: float) -> tuple[int, NDArray[np.float64]]:
    """A binomial law from 12 standard deviations below its mean to as many above."""
    reach = 12 * sqrt(n * p * (1 - p)) + 30
    first, last = max(0, int(n * p - reach)), min(n, int(n * p + reach))
    return first, np.asarray(stats.binom.pmf(np.arange(first, last + 1), n, p))


def tail_of_the_noise(k: NDArray[np.int64], noise: Noise) -> NDArray[np.float64]:
    if not isinstance(noise, Laplace):
        numbers, law = law_of_the_noise(noise)
        tails = np.append(law[::-1].cumsum()[::-1], 0.0)  # from each number on, and beyond the last
        return np.asarray(tails[np.clip(k - numbers[0], 0, len(numbers))])
    a = exp(-noise.epsilon)
    return np.where(k > 0, a ** np.maximum(k, 0) / (1 + a), 1 - a ** np.maximum(1 - k, 0) / (1 + a))


@pytest.mark.parametrize(("epsilon", "users", "seen"), [(0.4, 200_000, 60_000), (5.0, 200_000, 2_000), (1.0, 10**6, 0)])
@pytest.mark.parametrize(("delta", "releases"), [(None, 1), (1e-9, 1), (1e-9, 1000), (1e-3, 100_000)])
def test_tail_of_a_large_table_is_the_convolution_of_two_binomials_and_the_noise(
    epsilon: float, users: int, seen: int, delta: float | None, releases: int
) -> None:
    design = designed(epsilon, users, users, users, delta=delta, releases=releases)
    p0, p1 = float(design.pair.p0), float(design.pair.p1)
    first_present, present = window(seen, p1) if seen else (0, np.ones(1))
    first_absent, absent = window(users - seen, p0)
    law = np.convolve(present, absent)
    ones = first_present + first_absent + np.arange(len(law))
    for z in (-3.0, 0.0, 2.0, 5.0):
        threshold = ceil(float(design.mean(seen)) + z * sqrt(design.variance(seen)))
        expected = float(law @ tail_of_the_noise(threshold - ones, design.noise))
        assert Ones(design, seen).at_least(threshold) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("users", "population", "seen"), [(300, 2_000, 900), (40, 10**6, 5 * 10**5), (900, 1_000, 30)])
@DELTAS
def test_tail_of_a_sample_is_the_mixture_over_how_many_of_it_were_seen(
    users: int, population: int, seen: int, delta: float | None
) -> None:
    design = designed(2.0, users + 3, users, population, delta=delta)
    p0, p1 = float(design.pair.p0), float(design.pair.p1)
    threshold = ceil(float(design.mean(seen)) + 1.7 * sqrt(design.variance(seen)))
    expected = 0.0
    for sampled in range(users + 1):
        weight = float(stats.hypergeom.pmf(sampled, population, seen, users))
        if weight > 1e-18:
            mine = np.convolve(
                stats.binom.pmf(np.arange(sampled + 1), sampled, p1),
                stats.binom.pmf(np.arange(users + 4 - sampled), users + 3 - sampled, p0),
            )
            expected += weight * float(mine @ tail_of_the_noise(threshold - np.arange(users + 4), design.noise))
    assert Ones(design, seen).at_least(threshold) == pytest.approx(expected, rel=1e-9)


def test_summing_every_few_values_of_a_smooth_hypergeometric_law_loses_nothing() -> None:
    """A sample of ten million is summed with strides; of a universe so large, it is about binomial, and so known."""
    users, population = 10**7, 2**44
    design = designed(1.0, users, users, population)
    seen = population // 4
    one = float(design.pair.p0) + float(design.gap) / 4
    threshold = ceil(float(design.mean(seen)) + 1.5 * sqrt(design.variance(seen)))
    first, law = window(users, one)
    expected = float(law @ tail_of_the_noise(threshold - first - np.arange(len(law)), design.noise))
    assert Ones(design, seen).at_least(threshold) == pytest.approx(expected, rel=1e-5)


def test_density_and_absence_are_alike_where_every_bit_has_an_owner() -> None:
    design = designed(1.0, 50, 50, 400)
    alpha = Fraction(13, 100)
    for seen in (0, 17, 100, 199):
        mirrored = design.error_probability(400 - seen, alpha)
        assert design.error_probability(seen, alpha) == pytest.approx(mirrored, abs=1e-13)


def test_an_error_beyond_the_ends_is_impossible_because_a_released_density_is_within_them() -> None:
    design = designed(0.1, 10, 10, 10)
    assert design.error_probability(5, Fraction(51, 100)) == 0
    assert design.error_probability(0, Fraction(99, 100)) > 0.1


@pytest.mark.parametrize(
    ("pair", "bits", "users", "population", "code"),
    [
        (dwork(0.5), 10, 10, 10, "design-pair"),
        (Pair(2**31, 2**31), 10, 10, 10, "design-pair"),
        (best_split(1.0, 10).pair, 10, 11, 20, "design-size"),
        (best_split(1.0, 10).pair, 10, 10, 9, "design-size"),
        (best_split(1.0, 10).pair, 10, 0, 9, "design-size"),
    ],
)
def test_a_design_that_is_none_is_refused(pair: Pair, bits: int, users: int, population: int, code: str) -> None:
    with refused(code):
        Design(pair, bits, users, population, Laplace(Fraction(1, 10)))

"""The noise of the sparse-vector test has the scale that the shares say. False alarms: one in a million."""

from fractions import Fraction
from functools import cache
from itertools import pairwise
from math import exp

import numpy as np
import pytest

from checks import assert_binomial, assert_discrete_laplace
from panprivacy.estimators.continual import DriftTest
from panprivacy.estimators.continual_law import Shares
from panprivacy.privacy.noise import Laplace
from panprivacy.privacy.pairs import symmetric
from panprivacy.testing import SeededCoins

pytestmark = pytest.mark.slow

TESTS = 5000
"""So many that a scale 30 % off goes unnoticed once in a million runs at most."""
NONE = Fraction(60)
"""A share so large that its noise is zero."""


@cache
def shares_of(threshold: Fraction, test: Fraction) -> Shares:
    return Shares(1000.0, symmetric(1.0), 1, threshold, test, Laplace(Fraction(1)))


def watch_of(threshold: Fraction, test: Fraction, bar: int) -> DriftTest:
    return DriftTest(shares_of(threshold, test), bar)


def steps_of(share: Fraction, seeded: SeededCoins) -> list[int]:
    steps = []
    for _ in range(TESTS):
        watch = watch_of(share, NONE, bar=3)
        watch.has_drifted(np.zeros(1, dtype=np.int64), seeded)
        steps.append(watch.walk.item())
    return steps


def drifts(share: Fraction, seeded: SeededCoins) -> int:
    return sum(watch_of(NONE, share, bar=3).has_drifted(np.zeros(1, dtype=np.int64), seeded) for _ in range(TESTS))


def tail(share: float) -> float:
    """``P(noise >= 3)``."""
    a = exp(-share)
    return a**3 / (1 + a)


def test_the_walk_takes_a_step_of_its_share_at_every_test(seeded: SeededCoins) -> None:
    assert_discrete_laplace(steps_of(Fraction(1, 2), seeded), 0.5)


def test_a_step_of_another_scale_would_be_noticed(seeded: SeededCoins) -> None:
    with pytest.raises(AssertionError, match="chi-square"):
        assert_discrete_laplace(steps_of(Fraction(13, 20), seeded), 0.5)


def test_the_distance_is_behind_noise_of_its_share(seeded: SeededCoins) -> None:
    assert_binomial(drifts(Fraction(1, 2), seeded), TESTS, tail(0.5))


def test_noise_of_another_scale_on_the_distance_would_be_noticed(seeded: SeededCoins) -> None:
    with pytest.raises(AssertionError, match="successes"):
        assert_binomial(drifts(Fraction(13, 20), seeded), TESTS, tail(0.5))


def test_the_walk_goes_on_from_where_it_was(seeded: SeededCoins) -> None:
    watch = watch_of(Fraction(1, 2), NONE, bar=10**6)
    walks = [0]
    for _ in range(TESTS):
        watch.has_drifted(np.zeros(1, dtype=np.int64), seeded)
        walks.append(watch.walk.item())

    assert_discrete_laplace([after - before for before, after in pairwise(walks)], 0.5)
    assert max(map(abs, walks)) > 30


def test_without_noise_the_bar_decides(seeded: SeededCoins) -> None:
    watch = watch_of(NONE, NONE, bar=5)

    assert [watch.has_drifted(np.array([distance]), seeded) for distance in (0, 4, 5, 6)] == [False, False, True, True]

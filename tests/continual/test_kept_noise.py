"""Noise that nobody sees, as estimators draw it and as the auditor takes its branches."""

from fractions import Fraction

import numpy as np
import pytest

from checks import laplace_pmf
from panprivacy.audit.enumeration.outcomes import EveryOutcome
from panprivacy.privacy.noise import Laplace
from panprivacy.testing import SeededCoins
from sources import Always

SHARE = Laplace(Fraction(1, 2))


@pytest.mark.parametrize("value", [-3, 0, 2])
def test_the_auditor_takes_every_branch_of_noise_that_is_kept_within_its_reach(value: int) -> None:
    coins = EveryOutcome()
    found = {outcome.value: outcome.weight for outcome in coins.outcomes(lambda: coins.noisy_inside(value, SHARE))}
    places = np.arange(-EveryOutcome.REACH, EveryOutcome.REACH + 1)

    assert sorted(found) == places.tolist()
    assert [float(found[place]) for place in places.tolist()] == pytest.approx(
        laplace_pmf(SHARE.epsilon, places - value), rel=1e-12
    )


@pytest.mark.parametrize("bar", range(-4, 5))
def test_the_auditor_takes_both_branches_of_a_test_and_leaves_no_weight_out(bar: int) -> None:
    coins = EveryOutcome()
    found = {outcome.value: outcome.weight for outcome in coins.outcomes(lambda: coins.reaches(1, bar, SHARE))}
    far = np.arange(bar - 1, 200)

    assert found[True] + found[False] == 1
    assert float(found[True]) == pytest.approx(laplace_pmf(SHARE.epsilon, far).sum(), rel=1e-12)


def test_neither_is_noted_as_published() -> None:
    coins = EveryOutcome()
    outcomes = list(coins.outcomes(lambda: coins.reaches(coins.noisy_inside(0, SHARE), 1, SHARE)))

    assert all(outcome.noised == () for outcome in outcomes)
    assert len(outcomes) == 2 * (2 * EveryOutcome.REACH + 1)


def test_estimators_draw_both_from_the_noise_of_a_release() -> None:
    quiet = Always(True)
    drawn = [SeededCoins(seed).noisy_inside(5, SHARE) for seed in range(50)]

    assert drawn == [SeededCoins(seed).noisy(5, SHARE) for seed in range(50)]
    assert [quiet.reaches(5, bar, SHARE) for bar in (4, 5, 6)] == [True, True, False]

"""The two mechanisms of section 2.1."""

from collections.abc import Hashable
from fractions import Fraction
from math import log

import numpy as np
import pytest
from exact_laws import law

from checks import assert_discrete_laplace
from panprivacy.audit import EveryOutcome
from panprivacy.errors import PanPrivacyError
from panprivacy.paper import LaplaceMechanism, RandomizedResponse
from panprivacy.testing import SeededCoins, refused


def test_randomized_response_loses_exactly_log_3() -> None:
    def answer_of(value: int) -> dict[Hashable, Fraction]:
        return law(lambda coins: bool(RandomizedResponse(coins=coins).answer([value])[0]))

    answers = [answer_of(0), answer_of(1)]
    assert answers[1] == {True: Fraction(3, 4), False: Fraction(1, 4)}
    assert answers[0] == {True: Fraction(1, 4), False: Fraction(3, 4)}
    worst = max(answers[a][seen] / answers[b][seen] for seen in (True, False) for a, b in ((0, 1), (1, 0)))
    assert log(worst) == RandomizedResponse.epsilon == log(3)


def test_its_estimate_undoes_the_coins() -> None:
    """Exactly unbiased: the mean over all outcomes is the true share."""
    found = law(lambda coins: RandomizedResponse.density(RandomizedResponse(coins=coins).answer([1, 0, 1])))
    assert sum(float(str(x)) * float(chance) for x, chance in found.items()) == pytest.approx(2 / 3)


def test_it_keeps_the_shape_and_refuses_what_is_not_a_bit() -> None:
    assert RandomizedResponse().answer(np.ones((2, 3))).shape == (2, 3)
    with refused("not-a-bit"):
        RandomizedResponse().answer([0, 2])


def test_the_laplace_mechanism_adds_exact_noise_of_epsilon_over_sensitivity() -> None:
    coins = EveryOutcome()
    mechanism = LaplaceMechanism(0.5, sensitivity=4, coins=coins)
    (outcome,) = coins.outcomes(lambda: mechanism.release([10, -3]))
    assert [noised.value for noised in outcome.noised] == [Fraction(10), Fraction(-3)]
    assert {noised.rate for noised in outcome.noised} == {Fraction(1, 8)}
    assert all(noised.whole for noised in outcome.noised)


@pytest.mark.slow
def test_its_noise_is_discrete_laplace() -> None:
    """False alarm: 1e-6. A scale 30 % off is noticed."""
    draws = [x - 7 for x in LaplaceMechanism(0.5, coins=SeededCoins(3)).release([7] * 20_000)]
    assert_discrete_laplace(draws, 0.5)
    for wrong in (0.65, 0.5 / 1.3):
        with pytest.raises(AssertionError):
            assert_discrete_laplace(draws, wrong)


@pytest.mark.parametrize(("epsilon", "sensitivity"), [(0.0, 1), (-1.0, 1), (1.0, 0)])
def test_it_refuses_what_is_no_budget_or_sensitivity(epsilon: float, sensitivity: int) -> None:
    with pytest.raises(PanPrivacyError) as caught:
        LaplaceMechanism(epsilon, sensitivity)
    assert caught.value.code in {"epsilon-range", "sensitivity-range"}


def test_it_refuses_real_numbers() -> None:
    with pytest.raises(TypeError):
        LaplaceMechanism(1.0).release([0.5])  # type: ignore[list-item]

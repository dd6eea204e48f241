"""The coin source that takes every branch."""

from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest

from panprivacy.audit.enumeration.outcomes import (
    EveryOutcome,
    Noised,
    RealLaplace,
    chance,
)
from panprivacy.privacy.coins import ONE
from panprivacy.privacy.noise import Gaussian, Laplace, Noise
from panprivacy.testing import refused


def test_flips_come_out_in_every_way_with_their_exact_probability() -> None:
    coins = EveryOutcome()
    found = {tuple(o.value.tolist()): o.weight for o in coins.outcomes(lambda: coins.below(ONE // 8, 3))}

    assert len(found) == 8
    assert sum(found.values()) == 1
    assert found[True, False, True] == Fraction(1, 8) ** 2 * Fraction(7, 8)


def test_later_draws_may_depend_on_earlier_ones() -> None:
    coins = EveryOutcome()

    def walk() -> str:
        return "".join("ab"[coins.randbelow(2)] if coins.flip(ONE // 4) else "c" for _ in range(2))

    law: dict[str, Fraction] = defaultdict(Fraction)
    for outcome in coins.outcomes(walk):
        law[outcome.value] += outcome.weight

    assert law == {
        "cc": Fraction(9, 16),
        **dict.fromkeys(["ca", "cb", "ac", "bc"], Fraction(3, 32)),
        **dict.fromkeys(["aa", "ab", "ba", "bb"], Fraction(1, 64)),
    }


def test_a_subset_comes_out_in_every_way_alike() -> None:
    coins = EveryOutcome()
    law: dict[tuple[int, ...], Fraction] = defaultdict(Fraction)
    for outcome in coins.outcomes(lambda: tuple(coins.subset(4, 2).tolist())):
        law[outcome.value] += outcome.weight

    assert len(law) == 6
    assert set(law.values()) == {Fraction(1, 6)}


@pytest.mark.parametrize("noise", [Laplace(Fraction(1, 3)), Gaussian(Fraction(7, 2))])
def test_noise_is_noted_and_not_drawn(noise: Noise) -> None:
    coins = EveryOutcome()
    (outcome,) = coins.outcomes(lambda: (coins.noisy(5, noise), coins.noisy_real(0.5, 0.25)))

    assert outcome.value == (coins.STAND_IN, coins.STAND_IN)
    assert outcome.noised == (
        Noised(Fraction(5), noise),
        Noised(Fraction(1, 2), RealLaplace(Fraction(4))),
    )


def test_no_draw_is_one_outcome() -> None:
    assert [o.weight for o in EveryOutcome().outcomes(lambda: None)] == [1]


def test_a_draw_with_too_many_outcomes_is_refused() -> None:
    coins = EveryOutcome()

    with refused("draw-too-wide"):
        list(coins.outcomes(lambda: coins.randbelow(2**128)))
    with refused("too-many-flips"):
        list(coins.outcomes(lambda: coins.below(ONE // 2, 1000)))


def test_a_call_that_depends_on_more_than_its_coins_is_refused() -> None:
    coins = EveryOutcome()
    calls = iter(range(2, 100))

    with pytest.raises(RuntimeError, match="depends on more than its coins"):
        list(coins.outcomes(lambda: coins.randbelow(next(calls))))
    shrinking = iter([2, 1, 0])
    with pytest.raises(RuntimeError, match="depends on more than its coins"):
        list(coins.outcomes(lambda: coins.below(ONE // 2, next(shrinking))))


def test_coins_drawn_outside_of_a_call_are_refused() -> None:
    coins = EveryOutcome()

    with pytest.raises(RuntimeError, match="outside"):
        coins.flip(ONE // 2)
    assert coins.below(ONE // 2, 0).dtype == np.bool_


@pytest.mark.parametrize("noise", [Laplace(Fraction(3, 2)), Gaussian(Fraction(1)), Gaussian(Fraction(5, 2))])
@pytest.mark.parametrize("bar", [-2, 0, 1, 3])
def test_whether_hidden_noise_reaches_a_bar_agrees_with_the_noise_that_is_kept(noise: Noise, bar: int) -> None:
    coins = EveryOutcome()
    tail = sum(o.weight for o in coins.outcomes(lambda: coins.noisy_inside(1, noise)) if o.value >= bar)
    found = {o.value: o.weight for o in coins.outcomes(lambda: coins.reaches(1, bar, noise))}

    assert sum(found.values()) == 1
    left_out = 1 - sum(o.weight for o in coins.outcomes(lambda: coins.noisy_inside(1, noise)))
    assert 0 <= found[True] - tail <= left_out


@pytest.mark.parametrize("square", [Fraction(1), Fraction(5, 2), Fraction(40)])
def test_chances_of_gaussian_noise_are_those_of_its_law(square: Fraction) -> None:
    x = np.arange(-200, 201)
    heights = np.exp(-(x**2) / (2 * float(square)))
    for distance in (0, 1, 5):
        expected = heights[200 + distance] / heights.sum()
        assert float(chance(distance, Gaussian(square))) == pytest.approx(expected, rel=1e-13)
        beyond = heights[201 + distance :].sum() / heights.sum()
        assert float(chance(distance + 1, Gaussian(square), beyond=True)) == pytest.approx(beyond, rel=1e-13)

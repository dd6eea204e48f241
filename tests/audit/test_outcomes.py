"""The coin source that takes every branch."""

from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest

from panprivacy.audit.outcomes import EveryOutcome, Noised, TooManyOutcomes
from panprivacy.privacy.coins import ONE


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


def test_noise_is_noted_and_not_drawn() -> None:
    coins = EveryOutcome()
    (outcome,) = coins.outcomes(lambda: (coins.noisy(5, Fraction(1, 3)), coins.noisy_real(0.5, 0.25)))

    assert outcome.value == (coins.STAND_IN, coins.STAND_IN)
    assert outcome.noised == (
        Noised(Fraction(5), Fraction(1, 3), whole=True),
        Noised(Fraction(1, 2), Fraction(4), whole=False),
    )


def test_no_draw_is_one_outcome() -> None:
    assert [o.weight for o in EveryOutcome().outcomes(lambda: None)] == [1]


def test_a_draw_with_too_many_outcomes_is_refused() -> None:
    coins = EveryOutcome()

    with pytest.raises(TooManyOutcomes, match="give the estimator a fixed one"):
        list(coins.outcomes(lambda: coins.randbelow(2**128)))
    with pytest.raises(TooManyOutcomes, match="smaller table"):
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

"""What many moves lose together with a delta: the moments of one epoch, and the exact delta of the worst ones."""

from fractions import Fraction
from math import exp, expm1, log

import numpy as np
import pytest
from scipy import stats
from scipy.special import log_ndtr, ndtr

from panprivacy.estimators.continual_law import Shares, Workload, best_shares, log_moment_of_epoch, loss_of_epochs
from panprivacy.privacy.noise import Gaussian, Laplace
from panprivacy.privacy.pairs import symmetric


def reaches(bar: int, epsilon: float) -> float:
    """``P(X >= bar)`` for discrete Laplace noise X."""
    a = exp(-epsilon)
    return a**bar / (1 + a) if bar > 0 else 1 - a ** (1 - bar) / (1 + a)


def moment_of(bars: list[int], test: float, order: float) -> float:
    """``E r^l`` of an epoch whose tests have these bars in one world, and bars higher by two in the other."""
    moment, going_on = 0.0, 1.0
    for bar in bars:
        p, q = reaches(bar, test), reaches(bar + 2, test)
        moment += going_on * p * (p / q) ** order
        stays, stays_there = reaches(1 - bar, test), reaches(-1 - bar, test)  # of one minus a chance little may be left
        going_on *= stays * (stays / stays_there) ** order
    return moment + going_on


@pytest.mark.parametrize("test", [0.01, 0.2, 1.0])
@pytest.mark.parametrize("order", [0.5, 3.0, 20.0])
def test_no_epoch_has_a_larger_moment_than_the_worst(test: float, order: float) -> None:
    generator = np.random.default_rng(1)
    bound = log_moment_of_epoch(order, 2 * test)
    for _ in range(200):
        scale = float(generator.choice([0.5, 2, 6])) / test
        bars = [int(bar) for bar in generator.normal(0, scale, generator.integers(1, 40))]

        assert log(moment_of(bars, test, order)) <= bound + 1e-12
    always = moment_of([0] * 500, test, order)
    assert log(always) > 0.5 * bound


@pytest.mark.parametrize("test", [0.2, 1.0])
def test_a_bound_for_one_count_of_noise_would_be_broken(test: float) -> None:
    assert log(moment_of([0] * 500, test, 3.0)) > log_moment_of_epoch(3.0, test)


def exact_delta(epsilon: float, test: float, square: float, moves: int) -> float:
    """Delta of so many worst epochs, not watched: each a response of ``m = 2*test``, asked until it says "moved", and a
    normal number."""
    m = 2 * test
    waits = np.arange(4000)
    weights = stats.nbinom.pmf(waits, moves, 1 / (1 + exp(-m)))
    left, mean = epsilon - m * (moves - waits), np.sqrt(moves / square)
    each = ndtr(mean / 2 - left / mean) - np.exp(left + log_ndtr(-mean / 2 - left / mean))
    return float(np.sum(weights * np.maximum(each, 0.0)))


@pytest.mark.parametrize(("test", "sigma", "moves"), [(0.02, 40, 20), (0.005, 200, 365), (0.3, 5, 3)])
@pytest.mark.parametrize("delta", [1e-9, 1e-4])
def test_the_delta_of_the_worst_epochs_is_within_the_claim_and_not_far_from_it(
    test: float, sigma: int, moves: int, delta: float
) -> None:
    claimed = loss_of_epochs(Fraction(str(test)), Fraction(sigma**2), moves, delta)

    assert exact_delta(claimed, test, sigma**2, moves) <= delta
    fixed = claimed - 2 * test  # of an intruder who does not watch
    assert exact_delta(0.65 * fixed, test, sigma**2, moves) > delta


def test_moves_add_up_like_the_root_of_their_number() -> None:
    few, many = (loss_of_epochs(Fraction(1, 1000), Fraction(1000**2), moves, 1e-9) for moves in (100, 400))

    assert few < many < 2.5 * few
    assert loss_of_epochs(Fraction(1, 1000), Fraction(1000**2), 0, 1e-9) == 0


@pytest.mark.slow
@pytest.mark.parametrize(("moves", "rising", "used"), [(20, True, False), (20, False, False), (365, False, True)])
def test_a_delta_is_used_where_it_is_better(moves: int, rising: bool, used: bool) -> None:
    plan = Workload(10_000_000, moves, 8736, rising)
    shares, without = best_shares(1.0, plan, 1e-9), best_shares(1.0, plan)

    assert bool(shares.delta) == used
    assert isinstance(shares.value, Gaussian if used else Laplace)
    assert used or shares == without
    assert 0.998 < shares.loss(moves) <= 1.0
    assert (shares.delta_after(0), shares.delta_after(1)) == (0.0, shares.delta)
    assert shares.test >= (1.5 if used else 1.0) * without.test


def test_the_loss_with_a_delta_is_that_of_the_reading_the_walk_and_the_epochs() -> None:
    pair, test, square = symmetric(0.5), Fraction(1, 1000), Fraction(1000**2)
    shares = Shares(2.0, pair, 100, Fraction(1, 50), test, Gaussian(square), delta=1e-9)

    assert shares.loss(0) == pytest.approx(pair.loss + 3 / 50 + 1 / 1000, abs=1e-12)
    assert shares.loss(50) == pytest.approx(shares.loss(0) + loss_of_epochs(test, square, 50, 1e-9), abs=1e-12)
    assert expm1(shares.loss(100)) > expm1(shares.loss(50))

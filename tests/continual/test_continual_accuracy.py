"""The accuracy statement holds, jointly over all observations. False alarms: one in a million."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from checks import ALARM
from panprivacy.estimates.errors import SampleDesign
from panprivacy.estimators.continual import Continual
from panprivacy.estimators.continual_law import Shares, Workload, accuracy_of, bar_for, best_shares, slack_of
from panprivacy.privacy.noise import Gaussian, Laplace
from panprivacy.testing import SeededCoins, observed_of

USERS, OBSERVATIONS, RUNS = 100_000, 30, 40
STEP, BETA = 0.1, 0.05
PLAN = Workload(USERS, 10, OBSERVATIONS)


def assert_rare(failures: int, runs: int, chance: float) -> None:
    """Assert that something of at most this chance did not happen more often than chance allows."""
    assert stats.binom.sf(failures - 1, runs, chance) > ALARM, f"{failures} of {runs} failed, with chance {chance}"


def observer(seed: int) -> Continual:
    coins = SeededCoins(seed)
    return Continual(USERS, 3.0, step=STEP, observations=OBSERVATIONS, beta=BETA, coins=coins)


def watched(est: Continual, seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64], list[bool]]:
    """True and published densities while users appear, some of them again and again, and when it moved."""
    generator = np.random.default_rng(seed)
    order = generator.permutation(USERS)
    reached = np.sort(generator.integers(0, USERS, OBSERVATIONS))
    published, moved = [], []
    for number in reached:
        est.update_many(order[max(number - 20_000, 0) : number])
        est.update_many(order[:number])
        seen = est.observe()
        published.append(seen.density)
        moved.append(seen.moved)
    return reached / USERS, np.array(published), moved


@cache
def runs() -> list[tuple[NDArray[np.float64], NDArray[np.float64], list[bool]]]:
    return [watched(observer(seed), seed) for seed in range(RUNS)]


@pytest.mark.slow
def test_all_observations_of_a_run_err_by_at_most_alpha_in_all_but_beta_of_the_runs() -> None:
    accuracy = observer(0).accuracy()
    errors = [np.abs(published - true).max() for true, published, _ in runs()]

    assert accuracy.alpha < 0.1
    assert_rare(sum(error > accuracy.alpha for error in errors), RUNS, BETA)
    assert max(errors) > accuracy.alpha / 2  # the statement says something


@pytest.mark.slow
def test_an_observer_that_is_blind_to_drift_breaks_the_statement() -> None:
    blind = []
    for seed in range(8):
        est = observer(seed)
        observed_of(est).drift_test.bar *= 3
        true, published, _ = watched(est, seed)
        blind.append(np.abs(published - true).max() > observer(seed).accuracy().alpha)

    with pytest.raises(AssertionError, match="failed"):
        assert_rare(sum(blind), 8, BETA)


@pytest.mark.slow
def test_every_move_is_a_drift_of_more_than_the_step() -> None:
    wrong = 0
    for true, _, moved in runs():
        at_moves = np.concatenate([[0.0], true[moved]])
        wrong += bool((np.diff(at_moves) < STEP).any())

    assert_rare(wrong, RUNS, BETA)


@pytest.mark.slow
def test_a_stream_without_deletions_is_published_as_a_path_that_never_falls() -> None:
    for _, published, moved in runs():
        assert (np.diff(published) >= 0).all()
        assert 0 < sum(moved) <= 10


def noise(generator: np.random.Generator, epsilon: float, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Discrete Laplace noise, as the difference of two geometric numbers."""
    p = -np.expm1(-epsilon)
    return generator.geometric(p, shape) - generator.geometric(p, shape)


def largest_noises(shares: Shares, trials: int) -> NDArray[np.int64]:
    """The largest noise in any of the tests, in many runs."""
    generator = np.random.default_rng(3)
    walk = noise(generator, float(shares.threshold), (trials, OBSERVATIONS)).cumsum(axis=1)
    return np.asarray(np.abs(walk - noise(generator, float(shares.test), walk.shape)).max(axis=1))


def test_the_noise_of_all_tests_stays_within_its_slack_and_the_slack_is_not_twice_too_wide() -> None:
    shares = best_shares(1.0, PLAN)
    slack = slack_of(shares, USERS, OBSERVATIONS, BETA).test
    largest = largest_noises(shares, 20_000)

    assert_rare(int((largest > slack).sum()), 20_000, BETA / 4)
    assert slack < 2 * np.quantile(largest, 1 - BETA / 4)


def test_a_slack_for_a_third_of_the_noise_would_be_noticed() -> None:
    shares = best_shares(1.0, PLAN)
    quieter = replace(shares, epsilon=10.0, threshold=3 * shares.threshold, test=3 * shares.test)
    slack = slack_of(quieter, USERS, OBSERVATIONS, BETA).test

    with pytest.raises(AssertionError, match="failed"):
        assert_rare(int((largest_noises(shares, 20_000) > slack).sum()), 20_000, BETA / 4)


def test_the_noise_of_released_counts_stays_within_its_slack_and_a_scale_30_percent_off_does_not() -> None:
    shares = best_shares(1.0, PLAN)
    assert isinstance(shares.value, Laplace)
    slack = slack_of(shares, USERS, OBSERVATIONS, BETA).value
    generator = np.random.default_rng(4)
    right, wrong = (
        int((np.abs(noise(generator, float(shares.value.epsilon) * scale, (20_000, 10))).max(axis=1) > slack).sum())
        for scale in (1.0, 0.7)
    )

    assert_rare(right, 20_000, BETA / 4)
    with pytest.raises(AssertionError, match="failed"):
        assert_rare(wrong, 20_000, BETA / 4)


@pytest.mark.slow
def test_gaussian_noise_of_released_counts_stays_within_its_slack_and_a_scale_30_percent_off_does_not() -> None:
    shares = best_shares(1.0, replace(PLAN, moves=1000, observations=1000), 1e-9)
    assert isinstance(shares.value, Gaussian)
    slack = slack_of(shares, USERS, 1000, BETA).value
    generator = np.random.default_rng(4)
    drawn = np.sqrt(shares.value.variance) * np.abs(generator.standard_normal((5000, 1000))).max(axis=1)

    assert_rare(int((drawn > slack).sum()), 5000, BETA / 4)
    with pytest.raises(AssertionError, match="failed"):
        assert_rare(int((drawn / 0.7 > slack).sum()), 5000, BETA / 4)


def test_the_number_of_ones_stays_within_its_slack_whoever_appears() -> None:
    shares = best_shares(1.0, PLAN)
    slack = slack_of(shares, USERS, OBSERVATIONS, BETA).bits
    generator = np.random.default_rng(5)
    p0, p1 = float(shares.pair.p0), float(shares.pair.p1)
    for present in (0, USERS // 2, USERS):
        ones = generator.binomial(USERS - present, p0, (5000, OBSERVATIONS))
        ones += generator.binomial(present, p1, (5000, OBSERVATIONS))
        largest = np.abs(ones - present * p1 - (USERS - present) * p0).max(axis=1)

        assert_rare(int((largest > slack).sum()), 5000, BETA / 4)
        assert slack < 2 * np.quantile(largest, 1 - BETA / 4)


def test_a_sample_has_a_part_in_the_error_that_covers_the_sampling() -> None:
    shares = best_shares(1.0, replace(PLAN, size=5000))
    scale = SampleDesign(shares.pair, 5000, 5000, 20_000)
    accuracy = accuracy_of(10, STEP, shares, scale, observations=1, beta=BETA)
    sampled = np.random.default_rng(6).hypergeometric(8000, 12_000, 5000, 50_000) / 5000

    assert_rare(int((np.abs(sampled - 0.4) > accuracy.sampling).sum()), 50_000, BETA / 4)
    assert accuracy.sampling < 2 * np.quantile(np.abs(sampled - 0.4), 1 - BETA / 4)


def test_more_observations_and_a_smaller_beta_cost_accuracy() -> None:
    est = observer(0)
    alphas = [est.accuracy(*plan).alpha for plan in ((10, 0.1), (100, 0.1), (100, 0.01), (10_000, 0.01))]

    assert alphas == sorted(alphas)


def test_the_statement_says_whether_the_planned_moves_suffice() -> None:
    est = observer(0)

    assert est.accuracy().moves_suffice
    assert not est.accuracy(10 * OBSERVATIONS).moves_suffice
    assert "as long as moves are left" in str(est.accuracy(10 * OBSERVATIONS))
    assert "with probability 0.95 all of 30 observations err by at most 0.0" in str(est.accuracy())


def test_the_bar_is_the_step_and_what_noise_may_feign_of_it() -> None:
    shares = best_shares(1.0, PLAN)
    scale = SampleDesign(shares.pair, USERS, USERS, USERS)
    slack = slack_of(shares, USERS, OBSERVATIONS, BETA)

    assert bar_for(STEP, shares, scale, OBSERVATIONS, BETA) == pytest.approx(
        STEP * scale.whole + slack.test + slack.value + 2 * slack.bits, abs=1
    )

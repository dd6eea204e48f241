"""What the plan says of an error is what the built estimator does.

Each run builds the estimator on seeded coins, feeds it and takes one release. The number of errors of at least alpha is
binomial with the planned probability, and is refused in a two-sided test at 1e-6: that is the false-alarm rate of
each test, for a fresh seed. Errors 30 % too large or too small must be refused.
"""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from panprivacy.estimators.density import Density
from panprivacy.planning import plan
from panprivacy.planning.law import Design
from panprivacy.planning.result import DensityPlan
from panprivacy.testing import SeededCoins, slots_of, split_of

pytestmark = pytest.mark.slow

FALSE_ALARM = 1e-6


def refused(errors: int, runs: int, probability: float) -> bool:
    return bool(stats.binomtest(errors, runs, probability).pvalue < FALSE_ALARM)


def law_of(est: Density) -> Design:
    """The law of the next release of an estimator as it was built, with as many users as it got."""
    split = split_of(est)
    return Design(split.pair_after(split.intrusions), slots_of(est).size, est.users, est.universe.size, split.noise)


def simulate(planned: DensityPlan, seen: int, runs: int, seed: int) -> tuple[list[float], float]:
    """Errors of so many builds, and the mean of what the law says of each; users differ a little between builds."""
    coins = SeededCoins(seed)
    assert planned.universe is not None
    ids = np.random.default_rng(seed).permutation(planned.universe.size)[:seen]
    errors, chances = [], {}
    total = 0.0
    for _ in range(runs):
        est = planned.build(coins=coins)
        assert isinstance(est, Density)
        if est.users not in chances:
            chances[est.users] = law_of(est).error_probability(seen, Fraction(str(planned.alpha)))
        total += chances[est.users]
        est.update_many(ids)
        for _ in range(planned.split.intrusions):
            est.rerandomize()
        errors.append(est.release().density - seen / planned.universe.size)
    return errors, total / runs


CASES: dict[str, tuple[Callable[[], DensityPlan], float]] = {
    "a bit for each user": (lambda: plan(universe=700, epsilon=1.0), 0.3),
    "a sample": (lambda: plan(universe=3_000, epsilon=2.0, alpha=0.08), 0.5),
    "a sample with noise that matters": (lambda: plan(universe=2_000, epsilon=0.7, alpha=0.25, releases=2), 0.6),
    "after an intrusion": (lambda: plan(universe=1_500, epsilon=3.0, alpha=0.1, intrusions=1), 0.5),
    "Gaussian noise": (lambda: plan(universe=3_000, epsilon=2.0, releases=365, delta=1e-6), 0.4),
    "a sample with Gaussian noise": (
        lambda: plan(universe=4_000, epsilon=4.0, alpha=0.2, releases=99, delta=1e-6),
        0.5,
    ),
    "Gaussian noise after an intrusion": (
        lambda: plan(universe=9_000, epsilon=4.0, alpha=0.2, releases=99, intrusions=1, delta=1e-6),
        0.5,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_estimators_err_as_often_as_planned_and_a_scale_thirty_percent_off_would_show(case: str) -> None:
    make, density = CASES[case]
    planned = make()
    assert planned.universe is not None
    runs, seen = 2000, round(density * planned.universe.size)
    errors, probability = simulate(planned, seen, runs, seed=20)
    sizes = np.abs(errors)
    assert (planned.noise == "Gaussian") == ("Gaussian" in case)
    assert probability == pytest.approx(planned.probability, rel=0.2)  # the plan is for the worst density
    assert not refused(int((sizes >= planned.alpha).sum()), runs, probability)
    assert refused(int((1.3 * sizes >= planned.alpha).sum()), runs, probability)
    assert refused(int((sizes / 1.3 >= planned.alpha).sum()), runs, probability)


def test_standard_errors_are_as_planned_and_thirty_percent_would_show() -> None:
    planned = plan(universe=3_000, epsilon=2.0, alpha=0.08)
    errors, _ = simulate(planned, 1_500, runs=1500, seed=4)
    # The deviation of 1500 errors has a standard error of about 1.9 %: 10 % is more than five of them.
    assert float(np.std(errors)) == pytest.approx(planned.density_stderr, rel=0.1)


def test_a_counter_for_a_sparse_stream_errs_about_as_planned() -> None:
    """Approximate by design: the planned 0.05 may be anything from 0.02 to 0.09; twice the errors would be 0.33."""
    planned = plan(universe=200_000, epsilon=1.5, alpha=0.002, density=0.01)
    assert planned.estimator == "DistinctCount"
    runs, coins, wrong, larger = 400, SeededCoins(3), 0, 0
    for run in range(runs):
        est = planned.build(coins=coins)
        est.update_many(np.arange(2_000) + 2_000 * run)
        released = est.release()
        error = abs(released.count - 2_000) / 200_000
        wrong += error >= planned.alpha
        larger += 2 * error >= planned.alpha
    assert stats.binomtest(wrong, runs, 0.02, "less").pvalue > FALSE_ALARM
    assert stats.binomtest(wrong, runs, 0.09, "greater").pvalue > FALSE_ALARM
    assert stats.binomtest(larger, runs, 0.09, "greater").pvalue < FALSE_ALARM


RUNS = 600
ABOUT = 1.3
"""What is said of an open universe is approximate: up to this multiple of beta is let pass."""


def relative_errors(planned: DensityPlan, count: int, runs: int = RUNS) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Relative errors of so many builds, each of which sees another crowd of this many users."""
    coins, errors = SeededCoins(7), []
    for run in range(runs):
        est = planned.build(coins=coins)
        est.update_many(np.arange(count) + run * count)
        for _ in range(planned.split.intrusions):
            est.rerandomize()
        errors.append(abs(est.release().count / count - 1))
    return np.array(errors)


def too_many(errors: np.ndarray[tuple[int], np.dtype[np.float64]], planned: DensityPlan) -> bool:
    """Whether more errors reach alpha than beta allows; false alarm 1e-6."""
    wrong = int((errors >= planned.alpha).sum())
    return bool(stats.binomtest(wrong, len(errors), ABOUT * planned.beta, "greater").pvalue < FALSE_ALARM)


OPEN: dict[str, Callable[[], DensityPlan]] = {
    "a count that is just enough": lambda: plan(epsilon=1.0, alpha=0.1, count=5_000),
    "the last of two releases": lambda: plan(epsilon=2.0, alpha=0.1, count=3_000, releases=2),
    "after an intrusion": lambda: plan(epsilon=4.0, alpha=0.1, count=3_000, intrusions=1),
    "Gaussian noise": lambda: plan(epsilon=3.0, alpha=0.2, count=9_000, releases=200, delta=1e-6),
}


@pytest.mark.parametrize("case", OPEN)
def test_in_an_open_universe_the_promise_holds_from_the_first_count_on(case: str) -> None:
    """Errors 40 % larger would be noticed: 0.16 of them reach alpha, where 0.05 may."""
    planned = OPEN[case]()
    assert planned.counts is not None
    errors = relative_errors(planned, planned.counts[0])
    assert not too_many(errors, planned)
    assert too_many(1.4 * errors, planned)


def test_a_promise_made_for_a_million_users_is_broken_by_a_fortieth_of_them() -> None:
    """So the plan must ask for the count: at 23,570 users about 0.3 of the errors reach the alpha of a million.

    Of 200 runs that is 60, more than four standard deviations above the 33 that are too many.
    """
    planned = plan(epsilon=1.0, alpha=0.02, count=10**6)
    assert planned.counts is not None
    assert planned.counts[0] > 23_570
    assert too_many(relative_errors(planned, 23_570, runs=200), planned)

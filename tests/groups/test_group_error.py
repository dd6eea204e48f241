"""The error of groups and categories is what their own standard errors say, and their intervals hold the truth.

Every check has a false-alarm rate of 1e-6; the seeds are fixed.
"""

from math import sqrt

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import panprivacy as pp
from checks import ALARM, assert_variance
from panprivacy.estimates import ErrorModel
from panprivacy.estimates.errors import normal_laplaces_cdf
from panprivacy.testing import SeededCoins, ledger_of

pytestmark = pytest.mark.slow

SHARES = np.array([0.0, 0.05, 0.3, 0.6, 1.0])
SIZES = np.array([200, 400, 1000, 2000, 400])
RUNS = 200


def assert_unbiased(quotients: NDArray[np.float64]) -> None:
    z = float(quotients.sum() / sqrt(quotients.size))
    assert abs(z) < stats.norm.isf(ALARM / 2), f"biased by {quotients.mean():.3f} standard errors"


def assert_covered(covered: int, of: int) -> None:
    """Assert that so many intervals of 95 % hold the truth; near 0 and 1 they hold it more often."""
    assert stats.binom.cdf(covered, of, 0.95) > ALARM, f"{covered} of {of} intervals hold the truth"


def grouped_runs(epsilon: float, runs: int) -> list[pp.Release]:
    coins = SeededCoins(11)
    ends = np.cumsum(SIZES)
    seen = np.concatenate([np.arange(end - n, end - n + round(n * s)) for end, n, s in zip(ends, SIZES, SHARES)])  # noqa: B905
    out = []
    for _ in range(runs):
        est = pp.Density(int(ends[-1]), epsilon, groups=np.repeat(np.arange(5), SIZES), coins=coins)
        est.update_many(seen)
        out.append(est.release())
    return out


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_groups_and_their_total_err_as_they_say(epsilon: float) -> None:
    releases = grouped_runs(epsilon, RUNS)
    est = pp.Density(int(SIZES.sum()), epsilon, groups=np.repeat(np.arange(5), SIZES))
    truth = float(SHARES @ SIZES / SIZES.sum())
    errors = np.array([[row.raw_density for row in r.groups] for r in releases]) - SHARES
    stderrs = np.array([est.density_stderr_at(float(share), group) for group, share in enumerate(SHARES)])
    totals = np.array([r.raw_density - truth for r in releases])
    total_stderr = sqrt(sum((stderrs * SIZES) ** 2)) / SIZES.sum()

    assert est.density_stderr_at(truth) == pytest.approx(total_stderr)
    assert_variance(errors / stderrs, 1.0)
    assert_unbiased(errors / stderrs)
    assert_variance(totals / total_stderr, 1.0)
    covered = [
        row.density_interval[0] <= share <= row.density_interval[1]
        for r in releases
        for row, share in zip(r.groups, SHARES, strict=True)
    ]
    assert_covered(sum(covered), len(covered))
    assert_covered(sum(r.density_interval[0] <= truth <= r.density_interval[1] for r in releases), RUNS)


def test_the_estimates_of_groups_are_independent_of_each_other() -> None:
    errors = np.array([[row.raw_density for row in r.groups] for r in grouped_runs(3.0, RUNS)])
    found = np.corrcoef(errors.T)[np.triu_indices(5, 1)]

    assert np.abs(found).max() < stats.norm.isf(ALARM / 20) / sqrt(RUNS)


@pytest.mark.parametrize("sample", [None, 4000])
def test_categories_err_as_they_say_though_others_are_asked_about_each(sample: int | None) -> None:
    # Who appears in which category overlaps; a new key in each run.
    universe, coins, shares = 10_000, SeededCoins(5), np.array([0.0, 0.2, 0.5, 0.9])
    errors, covered = [], 0
    for _ in range(150):
        est = pp.Density(universe, 2.0, sample=sample, categories=range(4), coins=coins)
        for category, share in enumerate(shares):
            est.update_many(np.arange(round(share * universe)), category)
        rows = est.release().groups
        for row, share in zip(rows, shares, strict=True):
            errors.append((row.raw_density - share) / est.density_stderr_at(float(share), row.group))
            covered += row.density_interval[0] <= share <= row.density_interval[1]

    assert_variance(errors, 1.0)
    assert_unbiased(np.array(errors))
    assert_covered(covered, len(errors))


def test_a_standard_error_without_the_sampling_would_be_noticed() -> None:
    universe, coins = 10_000, SeededCoins(5)
    errors = []
    for _ in range(300):
        est = pp.Density(universe, 20.0, categories=range(20), coins=coins)
        est.update_many(np.arange(universe // 2), 3)
        row = est.release().groups[3]
        ledger = ledger_of(est)
        without = ErrorModel(ledger.pair, row.users, row.users, row.users, ledger.split.noise).stderr(0.5)
        errors.append((row.raw_density - 0.5) / without)
    with pytest.raises(AssertionError, match="variance"):
        assert_variance(errors, 1.0)


def test_counts_by_category_err_as_they_say() -> None:
    counts, coins = [0, 3000, 40_000], SeededCoins(7)
    errors, covered = [], 0
    for _ in range(100):
        est = pp.DistinctCount(2.0, 256, categories=range(3), coins=coins)
        for category, count in enumerate(counts):
            est.update_many(np.arange(count), category)
        for row, count in zip(est.release().groups, counts, strict=True):
            errors.append((row.raw_count - count) / est.count_stderr_at(count))
            covered += row.count_interval[0] <= count <= row.count_interval[1]

    assert_variance(errors, 1.0)
    assert_unbiased(np.array(errors))
    assert_covered(covered, len(errors))


@pytest.mark.parametrize("times", [2, 5, 63])
def test_the_law_of_a_total_is_that_of_many_noises(times: int) -> None:
    # A Kolmogorov test of 200,000 draws; false alarms at 1e-6.
    random = np.random.default_rng(times)
    drawn = np.sort(random.normal(0, 1.0, 200_000) + random.laplace(0, 1.5, (200_000, times)).sum(axis=1))
    at = drawn[::2000]
    law = np.array([normal_laplaces_cdf(float(x), 1.0, 1.5, times) for x in at])
    assert np.abs(law - np.arange(0, 200_000, 2000) / 200_000).max() < 2.7 / sqrt(200_000)

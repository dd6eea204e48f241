"""The error of `Counts`: its formulas by enumeration, its releases by simulation."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import planted_counts
import pytest
from numpy.typing import NDArray
from scipy import stats

from checks import ALARM, assert_binomial
from exact_counts import excesses_of, ones_of
from panprivacy import Counts
from panprivacy.audit.enumeration.outcomes import EveryOutcome
from panprivacy.estimates.frequency import MeanErrors, ShareErrors
from panprivacy.estimates.smoothing import ordered_shares
from panprivacy.privacy.coins import Coins
from panprivacy.testing import SeededCoins, gaussian_noise, split_of, table_of

RUNS = 400


def shares_at_least(times: NDArray[np.int64], up_to: int) -> NDArray[np.float64]:
    return np.array([(times >= j).mean() for j in range(1, up_to + 1)])


@pytest.mark.slow
@pytest.mark.parametrize(("up_to", "times"), [(2, (1, 3)), (3, (0, 2)), (3, (1, 4)), (4, (2, 3))])
def test_means_and_covariances_are_those_of_the_formulas(up_to: int, times: tuple[int, ...]) -> None:
    """Of every outcome of the coins of the shipping code; the noise comes on top and is independent."""
    coins = EveryOutcome()
    users = len(times)

    def excesses() -> tuple[tuple[int, ...], int]:
        est = Counts(users, 1.0, up_to, coins=coins)
        for user, often in enumerate(times):
            for _ in range(often):
                est.update(user)
        return excesses_of(table_of(est)), ones_of(table_of(est))

    first = np.zeros(up_to)
    second = np.zeros((up_to, up_to))
    ones, ones_squared = 0.0, 0.0
    for outcome in coins.outcomes(excesses):
        each, bits = outcome.value
        weight = float(outcome.weight)
        first += weight * np.array(each)
        second += weight * np.outer(each, each)
        ones, ones_squared = ones + weight * bits, ones_squared + weight * bits**2
    split = split_of(Counts(users, 1.0, up_to))
    share = ShareErrors(split.pair, users, users, users, split.noise, up_to=up_to)
    truth = shares_at_least(np.array(times), up_to)
    assert np.allclose(first / share.whole + 0.5, truth)
    expected = share.covariance(np.maximum.outer(truth, truth), np.minimum.outer(truth, truth))
    np.fill_diagonal(expected, share.bit_variance(truth) / share.whole**2)
    assert np.allclose((second - np.outer(first, first)) / share.whole**2, expected)
    alone = MeanErrors(split.pair, users, users, users, split.noise)
    assert np.isclose((ones - users * float(split.pair.p0)) / alone.whole * up_to, np.minimum(times, up_to).mean())
    assert ones_squared - ones**2 <= alone.bit_variance(np.minimum(times, up_to).mean() / up_to) + 1e-12


def test_the_mean_varies_most_if_all_appeared_alike() -> None:
    split = split_of(Counts(1000, 1.0, 8, only="mean"))
    alone = MeanErrors(split.pair, 1000, 1000, 1000, split.noise)
    p0, gap = float(split.pair.p0), split.pair.gap
    for times in ([4] * 1000, [0] * 500 + [8] * 500, [2] * 500 + [6] * 500):
        q = p0 + gap * np.array(times) / 8
        assert float((q * (1 - q)).sum()) <= alone.bit_variance(0.5) * (1 + 1e-12)
    assert np.isclose(alone.bit_variance(0.5), 250)


def appearances(users: int, seed: int) -> NDArray[np.int64]:
    """Most never appear, some often."""
    return np.random.default_rng(seed).geometric(0.3, users) - 1


def simulated(
    make: Callable[[Coins], Any], times: NDArray[np.int64], runs: int = RUNS
) -> tuple[list[Any], NDArray[np.int64]]:
    ids = np.repeat(np.arange(len(times)), times)
    releases = []
    for run in range(runs):
        est = make(SeededCoins(run))
        est.update_many(ids)
        releases.append(est.release())
    return releases, ids


def assert_spread(errors: NDArray[np.float64], stderr: float) -> None:
    """Assert mean zero and the variance that is stated, each with a false alarm in a million."""
    runs = len(errors)
    assert abs(errors.mean()) < stats.norm.isf(ALARM / 2) * stderr / np.sqrt(runs)
    low, high = (float(stats.chi2.ppf(tail, runs - 1)) / (runs - 1) for tail in (ALARM / 2, 1 - ALARM / 2))
    assert low < errors.var(ddof=1) / stderr**2 < high


@pytest.mark.slow
@pytest.mark.parametrize("delta", [None, 1e-9])
@pytest.mark.parametrize("up_to", [4, 6])
@gaussian_noise()
def test_releases_err_as_they_say(up_to: int, delta: float | None) -> None:
    times = appearances(20_000, 1)
    truth = shares_at_least(times, up_to)
    plan: dict[str, Any] = {"epsilon": 1.0, "up_to": up_to, "delta": delta, "releases": 4 if delta else 1}
    releases, _ = simulated(lambda coins: Counts(20_000, coins=coins, **plan), times)
    for j in range(up_to):
        raw = np.array([r.raw_at_least[j] for r in releases])
        assert_spread(raw - truth[j], releases[0].at_least_stderr[j])
        held = sum(low <= truth[j] <= high for low, high in (r.at_least_interval[j] for r in releases))
        assert_binomial(held, RUNS, 0.95)
        exactly = np.array([r.raw_exactly[j] for r in releases])
        share = (times == j).mean()
        assert_spread(exactly - share, float(np.mean([r.exactly_stderr[j] for r in releases])))
        held = sum(low <= share <= high for low, high in (r.exactly_interval[j] for r in releases))
        assert_binomial(held, RUNS, 0.95)
    mean = np.minimum(times, up_to).mean()
    assert_spread(np.array([r.raw_mean for r in releases]) - mean, float(np.mean([r.mean_stderr for r in releases])))
    held = sum(low <= mean <= high for low, high in (r.mean_interval for r in releases))
    assert_binomial(held, RUNS, 0.95)
    for r in releases:
        found, raw = (np.square(np.array(shares) - truth).sum() for shares in (r.at_least, r.raw_at_least))
        assert found <= raw + 1e-12


@pytest.mark.slow
def test_the_mean_alone_errs_no_more_than_it_says_and_less_than_with_all_shares() -> None:
    times = appearances(2_000, 2)
    mean = np.minimum(times, 4).mean()
    alone, _ = simulated(lambda coins: Counts(2_000, 1.0, 4, only="mean", coins=coins), times)
    errors = np.array([r.raw_mean for r in alone]) - mean
    assert abs(errors.mean()) < 5 * alone[0].mean_stderr / np.sqrt(RUNS)
    assert errors.std() < alone[0].mean_stderr * 1.15
    assert alone[0].mean_stderr < Counts(2_000, 1.0, 4).mean_stderr
    assert alone[0].at_least == alone[0].exactly == ()


@pytest.mark.slow
def test_what_is_taken_back_was_never_there() -> None:
    times = appearances(20_000, 3)
    back = np.minimum(times, 1)
    kept, ids = simulated(lambda coins: Counts(20_000, 1.0, 6, coins=coins), np.where(times <= 6, times, 0), runs=1)
    assert kept[0].up_to == 6
    truth = shares_at_least(np.where(times <= 6, times - back, 0), 6)
    errors = []
    for run in range(RUNS // 2):
        est = Counts(20_000, 1.0, 6, coins=SeededCoins(run))
        est.update_many(ids)
        est.remove_many(np.unique(ids))
        errors.append(np.array(est.release().raw_at_least) - truth)
    for j in range(6):
        assert_spread(np.array(errors)[:, j], kept[0].at_least_stderr[j])


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", [planted_counts.OnceABatch, planted_counts.RedrawsAtEveryEvent], ids=lambda kind: kind.__name__
)
def test_a_wrong_law_of_the_bits_is_noticed(kind: type[Counts]) -> None:
    times = np.repeat([0, 1, 2], 100)
    releases, _ = simulated(lambda coins: kind(300, 40.0, 3, coins=coins), times, runs=30)
    errors = np.array([r.raw_at_least[1] for r in releases]) - shares_at_least(times, 3)[1]
    with pytest.raises(AssertionError):  # both are wrong about who appeared twice
        assert_spread(errors, releases[0].at_least_stderr[1])


@pytest.mark.slow
def test_without_a_bug_the_same_check_passes() -> None:
    times = np.repeat([0, 1, 2], 100)
    releases, _ = simulated(lambda coins: Counts(300, 40.0, 3, coins=coins), times, runs=30)
    errors = np.array([r.raw_at_least[1] for r in releases]) - shares_at_least(times, 3)[1]
    assert_spread(errors, releases[0].at_least_stderr[1])


def test_shares_that_rise_are_made_to_fall_and_nothing_else_is_changed() -> None:
    fall = partial(ordered_shares, weights=[1.0] * 3, rising=False)
    assert fall([0.9, 0.5, 0.2]) == (0.9, 0.5, 0.2)
    assert fall([0.2, 0.4, 0.9]) == pytest.approx((0.5, 0.5, 0.5))
    assert fall([1.2, 0.5, -0.2]) == (1.0, 0.5, 0.0)


@pytest.mark.parametrize(("up_to", "designed"), [(4, 0.0022), (8, 0.0032), (16, 0.0046)])
def test_the_errors_of_the_design_come_out(up_to: int, designed: float) -> None:
    assert Counts(10**6, 1.0, up_to).share_stderr == pytest.approx(designed, abs=5e-5)


# --- groups and categories ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("bits", "users", "population"), [(1000, 1000, 1000), (1010, 1000, 4000)])
def test_sums_and_differences_of_shares_err_as_their_covariances_say(bits: int, users: int, population: int) -> None:
    """The closed forms for many tables at once, against a matrix of covariances."""
    split = split_of(Counts(1000, 1.0, 5))
    one = ShareErrors(split.pair, bits, users, population, split.noise, up_to=5)
    sizes: list[Any] = [np.array([[size], [2 * size]]) for size in (bits, users, population)]
    many = ShareErrors(split.pair, sizes[0], sizes[1], sizes[2], split.noise, up_to=5)
    shares = np.array([0.9, 0.5, 0.45, 0.2, 0.0])
    matrix = one.covariance(np.maximum.outer(shares, shares), np.minimum.outer(shares, shares))
    np.fill_diagonal(matrix, [one.stderr(share) ** 2 for share in shares])
    steps = np.eye(5, k=-1) - np.eye(5)

    assert many.sum_stderr(np.array([shares, shares]))[0, 0] == pytest.approx(np.sqrt(matrix.sum()))
    found = many.difference_stderr(np.array([shares, shares]))[0]
    assert found == pytest.approx(np.sqrt((steps @ matrix @ steps.T).diagonal()))
    assert many.density([[7] * 5] * 2)[0, 0] == pytest.approx(one.density(7))


@pytest.mark.slow
def test_groups_and_their_total_err_as_they_say() -> None:
    times, up_to = appearances(6_000, 4), 3
    bounds = np.array([0, 3_000, 5_000, 6_000])
    labels = np.repeat(["a", "b", "c"], np.diff(bounds))
    releases, _ = simulated(lambda coins: Counts(6_000, 2.0, up_to, groups=labels, coins=coins), times)
    for group, (start, stop) in enumerate([(0, 3_000), (3_000, 5_000), (5_000, 6_000), (0, 6_000)]):
        rows = [(*r.groups, r)[group] for r in releases]
        _assert_rows(rows, times[start:stop], up_to)


@pytest.mark.slow
def test_categories_err_as_they_say_though_others_are_asked_about_each() -> None:
    """At a large epsilon, where most of the error is that of the sample."""
    users, up_to, shares = 4_000, 2, (1.0, 0.7, 0.1)
    times = [np.where(np.arange(users) < share * users, appearances(users, 5), 0) for share in shares]
    releases = []
    for run in range(RUNS):
        est = Counts(users, 8.0, up_to, categories=range(3), coins=SeededCoins(run))
        for category, each in enumerate(times):
            est.update_many(np.repeat(np.arange(users), each), category)
        releases.append(est.release())
    for category, each in enumerate(times):
        _assert_rows([r.groups[category] for r in releases], each, up_to)
    without = Counts(users // 3, 8.0, up_to).share_stderr
    assert without is not None
    errors = np.array([r.groups[1].raw_at_least[0] for r in releases]) - shares_at_least(times[1], up_to)[0]
    with pytest.raises(AssertionError):  # as if everybody had been asked
        assert_spread(errors, without)


def _assert_rows(rows: list[Any], times: NDArray[np.int64], up_to: int) -> None:
    """Assert that estimates and intervals of one group are what they say."""
    truth = shares_at_least(times, up_to)
    exactly = np.array([(times == j).mean() for j in range(up_to)])
    for name, true in (("at_least", truth), ("exactly", exactly)):
        for j in range(up_to):
            stderr = float(np.mean([getattr(row, f"{name}_stderr")[j] for row in rows]))
            assert_spread(np.array([getattr(row, f"raw_{name}")[j] for row in rows]) - true[j], stderr)
            held = sum(low <= true[j] <= high for low, high in (getattr(row, f"{name}_interval")[j] for row in rows))
            assert stats.binom.cdf(held, len(rows), 0.95) > ALARM  # near 0 and 1 intervals hold more often
    mean = np.minimum(times, up_to).mean()
    assert_spread(np.array([row.raw_mean for row in rows]) - mean, float(np.mean([row.mean_stderr for row in rows])))
    held = sum(low <= mean <= high for low, high in (row.mean_interval for row in rows))
    assert stats.binom.cdf(held, len(rows), 0.95) > ALARM

"""Intervals: they contain the truth as often as they say, and no more often than they must."""

from math import inf

import numpy as np
import polars as pl
import pytest

from panprivacy.experiments.study import freedom_of, mse_table, pooled, proportion, quantile, ratio_interval


def misses(repetitions: int, draws: int, *, laplace: bool = False, scale: float = 1.0) -> float:
    """How often an interval of 90 % for a mean square does not contain it; scale is a planted error in the truth."""
    generator = np.random.default_rng(1)
    missed = 0
    for _ in range(draws):
        errors = generator.laplace(0, np.sqrt(0.5), repetitions) if laplace else generator.normal(0, 1, repetitions)
        squares = errors**2
        found = ratio_interval(float(squares.mean()), freedom_of(squares), inf, 0.1)
        missed += not found.low <= scale**2 <= found.high
    return missed / draws


@pytest.mark.slow
def test_intervals_for_mean_squares_miss_as_often_as_they_say() -> None:
    # 4,000 intervals: a share of 0.1 has a standard deviation of 0.0047, and five of them are one alarm in 10^6.
    assert abs(misses(300, 4000) - 0.1) < 0.024


def test_errors_with_long_tails_are_allowed_for() -> None:
    # The squares of Laplace errors vary 2.5 times as much as normal ones; taken for normal, 0.3 would be missed.
    assert misses(300, 2000, laplace=True) < 0.16


def test_a_scale_that_is_30_percent_off_is_missed_almost_always() -> None:
    assert misses(300, 500, scale=1.3) > 0.99


def test_degrees_of_freedom_are_never_more_than_repetitions() -> None:
    assert freedom_of(np.ones(10)) == 10
    assert freedom_of(np.array([0.9, 1.1] * 5)) == 10
    assert freedom_of(np.array([0.0] * 9 + [1.0])) < 3


@pytest.mark.slow
def test_pooled_ratios_are_centred() -> None:
    # 2,000 pools of 20 ratios over 40 repetitions: the mean logarithm has a standard deviation of 0.0011.
    generator = np.random.default_rng(2)
    logs = []
    for _ in range(2000):
        ratios = (generator.chisquare(40, 20) / 40).tolist()
        logs.append(np.log(pooled(ratios, [(40, inf)] * 20, 1.0).estimate))
    assert abs(np.mean(logs)) < 0.0055
    sides = pooled([1.0], [(40, 40)], 1.0)
    assert sides.estimate == pytest.approx(1.0)


def test_proportions_are_exact_at_the_ends() -> None:
    assert proportion(0, 100).low == 0
    assert proportion(0, 100).high == pytest.approx(1 - 0.025 ** (1 / 100))
    assert proportion(100, 100).high == 1
    assert proportion(100, 100).low == pytest.approx(0.025 ** (1 / 100))


def test_more_comparisons_need_wider_intervals() -> None:
    assert quantile(0.05, 20) > quantile(0.05)
    assert proportion(5, 100, comparisons=20).high > proportion(5, 100).high


def test_mean_squares_are_taken_about_the_truth_of_each_repetition() -> None:
    runs = pl.DataFrame(
        {
            "stream": ["zipf"] * 4,
            "algorithm": ["Dwork"] * 4,
            "total": [0.4] * 4,
            "size": [10] * 4,
            "repetition": [3, 2, 1, 0],
            "truth": [0.1, 0.2, 0.3, 0.4],
            "estimate": [0.2, 0.1, 0.5, 0.2],
        }
    )
    row = mse_table(runs).row(0, named=True)
    assert row["mse"] == pytest.approx((0.01 + 0.01 + 0.04 + 0.04) / 4)
    assert row["bias"] == pytest.approx(0)
    assert row["low"] < row["mse"] < row["high"]

"""Fits that never fall: their ends do not lean outwards, and wild values do not rule them."""

from collections.abc import Callable
from functools import cache, partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

import panprivacy as pp
from panprivacy.estimates import smoothing
from panprivacy.estimates.smoothing import AsinhScale
from panprivacy.testing import SeededCoins, ledger_of

Reals = NDArray[np.float64]
RELEASES, SERIES, NOISE = 365, 1000, 0.041


def textbook(values: Reals) -> Reals:
    """Isotonic regression as it is."""
    return np.asarray(isotonic_regression(values).x)


def ours(values: Reals) -> Reals:
    return smoothing.rising_curve(values, np.ones(len(values)), np.full(len(values), NOISE))


SHAPES: dict[str, Callable[[Reals], Reals]] = {
    "flat": lambda t: 0.5 + 0 * t,
    "slowing down": lambda t: 0.8 * (1 - np.exp(-3 * t)),
    "straight": lambda t: 0.8 * t,
}


def errors(shape: str, fit: Callable[[Reals], Reals]) -> Reals:
    """What the points of many curves are off by, in units of the noise of one release."""
    truth = SHAPES[shape](np.arange(1, RELEASES + 1) / RELEASES)
    made = truth + NOISE * np.random.default_rng(7).normal(size=(SERIES, RELEASES))
    return np.array([(fit(each) - truth) / NOISE for each in made])


def rms(values: Reals) -> float:
    return float(np.sqrt(np.mean(values**2)))


# The mean of 1,000 last points has a standard error of 0.02 at most, so that those limits which are five of them away
# from what is expected give a false alarm in a million tries; and the seed is fixed.


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_the_last_point_leans_by_less_than_a_third_of_what_the_textbook_has(shape: str) -> None:
    assert abs(errors(shape, ours)[:, -1].mean()) < 0.28
    assert errors(shape, textbook)[:, -1].mean() > 0.34, "a fit without a penalty would be noticed"


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_the_last_point_errs_less_and_all_others_no_more(shape: str) -> None:
    found, plain = errors(shape, ours), errors(shape, textbook)
    assert rms(found[:, -1]) < 0.85 * rms(plain[:, -1])
    assert rms(found) <= rms(plain)


@pytest.mark.slow
def test_the_first_point_leans_no_more_than_the_last() -> None:
    assert errors("flat", ours)[:, 0].mean() == pytest.approx(-errors("flat", ours)[:, -1].mean(), abs=0.1)


def test_releases_that_clearly_rise_stay_as_they_are() -> None:
    values = np.arange(20.0)
    fitted = smoothing.rising_curve(values, np.ones(20), np.full(20, 0.1))
    assert fitted.tolist() == values.tolist()


def test_a_value_far_off_hardly_moves_a_fit_among_wild_values() -> None:
    draws = np.random.default_rng(1).normal(size=400)
    fit = partial(smoothing.robust_rising_curve, weights=np.ones(400), noise=np.ones(400))
    wild = np.where(np.arange(400) == 200, 1e6, draws)
    assert np.abs(fit(wild) - fit(draws)).max() < 0.5
    assert np.abs(textbook(wild) - textbook(draws)).max() > 1000, "squares would be noticed"


def test_the_fit_among_wild_values_has_the_least_sum_of_hubers_losses() -> None:
    """Beside fits that are a little off, and before its ends are moved."""
    values, same = np.random.default_rng(3).standard_t(2, size=60) + np.linspace(0, 3, 60), np.ones(60)

    def loss(fitted: Reals) -> float:
        off, reach = np.abs(values - fitted), 1.345
        return float(np.where(off <= reach, off**2 / 2, reach * (off - reach / 2)).sum())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(smoothing, "_PENALTY", 0.0)
        fitted = smoothing.robust_rising_curve(values, same, same)
    draws = np.random.default_rng(4)
    others = (np.maximum.accumulate(fitted + 0.05 * draws.normal(size=60)) for _ in range(200))
    assert all(loss(fitted) <= loss(other) for other in others)
    assert all(earlier <= later for earlier, later in pairwise(fitted))


# --- counts of an open universe -------------------------------------------------------------------------------------

USERS = 20_000
OFF = 3  # the factor by which the end of a curve may be off


@cache
def hourly(seed: int) -> tuple[Reals, list[pp.CountRelease]]:
    """The truth and the releases of a sketch that was planned for so many that each of them is mostly noise."""
    est = pp.DistinctCount(1.0, 1024, releases=500, delta=1e-9, coins=SeededCoins(seed))
    assert est.relative_error > 1
    truth = np.rint(USERS * -np.expm1(-3 * np.arange(1, 101) / 100))
    made, before = [], 0
    for count in truth.astype(int):
        est.update_many(range(before, count))
        before = count
        made.append(est.release())
    return truth, made


def off_by(fit: Callable[[list[pp.CountRelease]], Any]) -> list[float]:
    """By what factor the last points of three curves are off, to either side."""
    found = []
    for seed in range(3):
        truth, made = hourly(seed)
        found.append(float(np.exp(abs(np.log(max(fit(made)[-1], 1.0) / truth[-1])))))
    return found


@pytest.mark.slow
def test_the_curve_of_counts_that_are_mostly_noise_ends_near_the_truth() -> None:
    assert max(off_by(lambda made: pp.monotone(made).counts)) < OFF


@pytest.mark.slow
def test_a_curve_of_counts_by_squares_would_be_noticed() -> None:
    assert min(off_by(lambda made: textbook(np.array([each.raw_count for each in made])))) > 2 * OFF


def test_the_noise_of_counts_is_the_same_everywhere_on_the_even_scale() -> None:
    est = pp.DistinctCount(1.0, 1024, releases=50, coins=SeededCoins(1))
    noise = est._model(ledger_of(est).pair).noise_stderr
    scale = AsinhScale(noise(0.0) / est.relative_error, est.relative_error)
    for count in (0.0, 300.0, 3000.0, 30_000.0, 3e6):
        low, high = scale.scaled([count - 1, count + 1])
        assert noise(count) * (high - low) / 2 == pytest.approx(scale.relative, rel=0.35)


def test_the_even_scale_leads_there_and_back() -> None:
    scale = AsinhScale(100.0, 0.3)
    counts = np.array([-50.0, 0.0, 10.0, 1e9])
    assert scale.users(scale.scaled(counts)) == pytest.approx(counts)
    assert (scale.last, AsinhScale(100.0, 0.1).last) == (2, 1)

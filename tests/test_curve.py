"""`pp.monotone`: a curve that never falls, fitted to the releases of a series."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import panprivacy as pp
from altered import altered
from panprivacy.testing import SeededCoins, gaussian_noise, refused

USERS = 1000
_ONE = pp.Density(USERS, 1.0, coins=SeededCoins(1)).release()
_COUNT = pp.DistinctCount(1.0, coins=SeededCoins(1)).release()


def series(*densities: float) -> list[pp.Release]:
    """Releases of these densities that say that they have no noise, so that no end is moved on account of it."""
    return [
        altered(
            _ONE,
            density={"value": min(max(each, 0.0), 1.0), "raw": each},
            count={"value": USERS * min(max(each, 0.0), 1.0), "raw": USERS * each},
            number=number,
            noise_stderr=0.0,
        )
        for number, each in enumerate(densities, 1)
    ]


def counts(*values: float, universe: int | None = None) -> list[pp.CountRelease]:
    return [
        altered(_COUNT, count={"value": max(value, 0.0), "raw": value}, number=number, universe=universe)
        for number, value in enumerate(values, 1)
    ]


def pooled(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Pooling adjacent violators, written apart from what ships: blocks of a mean, a weight and a length."""
    blocks: list[tuple[float, float, int]] = []
    for value, weight in zip(values, weights, strict=True):
        mean, heavy, length = value, weight, 1
        while blocks and blocks[-1][0] >= mean:
            before, more, longer = blocks.pop()
            mean = (before * more + mean * heavy) / (more + heavy)
            heavy, length = heavy + more, length + longer
        blocks.append((mean, heavy, length))
    return [mean for mean, _, length in blocks for _ in range(length)]


def agrees(values: Sequence[float], weights: Sequence[float]) -> bool:
    """Whether the curve of releases of these counts is the one that pooling finds."""
    bounded = np.clip(pooled(values, weights), 0.0, USERS)
    found = pp.monotone(series(*(value / USERS for value in values)), weights=weights).counts
    return np.allclose(found, bounded, atol=1e-6 * USERS)


WEIGHED = st.lists(st.tuples(st.floats(-300, 1300), st.floats(0.01, 100)), min_size=1, max_size=40)


@pytest.mark.slow
@given(WEIGHED)
def test_the_curve_is_what_pooling_adjacent_violators_finds(points: list[tuple[float, float]]) -> None:
    values, weights = zip(*points, strict=True)
    assert agrees(values, weights)


@pytest.mark.slow
@given(WEIGHED)
def test_the_curve_never_falls_nor_leaves_the_universe(points: list[tuple[float, float]]) -> None:
    found = pp.monotone(series(*(value / USERS for value, _ in points)))
    assert all(earlier <= later for earlier, later in pairwise(found.counts))
    assert all(0 <= count <= USERS for count in found.counts)


VALUES, WEIGHTS = [100.0, 400.0, 200.0, 700.0, 650.0], [1.0, 1.0, 9.0, 2.0, 1.0]


def test_a_fit_that_forgets_the_weights_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    from scipy import optimize

    fit: Any = optimize.isotonic_regression
    assert agrees(VALUES, WEIGHTS)
    monkeypatch.setattr(optimize, "isotonic_regression", lambda y, weights: fit(y))  # noqa: ARG005
    assert not agrees(VALUES, WEIGHTS)


def test_a_curve_that_never_rises_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    from scipy import optimize

    fit: Any = optimize.isotonic_regression
    monkeypatch.setattr(optimize, "isotonic_regression", lambda y, weights: fit(y, weights=weights, increasing=False))
    assert not agrees(VALUES, WEIGHTS)


def test_the_raw_estimates_are_fitted_and_not_those_brought_into_their_range() -> None:
    """Estimates below 0 balance those above it: without them a quiet start would lie too high."""
    assert pp.monotone(series(0.02, -0.03, 0.5)).counts == (0.0, 0.0, 500.0)


def test_the_releases_stay_beside_the_curve_as_they_were() -> None:
    made = series(0.1, 0.3, 0.2)
    found = pp.monotone(made)
    assert found.releases == tuple(made)
    assert found.densities == pytest.approx((0.1, 0.25, 0.25))


def test_counts_of_an_open_universe_have_a_curve_and_densities_once_it_is_known() -> None:
    found = pp.monotone(counts(-5.0, 300.0, 200.0))
    assert found.counts == (0.0, *[pytest.approx(250.0, rel=0.02)] * 2)
    with refused("no-estimate", "universe=N"):
        _ = found.densities
    known = pp.monotone(counts(-5.0, 300.0, 200.0, universe=1000))
    assert known.densities == (0.0, *[pytest.approx(0.25, rel=0.02)] * 2)


def test_the_number_of_users_does_not_fall_when_the_universe_grows() -> None:
    first, second = series(0.5, 0.26)
    grown = {"value": 2 * USERS * 0.26, "raw": 2 * USERS * 0.26}
    found = pp.monotone([first, altered(second, count=grown, universe=2 * USERS)])
    assert found.counts == pytest.approx((500.0, 520.0))
    assert found.densities == pytest.approx((0.5, 0.26))


def test_a_universe_that_is_known_later_bounds_what_came_before() -> None:
    first, second = counts(900.0, 950.0)
    assert pp.monotone([first, replace(second, universe=800)]).counts == (800.0, 800.0)


def test_counts_without_noise_are_fitted_as_they_are() -> None:
    made = [replace(release, noise_stderr=0.0) for release in counts(-5.0, 300.0, 200.0)]
    assert pp.monotone(made).counts == (0.0, 250.0, 250.0)


def test_counts_of_nobody_have_a_curve_too() -> None:
    assert pp.monotone(counts(-5.0, -300.0, -2.0)).counts == (0.0, 0.0, 0.0)


def test_releases_of_two_estimators_are_refused() -> None:
    with refused("curve-kinds"):
        pp.monotone([series(0.1)[0], altered(counts(100.0)[0], number=2)])  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("other", "named"),
    [
        ({"epsilon_remaining": 0.5}, ("curve-estimators", "budgets")),
        ({"epsilon_spent": 0.5, "epsilon_remaining": 0.5}, ("curve-estimators", "budgets")),
        ({"universe": USERS // 2}, ("curve-estimators", "1,000 users", "500")),
        ({"count": {"raw": float("nan")}}, ("curve-estimate", "release 2", "nan")),
        ({"count": {"raw": float("inf")}}, ("curve-estimate", "release 2")),
    ],
)
def test_what_one_estimator_cannot_have_released_is_refused(other: dict[str, Any], named: tuple[str, ...]) -> None:
    first, second = series(0.1, 0.2)
    with refused(*named):
        pp.monotone([first, altered(second, **other)])


@pytest.mark.parametrize("more", [{}, {"delta": 1e-9}, {"intrusions": 2}], ids=str)
@gaussian_noise()
def test_releases_of_one_estimator_are_taken_whatever_came_between(more: dict[str, Any]) -> None:
    est = pp.Density(USERS, 1.0, releases=9, coins=SeededCoins(1), **more)
    made = [est.release() for _ in range(3)]
    if more.get("intrusions"):
        est.rerandomize()
    else:
        est.grow(USERS)
    made += [est.release() for _ in range(6)]
    assert len(pp.monotone(made).counts) == 9


def test_no_releases_have_an_empty_curve() -> None:
    assert pp.monotone([]).counts == ()


def test_releases_in_another_order_are_refused() -> None:
    with refused("curve-order", "1", "2"):
        pp.monotone(series(0.1, 0.2)[::-1])


def test_windows_are_refused_since_they_may_fall() -> None:
    weeks = pp.Windows(lambda: pp.Density(USERS, 1.0), every="7d", start="2026-01-05")
    weeks.advance("2026-01-19")
    with refused("curve-release", "Window"):
        pp.monotone(weeks.closed)  # type: ignore[type-var]


@pytest.mark.parametrize(("weights", "code"), [([1.0], "curve-weights"), ([1.0, 0.0], "curve-weights")])
def test_weights_that_are_none_are_refused(weights: list[float], code: str) -> None:
    with refused(code):
        pp.monotone(series(0.1, 0.2), weights=weights)


def test_it_shows_each_point_beside_what_was_released() -> None:
    assert str(pp.monotone(series(0.3, 0.1))) == (
        "points 2; release 1 200 users (released 300); release 2 200 users (released 100)"
    )
    assert "10, of which the last 8 are shown" in str(pp.monotone(series(*np.linspace(0, 1, 10))))


# --- what it is good for --------------------------------------------------------------------------------------------


DAYS, MANY = 365, 100_000


@cache
def year(seed: int) -> tuple[NDArray[np.float64], list[pp.Release]]:
    """The truth and the daily releases of a year, epsilon 1."""
    est = pp.Density(MANY, 1.0, releases=DAYS, coins=SeededCoins(seed))
    truth = 0.8 / (1 + np.exp(-(np.arange(1, DAYS + 1) - 120) / 12))
    made, before = [], 0
    for share in truth:
        est.update_many(np.arange(before, round(share * MANY)))
        before = round(share * MANY)
        made.append(est.release())
    return truth, made


def errors(seed: int, *, fit: Any = pp.monotone) -> tuple[float, float]:
    """Mean squared errors of a year of releases and of their curve."""
    truth, made = year(seed)
    found = np.array(fit(made).counts) / MANY
    raw = np.array([release.raw_density for release in made])
    return float(np.mean((raw - truth) ** 2)), float(np.mean((found - truth) ** 2))


def times_less(*, fit: Any = pp.monotone) -> float:
    """How many times less the squared error of a curve is than that of its releases, over ten years."""
    raw, fitted = np.mean([errors(seed, fit=fit) for seed in range(10)], axis=0)
    return float(raw / fitted)


@pytest.mark.slow
def test_the_curve_errs_five_times_less_than_its_releases() -> None:
    """Squared; 60 single years had 3.4 to 19.6 times less, 9.8 on average, and the seeds of these ten are fixed."""
    assert times_less() > 5


@pytest.mark.slow
def test_a_curve_that_only_takes_the_highest_so_far_would_be_noticed() -> None:
    """It never falls either, and is far off."""

    def highest(made: list[pp.Release]) -> pp.MonotoneCurve[pp.Release]:
        so_far = np.maximum.accumulate([release.raw_count for release in made])
        return pp.MonotoneCurve(tuple(so_far.tolist()), tuple(made))

    assert times_less(fit=highest) < 1

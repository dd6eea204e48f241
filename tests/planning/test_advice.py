"""Advice is given where computing it shows that it helps, and not elsewhere."""

from typing import Any

import pytest

import panprivacy as pp
from panprivacy.cli.notes import error_left, expected_error, expected_noise
from panprivacy.testing import gaussian_noise

DAY = "2026-01-05"
NOISY: list[tuple[Any, set[str]]] = [
    (pp.Density(20, epsilon=0.1), {"more epsilon"}),
    (pp.Density(20, epsilon=0.1, releases=2), {"more epsilon", "fewer releases"}),
    (pp.Density(1000, epsilon=0.1, sample=20), {"more epsilon", "a larger sample"}),
    (pp.Density(100, epsilon=1.0, categories=range(20)), {"more epsilon", "fewer categories"}),
    (pp.Density(1000, epsilon=1.0, releases=900), {"more epsilon", "fewer releases", "delta 1e-09"}),
    (pp.Counts(100, epsilon=1.0, releases=2), {"more epsilon", "fewer releases"}),
    (pp.Retention(100, epsilon=0.2), {"more epsilon"}),
    (pp.ActiveUsers(1000, epsilon=1.0, start=DAY), {"more epsilon", "a shorter span", "delta 1e-09"}),
    (
        pp.DistinctCount(epsilon=0.1, buckets=64),
        {"more epsilon", "more than 64 buckets if more than 1,024 users come"},
    ),
]


@pytest.mark.parametrize(("est", "helps"), NOISY, ids=lambda each: type(each).__name__)
def test_what_helps_is_said_and_nothing_else(est: Any, helps: set[str]) -> None:
    said = expected_noise(est)

    assert said is not None
    assert set(said.split("what helps: ")[1].removesuffix("; panprivacy plan compares them").split(", ")) == helps


@pytest.mark.parametrize(
    "est",
    [pp.Density(100_000, epsilon=1.0), pp.Counts(1_000_000, epsilon=1.0), pp.DistinctCount(epsilon=1.0)],
    ids=lambda est: type(est).__name__,
)
def test_nothing_is_said_where_releases_tell_something(est: Any) -> None:
    assert expected_noise(est) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (pp.Density, {"universe": 5000, "releases": 300}),
        (pp.Density, {"universe": 5000, "releases": 300, "sample": 500}),
        (pp.Counts, {"universe": 5000, "releases": 100, "up_to": 4}),
        (pp.DistinctCount, {"buckets": 512, "releases": 300}),
        (pp.ActiveUsers, {"universe": 100_000, "start": DAY, "span": "90d"}),
    ],
)
def test_the_error_that_is_left_is_that_of_an_estimator_with_the_change(kind: Any, options: dict[str, Any]) -> None:
    before, more = (kind(epsilon=epsilon, **options) for epsilon in (1.0, 2.0))
    with gaussian_noise():
        delta = kind(epsilon=1.0, delta=1e-9, **options)

    for changed, after in (({"epsilon": 2.0}, more), ({"delta": 1e-9}, delta)):
        found = expected_error(after)[0] / expected_error(before)[0]
        assert error_left(before, **changed) == pytest.approx(found, rel=0.02)


def test_a_delta_is_not_advised_where_it_would_err_more() -> None:
    assert error_left(pp.Density(1000, epsilon=1.0, releases=2), delta=1e-9) == 1.0

"""A plan that may use a delta takes the noise that is better for its releases, and says what the other would do."""

from pathlib import Path
from typing import Any

import pytest

from panprivacy.checks import LargeDelta
from panprivacy.cli.commands.planning import command_of
from panprivacy.estimators.density import Density
from panprivacy.estimators.distinct import DistinctCount
from panprivacy.planning import plan
from panprivacy.planning.picture import draw
from panprivacy.planning.result import DensityPlan
from panprivacy.privacy import splitting
from panprivacy.testing import refused, split_of

pytestmark = pytest.mark.slow

MANY, FEW = 365, 12
"""Releases for which Gaussian noise is better, and for which Laplace noise is."""

WISHES: dict[str, dict[str, Any]] = {
    "the error of a bit for each": {"universe": 10**6, "epsilon": 1.0},
    "the smallest sample": {"universe": 10**6, "epsilon": 1.0, "alpha": 0.05},
    "the smallest epsilon": {"universe": 10**6, "alpha": 0.02},
    "a sparse stream": {"universe": 10**7, "epsilon": 1.0, "alpha": 0.002, "density": 0.01},
    "an open universe": {"epsilon": 2.0, "alpha": 0.1, "count": 10**6},
}


def stderr(planned: DensityPlan) -> float:
    """The standard error of a plan in its own unit."""
    return planned.density_stderr or planned.relative_stderr or 0.0


def free(planned: DensityPlan) -> tuple[float, float, int]:
    return planned.epsilon, planned.alpha, planned.size


@pytest.mark.parametrize("wish", WISHES.values(), ids=WISHES)
def test_many_releases_take_gaussian_noise_and_do_better_than_without_a_delta(wish: dict[str, Any]) -> None:
    planned, without = plan(**wish, releases=MANY, delta=1e-9), plan(**wish, releases=MANY)
    assert (planned.noise, planned.delta, without.noise, without.delta) == ("Gaussian", 1e-9, "Laplace", 0.0)
    assert free(planned) < free(without)
    assert planned.errors is not None
    assert planned.errors.gaussian == pytest.approx(stderr(planned))
    assert planned.errors.laplace is None or planned.errors.laplace > stderr(planned)
    assert without.errors is None


@pytest.mark.parametrize("wish", WISHES.values(), ids=WISHES)
def test_few_releases_take_laplace_noise_and_need_no_delta(wish: dict[str, Any]) -> None:
    planned, without = plan(**wish, releases=FEW, delta=1e-9), plan(**wish, releases=FEW)
    assert (planned.noise, planned.delta) == ("Laplace", 0.0)
    assert (planned.split, free(planned)) == (without.split, free(without))
    assert planned.errors is not None
    assert planned.errors.laplace == pytest.approx(stderr(planned))
    assert planned.errors.gaussian is None or planned.errors.gaussian >= stderr(planned)


@pytest.mark.parametrize("releases", [MANY, FEW])
def test_what_is_built_has_the_delta_of_the_plan(releases: int) -> None:
    for wish in (WISHES["the smallest sample"], WISHES["an open universe"]):
        planned = plan(**wish, releases=releases, delta=1e-9)
        est = planned.build()
        assert est.delta == planned.delta
        assert split_of(est) == planned.split
        if isinstance(est, Density):  # a sample has a few users more or fewer than planned
            assert est.density_stderr_at(0.5) == pytest.approx(stderr(planned), rel=0.02)
        else:
            assert isinstance(est, DistinctCount)
            assert (", delta=1e-09" in planned.code) == bool(planned.delta)
            command = command_of(planned)
            assert command is not None
            assert ("--delta 1e-09" in command) == bool(planned.delta)


def test_a_plan_says_which_noise_it_takes_and_what_the_other_would_err_by() -> None:
    hourly, monthly = (plan(10**6, 1.0, releases=looks, delta=1e-9) for looks in (8760, 12))
    assert dict(hourly.card().rows)["noise"] == "Gaussian, which errs by 0.004151; Laplace noise would err by 0.07075"
    assert dict(hourly.card().rows)["epsilon in all"] == "1, delta 1e-09"
    assert dict(monthly.card().rows)["noise"] == (
        "Laplace, which errs by 0.001109 and needs no delta; Gaussian noise would err by 0.001127"
    )
    assert "epsilon 1, delta 1e-09;" in repr(hourly)
    assert "delta" not in repr(monthly)
    told = hourly.to_dict()
    assert (told["noise"], told["delta"], told["epsilon_release"]) == ("Gaussian", 1e-9, None)
    assert told["errors"] == {"laplace": pytest.approx(0.07075, abs=1e-5), "gaussian": stderr(hourly)}
    assert "noise" not in dict(plan(10**6, 1.0).card().rows)


def test_where_gaussian_noise_is_out_of_reach_the_plan_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splitting, "LARGEST_SQUARE", 1)
    planned = plan(10**6, 1.03125, releases=MANY, delta=1e-9)  # an epsilon whose split nobody has asked for yet
    assert planned.noise == "Laplace"
    assert planned.errors is not None
    assert planned.errors.gaussian is None
    assert dict(planned.card().rows)["noise"].endswith("Gaussian noise is out of reach at this epsilon")


@pytest.mark.parametrize(("releases", "named"), [(1, "epsilon = 0.4, with"), (MANY, "epsilon = 0.4, delta 1e-09")])
def test_what_is_out_of_reach_is_refused_with_what_the_better_noise_can_do(releases: int, named: str) -> None:
    with refused("cannot-plan", named, "possible: "):
        plan(1000, 0.4, alpha=0.01, releases=releases, delta=1e-9)


@pytest.mark.parametrize("delta", [0.0, -1e-9, 1.0, 0.002, float("nan")])
def test_a_delta_that_is_none_is_refused(delta: float) -> None:
    with refused("delta-range", "0.001"):
        plan(10**6, 1.0, delta=delta)


def test_a_delta_that_is_not_tiny_comes_with_one_warning_that_says_what_it_is() -> None:
    with pytest.warns(LargeDelta, match="with a chance of up to one in 10,000 a person loses more") as warned:
        plan(10**4, 1.0, releases=100, delta=1e-4)
    assert len(warned) == 1
    assert warned[0].filename == __file__


@pytest.mark.parametrize("wish", [WISHES["the error of a bit for each"], WISHES["an open universe"]])
def test_the_picture_of_a_plan_with_a_delta_is_drawn(wish: dict[str, Any], tmp_path: Path) -> None:
    picture = tmp_path / "plan.svg"
    draw(plan(**wish, releases=MANY, delta=1e-9), picture)
    text = picture.read_text()
    assert "delta 1e-09" in text
    assert ("without delta" in text) == ("universe" in wish)

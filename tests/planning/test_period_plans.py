"""Plans for answers about periods: what they say of an error is what the estimator that they build says."""

import re
from typing import Any

import pytest

import panprivacy as pp
from panprivacy.testing import refused


@pytest.mark.slow
@pytest.mark.parametrize(("delta", "span", "releases"), [(None, "7d", 5), (1e-9, "56d", 100)])
def test_a_planned_error_is_that_of_what_is_built(delta: float | None, span: str, releases: int) -> None:
    lately = pp.plan_periods("ActiveUsers", 1_000_000, 1.0, span=span, delta=delta)
    built = lately.build(start="2026-01-05")
    assert isinstance(built, pp.ActiveUsers)
    assert built.stderr_at(0.5) == pytest.approx(lately.stderr, rel=0.01)
    back = pp.plan_periods("Retention", 100_000, 1.0, releases=releases, share=0.2, touched=0.4, delta=delta)
    est = back.build()
    assert isinstance(est, pp.Retention)
    assert est.stderr_at(0.2, 0.4) == pytest.approx(back.stderr, rel=0.01)
    assert (est.budget.releases, est.delta, built.delta) == (releases + 1, delta or 0.0, delta or 0.0)


@pytest.mark.slow
def test_a_delta_that_is_allowed_is_taken_where_it_errs_less() -> None:
    year = pp.plan_periods("ActiveUsers", 1_000_000, 1.0, span="365d", delta=1e-9)
    assert (year.noise, year.delta, round(year.stderr, 4)) == ("Gaussian", 1e-9, 0.259)
    assert year.errors is not None
    assert year.errors.laplace == pytest.approx(1.077, abs=1e-3)
    assert dict(year.card().rows)["noise"] == "Gaussian, which errs by 0.259; Laplace noise would err by 1.077"
    week = pp.plan_periods("ActiveUsers", 1_000_000, 1.0, span="7d", delta=1e-9)
    assert (week.noise, week.delta, week.build(start="2026-01-05").delta) == ("Laplace", 0.0, 0.0)
    assert week.stderr == pp.plan_periods("ActiveUsers", 1_000_000, 1.0, span="7d").stderr
    less = pp.plan_periods("Retention", 1_000_000, alpha=0.004, releases=100, delta=1e-9)
    assert less.noise == "Gaussian"
    assert less.epsilon < pp.plan_periods("Retention", 1_000_000, alpha=0.004, releases=100).epsilon


@pytest.mark.slow
@pytest.mark.parametrize("delta", [None, 1e-9])
@pytest.mark.parametrize("name", ["ActiveUsers", "Retention"])
def test_what_a_refusal_offers_can_be_had(name: Any, delta: float | None) -> None:
    wish: dict[str, Any] = {"releases": 200, "delta": delta}
    with pytest.raises(pp.CannotPlan) as refusal:
        pp.plan_periods(name, 100_000, 1.0, alpha=0.02, **wish)
    offered = re.search(
        r"possible: alpha = (\S+) at epsilon = 1; or epsilon = (\S+) for alpha = 0.02$", str(refusal.value)
    )
    assert offered
    alpha, epsilon = map(float, offered.groups())
    assert pp.plan_periods(name, 100_000, 1.0, alpha=alpha, **wish).alpha == alpha
    assert pp.plan_periods(name, 100_000, epsilon, alpha=0.02, **wish).alpha <= 0.02


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ActiveUsers", "Retention"])
def test_the_smallest_epsilon_reaches_alpha_and_a_smaller_one_does_not(name: Any) -> None:
    found = pp.plan_periods(name, 100_000, alpha=0.05)
    assert found.alpha <= 0.05
    assert pp.plan_periods(name, 100_000, 0.998 * found.epsilon).alpha > 0.05


def test_what_cannot_be_planned_is_said() -> None:
    with refused("cannot-plan", "50 users"):
        pp.plan_periods("ActiveUsers", 50, alpha=0.001)
    with refused("plan-epsilon"):
        pp.plan_periods("Retention", 1000)
    with refused("plan-estimator", "'Density'"):
        pp.plan_periods("Density", 1000, 1.0)  # type: ignore[arg-type]
    with refused("start-missing"):
        pp.plan_periods("ActiveUsers", 1000, 1.0).build()


def test_a_plan_shows_itself() -> None:
    found = pp.plan_periods("ActiveUsers", 1000, 1.0, span="2d", every="12h")
    assert found.code == 'pp.ActiveUsers(1000, epsilon=1.0, span="2d", every="12h", start=...)'
    assert "in a cycle of 4 days" in found.card().text
    assert found.to_dict()["releases"] == 4
    assert repr(found).startswith(
        "<Plan: ActiveUsers of 1,000 users, a bit for each in 128 B; epsilon 1; standard error "
    )


@pytest.mark.parametrize("estimator", ["Retention", "ActiveUsers"])
@pytest.mark.parametrize("touched", [0.0, -0.1, 1.5, float("nan")])
def test_who_comes_at_all_is_a_share_whatever_is_planned(estimator: Any, touched: float) -> None:
    with refused("touched-range"):
        pp.plan_periods(estimator, 1000, 1.0, touched=touched)

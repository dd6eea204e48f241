"""Plans for answers about periods: what they say of an error is what the estimator that they build says."""

from typing import Any

import pytest

import panprivacy as pp


@pytest.mark.parametrize("delta", [None, 1e-9])
def test_a_planned_error_is_that_of_what_is_built(delta: float | None) -> None:
    weekly = pp.plan_periods("ActiveUsers", 100_000, 1.0, span="7d", delta=delta)
    built = weekly.build(start="2026-01-05")
    assert isinstance(built, pp.ActiveUsers)
    assert built.stderr_at(0.5) == pytest.approx(weekly.stderr, rel=0.01)
    back = pp.plan_periods("Retention", 100_000, 1.0, releases=5, share=0.2, touched=0.4, delta=delta)
    est = back.build()
    assert isinstance(est, pp.Retention)
    assert est.stderr_at(0.2, 0.4) == pytest.approx(back.stderr, rel=0.01)
    assert (est.budget.releases, est.delta) == (6, delta or 0.0)


@pytest.mark.parametrize("name", ["ActiveUsers", "Retention"])
def test_the_smallest_epsilon_reaches_alpha_and_a_smaller_one_does_not(name: Any) -> None:
    found = pp.plan_periods(name, 100_000, alpha=0.05)
    assert found.alpha <= 0.05
    assert pp.plan_periods(name, 100_000, 0.998 * found.epsilon).alpha > 0.05


def test_what_cannot_be_planned_is_said() -> None:
    with pytest.raises(pp.CannotPlan, match="out of reach for 50 users"):
        pp.plan_periods("ActiveUsers", 50, alpha=0.001)
    with pytest.raises(ValueError, match="give epsilon, or alpha"):
        pp.plan_periods("Retention", 1000)
    with pytest.raises(ValueError, match="not for 'Density'"):
        pp.plan_periods("Density", 1000, 1.0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="when does the first day start"):
        pp.plan_periods("ActiveUsers", 1000, 1.0).build()


def test_a_plan_shows_itself() -> None:
    found = pp.plan_periods("ActiveUsers", 1000, 1.0, span="2d", every="12h")
    assert found.code == 'pp.ActiveUsers(1000, epsilon=1, span="2d", every="12h", start=...)'
    assert "in a cycle of 4 days" in found.card().text
    assert found.to_dict()["releases"] == 4
    assert repr(found).startswith("<Plan: ActiveUsers of 1,000 users; epsilon 1; standard error ")

"""`plan`: from what is wanted to what to build."""

import re
from statistics import NormalDist
from typing import Any

import pytest
from rich.console import Console

from drawn import rows
from panprivacy.errors import CannotPlan
from panprivacy.estimators.density import Density
from panprivacy.estimators.distinct import DistinctCount
from panprivacy.planning import law, plan
from panprivacy.planning.result import DensityPlan
from panprivacy.testing import refused, split_of
from panprivacy.universe import Edges, Users


@pytest.mark.slow
def test_with_alpha_and_beta_the_smallest_table_is_planned() -> None:
    planned = plan(universe=10**6, epsilon=0.4, alpha=0.1, beta=0.05)
    assert planned.estimator == "Density"
    assert planned.sample == planned.size == 4085
    assert planned.memory == 512
    assert 0.049 < planned.probability <= 0.05
    assert planned.exact


@pytest.mark.slow
def test_without_alpha_all_memory_is_used_and_the_error_told() -> None:
    planned = plan(universe=10**6, epsilon=1.0, memory="4 KiB")
    assert planned.memory == 4096
    assert planned.probability <= planned.beta == 0.05
    assert planned.alpha == pytest.approx(1.96 * stderr_of(planned), rel=0.02)
    assert plan(universe=10**6, epsilon=1.0, memory="4 KiB", beta=0.01).alpha > planned.alpha


@pytest.mark.slow
def test_without_memory_either_every_user_has_a_bit() -> None:
    planned = plan(universe=5000, epsilon=1.0)
    assert planned.sample is None
    assert planned.size == planned.users == 5000
    assert plan(universe=5000, epsilon=1.0, memory="1 MiB") == planned


@pytest.mark.slow
def test_without_epsilon_the_least_is_told() -> None:
    planned = plan(universe=10**5, alpha=0.05, memory="1 KiB")
    assert planned.probability <= 0.05
    with refused("cannot-plan", "epsilon = "):  # not even a smaller size, on a luckier tooth
        plan(universe=10**5, epsilon=0.98 * planned.epsilon, alpha=0.05, memory="1 KiB")


@pytest.mark.slow
def test_memory_is_a_limit_when_alpha_is_given() -> None:
    small = plan(universe=10**6, epsilon=1.0, alpha=0.05, memory="16 KiB")
    assert small == plan(universe=10**6, epsilon=1.0, alpha=0.05)
    with refused("cannot-plan", "800 bits", "320 B", "alpha = 0.05"):
        plan(universe=10**6, epsilon=1.0, alpha=0.05, memory=100)


def stderr_of(planned: DensityPlan) -> float:
    assert planned.density_stderr is not None
    return planned.density_stderr


def possible(message: str, word: str) -> float:
    found = re.search(rf"{word} = ([0-9.e-]+) (at|for)", message.split("possible:")[1])
    assert found, message
    return float(found[1])


@pytest.mark.slow
@pytest.mark.parametrize(
    "wish",
    [
        {"universe": 1000, "epsilon": 0.4, "alpha": 0.1},
        {"universe": 10**6, "epsilon": 0.4, "alpha": 0.02, "memory": "1 KiB"},
        {"universe": 10**4, "epsilon": 1.0, "alpha": 0.05, "intrusions": 2},
        {"universe": 10**4, "epsilon": 0.2, "alpha": 0.1, "releases": 5},
    ],
)
def test_what_a_refusal_says_is_possible_is_possible(wish: dict[str, Any]) -> None:
    with pytest.raises(CannotPlan) as refusal:
        plan(**wish)
    message = str(refusal.value)
    assert plan(**wish | {"alpha": possible(message, "alpha")}).epsilon == wish["epsilon"]
    assert plan(**wish | {"epsilon": possible(message, "epsilon")}).alpha == wish["alpha"]


@pytest.mark.slow
def test_a_budget_too_small_to_tell_anything_is_refused_with_what_would_do() -> None:
    with refused("cannot-plan", "alpha = 0.5"):
        plan(universe=3, epsilon=0.1)
    with refused("cannot-plan", "80 bits", "epsilon = 50"):
        plan(universe=10**6, alpha=0.01, memory=10)


@pytest.mark.slow
def test_where_few_of_many_are_expected_a_distinct_count_is_planned() -> None:
    sparse = plan(universe=10**6, epsilon=1.0, alpha=0.001, density=0.01)
    assert sparse.estimator == "DistinctCount"
    assert not sparse.exact
    assert sparse.probability <= 0.05
    with pytest.raises(CannotPlan):
        plan(universe=10**6, epsilon=1.0, alpha=0.001)  # a bit for every user is not enough
    dense = plan(universe=10**6, epsilon=1.0, alpha=0.01, density=0.4)
    assert dense.estimator == "Density"
    assert dense.size == plan(universe=10**6, epsilon=1.0, alpha=0.01).size
    within = plan(universe=10**6, epsilon=1.0, memory="4 KiB", density=0.01)
    assert within.estimator == "DistinctCount"
    assert within.memory <= 4096
    assert stderr_of(within) < stderr_of(plan(universe=10**6, epsilon=1.0, memory="4 KiB"))


@pytest.mark.slow
def test_in_an_open_universe_the_error_is_relative() -> None:
    planned = plan(epsilon=1.0, alpha=0.05, count=10**6)
    assert planned.estimator == "DistinctCount"
    assert planned.universe is None
    assert planned.relative_stderr == pytest.approx(0.05 / 1.96, rel=0.01)
    fewer = plan(epsilon=1.0, memory="4 KiB", count=10**6)
    assert fewer.memory <= 4096
    assert fewer.alpha > 0.05
    few, many = plan(epsilon=1.0, count=1000), plan(epsilon=1.0, count=10**6)
    assert few.buckets is not None
    assert many.buckets is not None
    assert few.buckets < 4096 < many.buckets, "for few users a small table errs less"
    with refused("cannot-plan", "8,192 bits", "alpha = 0.3"):
        plan(epsilon=1.0, alpha=0.01, memory="1 KiB", count=10**6)


@pytest.mark.slow
def test_an_open_universe_is_planned_for_the_count_that_is_expected() -> None:
    """The table that keeps to 2 % at a million users errs by more where 23,570 come, and so does every other."""
    many = plan(epsilon=1.0, alpha=0.02, count=10**6)
    assert many.counts is not None
    assert 23_570 < many.counts[0] < 10**6 < many.counts[1]
    with refused("cannot-plan", "23,570 users", "alpha = 0.03", "alpha = 0.02"):
        plan(epsilon=1.0, alpha=0.02, count=23_570)


@pytest.mark.slow
@pytest.mark.parametrize("count", [500, 5_000, 10**5, 10**9])
def test_the_promise_holds_for_the_count_that_it_was_asked_for(count: int) -> None:
    planned = plan(epsilon=1.0, count=count)
    assert planned.counts is not None
    stated = planned.alpha / NormalDist().inv_cdf(1 - planned.beta / 2)
    first, last = planned.counts
    assert first <= count <= last
    est = planned.build()
    assert isinstance(est, DistinctCount)
    for inside in (first, count, 10 * count, last):
        assert est.count_stderr_at(inside) / inside <= stated * (1 + 1e-6)
    assert est.count_stderr_at(first - 1) / (first - 1) > stated


@pytest.mark.slow
@pytest.mark.parametrize("count", [3_000, 23_570, 10**6])
def test_without_an_alpha_no_other_table_errs_less(count: int) -> None:
    planned = plan(epsilon=1.0, count=count)
    assert planned.buckets is not None
    assert planned.relative_stderr is not None
    for width in (planned.buckets // 2, 2 * planned.buckets, 4096):
        assert DistinctCount(1.0, width).count_stderr_at(count) / count >= planned.relative_stderr


@pytest.mark.slow
@pytest.mark.parametrize("count", [10**5, 10**6])
def test_the_error_of_the_best_table_is_told_for_many_releases_too(count: int) -> None:
    planned = plan(epsilon=1.0, count=count, releases=8760, delta=1e-9)
    assert planned.noise == "Gaussian"
    assert planned.alpha < 0.2


OUT_OF_REACH: dict[str, dict[str, Any]] = {
    "a known universe": {"universe": 1000, "epsilon": 0.4, "alpha": 0.1},
    "little memory": {"universe": 10**6, "epsilon": 0.4, "alpha": 0.01, "memory": "1 KiB"},
    "an open universe": {"epsilon": 1.0, "alpha": 0.001, "count": 100_000, "releases": 8760, "delta": 1e-9},
    "an open universe, one release": {"epsilon": 1.0, "alpha": 0.02, "count": 23_570},
    "counts": {"universe": 1000, "epsilon": 1.0, "alpha": 0.15, "up_to": 8},
}


@pytest.mark.slow
@pytest.mark.parametrize("wish", OUT_OF_REACH.values(), ids=OUT_OF_REACH)
def test_an_offered_alpha_or_epsilon_or_memory_can_be_had(wish: dict[str, Any]) -> None:
    asked: Any = plan
    with pytest.raises(CannotPlan) as refusal:
        asked(**wish)
    offered = str(refusal.value).split("possible: ")[1]
    alphas = re.findall(r"alpha = ([0-9.]+)(?! from)(?: at|;|$)", offered)
    assert alphas
    assert asked(**(wish | {"alpha": float(alphas[0])})).probability <= 0.05
    for epsilon in re.findall(r"epsilon = ([0-9.]+) for alpha", offered):
        assert asked(**(wish | {"epsilon": float(epsilon)})).probability <= 0.05
    for memory in re.findall(r"memory of ([0-9.]+ \w+) for alpha", offered):
        assert asked(**(wish | {"memory": memory})).probability <= 0.05


@pytest.mark.slow
def test_what_a_refusal_says_of_the_counts_is_possible() -> None:
    with pytest.raises(CannotPlan) as refusal:
        plan(epsilon=1.0, alpha=0.02, count=23_570)
    first = re.search(r"from about ([0-9,]+) users on", str(refusal.value))
    assert first
    enough = int(first[1].replace(",", ""))
    assert plan(epsilon=1.0, alpha=0.02, count=enough).probability <= 0.05
    with pytest.raises(CannotPlan):
        plan(epsilon=1.0, alpha=0.02, count=0.9 * enough)


@pytest.mark.slow
@pytest.mark.parametrize(
    "wish",
    [
        {"universe": 5000, "epsilon": 1.0},
        {"universe": 10**6, "epsilon": 0.4, "alpha": 0.1},
        {"universe": 10**6, "epsilon": 2.0, "alpha": 0.1, "releases": 3, "intrusions": 1},
        {"universe": Users(["ada", "grace", "mary"]), "epsilon": 5.0},
        {"universe": Edges(nodes=100), "epsilon": 1.0, "alpha": 0.1},
        {"universe": 10**6, "epsilon": 1.0, "alpha": 0.001, "density": 0.01},
        {"epsilon": 1.0, "alpha": 0.05, "count": 10**6},
    ],
)
def test_build_returns_what_was_planned(wish: dict[str, Any]) -> None:
    planned = plan(**wish)
    est = planned.build()
    assert type(est).__name__ == planned.estimator
    assert est.secure
    assert est.memory == planned.memory
    assert split_of(est) == planned.split
    assert est.epsilon == planned.epsilon == wish["epsilon"]
    if isinstance(est, Density):
        for _ in range(planned.split.intrusions):
            est.rerandomize()
        assert est.density_stderr_at(0.5) == pytest.approx(planned.density_stderr, rel=0.02)
    if isinstance(est, DistinctCount) and planned.universe is not None:
        users = planned.universe.size
        assert est.count_stderr_at(0.01 * users) / users == pytest.approx(planned.density_stderr)


@pytest.mark.slow
def test_a_plan_can_be_read() -> None:
    planned = plan(universe=10**6, epsilon=0.4, alpha=0.1, releases=2)
    assert repr(planned).startswith("<Plan: Density of 1,000,000 users, a sample of ")
    assert f"P(error >= 0.1) = {planned.probability:.4g} at worst" in repr(planned)
    assert planned.code == f"pp.Density(1000000, epsilon=0.4, sample={planned.sample}, releases=2)"
    assert plan(universe=Edges(nodes=9), epsilon=3.0).code == "pp.Density(universe, epsilon=3.0)"
    visitors = repr(plan(epsilon=1.0, alpha=0.0623, count=10**6))
    assert visitors.startswith("<Plan: DistinctCount of 29 levels x 4,0")
    assert re.search(r"at most about 0\.05 for counts from 11,\d{3} to 99\d(,\d{3}){3}>$", visitors), visitors
    console = Console(width=120)
    with console.capture() as capture:
        console.print(planned)
    drawn = dict(rows(capture.get()))
    assert drawn["epsilon in all"] == "0.4"
    assert "each (x 2), Laplace noise ± " in drawn["of the releases"]
    assert drawn["in Python"] == planned.code
    with console.capture() as capture:
        console.print(plan(universe=10**4, epsilon=1.0, intrusions=1))
    assert dict(rows(capture.get()))["of each redraw"].endswith("(x 1)")


@pytest.mark.parametrize(
    ("wish", "code"),
    [
        ({"universe": 100}, "plan-epsilon"),
        ({"alpha": 0.1}, "plan-epsilon"),
        ({"universe": 100, "epsilon": 0.0}, "epsilon-range"),
        ({"universe": 100, "epsilon": 1.0, "alpha": 0.0}, "alpha-range"),
        ({"universe": 100, "epsilon": 1.0, "alpha": 1.5}, "alpha-range"),
        ({"universe": 100, "epsilon": 1.0, "beta": 1.0}, "beta-range"),
        ({"universe": 100, "epsilon": 1.0, "beta": 1e-9}, "beta-range"),
        ({"universe": 100, "epsilon": 1.0, "density": 2.0}, "density-range"),
        ({"epsilon": 1.0, "density": 0.1}, "plan-density"),
        ({"epsilon": 1.0, "alpha": 0.1}, "plan-count"),
        ({"epsilon": 1.0, "count": 0}, "count-range"),
        ({"epsilon": 1.0, "count": float("nan")}, "count-range"),
        ({"universe": 100, "epsilon": 1.0, "count": 5}, "plan-count"),
        ({"universe": 100, "epsilon": 1.0, "releases": 0}, "plan-releases"),
        ({"universe": 100, "epsilon": 1.0, "memory": "lots"}, "memory-format"),
        ({"universe": 0, "epsilon": 1.0}, "universe-size"),
    ],
)
def test_nonsense_is_refused_with_what_is_wrong(wish: dict[str, Any], code: str) -> None:
    with refused(code):
        plan(**wish)


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.1, 0.001, None])
def test_a_billion_users_take_few_sums_of_few_terms(alpha: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock on a busy machine proves nothing; the number of sums and their terms do not depend on it."""
    made: list[int] = []
    build = law.Ones.__init__

    def counted(self: law.Ones, *args: Any) -> None:
        build(self, *args)
        made.append(len(self._theta))

    monkeypatch.setattr(law.Ones, "__init__", counted)
    planned = plan(universe=10**9, epsilon=0.4, alpha=alpha)
    assert 0.9 * planned.beta < planned.probability <= planned.beta
    assert len(made) < 200
    assert max(made) < 200

"""Plans for `Counts`."""

import json
import shlex
from typing import Literal

import numpy as np
import pytest

import panprivacy as pp
from command_line import invoke
from panprivacy import testing
from panprivacy.cli.commands.planning import command_of
from panprivacy.testing import SeededCoins, refused


def test_a_plan_says_what_the_estimator_will_say() -> None:
    found = pp.plan(universe=100_000, epsilon=1.0, up_to=8)
    est = found.build()
    assert (found.stderr, found.memory, found.up_to) == (est.share_stderr, est.memory, est.up_to)
    assert 0.0495 < found.probability <= 0.05
    assert eval(found.code, {"pp": pp}).budget == est.budget
    alone = pp.plan(universe=100_000, epsilon=1.0, up_to=8, only="mean")
    assert alone.stderr == alone.build().mean_stderr
    assert alone.build().only == "mean"


@pytest.mark.parametrize("only", [None, "mean"])
def test_the_least_epsilon_reaches_the_error_and_less_does_not(only: Literal["mean"] | None) -> None:
    found = pp.plan(universe=50_000, alpha=0.05, up_to=4, only=only)
    assert found.probability <= 0.05
    assert found.epsilon == float(f"{found.epsilon:.4g}")
    assert pp.plan(universe=50_000, epsilon=found.epsilon, up_to=4, only=only).alpha <= 0.05
    assert pp.plan(universe=50_000, epsilon=0.999 * found.epsilon, up_to=4, only=only).alpha > 0.05


def test_what_is_out_of_reach_comes_with_what_is_not() -> None:
    with refused("cannot-plan", "alpha = 0", "epsilon = 1"):
        pp.plan(universe=1000, epsilon=1.0, alpha=0.15, up_to=8)
    with refused("cannot-plan", "any epsilon"):
        pp.plan(universe=10, alpha=0.01, up_to=8)


@pytest.mark.slow
def test_errors_are_as_probable_as_planned() -> None:
    """600 runs: 8 standard deviations around 5 %."""
    found = pp.plan(universe=3000, epsilon=2.0, up_to=3)
    beyond = 0
    for seed in range(600):
        est = found.build(coins=SeededCoins(seed))
        est.update_many(np.arange(1500))
        beyond += abs(est.release().raw_at_least[1]) >= found.alpha
    assert abs(beyond / 600 - 0.05) < 8 * (0.05 * 0.95 / 600) ** 0.5


def test_what_makes_no_plan_of_counts_is_refused() -> None:
    with refused("plan-memory"):
        pp.plan(universe=1000, epsilon=1.0, up_to=4, memory="1 KiB", count=5)  # type: ignore[call-overload]
    with testing.refused("plan-universe"):
        pp.plan(epsilon=1.0, up_to=4)
    with testing.refused("plan-only"):
        pp.plan(universe=1000, epsilon=1.0, only="mean")  # type: ignore[call-overload]


def test_the_command_prints_a_command_that_runs() -> None:
    result = invoke(shlex.split("plan -n 100000 -e 1 --up-to 4 --only mean --json"))
    assert json.loads(result.stdout)["only"] == "mean"
    found = pp.plan(universe=1000, epsilon=1.0, up_to=4, only="mean")
    assert command_of(found) == "panprivacy counts FILE -c NAME -n 1000 --epsilon 1.0 --up-to 4 --only mean"

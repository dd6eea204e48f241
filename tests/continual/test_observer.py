"""What an observer does, refuses and says."""

import pickle
import struct
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import panprivacy as pp
from panprivacy import state
from panprivacy.errors import CorruptState
from panprivacy.estimators import continual
from panprivacy.estimators.continual import Continual, DriftTest
from panprivacy.estimators.continual_law import farthest_walk
from panprivacy.testing import SeededCoins, ledger_of, observed_of, refused, table_of

USERS = 100_000


def observer(**changes: object) -> Continual:
    options = {"universe": USERS, "epsilon": 4.0, "step": 0.1, "observations": 50, "coins": SeededCoins(1)}
    return Continual(**(options | changes))  # type: ignore[arg-type]


@pytest.mark.slow
def test_before_anybody_appears_the_middle_of_what_can_be_is_published_at_no_cost() -> None:
    est = observer()
    seen = [est.observe() for _ in range(50)]
    low, high = seen[0].density_band

    assert low == 0.0 < high < 0.14
    assert {one.density for one in seen} == {(low + high) / 2}
    assert not any(one.moved for one in seen)
    assert [one.number for one in seen] == list(range(1, 51))
    assert est.budget.spent == est.budget.total - est.budget.remaining < est.epsilon


@pytest.mark.slow
def test_it_moves_when_the_density_has_drifted_and_not_before() -> None:
    est = observer()
    est.update_many(range(5000))
    assert not est.observe().moved

    est.update_many(range(40_000))
    now = est.observe()

    assert now.moved
    assert abs(now.density - 0.4) < 0.03
    assert now.moves_left == 9
    assert now.count == now.density * USERS
    low, high = now.density_band
    assert low < 0.4 < high
    assert high - low < 0.06


def test_after_a_move_the_middle_of_what_the_density_can_be_until_the_next_is_published() -> None:
    est = observer()
    est.update_many(range(40_000))
    at_move, later = est.observe(), est.observe()
    low, high = later.density_band

    assert at_move.moved
    assert not later.moved
    assert low == at_move.density_band[0]
    assert later.density == (low + high) / 2 > at_move.density
    assert high - low < 2 * est.accuracy().alpha + 1e-12


def test_with_deletions_planned_the_last_release_is_published_and_the_band_goes_both_ways() -> None:
    est = observer(moves=4)
    est.update_many(range(40_000))
    at_move, later = est.observe(), est.observe()
    low, high = later.density_band

    assert later.density == at_move.density
    assert later.density - low == pytest.approx(est.accuracy().alpha)
    assert high - later.density == pytest.approx(est.accuracy().alpha)


def test_looks_beyond_the_plan_widen_the_band_and_do_not_move_what_is_published() -> None:
    est = observer(observations=2)
    first, *_, last = (est.observe() for _ in range(9))

    assert last.density == first.density
    assert last.density_band[1] > first.density_band[1]


@pytest.mark.slow
@pytest.mark.parametrize("moves", [365, 1000])
def test_a_delta_lowers_the_error_of_many_moves_and_is_told(moves: int) -> None:
    plan: dict[str, Any] = {"universe": 10_000_000, "sample": USERS, "step": 0.02, "moves": moves}
    without, est = observer(**plan), observer(**plan, delta=1e-9)
    est.update_many(range(9_000_000))
    seen = est.observe()

    assert est.delta == est.budget.delta == 1e-9
    assert est.budget.total <= 4.0
    assert est.accuracy().alpha < 0.8 * without.accuracy().alpha
    assert seen.moved
    assert (seen.delta_spent, est.budget.delta_spent) == (1e-9, 1e-9)
    assert "epsilon 4, delta 1e-09:" in repr(est)
    assert "Gaussian noise" in str(est.budget)
    assert ", delta 1e-09" in str(seen)
    assert abs(seen.density - 0.9) < 0.05


def test_a_delta_that_brings_nothing_is_not_used() -> None:
    est = observer(delta=1e-9)

    assert est.delta == est.observe().delta_spent == 0
    assert est.budget == observer().budget


@pytest.mark.parametrize("delta", [0.0, -1e-9, 0.01])
def test_an_impossible_delta_is_refused(delta: float) -> None:
    with refused("delta-range"):
        observer(delta=delta)


def test_the_delta_of_a_density_is_taken_over() -> None:
    density = pp.Density(USERS, 4.0, releases=100, delta=1e-9, coins=SeededCoins(2))

    assert Continual(density, step=0.1, moves=1000).delta == 1e-9
    with refused("continual-of-density"):
        Continual(pp.Density(USERS, 4.0), delta=1e-9)


def test_bits_that_were_taken_over_are_charged_as_those_of_any_stream() -> None:
    taken = Continual(pp.Density(USERS, 4.0, coins=SeededCoins(2)), step=0.1)

    assert not observed_of(taken).drift_test.shares.rising
    assert observed_of(observer()).drift_test.shares.rising


def test_a_user_may_appear_again_and_again() -> None:
    est = observer()
    for user in (3, 3, 3):
        est.update(user)

    assert not est.observe().moved


def test_with_deletions_planned_the_published_density_falls_again() -> None:
    est = observer(moves=4)
    est.update_many(range(60_000))
    up = est.observe()
    est.remove_many(range(1, 50_000))
    est.remove(0)
    down = est.observe()

    assert abs(up.density - 0.6) < 0.03
    assert down.moved
    assert abs(down.density - 0.1) < 0.03


@pytest.mark.parametrize("verb", ["remove", "remove_many"])
def test_without_deletions_planned_nobody_can_be_removed(verb: str) -> None:
    with refused("no-deletions-planned"):
        getattr(observer(), verb)(3)


def test_once_all_moves_are_spent_it_stands_still_and_says_so() -> None:
    est = observer(moves=1)
    est.update_many(range(50_000))
    last_move = est.observe()
    est.remove_many(range(50_000))
    stuck = est.observe()

    assert last_move.moved
    assert (stuck.density, stuck.moved, stuck.moves_left) == (last_move.density, False, 0)
    assert stuck.density_band == (0.0, 1.0)
    assert est.budget.spent == est.budget.total


def test_once_all_moves_are_spent_without_deletions_the_density_is_at_least_what_is_published() -> None:
    est = observer(step=0.5, epsilon=8.0)
    for upto in (60_000, 100_000):
        est.update_many(range(upto))
        est.observe()
    ledger_of(est).releases = 2
    stuck = est.observe()

    assert stuck.density_band[0] > 0
    assert stuck.density_band[1] == 1.0


def test_the_budget_is_shared_out_and_all_used() -> None:
    est = Continual(1_000_000, 1.0)
    budget = est.budget

    assert budget.total == pytest.approx(1.0, abs=1e-9)
    assert budget.total <= 1.0
    assert budget.moves == 20
    assert budget.state + 3 * budget.threshold < budget.spent < 1.0
    assert "moves     0 of 20 made" in str(budget)


@pytest.mark.parametrize(("step", "moves"), [(0.05, 20), (0.3, 4), (1.0, 1), (0.07, 15)])
def test_one_over_the_step_moves_are_planned(step: float, moves: int) -> None:
    assert observer(step=step).budget.moves == moves


def test_the_bits_and_the_budget_of_a_density_can_be_taken_over() -> None:
    density = pp.Density(USERS, 4.0, releases=10, coins=SeededCoins(2))
    density.update_many(range(50_000))
    table = table_of(density)
    est = Continual(density, step=0.1, observations=50)
    seen = est.observe()

    assert table_of(est) is table, "the bits are taken over, not copied"
    assert est.epsilon == 4.0
    assert est.budget.state == density.budget.state
    assert est.budget.total <= 4.0
    assert seen.moved
    assert abs(seen.density - 0.5) < 0.03
    with refused("emptied"):
        density.release()
    with refused("emptied"):
        Continual(density)


def test_a_density_that_has_released_cannot_be_taken_over() -> None:
    density = pp.Density(USERS, 4.0, releases=10)
    density.release()

    with refused("already-released"):
        Continual(density)


def test_a_density_that_plans_for_announced_readings_cannot_be_taken_over() -> None:
    with refused("already-released"):
        Continual(pp.Density(USERS, 4.0, intrusions=1))


def test_a_density_brings_its_own_epsilon() -> None:
    with refused("continual-of-density"):
        Continual(pp.Density(USERS, 4.0), 1.0)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"step": 0.0}, "step-range"),
        ({"step": 1.5}, "step-range"),
        ({"beta": 1.0}, "beta-range"),
        ({"epsilon": None}, "epsilon-missing"),
        ({"epsilon": -1.0}, "epsilon-range"),
        ({"moves": 0}, "moves-range"),
        ({"observations": 0}, "moves-range"),
        ({"epsilon": 1e-12}, "epsilon-too-small"),
    ],
)
def test_an_impossible_plan_is_refused(changes: dict[str, object], code: str) -> None:
    with refused(code):
        observer(**changes)


@pytest.mark.parametrize("plan", [(0, 0.1), (10, 0.0), (10, 1.0)])
def test_an_impossible_accuracy_is_refused(plan: tuple[int, float]) -> None:
    with refused("accuracy-range"):
        observer().accuracy(*plan)


def test_a_sample_and_other_universes_work_as_in_density() -> None:
    sampled = observer(universe=1_000_000, sample=USERS)
    sampled.update_many(range(500_000))
    listed = Continual(pp.Users([f"user{i}" for i in range(2000)]), 50.0, step=0.5, observations=2)
    listed.update_many([f"user{i}" for i in range(1900)])

    assert abs(sampled.observe().density - 0.5) < 0.03
    assert sampled.accuracy().sampling > 0
    assert listed.observe().moved


# --- bytes --------------------------------------------------------------------------------------------------------


def settings(watch: DriftTest) -> tuple[Any, ...]:
    return watch.shares, watch.bar, watch.walk.item()


def used() -> Continual:
    est = Continual(2000, 40.0, step=0.2, observations=10)
    est.update_many(range(1000))
    est.observe()
    return est


def test_bytes_bring_it_back_as_it_was() -> None:
    est = used()
    back = Continual.from_bytes(est.to_bytes())

    assert back.to_bytes() == est.to_bytes()
    assert settings(observed_of(back).drift_test) == settings(observed_of(est).drift_test)
    assert back.budget == est.budget
    assert back.accuracy() == est.accuracy()
    assert back.observe().density == est.observe().density


def test_bytes_bring_a_delta_back() -> None:
    est = Continual(2000, 40.0, step=0.2, moves=1000, delta=1e-9)
    back = Continual.from_bytes(est.to_bytes())

    assert back.delta == 1e-9
    assert settings(observed_of(back).drift_test) == settings(observed_of(est).drift_test)
    assert back.budget == est.budget


def test_a_stream_that_only_rises_cannot_have_deletions() -> None:
    est = Continual(2000, 40.0, step=0.2, observations=10)
    observed_of(est).insert_only = False

    with refused("state-contradictory", "deletions", "rise"):
        Continual.from_bytes(est.to_bytes())


def test_it_can_be_pickled() -> None:
    est = used()

    assert pickle.loads(pickle.dumps(est)).to_bytes() == est.to_bytes()


def test_the_length_of_the_bytes_does_not_depend_on_the_stream() -> None:
    assert len(used().to_bytes()) == len(Continual(2000, 40.0, step=0.2, observations=10).to_bytes())


def test_seeded_coins_are_told_and_not_saved_by_mistake() -> None:
    est = observer()

    assert not est.observe().secure
    assert "NOT SECURE" in repr(est)
    with refused("seeded-coins", "insecure=True"):
        est.to_bytes()
    assert not Continual.from_bytes(est.to_bytes(insecure=True)).secure


def test_the_state_of_something_else_is_refused() -> None:
    with refused("other-estimator"):
        Continual.from_bytes(pp.Density(2000, 1.0).to_bytes())
    with refused("other-estimator", "Density"):
        pp.Density.from_bytes(used().to_bytes())


def test_altered_bytes_are_refused() -> None:
    blob = bytearray(used().to_bytes())
    generator = np.random.default_rng(7)
    for _ in range(100):
        position, bit = int(generator.integers(len(blob))), 1 << int(generator.integers(8))
        blob[position] ^= bit
        with pytest.raises(CorruptState):
            Continual.from_bytes(bytes(blob))
        blob[position] ^= bit


@pytest.mark.parametrize(
    "forge",
    [
        {"step": 0.0},
        {"beta": 2.0},
        {"planned": 0},
        {"published": 1.5},
    ],
)
def test_a_forged_plan_is_refused(forge: dict[str, float]) -> None:
    est = used()
    for name, value in forge.items():
        setattr(observed_of(est), name, value)

    with refused("state-contradictory", "impossible"):
        Continual.from_bytes(est.to_bytes())


@pytest.mark.parametrize("bar", [1, 2, 10**6])
def test_a_bar_that_is_not_that_of_the_plan_is_refused(bar: int) -> None:
    est = used()
    observed_of(est).drift_test.bar = bar

    with refused("state-contradictory", f"{bar:,}"):
        Continual.from_bytes(est.to_bytes())


def test_a_walk_that_no_steps_lead_to_is_refused() -> None:
    est = used()
    for walk, looks in ((10**6, 1), (-(10**6), 1), (1, 0)):
        observed_of(est).drift_test.walk[:], observed_of(est).observations = walk, looks
        with refused("state-contradictory", "walk", "steps"):
            Continual.from_bytes(est.to_bytes())


@pytest.mark.slow
def test_no_honest_walk_is_refused() -> None:
    est = Continual(2000, 40.0, step=0.2, observations=10, coins=SeededCoins(5))
    for _ in range(500):
        est.observe()
        assert abs(observed_of(est).drift_test.walk) < 0.6 * farthest_walk(
            observed_of(est).drift_test.shares, observed_of(est).observations, 1e-12
        )


def test_bits_that_were_taken_over_cannot_claim_that_nobody_was_removed_from_them() -> None:
    est = Continual(pp.Density(2000, 2.0, releases=50), step=0.05)
    assert Continual.from_bytes(est.to_bytes()).budget == est.budget
    watch = observed_of(est).drift_test
    watch.shares = replace(watch.shares, rising=True)

    with refused("state-contradictory", "shares", "deletions"):
        Continual.from_bytes(est.to_bytes())


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 20.0, 25.0])
@pytest.mark.parametrize("step", [1.0, 0.01])
def test_an_honest_observer_of_any_plan_is_loaded(epsilon: float, step: float) -> None:
    est = Continual(10**6, epsilon, step=step, observations=1000)
    assert Continual.from_bytes(est.to_bytes()).budget == est.budget


def test_moves_that_are_not_those_of_the_step_are_refused() -> None:
    est = used()
    observed_of(est).step = 0.3

    with refused("state-contradictory", "moves", "step"):
        Continual.from_bytes(est.to_bytes())


def test_forged_shares_are_refused() -> None:
    est = used()
    blob = est.to_bytes()
    threshold = observed_of(est).drift_test.shares.threshold
    old, new = (struct.pack("<Q", int(share * 2**40)) for share in (threshold, threshold + Fraction(10)))
    parts = state.unseal(blob)
    assert parts.parameters.count(old) == 1

    with refused("state-contradictory", "40.0"):
        Continual.from_bytes(state.seal(parts._replace(parameters=parts.parameters.replace(old, new))))
    with refused("state-contradictory"):
        Continual.from_bytes(state.seal(parts._replace(parameters=parts.parameters[: continual._OBSERVER.size - 1])))


# --- words --------------------------------------------------------------------------------------------------------


def test_it_says_what_it_is_and_what_it_saw() -> None:
    est = observer()
    est.update_many(range(60_000))
    seen = est.observe()
    console = Console(width=200)
    with console.capture() as shown:
        console.print(est)
        console.print(seen)

    assert repr(est).startswith("<Continual of 100,000 users, step 0.1; epsilon 4:")
    assert "err by at most" in shown.get()
    assert "not private" in shown.get()
    assert "Observation 1" in shown.get()
    assert "moved at observation 1, 9 moves left" in str(seen)
    assert "NOT PRIVATE" in str(seen)


@pytest.mark.parametrize("bad", [{"beta": 5e-324}, {"observations": 2**64}, {"step": "far"}])
def test_what_cannot_be_planned_takes_nothing_over(bad: dict[str, Any]) -> None:
    est = pp.Density(100_000, 2.0)
    with pytest.raises((pp.PanPrivacyError, ArithmeticError)):
        pp.Continual(est, **bad)
    assert est.emptied is None


def test_a_step_may_be_any_number() -> None:
    assert pp.Continual(pp.Density(100_000, 2.0), step=Decimal("0.1")).moves_left == 10  # type: ignore[arg-type]


def test_a_saved_walk_is_wiped_once_it_is_written() -> None:
    est = Continual(1000, 8.0, step=0.5)
    for _ in range(20):
        est.observe()
    assert observed_of(est).drift_test.walk.any()
    with est.sealed_state(insecure=False) as parts:
        written = parts.parameters
        assert any(written)
    assert not any(written)
    read = state.unseal(est.to_bytes())
    Continual.from_sealed(read)
    assert not any(read.parameters[continual._WALK :][:8])

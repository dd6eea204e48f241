"""What `Counts` claims is exactly what it loses; bugs that lose more are found."""

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import planted_counts
import pytest
from numpy.typing import NDArray

from panprivacy import Counts, audit, theory
from panprivacy.audit.enumeration import batches_agree
from panprivacy.audit.enumeration.machine import Machine
from panprivacy.privacy import gaussian
from panprivacy.privacy.coins import Coins
from panprivacy.privacy.noise import Gaussian, Laplace
from panprivacy.testing import gaussian_noise, split_of


def counts(kind: type[Counts] = Counts, users: int = 1, up_to: int = 2, **more: Any) -> Callable[[Coins], Counts]:
    return lambda coins: kind(users, 1.0, up_to, coins=coins, **more)


@pytest.mark.slow
@pytest.mark.parametrize("deletions", [False, True])
@pytest.mark.parametrize("up_to", [2, 3, 4])
def test_the_distribution_loses_the_state_and_the_releases_to_the_last_digit(up_to: int, deletions: bool) -> None:
    result = audit.exact(counts(up_to=up_to), 1, 3, deletions=deletions)

    assert result.holds
    assert result.worst_loss == pytest.approx(result.claimed, abs=1e-14)
    budget = Counts(1, 1.0, up_to).budget
    assert budget.release_epsilon is not None
    assert result.worst_loss == pytest.approx(budget.state + budget.release_epsilon, abs=1e-14)


@pytest.mark.parametrize("deletions", [False, True])
@pytest.mark.parametrize("up_to", [2, 3])
def test_the_mean_alone_loses_what_a_density_loses(up_to: int, deletions: bool) -> None:
    result = audit.exact(counts(up_to=up_to, only="mean"), 1, 2 * up_to - deletions, deletions=deletions)

    assert result.holds
    assert result.worst_loss == pytest.approx(result.claimed, abs=1e-14)
    budget = Counts(1, 1.0, up_to, only="mean").budget
    assert budget.release_epsilon is not None
    assert result.worst_loss == pytest.approx(
        float(theory.total_loss(budget.state, [budget.release_epsilon])), abs=1e-8
    )


@pytest.mark.slow
@pytest.mark.parametrize("only", [None, "mean"])
@pytest.mark.parametrize("releases", [2, 3])
def test_several_releases_and_two_users_lose_what_is_claimed(releases: int, only: Any) -> None:
    users = 2 if releases == 2 else 1
    result = audit.exact(counts(users=users, only=only, releases=releases), users, 3, releases=releases)

    assert result.holds
    assert result.worst_loss == pytest.approx(result.claimed, abs=1e-14)


@pytest.mark.slow
def test_the_share_of_the_state_is_what_the_state_loses() -> None:
    result = audit.exact(counts(users=2, up_to=3), 2, 3, releases=0, deletions=True)

    assert result.worst_loss == Counts(2, 1.0, 3).budget.state


@pytest.mark.parametrize(
    "kind",
    [planted_counts.StartsAtZero, planted_counts.PublishesThePlaces, planted_counts.KeepsWhereItBegan],
    ids=lambda kind: kind.__name__,
)
def test_whoever_knows_where_a_counter_began_knows_everything(kind: type[Counts]) -> None:
    result = audit.exact(counts(kind), 1, 2)

    assert result.worst_loss == math.inf
    assert result.witness is not None


@pytest.mark.parametrize(
    "kind", [planted_counts.NoiseForOne, planted_counts.KeepsTheBit], ids=lambda kind: kind.__name__
)
def test_too_little_noise_and_bits_that_are_kept_are_found(kind: type[Counts]) -> None:
    result = audit.exact(counts(kind), 1, 4)

    assert not result.holds
    assert result.worst_loss > 1.001


def test_two_readings_tell_how_often_a_user_came_in_between() -> None:
    assert audit.exact(counts(), 1, 1, readings=2).worst_loss == math.inf


def test_a_user_who_is_twice_in_a_batch_moves_twice() -> None:
    """The auditor compares batches with their events one by one, and goes through batches where they differ."""
    machine = Machine(counts(up_to=3), range(1))
    assert batches_agree(machine, ["update"], 2)
    assert not batches_agree(Machine(counts(planted_counts.OnceABatch, up_to=3), range(1)), ["update"], 2)


# --- Gaussian noise -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("square", [Fraction(1), Fraction(3, 2), Fraction(4), Fraction(100), Fraction(10**6)])
@pytest.mark.parametrize("releases", [1, 2, 10])
@pytest.mark.parametrize("delta", [1e-3, 1e-9])
def test_two_counts_that_move_by_one_lose_less_than_one_that_moves_by_two(
    square: Fraction, releases: int, delta: float
) -> None:
    """K releases that move two counts each are 2K that move one."""
    apart = gaussian.loss(square, 2 * releases, delta)
    together = gaussian.loss(square, releases, delta, 2)
    assert apart < together or apart == together == 0.0


GRID = np.arange(-60, 61)


def _noised(square: float, place: int, bit: int) -> NDArray[np.float64]:
    """The law of the two released numbers when the user is at a place with a bit."""
    laws = []
    for each in range(2):
        value = (2 * bit - 1) if each == place else 0
        weights = np.exp(-((GRID - value) ** 2) / (2 * square))
        laws.append(weights / weights.sum())
    return np.asarray(np.multiply.outer(*laws))


def _after(field: tuple[int, int], events: int, p1: float) -> list[tuple[tuple[int, int], float]]:
    """Where a field with two places is after events, and how likely."""
    law = {field: 1.0}
    for _ in range(events):
        new: dict[tuple[int, int], float] = {}
        for (place, bit), weight in law.items():
            ways = [((1, bit), 1.0)] if place == 0 else [((0, 1), p1), ((0, 0), 1 - p1)]
            for reached, chance in ways:
                new[reached] = new.get(reached, 0.0) + weight * chance
        law = new
    return list(law.items())


def _seen(p1: float, square: float, before: int, after: int) -> NDArray[np.float64]:
    """The joint law of a field that is read after some events and of a release after more of them."""
    read = np.zeros((2, 2))
    for place, bit in product(range(2), repeat=2):
        for (to, shown), weight in _after((place, bit), before, p1):
            read[to, shown] += weight / 2 * (1 - p1 if bit else p1)
    joint = np.zeros((2, 2, len(GRID), len(GRID)))
    for place, bit in product(range(2), repeat=2):
        for field, weight in _after((place, bit), after, p1):
            joint[place, bit] += read[place, bit] * weight * _noised(square, *field)
    return joint


def _worst_delta(est: Counts, narrower: int) -> float:
    """Enumerated: every number of events before and after the reading, up to two rounds of the counter."""
    split = split_of(est)
    assert isinstance(split.noise, Gaussian)
    schedules = product(range(5), repeat=2)
    laws = [_seen(float(split.pair.p1), float(split.noise.square) / narrower**2, *each) for each in schedules]
    beyond = np.exp(est.budget.total)
    return max(float(np.maximum(one - beyond * other, 0).sum()) for one, other in product(laws, repeat=2))


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "delta"), [(3.0, 1e-3), (3.0, 1e-4), (6.0, 1e-3)])
@pytest.mark.filterwarnings("ignore:delta .* is a probability")
def test_gaussian_releases_keep_epsilon_and_delta(epsilon: float, delta: float) -> None:
    with gaussian_noise():
        est = Counts(1, epsilon, 2, delta=delta)

    assert est.budget.total <= epsilon
    assert 0 < _worst_delta(est, 1) <= delta
    assert _worst_delta(est, 2) > delta, "noise of half the width is not noticed"


def test_laplace_noise_is_half_of_what_a_release_may_lose() -> None:
    est = Counts(1000, 1.0)
    noise = split_of(est).noise
    assert isinstance(noise, Laplace)
    assert est.budget.release_epsilon == float(2 * noise.epsilon)
    alone = Counts(1000, 1.0, only="mean")
    assert alone.budget.state > est.budget.state

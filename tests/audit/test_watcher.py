"""An intruder who watches the releases and then chooses the moment is followed through every choice."""

from fractions import Fraction
from math import exp
from typing import Any

import planted
import pytest

from adaptive import smallest_delta
from panprivacy import audit
from panprivacy.audit.enumeration.delta import Watcher
from panprivacy.audit.enumeration.machine import Machine, Step
from panprivacy.privacy.coins import Coins
from panprivacy.privacy.pairs import symmetric

COMES, LEAVES = Step("update", (0,)), Step("remove", (0,))


class Bit(planted.GaussianBits):
    """One bit, which can be removed."""

    def remove(self, user: int) -> None:
        self.bits[user] = self.coins.flip(self.pair.absent)


def bit(state: float, square: int, claimed: tuple[float, float] = (1.0, 0.5)) -> Any:
    def make(coins: Coins) -> Bit:
        return Bit(1, symmetric(state), Fraction(square), coins, claimed)

    return make


def watched(state: float, square: int, total: float, releases: int, *, leaves: bool = True, **more: Any) -> float:
    actions = [(), (COMES,), (LEAVES,)] if leaves else [(), (COMES,)]
    return Watcher(Machine(bit(state, square), [0]), actions).smallest_delta(total, releases, **more)


@pytest.mark.slow
@pytest.mark.parametrize(("square", "releases"), [(1, 1), (3, 1), (1, 2)])
def test_it_finds_what_trying_every_choice_by_hand_finds(square: int, releases: int) -> None:
    by_hand = smallest_delta(square, releases, 1.0, 2.0)
    assert watched(1.0, square, 2.0, releases) == pytest.approx(by_hand, abs=3e-8)


@pytest.mark.parametrize(("state", "square"), [(1.0, 1), (4.0, 2)])
def test_with_one_release_nothing_is_gained_by_watching(state: float, square: int) -> None:
    total = state + 2.0
    fixed = audit.exact(bit(state, square, (total, 0.5)), 1, 2)
    assert watched(state, square, total, 1, leaves=False) == pytest.approx(fixed.worst_delta, rel=1e-5)


def test_events_that_depend_on_a_release_are_tried() -> None:
    """After one release, the user comes or leaves by what it was, before the reading."""
    fixed = audit.exact(bit(1.0, 1, (3.0, 0.5)), 1, 2, deletions=True).worst_delta
    assert 1.0005 * fixed < watched(1.0, 1, 3.0, 1) < 1.001 * fixed


@pytest.mark.slow
def test_a_delta_that_holds_at_fixed_moments_only_is_found() -> None:
    """Two releases of a state of epsilon 4: who watches reaches 8 % more than who fixes the moment beforehand."""
    fixed = audit.exact(bit(4.0, 1, (6.0, 0.5)), 1, 3, releases=2, deletions=True).worst_delta
    assert 1.05 * fixed < watched(4.0, 1, 6.0, 2) < 1.2 * fixed


def test_without_a_reading_only_the_releases_tell() -> None:
    """One release of a bit that is 1 with p1 or p0: its delta is a sum over all outputs."""
    state, square, total = 2.0, 1, 0.5
    p1 = 1 / (1 + exp(-state))
    outputs = range(-40, 42)
    whole = sum(exp(-(o**2) / 2) for o in outputs)
    law = {
        p: [((1 - p) * exp(-(o**2) / 2) + p * exp(-((o - 1) ** 2) / 2)) / whole for o in outputs] for p in (p1, 1 - p1)
    }
    expected = max(
        sum(max(a - exp(total) * b, 0) for a, b in zip(law[one], law[other], strict=True))
        for one, other in ((p1, 1 - p1), (1 - p1, p1))
    )
    assert watched(state, square, total, 1, readings=0) == pytest.approx(expected, rel=1e-6)


@pytest.mark.slow
def test_two_readings_tell_for_certain_that_somebody_came() -> None:
    assert watched(1.0, 1, 5.0, 1, readings=2) > 0.1
    assert watched(1.0, 1, 5.0, 1, readings=1) < 0.001

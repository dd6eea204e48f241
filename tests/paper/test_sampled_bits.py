"""Dwork and OptBern, as Alg. 1 and 2 print them."""

from itertools import combinations, product
from math import tanh
from typing import TypeAlias

import numpy as np
import pytest
from exact_laws import SILENT, law, outputs
from simulated import DENSITIES, STREAMS, USERS, estimates

import panprivacy as pp
from checks import assert_variance
from panprivacy import audit, theory
from panprivacy.paper import Dwork, OptBern
from panprivacy.paper.density import SampledDensity
from panprivacy.privacy.coins import Coins
from panprivacy.testing import SeededCoins, refused
from panprivacy.universe.integers import Words

pytestmark = pytest.mark.filterwarnings(SILENT)

Algorithm: TypeAlias = type[Dwork] | type[OptBern]
BOTH = pytest.mark.parametrize("kind", [Dwork, OptBern])


def fed(kind: Algorithm, appear: list[int], vanish: list[int], coins: Coins) -> object:
    est = kind(3, 0.5, 2, coins=coins)
    est.update_many(appear)
    est.remove_many(vanish)
    return est.state


def chance_of_one(kind: Algorithm, present: bool) -> float:
    """Written out from the listings."""
    if kind is Dwork:
        return 0.5 + 0.5 / 4 if present else 0.5
    return 0.5 * (1 + tanh(0.25)) if present else 0.5 * (1 - tanh(0.25))


@BOTH
@pytest.mark.parametrize(("appear", "vanish", "present"), [([], [], ()), ([1, 0, 1], [], (0, 1)), ([0, 2], [2], (0,))])
def test_every_sample_is_equally_likely_and_every_bit_is_its_users_coin(
    kind: Algorithm, appear: list[int], vanish: list[int], present: tuple[int, ...]
) -> None:
    found = law(lambda coins: fed(kind, appear, vanish, coins))
    assert len(found) == 3 * 4
    for users in combinations(range(3), 2):
        for bits in product((False, True), repeat=2):
            ones = [chance_of_one(kind, user in present) for user in users]
            expected = np.prod([p if bit else 1 - p for p, bit in zip(ones, bits, strict=True)]) / 3
            assert float(found[users, bits]) == pytest.approx(expected, rel=1e-8)  # coins are rounded to 2**-32


@BOTH
def test_the_estimate_is_the_printed_formula_with_the_printed_noise(kind: Algorithm) -> None:
    for (_, bits), value, scale in outputs(lambda coins: kind(3, 0.5, 2, coins=coins)):
        share = sum(bits) / 2
        printed = 4 / 0.5 * (share - 0.5) if kind is Dwork else (share - 0.5 + 0.5 * tanh(0.25)) / tanh(0.25)
        assert value == pytest.approx(printed)
        assert scale == pytest.approx(1 / (0.5 * 2))


def test_another_centre_moves_the_coins_and_the_formula_with_them() -> None:
    for (_, bits), value, _ in outputs(lambda coins: OptBern(1, 0.5, 1, c=0.7, coins=coins)):
        p_init, p_upd = 0.7 * (1 - tanh(0.25)), 0.7 * (1 + tanh(0.25))
        assert value == pytest.approx((bits[0] - p_init) / (p_upd - p_init))
    ones = law(lambda coins: OptBern(1, 0.5, 1, c=0.7, coins=coins).state.bits)
    assert float(ones[(True,)]) == pytest.approx(0.7 * (1 - tanh(0.25)))


@BOTH
def test_the_true_loss_of_the_running_code_is_the_one_its_flaws_name(kind: Algorithm) -> None:
    found = audit.exact(lambda coins: kind(2, 0.1, 2, coins=coins), users=2, length=2, deletions=True)
    assert found.claimed == 0.2
    assert found.settled
    assert found.worst_loss == pytest.approx(theory.joint_loss(kind.__name__.lower(), 0.1))
    assert f"{found.worst_loss:.3f}" in kind(2, 0.1, 2).known_flaws[0]


# Errors


def test_the_streams_have_the_densities_of_the_paper() -> None:
    assert DENSITIES["uniform"] == pytest.approx(0.63, abs=0.005)
    assert DENSITIES["zipf"] == pytest.approx(0.25, abs=0.01)


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("sample", [100, 1000])
@pytest.mark.parametrize("epsilon", [0.1, 0.2, 0.5])
def test_errors_are_those_of_the_exact_formula(kind: Algorithm, stream: str, sample: int, epsilon: float) -> None:
    """False alarm: 1e-6. Of 300 runs, standard errors 30 % off either way are told apart."""
    errors, _ = estimates(lambda coins: kind(USERS, epsilon, sample, coins=coins), stream)
    exact = float(theory.mse(kind.__name__.lower(), epsilon, sample, DENSITIES[stream], USERS))
    assert_variance(errors, exact)
    for wrong in (1.3, 1 / 1.3):  # what a check that passed anything could not do
        with pytest.raises(AssertionError):
            assert_variance(errors / np.sqrt(np.mean(errors**2) / exact) * wrong, exact)


@pytest.mark.slow
def test_lost_events_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    redraw = SampledDensity.redraw

    def forgetful(bits: SampledDensity, indices: Words, remove: bool) -> None:
        """A planted bug: every other event is lost."""
        redraw(bits, np.ascontiguousarray(indices[::2]), remove)

    monkeypatch.setattr(SampledDensity, "redraw", forgetful)
    errors, _ = estimates(lambda coins: OptBern(USERS, 0.5, 1000, coins=coins), "uniform")
    with pytest.raises(AssertionError):
        assert_variance(errors, float(theory.mse("optbern", 0.5, 1000, DENSITIES["uniform"], USERS)))


# Use


@BOTH
def test_it_samples_what_the_theorem_asks_for(kind: Algorithm) -> None:
    name = kind.__name__.lower()
    est = kind.for_accuracy(100_000, 0.5, alpha=0.1, beta=0.05)
    assert est.sample == theory.sample_size(name, 0.5, 0.1, 0.05)
    with refused("sample-too-large", "100"):
        kind.for_accuracy(100, 0.5, alpha=0.1, beta=0.05)


@BOTH
def test_a_batch_with_a_stranger_changes_nothing(kind: Algorithm) -> None:
    est = kind(100, 0.5, 50, coins=SeededCoins(1))
    before = est.state
    with refused("outside-universe", "100"):
        est.update_many([1, 2, 100])
    assert est.state == before


@BOTH
def test_graphs_and_lists_are_universes_too(kind: Algorithm) -> None:
    graph = kind(pp.Edges(nodes=5), 0.5, 10)
    graph.update((0, 4))
    graph.remove_many([(0, 4), (1, 2)])
    listed = kind(pp.Users(["ada", "grace"]), 0.5, 1)
    listed.update("ada")
    assert len(graph.state.bits) == 10
    assert len(listed.state.bits) == 1


@BOTH
def test_a_sample_larger_than_the_universe_is_refused(kind: Algorithm) -> None:
    with refused("sample-range", "5", "6"):
        kind(5, 0.5, 6)


@BOTH
def test_one_event_at_a_time_and_many_at_once_have_the_same_law(kind: Algorithm) -> None:
    def single(coins: Coins) -> object:
        est = kind(3, 0.5, 2, coins=coins)
        for user in (0, 2, 0):
            est.update(user)
        est.remove(2)
        return est.state

    assert law(single) == law(lambda coins: fed(kind, [0, 2, 0], [2], coins))

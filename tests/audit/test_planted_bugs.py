"""The auditor finds the bugs that privacy code has, and shows them."""

import math
import warnings
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import planted
import pytest

from panprivacy import Density, audit, paper, theory
from panprivacy.audit.enumeration.loss import Judge
from panprivacy.audit.enumeration.machine import Laws, Machine, Step
from panprivacy.audit.enumeration.search import READ, Left, Search, Streams
from panprivacy.privacy.coins import Coins
from panprivacy.privacy.noise import Laplace
from panprivacy.privacy.pairs import symmetric

PAIR, RATE = symmetric(0.5), Fraction(1, 2)


@pytest.fixture(autouse=True)
def _knowing() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", paper.NotPrivateAsPrinted)
        yield


def density(kind: type[Density], **more: Any) -> Callable[[Coins], Any]:
    return lambda coins: kind(2, 1.0, coins=coins, **more)


def bits(kind: type[planted.Bits]) -> Callable[[Coins], Any]:
    return lambda coins: kind(2, PAIR, RATE, coins)


def test_what_has_no_bug_passes() -> None:
    assert audit.exact(density(Density), 2, 2).holds
    assert audit.exact(bits(planted.Bits), 2, 2).holds


@pytest.mark.parametrize(
    "make",
    [
        density(planted.CountsEvents),
        density(planted.CachesAtFirstEvent),
        density(planted.OneCoinForTheBatch),
        density(planted.OneCoinForTheTable),
        density(planted.TellsTheParity),
        bits(planted.KeepsItsKey),
        bits(planted.SetOfIds),
        bits(planted.ListOfIds),
    ],
    ids=["event counter", "cache", "batch coin", "table coin", "parity", "key", "set", "list"],
)
def test_what_rules_a_stream_out_loses_infinitely(make: Callable[[Coins], Any]) -> None:
    result = audit.exact(make, 2, 2)

    assert result.worst_loss == math.inf
    assert not result.holds
    assert result.witness is not None
    assert result.witness.probability_a > 0 == result.witness.probability_b


def test_what_shows_only_after_events_of_others_is_found() -> None:
    laws = Laws(Machine(lambda coins: planted.Sleeper(2, PAIR, RATE, coins), range(2)))
    judge = Judge(laws)
    search = Search(laws, Streams(2), ("update",), False, judge)
    search.around((0,), Left(releases=0, readings=1))

    assert judge.is_certain()
    assert judge.worst is not None
    assert (Step("update", (1,)), Step("update", (0,)), READ) in (judge.worst.steps_a, judge.worst.steps_b)


def test_an_event_counter_is_named_in_the_witness() -> None:
    result = audit.exact(density(planted.CountsEvents), 2, 2)

    assert "events=" in str(result.witness)


def test_a_place_that_a_removed_id_leaves_is_named_in_the_witness() -> None:
    result = audit.exact(bits(planted.SetOfIds), 2, 1)

    assert "ids (removed)=" in str(result.witness)


def test_a_skipped_redraw_loses_more_with_every_appearance() -> None:
    losses = [
        audit.exact(density(planted.RedrawsZerosOnly), 2, streams=[[0] * times], releases=0).worst_loss
        for times in (1, 2, 4, 8)
    ]

    assert losses == sorted(set(losses))
    assert not audit.exact(density(planted.RedrawsZerosOnly), 2, 2).holds


def test_too_little_noise_is_found() -> None:
    result = audit.exact(density(planted.HalfTheNoise), 2, 2)

    assert not result.holds
    assert 1.01 < result.worst_loss < 2


def test_a_redraw_that_flips_nothing_is_found() -> None:
    make = density(planted.ForgetsToRedraw, intrusions=1)

    assert audit.exact(make, 2, 1, intrusions=1).worst_loss == math.inf
    assert audit.exact(density(Density, intrusions=1), 2, 1, intrusions=1).holds


def test_two_readings_without_a_redraw_lose_infinitely() -> None:
    result = audit.exact(density(Density), 2, 1, readings=2)

    assert result.worst_loss == math.inf
    assert result.witness is not None
    assert "then" in result.witness.state


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "loss"), [(paper.Dwork, 3.423), (paper.OptBern, 1.573)])
@pytest.mark.parametrize("sample", [2, 3])
def test_the_printed_output_noise_is_too_small(kind: Any, loss: float, sample: int) -> None:
    result = audit.exact(lambda coins: kind(3, 0.1, sample, coins=coins), 3)

    assert result.worst_loss == pytest.approx(loss, abs=5e-4)
    assert result.claimed == 0.2
    assert not result.holds


@pytest.mark.parametrize("deletions", [False, True])
@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.5])
@pytest.mark.parametrize("name", ["dwork", "optbern"])
def test_the_printed_algorithms_lose_what_the_theory_computes(name: str, epsilon: float, deletions: bool) -> None:
    kind = {"dwork": paper.Dwork, "optbern": paper.OptBern}[name]
    result = audit.exact(lambda coins: kind(2, epsilon, 2, coins=coins), 2, 2, deletions=deletions)

    # The coins are rounded to 32 bits; the theory's are not.
    assert result.worst_loss == pytest.approx(float(theory.joint_loss(name, epsilon)), abs=1e-7)


def test_a_centre_above_one_half_is_found_in_the_state_alone() -> None:
    result = audit.exact(lambda coins: paper.OptBern(3, 0.5, 3, c=0.8, coins=coins), 3, releases=0)

    assert result.worst_loss == pytest.approx(4.5788, abs=1e-4)
    assert not result.holds


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, 5, 20])
def test_the_level_of_ppds_rules_streams_out(times: int) -> None:
    hashing = paper.FMHash(multiplier=1, offset=0, bits=3)
    result = audit.exact(
        lambda coins: paper.PPDS(5, 0.5, 3, hashing=hashing, coins=coins), 5, streams=[[0] * times], releases=0
    )

    assert result.worst_loss == math.inf
    assert result.witness is not None
    assert "level=2" in result.witness.state
    assert result.witness.stream_b == ("state read",)
    assert result.witness.stream_a[0].startswith("0 appears")


@pytest.mark.slow
def test_ppds_whose_set_cannot_fill_loses_what_optbern_loses() -> None:
    hashing = paper.FMHash(multiplier=1, offset=0, bits=2)
    never_full = audit.exact(lambda coins: paper.PPDS(3, 0.1, 4, hashing=hashing, coins=coins), 3)
    optbern = audit.exact(lambda coins: paper.OptBern(3, 0.1, 3, coins=coins), 3)

    assert never_full.worst_loss == pytest.approx(optbern.worst_loss, abs=1e-12)


def test_noise_of_hidden_width_is_not_said_to_be_settled() -> None:
    result = audit.exact(planted.NoiseOfHiddenWidth, 1, 1, readings=0)

    assert not result.settled
    assert not result.holds
    assert result.worst_loss == pytest.approx(math.log(3), abs=1e-12)
    assert "at least" in str(result)


def test_noise_inside_the_state_is_refused() -> None:
    class Noisy(planted.Bits):
        def update(self, user: int) -> None:
            self.bits[user] = bool(self.coins.noisy(1, Laplace(RATE)))

    with pytest.raises(NotImplementedError, match="noise was drawn into the state"):
        audit.exact(bits(Noisy), 2, 1)

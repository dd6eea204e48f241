"""What one reading of the state and any number of observations give away, by the auditor and by an oracle of its own.

The auditor runs the shipping code under every outcome of its coins. A number with noise that stays in the state has
infinitely many outcomes, and it follows those within `EveryOutcome.REACH`; the oracle does the same, so the two must
agree, and then reaches as far as it takes.
"""

from fractions import Fraction
from itertools import product
from math import exp, log

import numpy as np
import pytest
from oracle import HIGH, LOW, NOT_YET, READ, Model, Unrefreshed, likelihoods, loss_of, unscaled, worst_loss
from watched import KeptThreshold, one_user

from panprivacy import audit
from panprivacy.audit.enumeration.outcomes import EveryOutcome
from panprivacy.estimators.continual_law import Shares, Workload, best_shares
from panprivacy.privacy.noise import Laplace
from panprivacy.privacy.pairs import symmetric
from panprivacy.testing import refused

pytestmark = pytest.mark.slow

REACH = 4


@pytest.fixture(autouse=True)
def short_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EveryOutcome, "REACH", REACH)


@pytest.mark.parametrize(("observations", "moves", "deletions"), [(2, 1, False), (2, 2, False), (1, 1, True)])
def test_the_auditor_finds_in_the_shipping_code_what_the_oracle_computes(
    observations: int, moves: int, deletions: bool
) -> None:
    make = one_user(8.0, observations=observations, moves=moves)
    found = audit.exact(make, users=1, length=observations + 1, releases=observations, deletions=deletions)
    model = Model.of(best_shares(8.0, Workload(1, moves, observations)), reach=REACH)

    assert found.holds
    assert found.worst_loss == pytest.approx(worst_loss(model, observations, deletions=deletions), abs=1e-9)


@pytest.mark.parametrize("answer", range(-3, 5))
def test_after_any_answer_the_next_move_loses_no_more_than_is_claimed(
    answer: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was released decides how far the count is from it afterwards; the auditor follows one answer at a time.

    An answer further off only makes every later test surer to move, in all worlds alike.
    """
    monkeypatch.setattr(EveryOutcome, "STAND_IN", answer)
    found = audit.exact(one_user(8.0, observations=2, moves=2), users=1, length=3, releases=2, deletions=False)
    assert found.holds
    assert found.worst_loss > 2


def test_how_far_the_walk_is_followed_hardly_matters() -> None:
    shares = best_shares(8.0, Workload(1, moves=1, observations=1))
    near, far = (worst_loss(Model.of(shares, reach=reach), 4) for reach in (6, 40))

    assert near == pytest.approx(far, abs=0.01)


def test_the_auditor_finds_a_threshold_that_is_drawn_once_and_kept() -> None:
    found = audit.exact(
        one_user(8.0, observations=1, watch=KeptThreshold), users=1, length=2, releases=8, deletions=False
    )

    assert found.worst_loss > found.claimed
    assert found.witness is not None
    assert "walk" in found.witness.state


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0])
@pytest.mark.parametrize("bar", [0, 2])
def test_no_stream_and_no_moment_loses_more_than_is_claimed(epsilon: float, bar: int) -> None:
    shares = best_shares(epsilon, Workload(1, moves=1, observations=3))

    assert worst_loss(Model.of(shares, bar=bar, reach=30), 3, deletions=True) < shares.loss(1)


@pytest.mark.parametrize("seed", range(6))
def test_whatever_others_do_between_observations_no_more_is_lost_than_is_claimed(seed: int) -> None:
    """Others move the count, so each observation has a bar of its own; shares, answers and moments are drawn."""
    generator = np.random.default_rng(seed)
    threshold, test, value = (Fraction(str(share)) for share in generator.choice([0.1, 0.3, 1.0, 2.0], 3))
    shares = Shares(100.0, symmetric(float(generator.choice([0.1, 0.5, 2.0]))), 2, threshold, test, Laplace(value))
    model, worst = Model.of(shares, reach=40), 0.0
    for _ in range(6):
        answers = [NOT_YET, NOT_YET, *generator.choice([HIGH, LOW], 2)]
        generator.shuffle(answers)
        timeline = [str(answer) for answer in answers]
        timeline.insert(int(generator.integers(5)), READ)
        bars = [int(bar) for bar in generator.integers(-2, 4, len(timeline))]
        streams = product(("nothing", "appears", "removed"), repeat=len(timeline))
        worst = max(worst, loss_of(likelihoods(model, timeline, streams, bars)))

    assert shares.pair.loss < worst < shares.loss(2)


def test_two_moves_lose_no_more_than_is_claimed() -> None:
    shares = best_shares(2.0, Workload(1, moves=2, observations=3))

    assert worst_loss(Model.of(shares, reach=20), 3) < shares.loss(2)


def test_noise_that_is_not_scaled_by_the_moves_is_found() -> None:
    pair, share, moves = symmetric(0.5), Fraction(1), 8
    once = Shares(100.0, pair, 1, share / 2, share, Laplace(share))
    scaled = Shares(once.loss(1), pair, moves, share / 2, share / moves, Laplace(share / moves))
    timeline = [READ, *[HIGH] * moves]
    rest = ["nothing"] * (moves - 1)
    streams = [["appears", "nothing", *rest], ["nothing", "appears", *rest]]

    assert loss_of(likelihoods(unscaled(once, moves), timeline, streams)) > once.loss(1)
    assert loss_of(likelihoods(Model.of(scaled), timeline, streams)) < scaled.loss(moves) <= once.loss(1)


def after_reading(observations: int, last: str = NOT_YET) -> list[str]:
    return [READ, *[NOT_YET] * (observations - 1), last]


def around_reading(observations: int, last: str) -> list[str]:
    before = observations // 2
    return [*[NOT_YET] * before, READ, *[NOT_YET] * (observations - before - 1), last]


@pytest.mark.parametrize("observations", [2, 8, 32])
def test_a_kept_threshold_loses_more_with_every_observation_after_a_reading(observations: int) -> None:
    shares = best_shares(2.0, Workload(1, moves=1, observations=1))
    kept = Unrefreshed.of(shares, reach=60)
    stays, appears = ["nothing"] * (observations + 1), ["nothing", "appears", *["nothing"] * (observations - 1)]
    lost = loss_of(likelihoods(kept, after_reading(observations), [stays, appears]))
    # Where the walk that was read is low, each "not yet" is e^test times likelier for a 0 than for a 1. The bit that
    # was read stays, or is drawn anew.
    p0, p1, ratio = float(shares.pair.p0), float(shares.pair.p1), exp(float(shares.test) * observations)

    assert lost == pytest.approx(max(log(p0 * ratio + p1), -log(p0 + p1 / ratio)), rel=1e-3)


def strategies(length: int) -> list[list[str]]:
    """What a user can do who appears never, once, or always; before, at or after the middle; with either last step."""
    half = length // 2
    runs = {"never": ["nothing"] * length, "always": ["appears"] * length}
    runs["once"] = ["appears", *runs["never"][1:]]
    found = []
    for before in runs.values():
        for at in ("nothing", "appears"):
            for after in runs.values():
                for last in ("nothing", "appears"):
                    found.append([*before[:half], at, *after[: length - half - 2], last])
    return found


@pytest.mark.parametrize("last", [NOT_YET, HIGH, LOW])
def test_the_walk_loses_no_more_than_is_claimed_over_many_observations(last: str) -> None:
    shares = best_shares(8.0, Workload(1, moves=1, observations=1))
    timeline = around_reading(40, last)
    walk, kept = (kind.of(shares, reach=40) for kind in (Model, Unrefreshed))
    streams = strategies(len(timeline))

    assert 0.6 * shares.loss(1) < loss_of(likelihoods(walk, timeline, streams)) < shares.loss(1)
    assert loss_of(likelihoods(kept, timeline, streams)) > 2 * shares.loss(1)


def test_shares_that_lose_more_than_they_were_given_are_refused() -> None:
    with refused("plan-over-budget"):
        Shares(1.0, symmetric(0.9), 1, Fraction(1, 10), Fraction(1, 10), Laplace(Fraction(1, 10)))

"""What a stream without deletions gives away, by the auditor and by an oracle: less than any stream may."""

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from oracle import HIGH, LOW, NOT_YET, READ, Model, likelihoods, loss_of, worst_loss
from watched import one_user

from panprivacy import audit
from panprivacy.audit.enumeration.outcomes import EveryOutcome
from panprivacy.estimators.continual_law import Shares, Workload, best_shares
from panprivacy.privacy.noise import Laplace
from panprivacy.privacy.pairs import symmetric

pytestmark = pytest.mark.slow

REACH = 4
SMALL = Shares(100.0, symmetric(1.0), 3, Fraction(1), Fraction(1, 2), Laplace(Fraction(2, 5)), rising=True)


@pytest.mark.parametrize("observations", [1, 2])
def test_the_auditor_finds_in_the_shipping_code_what_the_oracle_computes(
    observations: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EveryOutcome, "REACH", REACH)
    make = one_user(8.0, observations=observations, moves=None)
    found = audit.exact(make, users=1, length=observations + 1, releases=observations, deletions=False)
    model = Model.of(best_shares(8.0, Workload(1, 1, observations, rising=True)), reach=REACH)

    assert found.holds
    assert found.worst_loss == pytest.approx(worst_loss(model, observations), abs=1e-9)


def test_streams_that_only_rise_are_charged_less_than_others() -> None:
    falling = replace(SMALL, rising=False)

    assert [SMALL.loss(moves) <= falling.loss(moves) for moves in range(4)] == [True] * 4
    assert SMALL.loss(3) < falling.loss(3) - 0.9


@pytest.mark.parametrize("seed", range(8))
def test_whatever_others_do_between_observations_no_more_is_lost_than_is_claimed(seed: int) -> None:
    """Others move the count, so each observation has a bar of its own; shares, answers and moments are drawn."""
    generator = np.random.default_rng(seed)
    for _ in range(4):
        threshold = Fraction(str(generator.choice([0.5, 1.0, 2.0])))  # with less the walk would be out of reach
        test, value = (Fraction(str(share)) for share in generator.choice([0.02, 0.1, 0.3, 1.0, 2.0], 2))
        pair = symmetric(float(generator.choice([0.05, 0.2, 0.5, 2.0])))
        moves = int(generator.integers(1, 5))
        shares = Shares(1000.0, pair, moves, threshold, test, Laplace(value), rising=True)
        answers = [*[NOT_YET] * (6 - moves), *generator.choice([HIGH, LOW], moves)]
        generator.shuffle(answers)
        timeline = [str(answer) for answer in answers]
        timeline.insert(int(generator.integers(7)), READ)
        bars = [int(bar) for bar in generator.integers(-9, 9, len(timeline))]
        streams = list(product(("nothing", "appears"), repeat=len(timeline)))

        assert loss_of(likelihoods(Model.of(shares), timeline, streams, bars, [True] * len(timeline))) < shares.loss(
            moves
        )


def patterns(timeline: list[str]) -> list[list[str]]:
    """What a user can do who appears never, always, or before one kind of answer; differently after the reading."""
    kinds: tuple[set[str], ...] = (set(), {NOT_YET}, {HIGH, LOW}, {NOT_YET, HIGH, LOW})
    at, found = timeline.index(READ), []
    for before, read, after, once in product(kinds, (False, True), kinds, (False, True)):
        stream = ["appears" if what in before else "nothing" for what in timeline[:at]]
        stream.append("appears" if read else "nothing")
        stream += ["appears" if what in after else "nothing" for what in timeline[at + 1 :]]
        if once and at + 1 < len(timeline):
            stream[at + 1] = "appears"
        found.append(stream)
    return found


def found_over_many(shares: Shares, *, sides: bool, reach: int = 30) -> float:
    """The largest loss over 24 observations with three moves, others doing their worst as far as we know it."""
    model, worst = Model.of(shares, reach=reach), 0.0
    for moved, reading, far in product((HIGH, LOW), (1, 12), (0, 3)):
        timeline = [NOT_YET] * 24
        timeline[15] = timeline[18] = timeline[21] = moved
        timeline.insert(reading, READ)
        # Where the bar is low a "not yet" tells most, and where it is high a move does.
        bars = [-far if what == NOT_YET else far for what in timeline]
        for above in (True, False) if sides else (True,):
            where = [above if what == NOT_YET else (not above if sides else True) for what in timeline]
            worst = max(worst, loss_of(likelihoods(model, timeline, patterns(timeline), bars, where)))
    return worst


def test_over_many_observations_less_is_lost_than_is_claimed() -> None:
    found = found_over_many(SMALL, sides=False)

    assert 0.55 * SMALL.loss(3) < found < SMALL.loss(3)
    assert found == pytest.approx(found_over_many(SMALL, sides=False, reach=40), abs=0.001)


def test_where_others_choose_the_side_of_the_last_release_a_test_of_both_sides_loses_more() -> None:
    falling = replace(SMALL, rising=False)
    upwards, either = (found_over_many(falling, sides=sides) for sides in (False, True))

    assert upwards == pytest.approx(found_over_many(SMALL, sides=False), abs=1e-9)
    assert upwards + 1.5 < either < falling.loss(3)
    assert either > 0.7 * falling.loss(3)

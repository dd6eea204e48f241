"""The auditor against an enumeration that shares none of its shortcuts."""

import math
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import planted
import pytest
from hypothesis import given
from hypothesis import strategies as st
from whole_runs import all_runs, law_of, without

from panprivacy import Density, audit
from panprivacy.audit.enumeration.loss import Hidden, Weights, widest
from panprivacy.audit.enumeration.outcomes import Noised, RealLaplace
from panprivacy.errors import BudgetExhausted
from panprivacy.privacy.coins import ONE, Coins
from panprivacy.privacy.noise import Laplace
from panprivacy.privacy.pairs import Pair, symmetric
from panprivacy.testing import refused


def plain_worst_loss(make: Any, users: int, length: int, releases: int, verbs: tuple[str, ...]) -> float:
    """Whole runs under all coins, all pairs of streams: slow, and with nothing in common but the coin source."""
    runs = sorted(set(all_runs(users, length, releases, verbs)))
    laws = {run: law_of(make, run) for run in runs}
    worst = 0.0
    for a, b in product(runs, repeat=2):
        if a != b and any(without(a, user) == without(b, user) for user in range(users)):
            worst = max(worst, loss_between(laws[a], laws[b]))
    return worst


def loss_between(a: Any, b: Any) -> float:
    worst = 0.0
    for seen in a:
        columns = zip(*{*a[seen], *b[seen]}, strict=True)
        # Integers well beyond the values under the noise, to see that nothing worse lies there.
        for point in product(*(range(int(min(c)) - 2, int(max(c)) + 3) for c in columns)):
            found = [
                sum(
                    float(weight) * math.exp(-0.5 * sum(abs(o - float(v)) for o, v in zip(point, values, strict=True)))
                    for values, weight in law[seen].items()
                )
                for law in (a, b)
            ]
            worst = max(worst, abs(math.log(found[0] / found[1])))
    return worst


@pytest.mark.slow
@pytest.mark.parametrize(
    ("users", "length", "releases", "verbs"),
    [(2, 2, 1, ("update",)), (2, 1, 1, ("update", "remove")), (1, 2, 2, ("update",)), (1, 1, 2, ("update", "remove"))],
)
@pytest.mark.parametrize("pair", [symmetric(0.5), Pair(ONE // 2, 3 * ONE // 4), Pair(ONE // 8, ONE // 4)])
def test_it_agrees_with_whole_runs_of_all_pairs_of_streams(
    users: int, length: int, releases: int, verbs: tuple[str, ...], pair: Pair
) -> None:
    def make(coins: Coins) -> planted.Bits:
        return planted.Bits(users, pair, Fraction(1, 2), coins)

    found = audit.exact(make, users, length, releases=releases, deletions="remove" in verbs)

    assert found.worst_loss == pytest.approx(plain_worst_loss(make, users, length, releases, verbs), abs=1e-9)


law = st.lists(st.tuples(st.integers(-3, 3), st.integers(1, 9)), min_size=1, max_size=4)


@pytest.mark.slow
@given(law, law, st.sampled_from([0.1, 0.7, 3.0]), st.booleans())
def test_no_output_between_or_beyond_the_values_under_the_noise_tells_more(
    one: list[tuple[int, int]], other: list[tuple[int, int]], rate: float, whole: bool
) -> None:
    hidden = {
        v: Hidden((Noised(Fraction(v), (Laplace if whole else RealLaplace)(Fraction(rate))),)) for v in range(-3, 4)
    }
    laws = [Weights(1), Weights(1)]
    for weights, masses in zip(laws, (one, other), strict=True):
        for value, share in masses:
            weights.add(hidden[value], share)
    gap = widest(laws)
    assert gap is not None

    outputs = np.linspace(-6, 6, 1201)
    a, b = (sum(share * np.exp(-rate * abs(outputs - value)) for value, share in masses) for masses in (one, other))
    assert float(gap.ratio) == pytest.approx(float(np.maximum(a / b, b / a).max()), rel=1e-9)


def test_the_loss_of_one_bit_seen_once_is_that_of_its_pair() -> None:
    pair = Pair(ONE // 4, ONE // 2)
    result = audit.exact(lambda coins: planted.Bits(1, pair, Fraction(1), coins), 1, 1, releases=0)

    assert result.worst_loss == pair.loss


def test_an_estimator_that_nobody_influences_loses_nothing() -> None:
    class Deaf(planted.Bits):
        def update(self, user: int) -> None:
            pass

    result = audit.exact(lambda coins: Deaf(2, symmetric(1.0), Fraction(1), coins), 2, 2)

    assert result.worst_loss == 0
    assert result.witness is None
    assert str(result).startswith("worst loss 0.000000, claimed")


def test_more_releases_than_planned_are_refused_by_the_estimator() -> None:
    with pytest.raises(BudgetExhausted):
        audit.exact(lambda coins: Density(2, 1.0, coins=coins), 2, 1, releases=2)


def test_listed_streams_are_audited_with_their_beginnings_and_removals() -> None:
    def make(coins: Coins) -> planted.Bits:
        return planted.Bits(1, symmetric(0.5), Fraction(1, 2), coins)

    short = audit.exact(make, 1, streams=[[0]])
    full = audit.exact(make, 1, streams=[[0, audit.Removal(0), 0]])

    assert short.worst_loss == full.worst_loss == audit.exact(make, 1, 3, deletions=True).worst_loss
    assert audit.exact(make, 1, streams=[[]]).worst_loss == 0


def test_what_cannot_be_audited_is_refused_in_words() -> None:
    def make(coins: Coins) -> planted.Bits:
        return planted.Bits(1, symmetric(0.5), Fraction(1, 2), coins)

    with refused("audit-negative"):
        audit.exact(make, 1, -1)
    with refused("audit-user", "user 7"):
        audit.exact(make, 1, streams=[[7]])
    with refused("draw-too-wide"):
        audit.exact(lambda coins: Density(5, 1.0, sample=2, coins=coins), 5)


def test_users_may_have_any_ids() -> None:
    from panprivacy import Users

    result = audit.exact(lambda coins: Density(Users(["ada", "grace"]), 1.0, coins=coins), ["ada", "grace"], 1)

    assert result.holds
    assert "ada appears" in str(result.witness)


def test_a_witness_reads_like_a_report() -> None:
    result = audit.exact(lambda coins: planted.Bits(2, symmetric(0.5), Fraction(1, 2), coins), 2, 1)

    assert str(result) == (
        "worst loss 0.839185, claimed 0.839185: the claim holds\n"
        "Streams that differ in the events of user 0:\n"
        "  A: state read, 0 appears, release\n"
        "  B: 0 appears, state read, release\n"
        "Seen: state bits=[False, False]; released >= 1\n"
        "Moment: read after 0 events of A and 1 of B\n"
        "Probability: 0.0807984 under A, 0.03491 under B"
    )
    assert result.witness is not None
    assert result.witness.sentence == (
        "state bits=[False, False]; released >= 1: 0.0808 after 'state read, 0 appears, release', "
        "0.0349 after '0 appears, state read, release'"
    )


def test_a_result_is_plain_data() -> None:
    import json

    infinite = audit.exact(lambda coins: Density(1, 1.0, coins=coins), 1, 1, readings=2)
    told = json.loads(json.dumps(infinite.as_dict()))

    assert told["worst_loss"] == "infinite"
    assert told["holds"] is False
    assert told["witness"]["probability_b"] == 0

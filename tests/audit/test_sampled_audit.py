"""The statistical auditor refutes what is wrong and lets stand what is right.

Each bound is wrong with probability 1e-6; the seeds are fixed.
"""

import warnings
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import planted
import pytest

from panprivacy import Density, audit, paper
from panprivacy.audit.sampling import clopper_pearson, columns, snapshot
from panprivacy.privacy.pairs import symmetric
from panprivacy.testing import refused, table_of

pytestmark = pytest.mark.slow

USERS = 1000
OTHERS = np.arange(1, USERS // 2)
LATE = [OTHERS, audit.READ, 0, audit.RELEASE]
EARLY = [OTHERS, 0, audit.READ, audit.RELEASE]


@pytest.fixture(autouse=True)
def _knowing() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", paper.NotPrivateAsPrinted)
        yield


def test_it_refutes_the_printed_dwork_with_a_thousand_users() -> None:
    bound = audit.sampled(lambda coins: paper.Dwork(USERS, 0.1, USERS, coins=coins), LATE, EARLY, runs=2000)

    assert bound.refutes
    assert 0.5 < bound.loss_at_least < 3.423
    assert bound.claimed == 0.2
    assert "less what the state predicts" in bound.event
    assert "refuted" in str(bound)


def test_it_lets_density_stand() -> None:
    bound = audit.sampled(lambda coins: Density(USERS, 1.0, coins=coins), LATE, EARLY, runs=1000)

    assert not bound.refutes
    assert 0.05 < bound.loss_at_least < 1  # the reading of the bit is noticed
    assert "not refuted" in str(bound)


def test_it_refutes_noise_that_is_too_small() -> None:
    def make(coins: Any) -> planted.Bits:
        est = planted.Bits(3, symmetric(0.1), Fraction(1), coins)
        est.rate *= 3
        return est

    late, early = [1, audit.READ, 0, audit.RELEASE], [1, 0, audit.READ, audit.RELEASE]

    assert audit.sampled(make, late, early, runs=4000).refutes


def test_a_count_of_events_is_refuted_by_the_state_alone() -> None:
    bound = audit.sampled(
        lambda coins: planted.CountsEvents(10, 1.0, coins=coins), [1, 0, audit.READ], [1, audit.READ], runs=1000
    )

    assert bound.refutes
    assert "events" in bound.event


def test_removals_and_redraws_can_be_part_of_a_stream() -> None:
    stream = [[1, 2], audit.READ, audit.REDRAW, audit.Removal([1]), audit.READ, audit.RELEASE]
    bound = audit.sampled(
        lambda coins: Density(5, 1.0, intrusions=1, coins=coins), [0, *stream, audit.Removal(0)], stream, runs=100
    )

    assert not bound.refutes


def test_the_same_seed_gives_the_same_bound() -> None:
    def run(seed: int) -> audit.Bound:
        return audit.sampled(
            lambda coins: Density(5, 2.0, coins=coins), [0, audit.READ], [audit.READ], runs=300, seed=seed
        )

    assert run(1) == run(1)
    assert run(1) != run(2)


@pytest.mark.parametrize(
    ("a", "b"),
    [([1, 2], [1, 3]), ([1, 2], [2, 1, 3]), ([audit.READ, 1], [1]), ([1, 2], [1, 2]), ([1, 1, 2], [2, 2, 1])],
)
def test_streams_that_are_not_adjacent_are_refused(a: list[Any], b: list[Any]) -> None:
    with refused("audit-streams"):
        audit.sampled(lambda coins: Density(5, 1.0, coins=coins), a, b)


def test_too_few_runs_are_refused() -> None:
    with refused("audit-runs", "10"):
        audit.sampled(lambda coins: Density(5, 1.0, coins=coins), [1], [], runs=10)


def test_progress_is_shown_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    audit.sampled(lambda coins: Density(5, 1.0, coins=coins), [1, audit.READ], [audit.READ], runs=100, progress=True)

    assert "runs" in capsys.readouterr().out


def test_bounds_of_a_probability_cover_it_as_often_as_they_say() -> None:
    # Exactly: over all outcomes of 30 flips, the bounds miss with probability at most 5 % each.
    from scipy.stats import binom

    hits = np.arange(31)
    low, high = clopper_pearson(hits, 30, 0.05)
    for p in np.linspace(0.01, 0.99, 99):
        mass = binom.pmf(hits, 30, p)
        assert mass[low > p].sum() <= 0.05 + 1e-12
        assert mass[high < p].sum() <= 0.05 + 1e-12
    assert (low[0], high[30]) == (0, 1)


def test_packed_bits_become_features_of_their_own() -> None:
    shots = [{"words": np.array([word], dtype=np.uint64), "size": np.array(3)} for word in (0b001, 0b011, 0b110)]
    names, values = columns(shots)

    assert names == ["words[0]", "words[1]", "words[2]", "sum of words"]
    assert values.tolist() == [[1, 0, 0, 1], [1, 1, 0, 2], [0, 1, 1, 2]]


def test_a_snapshot_is_not_changed_by_what_follows() -> None:
    est = Density(8, 1.0)
    shot = snapshot(est)
    before = shot["table.words"].copy()
    for user in range(8):
        table_of(est).redraw_one(user, True)

    assert shot["table.words"] == before


@pytest.mark.filterwarnings("ignore::panprivacy.checks.LargeDelta")
def test_a_claimed_delta_is_taken_off_what_the_runs_show() -> None:
    late, early = ([0, audit.READ, audit.RELEASE], [audit.READ, audit.RELEASE])

    def make(delta: float) -> audit.Bound:
        said = 0.1, delta
        return audit.sampled(
            lambda coins: planted.GaussianBits(1, symmetric(2.0), Fraction(1), coins, said), late, early, runs=1000
        )

    assert make(0.001).refutes
    assert make(0.001).loss_at_least > make(0.4).loss_at_least
    assert not make(0.9).refutes

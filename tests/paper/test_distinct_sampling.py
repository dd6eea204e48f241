"""Gibbons' Distinct Sampling."""

import math

import numpy as np
import pytest
from exact_laws import SILENT

from panprivacy.paper import DistinctSampling, FMHash
from panprivacy.testing import SeededCoins

pytestmark = pytest.mark.filterwarnings(SILENT)


@pytest.mark.slow
def test_below_its_size_it_counts_exactly() -> None:
    est = DistinctSampling(1000, sample=100)
    est.update_many([5, 7, 5, 900])
    assert est.estimate() == 3 / 1000
    est.remove(7)
    assert est.estimate() == 2 / 1000
    assert est.state.users == (5, 900)
    assert est.state.level == 0


def test_when_full_it_keeps_those_of_a_higher_level_and_lets_no_others_in() -> None:
    plain = FMHash(multiplier=1, offset=0, bits=4)  # levels of 1, 2, 4 and 6 are 0, 1, 2 and 1
    est = DistinctSampling(16, sample=3, hashing=plain)
    after = []
    for user in (1, 2, 4, 3, 6):
        est.update(user)
        after.append(est.state[1:])
    assert after == [(0, (1,)), (0, (1, 2)), (1, (2, 4)), (1, (2, 4)), (2, (4,))]
    assert est.estimate() == 4 * 1 / 16


def test_it_claims_no_privacy() -> None:
    est = DistinctSampling(10, sample=5)
    assert est.claimed_epsilon == math.inf
    assert "ids of users who came" in est.known_flaws[0]


def test_it_is_unbiased_over_its_hash_and_errs_as_a_sample_of_its_users_would() -> None:
    """False alarm: 1e-6, the mean of 400 runs being about normal."""
    generator = np.random.default_rng(2)
    came = generator.choice(20_000, 5_000, replace=False)
    found = []
    for run in range(400):
        est = DistinctSampling(20_000, sample=500, coins=SeededCoins(run))
        est.update_many(came)
        assert len(est.state.users) < 500
        found.append(est.estimate() - 0.25)
    assert abs(np.mean(found)) < 4.9 * np.std(found) / math.sqrt(400)
    assert 0.005 < np.std(found) < 0.03

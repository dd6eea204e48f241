"""What can be read for free has the same length, and says the same, whatever came."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import panprivacy as pp
from panprivacy.paper import FixedLevelPPDS
from panprivacy.paper.fixed_level import SparseTable
from panprivacy.privacy.coins import Coins
from panprivacy.testing import SeededCoins

KEY = bytes(range(16))
SEEDS = range(12)

ESTIMATORS: dict[str, Callable[[Coins], Any]] = {
    "density": lambda coins: pp.Density(500, 2.0, releases=3, coins=coins),
    "sampled": lambda coins: pp.Density(500, 2.0, sample=100, key=KEY, releases=3, coins=coins),
    "shard": lambda coins: pp.Density(500, 2.0, shard=(1, 3), coins=coins),
    "readings": lambda coins: pp.Density(500, 2.0, intrusions=2, coins=coins),
    "listed": lambda coins: pp.Density(pp.Users(range(500)), 2.0, coins=coins),
    "a delta": lambda coins: pp.Density(500, 2.0, releases=30, delta=1e-9, coins=coins),
    "distinct": lambda coins: pp.DistinctCount(2.0, 64, key=KEY, coins=coins),
    "distinct with a delta": lambda coins: pp.DistinctCount(2.0, 64, key=KEY, releases=30, delta=1e-9, coins=coins),
    "fixed level": lambda coins: FixedLevelPPDS(500, 2.0, 50, key=KEY, coins=coins),
    "fixed level of all": lambda coins: FixedLevelPPDS(500, 2.0, 900, intrusions=1, coins=coins),
    "continual": lambda coins: pp.Continual(500, 9.0, moves=5, coins=coins),
}


def streams(seed: int) -> list[Callable[[Any], object]]:
    """What may happen to an estimator, by a seed."""
    rng = np.random.default_rng(seed)
    some = rng.integers(0, 500, rng.integers(1, 2000))
    deleted = rng.integers(0, 500, 100)
    return [
        lambda est: est.update_many(some),
        lambda est: est.update(int(some[0])),
        lambda est: isinstance(est, pp.DistinctCount) or est.remove_many(deleted),
        lambda est: isinstance(est, pp.DistinctCount) or est.remove(int(some[0])),
        lambda est: est.update_many(range(500)),
        lambda est: isinstance(est, pp.DistinctCount) or est.remove_many(range(500)),
    ]


def told_for_free(est: Any) -> tuple[object, ...]:
    """Everything that can be read without spending, but for the bytes themselves."""
    return len(est.to_bytes(insecure=True)), est.memory, repr(est), str(est.budget)


def all_told(make: Callable[[Coins], Any]) -> set[tuple[object, ...]]:
    """What an estimator tells after many streams."""
    told = set()
    for seed in SEEDS:
        est = make(SeededCoins(seed))
        told.add(told_for_free(est))
        for happen in streams(seed):
            happen(est)
            told.add(told_for_free(est))
    return told


@pytest.mark.parametrize("name", ESTIMATORS)
def test_nothing_that_is_free_depends_on_the_stream(name: str) -> None:
    assert len(all_told(ESTIMATORS[name])) == 1


class Shortened(FixedLevelPPDS):
    """A planted bug: a list that ends with its last slot tells how many there are."""

    @property
    def memory(self) -> int:
        assert isinstance(self._table, SparseTable)
        return 8 * self._table.ones()


def test_a_list_that_is_as_long_as_the_set_would_be_noticed() -> None:
    assert len(all_told(lambda coins: Shortened(500, 2.0, 50, key=KEY, coins=coins))) > 10


@pytest.mark.parametrize("name", ESTIMATORS)
def test_releases_and_redraws_change_no_length(name: str) -> None:
    est = ESTIMATORS[name](SeededCoins(1))
    lengths = {(len(est.to_bytes(insecure=True)), est.memory)}
    (est.observe if isinstance(est, pp.Continual) else est.release)()
    lengths.add((len(est.to_bytes(insecure=True)), est.memory))
    if not isinstance(est, pp.Continual) and est.budget.redraws:
        est.rerandomize()
        lengths.add((len(est.to_bytes(insecure=True)), est.memory))
    assert len(lengths) == 1

"""Coins that draw a uniform sample without replacement."""

from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from itertools import combinations

import numpy as np
import pytest
from exact_laws import law
from numpy.typing import NDArray
from scipy import stats

from panprivacy.privacy.coins import Coins, SystemCoins
from panprivacy.testing import SeededCoins

pytestmark = pytest.mark.slow


def floyd(universe: int, size: int, coins: Coins) -> tuple[int, ...]:
    return tuple(Coins.subset(coins, universe, size).tolist())


def test_floyds_algorithm_gives_every_subset_the_same_probability() -> None:
    for universe, size in ((4, 2), (5, 3), (3, 3), (3, 0)):
        found = law(partial(floyd, universe, size))
        subsets = list(combinations(range(universe), size))
        assert found == dict.fromkeys(subsets, Fraction(1, len(subsets)))


def chance(subset: Callable[[int, int], NDArray[np.int64]], universe: int, size: int) -> float:
    """P-value of a chi-square test over all subsets, 20,000 drawn."""
    counts = Counter(tuple(subset(universe, size).tolist()) for _ in range(20_000))
    subsets = list(combinations(range(universe), size))
    assert set(counts) <= set(subsets)
    return float(stats.chisquare([counts[each] for each in subsets]).pvalue)


@pytest.mark.parametrize(("universe", "size"), [(5, 2), (5, 3), (8, 3), (6, 5)])
def test_the_fast_ways_give_every_subset_the_same_probability(universe: int, size: int) -> None:
    """False alarm: 1e-6; the coins are seeded."""
    for coins in (SystemCoins(), SeededCoins(universe)):
        assert chance(coins.subset, universe, size) > 1e-6


def test_a_subset_that_favours_someone_is_noticed() -> None:
    coins = SeededCoins(1)

    def lazy(universe: int, size: int) -> NDArray[np.int64]:
        """A planted bug: duplicates are replaced by the next one up instead of being drawn again."""
        chosen: set[int] = set()
        while len(chosen) < size:
            pick = coins.randbelow(universe)
            while pick in chosen:
                pick = (pick + 1) % universe
            chosen.add(pick)
        return np.array(sorted(chosen))

    assert chance(lazy, 8, 3) < 1e-6


@pytest.mark.parametrize(("universe", "size"), [(1, 0), (1, 1), (10, 10), (2**44, 5), (100_000, 60_000)])
def test_subsets_are_distinct_ascending_and_inside(universe: int, size: int) -> None:
    for coins in (SystemCoins(), SeededCoins(1)):
        found = coins.subset(universe, size)
        assert len(found) == size
        assert (np.diff(found) > 0).all()
        assert not size or (found[0] >= 0 and found[-1] < universe)

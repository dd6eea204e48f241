"""What anybody can learn: the shipping code under every outcome of its coins, and the merge by enumeration."""

from collections.abc import Sequence
from itertools import product
from math import exp, log

import pytest
from crowds import KEY

import panprivacy as pp
from panprivacy import audit
from panprivacy.estimators.merge import kernel
from panprivacy.privacy.budget import Budget
from panprivacy.privacy.coins import ONE, Coins
from panprivacy.privacy.noise import Laplace
from panprivacy.testing import slots_of, split_of

SHARING = [3, 4]
"""Two users that own the same bit of a table with two levels and two buckets."""


def tiny(coins: Coins, levels: int = 2, releases: int = 1, intrusions: int = 0) -> pp.DistinctCount:
    return pp.DistinctCount(
        1.0, buckets=2, levels=levels, key=bytes(16), releases=releases, intrusions=intrusions, coins=coins
    )


class Parts:
    """Tables that are merged for the first release; each user is fed to the tables listed for it."""

    def __init__(self, parts: Sequence[pp.DistinctCount], fed: dict[int, Sequence[int]], overlapping: bool) -> None:
        self._parts, self._fed, self._overlapping = list(parts), fed, overlapping

    @property
    def budget(self) -> Budget:
        return self._parts[0].budget

    def update(self, user: int) -> None:
        if len(self._parts) > 1:
            for part in self._fed[user]:
                self._parts[part].update(user)
        elif self._overlapping:  # tables side by side are not fed any more
            self._parts[0].update(user)

    def release(self) -> pp.CountRelease:
        if len(self._parts) > 1:
            self._parts = [pp.merge(self._parts, overlapping=self._overlapping)]
        return self._parts[0].release()


def test_the_two_users_do_share_a_bit() -> None:
    est = pp.DistinctCount(1.0, buckets=2, levels=2, key=bytes(16))
    first, second = (slots_of(est).slot(est.universe.index(user)) for user in SHARING)
    assert first == second


@pytest.mark.slow
@pytest.mark.parametrize("releases", [1, 2])
def test_users_lose_exactly_what_is_claimed_also_if_they_share_a_bit(releases: int) -> None:
    found = audit.exact(lambda coins: tiny(coins, releases=releases), SHARING, length=2, releases=releases)
    assert found.holds
    assert found.worst_loss == pytest.approx(1.0, abs=1e-6)


def test_announced_readings_lose_no_more_than_is_claimed() -> None:
    found = audit.exact(lambda coins: tiny(coins, levels=1, intrusions=1), SHARING[:1], length=2, intrusions=1)
    assert found.holds


@pytest.mark.slow
@pytest.mark.parametrize("overlapping", [False, True])
def test_a_user_in_one_of_the_merged_tables_loses_no_more_though_all_are_read(overlapping: bool) -> None:
    def make(coins: Coins) -> Parts:
        return Parts([tiny(coins, levels=1) for _ in range(2)], {3: [0], 5: [1]}, overlapping)

    assert audit.exact(make, [3, 5], length=2).holds


@pytest.mark.slow
def test_a_user_in_two_tables_that_are_read_together_loses_less_than_twice_as_much() -> None:
    def make(coins: Coins) -> Parts:
        return Parts([tiny(coins, levels=1) for _ in range(2)], {3: [0, 1]}, overlapping=True)

    found = audit.exact(make, [3], length=2)
    assert not found.holds  # the promise is made for one table read
    assert 1.0 < found.worst_loss < 2.0


def test_a_user_in_two_tables_of_which_one_is_read_loses_no_more_than_is_claimed() -> None:
    """By enumeration of the two bits: one table read before the merge, or the merge read; three releases in all."""
    coins = pp.DistinctCount(1.0, buckets=2, levels=1, key=KEY, releases=3)
    split = split_of(coins)
    assert isinstance(split.noise, Laplace)
    pair, each = split.pair, float(split.noise.epsilon)
    keep = kernel(pair, pair)
    p0, p1 = float(pair.p0), float(pair.p1)

    def bit(present: bool, value: int) -> float:
        chance = p1 if present else p0
        return chance if value else 1 - chance

    def law(stream: tuple[bool, ...], side: tuple[int, ...]) -> dict[tuple[str, int], float]:
        """What is seen of a user in table 1 before and after the reading and in table 2, released towards `side`.

        A release that is far to one side weighs a bit b by ``e^(±each*b)``: no other outcome tells more.
        """
        first, later, second = stream
        seen: dict[tuple[str, int], float] = {}
        for read, redrawn, other, union in product((0, 1), repeat=4):
            moved = bit(later, redrawn) if later else float(redrawn == read)
            drawn = keep[redrawn][other] / ONE
            weight = bit(first, read) * moved * bit(second, other) * (drawn if union else 1 - drawn)
            weight *= exp(each * (side[0] * redrawn + side[1] * other + side[2] * union))
            for what, value in (("table 1", read), ("merge", union)):
                seen[what, value] = seen.get((what, value), 0.0) + weight
        return seen

    worst = 0.0
    for side in product((-1, 1), repeat=3):
        laws = [law(stream, side) for stream in product((False, True), repeat=3)]
        worst = max(worst, *(log(a[what] / b[what]) for a in laws for b in laws for what in a))
    assert split.pair.loss < worst <= split.loss(3, 0)

"""Users who come to a `Counts` later: everybody else's counter and bit stay, and theirs are drawn anew."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

import panprivacy as pp
from checks import ALARM
from panprivacy.table import Counters
from panprivacy.testing import SeededCoins, refused, table_of

NAMES = [f"user {i}" for i in range(50)]


@pytest.mark.parametrize("up_to", [2, 3, 8, 200])
def test_fields_move_as_they_are(up_to: int) -> None:
    est = pp.Counts(pp.Users(NAMES), 2.0, up_to, coins=SeededCoins(1))
    est.update_many(NAMES[:30])
    before = dict(zip(sorted(NAMES), table_of(est).fields(), strict=True))
    est.grow(["aaron", "user 7x", "zoe"])
    after = dict(zip(sorted([*NAMES, "aaron", "user 7x", "zoe"]), table_of(est).fields(), strict=True))

    assert {name: after[name] for name in NAMES} == before
    est.update_many(["zoe", "user 1"])
    assert (est.users, est.release().universe, est.last is None) == (53, 53, False)


def test_groups_grow_with_the_groups_of_newcomers() -> None:
    est = pp.Counts(pp.Users(["ada", "grace"], groups=["north", "south"]), 2.0, releases=2)
    est.release()
    est.grow(pp.Users(["mary", "emmy"], groups=["north", "isle"]))

    assert est.last is None
    assert {row.group: row.universe for row in est.release().groups} == {"north": 2, "south": 1, "isle": 1}
    assert pp.load(est.to_bytes()).groups == est.groups


def newcomers(est: pp.Counts) -> Any:
    """How many of 40,000 newcomers stand at each place."""
    est.grow(est.users + 40_000)
    return np.bincount([counter for counter, _ in table_of(est).fields()[-40_000:]], minlength=est.up_to)


def test_where_the_counters_of_newcomers_begin_nobody_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chi-square test, with a false alarm in a million."""
    est = pp.Counts(10, 2.0, 5, coins=SeededCoins(3))
    assert stats.chisquare(newcomers(est)).pvalue > ALARM
    # Counters that begin at 0, as those of a table that nobody has drawn, are noticed.
    undrawn = lambda size, pair, coins, up_to: Counters.empty(size, up_to)  # noqa: ARG005, E731
    est = pp.Counts(10, 2.0, 5, coins=SeededCoins(3))
    monkeypatch.setattr(Counters, "drawn", undrawn)
    assert stats.chisquare(newcomers(est)).pvalue < ALARM


def test_what_cannot_grow_says_why() -> None:
    with refused("cannot-grow", "a Counts with categories"):
        pp.Counts(10, 1.0, categories=["a"]).grow(20)
    with refused("cannot-grow", "a shard"):
        pp.Counts(10, 1.0, shard=(0, 2)).grow(20)
    with refused("cannot-grow"):
        pp.Counts(4, 1.0, groups=list("aabb")).grow(20)

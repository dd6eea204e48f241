"""A universe that grows: everybody keeps the bit that is theirs, and the newcomers get one."""

from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import panprivacy as pp
from panprivacy import audit
from panprivacy.paper import FixedLevelPPDS
from panprivacy.privacy.coins import ONE, Coins
from panprivacy.table import Table
from panprivacy.testing import coins_of, refused, slots_of, split_of, table_of
from sources import Recorded, Scripted


def revealing(universe: Any) -> pp.Density:
    """A Density without privacy: a bit is 1 if and only if its user appeared."""
    return pp.Density(universe, epsilon=1.0, coins=Scripted(lambda threshold, n: np.full(n, threshold > ONE // 2)))


def bits(est: pp.Density) -> list[bool]:
    found: list[bool] = table_of(est).bits(0, table_of(est).size).tolist()
    return found


kinds: list[st.SearchStrategy[Any]] = [
    st.integers(-(2**63), 2**63 - 1),
    st.text(st.characters(codec="utf-8"), max_size=3),
    st.binary(max_size=3),
]
two_lists = st.sampled_from(kinds).flatmap(lambda kind: st.tuples(*[st.lists(kind, min_size=1, max_size=90)] * 2))


@pytest.mark.slow
@settings(max_examples=50)
@given(two_lists, st.randoms(use_true_random=False))
def test_who_appeared_before_and_after_is_who_is_seen(lists: tuple[list[Any], list[Any]], random: Any) -> None:
    old, new = lists
    est = revealing(pp.Users(old))
    early = random.sample(old, len(old) // 2)
    late = random.sample([*old, *new], len(new) // 2)
    est.update_many(early)
    est.grow(new)
    est.update_many(late)
    everybody = pp.Users([*old, *new])
    assert est.universe.fingerprint == everybody.fingerprint  # type: ignore[attr-defined]
    seen = {everybody.index(user) for user in [*early, *late]}
    assert bits(est) == [place in seen for place in range(everybody.size)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ([5, 7], [2**63, 6]),
        (np.array([5, 7], dtype=np.uint8), np.array([300, -2])),
        (["a", 5], [("b", 1), 3]),
        ([5, 7], [5, 7]),
        (pl.Series(["b", "d"]), pp.Users(["a", "c"])),
    ],
)
def test_a_list_grows_whatever_holds_it(old: Any, new: Any) -> None:
    est = revealing(pp.Users(old))
    first = est.universe.listed(0, 1)[0]  # type: ignore[attr-defined]
    est.update(first)
    est.grow(new)
    assert np.flatnonzero(bits(est)).tolist() == [est.universe.index(first)]


@pytest.mark.parametrize(("size", "more"), [(10, 70), (64, 65), (100, 100), (70_000, 200_001)])
def test_a_range_grows_behind_its_last_user(size: int, more: int) -> None:
    est = revealing(size)
    est.update_many(range(0, size, 3))
    est.grow(more)
    est.update(more - 1)
    assert np.flatnonzero(bits(est)).tolist() == sorted({*range(0, size, 3), more - 1})


def test_the_new_bits_are_drawn_with_the_coin_of_an_absent_user_as_it_is_now() -> None:
    coins = Recorded(coins_of(pp.Density(2, 1.0)))
    est = pp.Density(1000, 1.0, intrusions=1, coins=coins)
    est.rerandomize()
    coins.flips_asked.clear()
    est.grow(1500)
    after = split_of(est).pair_after(1)
    assert {threshold for threshold, _ in coins.flips_asked} == {after.absent}
    assert after.absent != split_of(est).pair.absent


def test_the_table_that_the_bits_have_left_holds_nothing() -> None:
    est = pp.Density(1000, 1.0)
    before = table_of(est).words
    est.grow(2000)
    assert not before.any()


def test_the_budget_stays_and_the_error_follows_the_size() -> None:
    est = pp.Density(1000, 1.0, releases=3)
    first = est.release()
    budget, error = est.budget, est.density_stderr_at(0.5)
    est.grow(4000)
    assert est.budget == budget
    assert est.last is None  # it was about 1000 users
    assert est.density_stderr_at(0.5) < error
    second = est.release()
    assert (first.universe, second.universe, second.number) == (1000, 4000, 2)
    assert pp.load(est.to_bytes()).users == 4000


@pytest.mark.slow
def test_the_estimate_is_of_the_larger_universe() -> None:
    """Five standard errors: a false alarm in 1.7 million runs, and the coins are not seeded."""
    est = pp.Density(pp.Users(range(0, 200_000, 2)), 2.0)
    est.update_many(range(0, 100_000, 2))
    est.grow(range(1, 200_000, 2))
    est.update_many(range(1, 50_000, 2))
    found = est.release()
    assert abs(found.raw_density - 0.375) < 5 * est.density_stderr_at(0.375)


def unlisted() -> pp.Density:
    est: pp.Density = pp.load(pp.Density(pp.Users(["a", "b"]), 1.0).to_bytes())
    return est


REFUSED: dict[str, tuple[Any, Any, tuple[str, ...]]] = {
    "sample": (lambda: pp.Density(100, 1.0, sample=50), 200, ("cannot-grow", "sample")),
    "shard": (lambda: pp.Density(100, 1.0, shard=(0, 2)), 200, ("cannot-grow", "shard")),
    "graph": (lambda: pp.Density(pp.Edges(9), 1.0), 20, ("cannot-grow", "9 nodes")),
    "no list": (unlisted, ["c"], ("cannot-grow", "not loaded")),
    "smaller": (lambda: pp.Density(100, 1.0), 99, ("cannot-shrink", "100 users", "99")),
    "ids to a range": (lambda: pp.Density(100, 1.0), [100], ("grow-type", "0..99")),
    "number to a list": (lambda: pp.Density(pp.Users([5]), 1.0), 7, ("users-type", "int")),
    "text to numbers": (lambda: pp.Density(pp.Users([5]), 1.0), ["007"], ("ids-type", "64 bits")),
    "too large": (lambda: pp.Density(pp.Users([-5]), 1.0), [2**64], ("ids-type", "64 bits")),
    "fixed level": (lambda: FixedLevelPPDS(100, 9.0, 200), 200, ("cannot-grow", "FixedLevelPPDS")),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_grow_says_why_and_stays_as_it_was(name: str) -> None:
    make, more, named = REFUSED[name]
    est = make()
    before = est.to_bytes()
    with refused(*named):
        est.grow(more)
    assert est.to_bytes() == before


def test_growing_that_fails_halfway_leaves_all_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Table] = []

    def failing(table: Table, *_: Any) -> None:
        drawn.append(table)
        raise MemoryError

    est = pp.Density(1000, 1.0)
    before = est.to_bytes()
    monkeypatch.setattr(Table, "place", failing)
    with pytest.raises(MemoryError):
        est.grow(2000)
    assert est.to_bytes() == before
    assert not drawn[0].words.any()


@pytest.mark.slow
def test_events_of_other_threads_find_their_users_while_the_list_grows() -> None:
    old = [f"user {i:05}" for i in range(0, 2000, 2)]
    est = revealing(pp.Users(old))

    def one_by_one(part: int) -> None:
        for user in old[part::4]:
            est.update(user)

    def in_batches() -> None:
        for at in range(2, len(old), 4):
            est.update_many(old[at : at + 2])

    feeding = [Thread(target=one_by_one, args=(0,)), Thread(target=one_by_one, args=(1,)), Thread(target=in_batches)]
    for thread in feeding:
        thread.start()
    for i in range(1, 200, 2):
        est.grow([f"user {i:05}"])
    for thread in feeding:
        thread.join()
    assert np.flatnonzero(bits(est)).tolist() == [est.universe.index(user) for user in old]


def test_a_state_file_grows_with_its_estimator(tmp_path: Path) -> None:
    path, est = tmp_path / "flu.pp", pp.Density(pp.Users(["b", "d"]), 1.0)
    with pp.StateFile(path).locked() as file:
        est.save(file)
        before = path.stat().st_size
        est.grow([f"c{i}" for i in range(1000)])
        est.save(file)
        blob = est.to_bytes()
    assert path.stat().st_size > before
    assert pp.load(path, est.universe).to_bytes() == blob


# --- under every outcome of the coins -------------------------------------------------------------------------------


class Grown:
    """A list that grows by its first user just before the first release; until then nobody counts that user."""

    def __init__(self, est: pp.Density, newcomer: str) -> None:
        self._est = est
        self._newcomer = newcomer

    @property
    def budget(self) -> Any:
        return self._est.budget

    def _counted(self, user: str) -> bool:
        return user != self._newcomer or self._est.users > 2

    def update(self, user: str) -> None:
        if self._counted(user):
            self._est.update(user)

    def remove(self, user: str) -> None:
        if self._counted(user):
            self._est.remove(user)

    def rerandomize(self) -> None:
        self._est.rerandomize()

    def release(self) -> pp.Release:
        self._est.grow([self._newcomer])
        return self._est.release()


def audited(kind: type[pp.Density], releases: int, intrusions: int = 0) -> audit.Result:
    def make(coins: Coins) -> Grown:
        return Grown(kind(pp.Users(["ben", "cem"]), 1.0, coins=coins, releases=releases, intrusions=intrusions), "ada")

    return audit.exact(make, ["ada", "ben", "cem"], 2, deletions=True, releases=releases, intrusions=intrusions)


@pytest.mark.slow
@pytest.mark.parametrize(("releases", "intrusions"), [(1, 0), (2, 0), (1, 1)])
def test_an_estimator_that_grew_loses_what_it_claims_and_no_more(releases: int, intrusions: int) -> None:
    result = audited(pp.Density, releases, intrusions)
    assert result.holds, str(result)
    assert result.worst_loss == pytest.approx(1.0, abs=1e-6)


class StaysInPlace(pp.Density):
    """Bits stay where they are, though their users move: who appears before and after owns two of them."""

    def _move_to(self, universe: Any) -> None:
        numbered = pp.Density(self._universe.size, 1.0, coins=self._coins)
        numbered._table, numbered._ledger = self._table, self._ledger
        numbered.grow(universe.size)
        self._table, self._slots = table_of(numbered), slots_of(numbered)
        self._set_universe(universe)


class StartsWithZeros(pp.Density):
    """The bits of newcomers are zeros, and no coins: a one tells that its user appeared."""

    def _move_to(self, universe: Any) -> None:
        super()._move_to(universe)
        self._table.redraw_one(0, flip=False)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [StaysInPlace, StartsWithZeros])
def test_bits_that_are_not_moved_or_not_drawn_are_found(kind: type[pp.Density]) -> None:
    assert not audited(kind, releases=2).holds

"""Feeding: insertions and deletions in order, missing ids."""

from itertools import product
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from event_files import fed, revealing, seen, write
from hypothesis import given
from hypothesis import strategies as st

import panprivacy as pp
from panprivacy.estimators.distinct import DistinctCount
from panprivacy.ingest import BadInput, Batch, Columns, Kind
from panprivacy.ingest.feed import BatchFeeder
from panprivacy.testing import CertainCoins, coins_of, refused
from sources import Recorded

ACTIONS = Columns(("user",), Kind.integers, action="do")
EDGES = Columns(("src", "dst"), Kind.integers, action="do")


def _take(est: Any, columns: Columns, rows: pl.DataFrame, **options: Any) -> None:
    BatchFeeder(est, columns, **options).take(Batch("f", rows, 0, 0))


events = st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["insert", "delete"])), min_size=1, max_size=30)


@pytest.mark.slow
@given(events, st.integers(1, 30))
def test_batches_of_insertions_and_deletions_end_as_row_by_row(rows: list[tuple[int, str]], size: int) -> None:
    est = revealing(10)
    present: set[int] = set()
    for user, action in rows:
        (present.add if action == "insert" else present.discard)(user)
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        _take(est, ACTIONS, pl.DataFrame(part, schema=["user", "do"], orient="row"))
    assert seen(est) == present


pairs = st.tuples(st.integers(0, 3), st.integers(0, 3)).filter(lambda edge: edge[0] != edge[1])


@pytest.mark.slow
@given(st.lists(st.tuples(pairs, st.sampled_from(["insert", "delete"])), min_size=1, max_size=30), st.booleans())
def test_an_edge_is_the_same_whichever_way_round_unless_directed(
    rows: list[tuple[tuple[int, int], str]], directed: bool
) -> None:
    universe = pp.Edges(4, directed)
    est = revealing(universe)
    present: set[int] = set()
    for edge, action in rows:
        (present.add if action == "insert" else present.discard)(universe.index(edge))
    _take(est, EDGES, pl.DataFrame([(*edge, do) for edge, do in rows], schema=["src", "dst", "do"], orient="row"))
    assert seen(est) == present


def test_only_the_last_action_of_a_user_is_drawn() -> None:
    coins = Recorded(coins_of(revealing(10)))
    est = pp.Density(10, epsilon=1.0, coins=coins)
    coins.flips_asked.clear()
    _take(est, ACTIONS, pl.DataFrame({"user": [1, 1, 1, 2], "do": ["insert", "delete", "insert", "delete"]}))
    assert sum(n for _, n in coins.flips_asked) == 2


class Tallied(pp.Counts):
    """Counts that also keeps the counts themselves, for all to see."""

    tally: list[int]

    def update_many(self, ids: Any, *_: Any, **__: Any) -> None:
        for user in ids:
            self.tally[user] += 1

    def remove_many(self, ids: Any, *_: Any, **__: Any) -> None:
        for user in ids:
            self.tally[user] = max(self.tally[user] - 1, 0)


def tallied(rows: list[tuple[int, str]], before: int = 0) -> list[int]:
    est = Tallied(10, epsilon=1.0)
    est.tally = [before] * 10
    _take(est, ACTIONS, pl.DataFrame(rows, schema=["user", "do"], orient="row"))
    return est.tally


@pytest.mark.parametrize("before", range(4))
def test_a_count_after_a_batch_of_insertions_and_deletions_is_that_of_row_by_row(before: int) -> None:
    for actions in product(["insert", "delete"], repeat=5):
        count = before
        for action in actions:
            count = count + 1 if action == "insert" else max(count - 1, 0)
        rows = [(user, action) for action in actions for user in (7, 1)]
        expected = [before] * 10
        expected[1] = expected[7] = count
        expected[3] += 2
        assert tallied([(3, "insert"), *rows, (3, "insert")], before) == expected


def test_a_deletion_leaves_the_repeats_of_others_in_a_count() -> None:
    others = [(user, "insert") for user in range(1, 10) for _ in range(user)]
    for place in (0, 20, len(others)):
        assert tallied([*others[:place], (0, "delete"), *others[place:]]) == tallied(others) == [*range(10)]


def test_a_user_outside_refuses_its_batch_of_counts_though_its_rows_cancel_out() -> None:
    with refused("outside-universe", "row 2"):
        tallied([(1, "insert"), (10, "insert"), (10, "delete")])


@pytest.mark.parametrize(("insert", "delete"), [("insert", "delete"), ("INSERT", "Delete"), ("+", "-"), (1, -1)])
def test_actions_are_spelled_in_several_ways(insert: Any, delete: Any) -> None:
    est = revealing(10)
    _take(est, ACTIONS, pl.DataFrame({"user": [1, 2, 1], "do": [insert, insert, delete]}))
    assert seen(est) == {2}


def test_an_unknown_action_is_named() -> None:
    rows = pl.DataFrame({"user": [None, 1, 2], "do": ["x", "insert", "upsert"]})
    with refused("unknown-action", "row 3", "'upsert'"):
        _take(revealing(10), ACTIONS, rows, skip_missing=True)
    with refused("unknown-action", "row 1"):
        _take(revealing(10), ACTIONS, pl.DataFrame({"user": [1], "do": [None]}))


def test_skipped_rows_leave_no_trace() -> None:
    rows = pl.DataFrame({"user": [1, None, 3, None]})
    feed = BatchFeeder(revealing(10), Columns(("user",), Kind.integers), skip_missing=True)
    before = dict(vars(feed))
    feed.take(Batch("f", rows, 0, 0))
    assert vars(feed) == before


def test_an_edge_with_one_end_is_missing(tmp_path: Path) -> None:
    columns = Columns(("src", "dst"), Kind.integers)
    file = write(pl.DataFrame({"src": [0, None, 2], "dst": [1, 1, None]}), tmp_path / "f.csv")
    with refused("missing-value", "row 2"):
        fed(revealing(pp.Edges(4)), file, columns)
    est = revealing(pp.Edges(4))
    fed(est, file, columns, skip_missing=True)
    assert len(seen(est)) == 1


@pytest.mark.parametrize(
    ("universe", "ids", "left"),
    [
        (10, [3, 10, -1, 9, 2**40], {3, 9}),
        (pp.Users([5, 7]), [5, 6, 7, -5], {0, 1}),
        (pp.Users(["ada", "mary"]), ["mary", "eve", "bob"], {1}),
    ],
    ids=["range", "listed integers", "listed text"],
)
def test_users_outside_can_be_left_out(universe: Any, ids: list[Any], left: set[int]) -> None:
    est = revealing(universe)
    kind = Kind.text if isinstance(ids[0], str) else Kind.integers
    rows = pl.DataFrame({"user": ids, "do": ["insert"] * len(ids)})
    feed = BatchFeeder(est, Columns(("user",), kind, action="do"), skip_outside=True)
    feed.take(Batch("f", rows, 0, 0))
    assert seen(est) == left
    feed.take(Batch("f", rows[1:2], len(rows), 0))  # nobody is left
    assert seen(est) == left


@pytest.mark.parametrize(
    ("universe", "ids", "spelled"),
    [
        (pp.Users(["007", "012"]), ["8", "13"], "ids are like '8' here, and like '007' in the list; are leading zeros"),
        (pp.Users(["Ada"]), ["ida"], "like 'ida' here, and like 'Ada' in the list"),
        (pp.Users([5, 7]), [50, 70], "like 50 here, and like 5 in the list"),
        (10, [1001, 1002], "like 1001 here, and 0..9 there"),
    ],
    ids=["zeros", "case", "integers", "range"],
)
def test_where_everybody_would_be_left_out_ids_are_spelled_otherwise(
    universe: Any, ids: list[Any], spelled: str
) -> None:
    est = revealing(universe)
    kind = Kind.text if isinstance(ids[0], str) else Kind.integers
    batch = Batch("f", pl.DataFrame({"user": [None, *ids]}), 0, 0)
    for verb in ("take", "check"):
        feed = BatchFeeder(est, Columns(("user",), kind), skip_outside=True, skip_missing=True)
        with refused("outside-universe", len(ids), spelled):
            getattr(feed, verb)(batch)
    assert seen(est) == set()


@pytest.mark.parametrize("strangers", [1, 1000])
def test_strangers_do_not_end_a_pipe_for_then_one_user_among_them_would_be_seen(strangers: int) -> None:
    est = revealing(10)
    feed = BatchFeeder(est, Columns(("user",), Kind.integers), skip_outside=True, live=True)
    for ids in ([11] * strangers, [3]):
        feed.take(Batch("standard input", pl.DataFrame({"user": ids}), 0, 0))
    assert seen(est) == {3}


@pytest.mark.parametrize("skips", [True, False])
def test_a_row_in_no_listed_category_or_with_an_unknown_action_is_left_out_or_refuses_its_batch(skips: bool) -> None:
    est = pp.Density(10, 60.0, categories=["flu"], coins=CertainCoins())
    columns = Columns(("user",), Kind.integers, "do", None, "what")
    rows = pl.DataFrame(
        {"user": [1, 2, 3, 4], "do": ["add", "add", "add", "burn"], "what": ["flu", "gout", None, "flu"]}
    )
    feed = BatchFeeder(est, columns, skip_unlisted=skips)
    if skips:
        feed.check(Batch("f", rows, 0, 0))
        feed.take(Batch("f", rows, 0, 0))
    else:
        for bad in (1, 2, 3):
            with pytest.raises(BadInput):
                feed.take(Batch("f", rows[[0, bad]], 0, 0))
    assert round(est.release().groups[0].count) == (1 if skips else 0)


def test_a_file_without_rows_says_nothing_about_spelling() -> None:
    feed = BatchFeeder(revealing(10), Columns(("user",), Kind.integers), skip_outside=True)
    feed.take(Batch("f", pl.DataFrame({"user": []}, schema={"user": pl.Int64}), 0, 0))
    with refused("outside-universe", "first 1 row"):
        feed.take(Batch("f", pl.DataFrame({"user": [11]}), 0, 0))


def test_edges_outside_can_be_left_out() -> None:
    est = revealing(pp.Edges(4))
    rows = pl.DataFrame({"src": [0, 1, 2, 3], "dst": [1, 1, 9, 2]})
    _take(est, Columns(("src", "dst"), Kind.integers), rows, skip_outside=True)
    assert seen(est) == {pp.Edges(4).index((0, 1)), pp.Edges(4).index((2, 3))}


def test_an_edge_outside_the_graph_is_named(tmp_path: Path) -> None:
    file = write(pl.DataFrame({"src": [0, 1], "dst": [1, 9]}), tmp_path / "f.parquet")
    with refused("outside-universe", "row 2", "1", "9", "0..3"):
        fed(revealing(pp.Edges(4)), file, Columns(("src", "dst"), Kind.integers))


@pytest.mark.parametrize("bad", [0, 1, 2, 500, 998, 999])
def test_the_first_id_outside_is_found_among_many(bad: int) -> None:
    ids = [f"u{i}" for i in range(1000)]
    rows = pl.DataFrame({"user": [*ids[:bad], "stranger", *ids[bad + 1 : 999], "other stranger"]})
    with refused("outside-universe", bad + 1):
        _take(revealing(pp.Users(ids)), Columns(("user",), Kind.text), rows)


def test_a_column_has_one_role() -> None:
    with pytest.raises(ValueError, match="one role only"):
        Columns(("user",), Kind.integers, action="user")


def test_an_open_universe_takes_integers_and_text(tmp_path: Path) -> None:
    for ids in ([1, 2, -3], ["a", "b"]):
        est = DistinctCount(60.0, key=bytes(16))  # next to no noise, and none of the hashes collide
        fed(est, write(pl.DataFrame({"user": ids}), tmp_path / "f.parquet"), Columns(("user",)))
        assert round(est.release().count) == len(ids)

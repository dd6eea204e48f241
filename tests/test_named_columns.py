"""`update_many(frame, column="user")`: ids, categories and times by the names of their columns."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import panprivacy as pp
from panprivacy.testing import refused
from sources import Always


def relation(columns: dict[str, list[Any]]) -> Any:
    duckdb = pytest.importorskip("duckdb")
    return duckdb.from_arrow(pa.table(columns))


Make = Callable[[dict[str, list[Any]]], Any]
EAGER: dict[str, Make] = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "arrow": pa.table,
    "arrow batch": pa.record_batch,
}
STREAMS: dict[str, Make] = {
    "lazy": pl.LazyFrame,
    "arrow reader": lambda columns: pa.table(columns).to_reader(max_chunksize=2),
    "duckdb": relation,
}
FRAMES = EAGER | STREAMS
VISITS: dict[str, list[Any]] = {
    "clinic": ["flu", "cold", "flu", "plague"],
    'the "user"': ["ada", "grace", "mary", "eve"],
    "at": ["2026-01-05", "2026-01-06", "2026-01-12", "2026-01-05"],
}
USER = 'the "user"'
CLINIC = ["ada", "grace", "mary", "rosalind"]


def absent(universe: Any, **options: Any) -> pp.Density:
    """A density all of whose bits are 0, and that draws ones from now on."""
    coins = Always(False)
    est = pp.Density(universe, 2.0, coins=coins, **options)
    coins.outcome = True
    return est


def fed(est: Any, *given: Any, **options: Any) -> bytes:
    est.update_many(*given, **options)
    saved: bytes = est.to_bytes(insecure=True)
    return saved


def code_of(work: Callable[[], object]) -> str:
    with pytest.raises(pp.PanPrivacyError) as error:
        work()
    return error.value.code


@pytest.mark.parametrize("name", FRAMES)
def test_ids_and_categories_are_columns_of_one_frame(name: str) -> None:
    def est() -> pp.Density:
        return absent(pp.Users(CLINIC), categories=["flu", "cold"], key=bytes(16))

    expected = fed(est(), CLINIC[:3], ["flu", "cold", "flu"])
    some = fed(est(), FRAMES[name](VISITS), column=USER, categories="clinic", skip_outside=True)
    assert some == expected
    assert code_of(lambda: est().update_many(FRAMES[name](VISITS), column=USER)) == "category-needed"
    assert code_of(lambda: est().update_many(FRAMES[name](VISITS), "flu", column=USER)) == "no-such-column"


@pytest.mark.parametrize("name", FRAMES)
def test_an_edge_has_two_names(name: str) -> None:
    frame = {"day": [1, 1, 1], "to": [1, 2, 3], "from": [0, 0, 1]}
    expected = fed(absent(pp.Edges(4)), [(0, 1), (0, 2), (1, 3)])
    assert fed(absent(pp.Edges(4)), FRAMES[name](frame), column=("from", "to")) == expected
    assert code_of(lambda: absent(pp.Edges(4)).update_many(FRAMES[name](frame), column="from")) == "column-name"


@pytest.mark.parametrize("name", FRAMES)
def test_times_are_a_column_too(name: str) -> None:
    weeks = pp.Windows(lambda: absent(pp.Users(CLINIC)), every="7d", start="2026-01-05")
    wrong: Any = {"column": USER, "time": "visited", "skip_outside": True}
    assert code_of(lambda: weeks.update_many(FRAMES[name](VISITS), **wrong)) == "no-such-column"
    assert weeks.closed == ()
    first = {key: values[:3] for key, values in VISITS.items()}
    weeks.update_many(FRAMES[name](first), column=USER, time="at")
    closed: Any = weeks.closed
    assert [week.start.day for week in closed] == [5]
    assert weeks.open.to_bytes(insecure=True) == fed(absent(pp.Users(CLINIC)), ["mary"])
    days = pp.ActiveUsers(pp.Users([*CLINIC, *map(str, range(200))]), 2.0, start="2026-01-05")
    days.update_many(FRAMES[name](first), column=USER, time="at", ahead=7)


@pytest.mark.parametrize("name", STREAMS)
def test_a_column_beside_a_stream_is_refused(name: str) -> None:
    est = absent(pp.Users(CLINIC), categories=["flu", "cold"], key=bytes(16))
    beside = VISITS["clinic"]
    assert code_of(lambda: est.update_many(STREAMS[name](VISITS), beside, column=USER)) == "column-beside-stream"


@pytest.mark.parametrize("name", EAGER)
def test_a_column_beside_a_frame_has_its_length(name: str) -> None:
    est = absent(pp.Users(CLINIC), categories=["flu", "cold"], key=bytes(16))
    assert code_of(lambda: est.update_many(EAGER[name](VISITS), ["flu"], column=USER)) == "categories-length"
    weeks = pp.Windows(lambda: absent(pp.Users(CLINIC)), every="7d", start="2026-01-05")
    times = ["2026-01-05"]
    assert code_of(lambda: weeks.update_many(EAGER[name](VISITS), column=USER, time=times)) == "times-length"


def test_a_name_that_is_there_twice_is_refused() -> None:
    twice = pd.DataFrame([[1, 2]], columns=["user", "user"])
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["user", "user"])
    frames: list[Any] = [twice, table, table.to_reader()]
    for frame in frames:
        assert code_of(partial(absent(9).update_many, frame, column="user")) == "column-twice"


def test_a_name_is_a_text() -> None:
    columns: list[Any] = [7, ("a", "b"), ["a", 7], ()]
    for column in columns:
        frame = pl.DataFrame({"a": [1], "b": [2]})
        assert code_of(partial(absent(9).update_many, frame, column=column)) == "column-name"


def test_removing_and_counting_take_names_too() -> None:
    frame = pl.DataFrame({"n": [0, 0], "user": [1, 2]})
    coins = Always(False)
    est = pp.Density(9, 2.0, coins=coins)
    before = est.to_bytes(insecure=True)
    coins.outcome = True
    est.update_many(frame, column="user")
    coins.outcome = False
    est.remove_many(frame.lazy(), column="user")
    assert est.to_bytes(insecure=True) == before
    pp.Counts(9, 2.0, 3).remove_many(frame, column="user")
    pp.DistinctCount(1.0, 64).update_many(frame, column="user")


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_is_one_batch_for_a_folder(name: str, tmp_path: Path) -> None:
    folder = pp.StateFolder.create(tmp_path / "folder", pp.Users(CLINIC), 2.0, shards=1)
    assert code_of(lambda: folder.update_many(STREAMS[name](VISITS), column=USER)) == "outside-universe"
    folder.update_many(STREAMS[name](VISITS), column=USER, skip_outside=True, batch=("till", 1))
    assert folder.last_batch("till") == 1


@pytest.mark.parametrize("name", FRAMES)
def test_a_text_that_is_a_time_is_the_time_of_all_rows(name: str) -> None:
    first = {USER: VISITS[USER][:3], "at": VISITS["at"][:3]}
    named, given = (pp.ActiveUsers(pp.Users(CLINIC), 9.0, span="2d", start="2026-01-05", key=bytes(16)) for _ in "ab")
    named.update_many(FRAMES[name](first), column=USER, time="2026-01-06T08:00")
    given.update_many(first[USER], time="2026-01-06T08:00")
    assert named.day == given.day
    assert named.day.day == 6


def test_a_text_that_could_be_a_column_and_a_time_is_refused_and_so_is_one_that_is_neither() -> None:
    day = "2026-01-05"
    frame = pl.DataFrame({"user": ["ada"], day: ["2026-01-06"]})
    weeks = pp.Windows(lambda: absent(pp.Users(CLINIC)), every="7d", start=day)
    assert code_of(lambda: weeks.update_many(frame, column="user", time=day)) == "time-or-column"
    with refused("no-such-column", "'user'", "'2026-01-05'"):
        weeks.update_many(frame, column="user", time="visited")
    weeks.update_many(frame.rename({day: "at"}), column="user", time="at")
    weeks.update_many(frame.rename({day: "at"}), column="user", time=day)


WRONG_PLACES: dict[str, Callable[[Any], object]] = {
    "universe": lambda it: pp.Density(it, 1.0),
    "epsilon": lambda it: pp.Density(9, it),
    "delta": lambda it: pp.Density(9, 1.0, delta=it),
    "sample": lambda it: pp.Density(9, 1.0, sample=it),
    "memory": lambda it: pp.Density(9, 1.0, memory=it),
    "groups": lambda it: pp.Density(9, 1.0, groups=it),
    "categories": lambda it: pp.Density(9, 1.0, categories=it),
    "shard": lambda it: pp.Density(9, 1.0, shard=it),
    "one id": lambda it: pp.Density(9, 1.0).update(it),
    "one category": lambda it: pp.Density(9, 1.0, categories=["a", "b"]).update(1, it),
    "threads": lambda it: pp.Density(9, 1.0).update_many([1], threads=it),
    "level": lambda it: pp.Density(9, 1.0).release(level=it),
    "start": lambda it: pp.ActiveUsers(900, 1.0, start=it),
    "tz": lambda it: pp.ActiveUsers(900, 1.0, start="2026-01-05", tz=it),
    "time": lambda it: pp.ActiveUsers(900, 1.0, start="2026-01-05").update(1, time=it),
    "times": lambda it: pp.ActiveUsers(900, 1.0, start="2026-01-05").update_many([1, 2], time=it),
    "plan": lambda it: pp.plan(it, 1.0),
    "alpha of a plan": lambda it: pp.plan(9, 1.0, alpha=it),
    "progress": pp.use_progress,
}


@pytest.mark.parametrize("place", WRONG_PLACES)
@pytest.mark.parametrize("name", ["duckdb", "polars", "pandas"])
def test_rows_in_the_wrong_place_are_refused_and_never_printed(name: str, place: str) -> None:
    rows = FRAMES[name]({"user": ["secret-1", "secret-2"], "x": ["secret-3", "secret-4"]})
    with pytest.raises(pp.PanPrivacyError) as refused:
        WRONG_PLACES[place](rows)
    assert "secret" not in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1

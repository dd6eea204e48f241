"""Columns of pandas, whatever their index and type, are columns of ids."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import panprivacy as pp
from feeding import refused, touched
from panprivacy import testing
from panprivacy.memory.scratch import Scratch
from panprivacy.universe.columns import batches, chunks
from panprivacy.universe.open import OpenUniverse

KEY = bytes(range(16))
NUMBERS, NAMES = [5, 2, 9, 9], ["mary", "ada", "émilie", "ada"]

COLUMNS: dict[str, Callable[[list[Any]], Any]] = {
    "series": pd.Series,
    "another index": lambda ids: pd.Series(ids, index=[7, 7, 1, 0]),
    "an index of names": lambda ids: pd.Series(ids, index=list("wxyz")),
    "rows chosen": lambda ids: pd.Series([0, *ids, 0], dtype=object)[1:-1],
    "every other row": lambda ids: pd.Series([each for user in ids for each in (user, user)])[::2],
    "column of a frame": lambda ids: pd.DataFrame({"user": ids, "other": 1}, index=[3, 2, 1, 0])["user"],
    "categories": lambda ids: pd.Series(ids, dtype="category"),
    "objects": lambda ids: pd.Series(ids, dtype=object),
    "index": pd.Index,
    "categorical index": pd.CategoricalIndex,
}
OF_NUMBERS = {
    "nullable": lambda ids: pd.Series(ids, dtype="Int64"),
    "nullable, 8 bits": lambda ids: pd.Series(ids, dtype="UInt8", index=[1, 1, 1, 1]),
    "arrow": lambda ids: pd.Series(ids, dtype=pd.ArrowDtype(pa.int32())),
    "nullable index": lambda ids: pd.Index(ids, dtype="Int64"),
}
OF_NAMES = {
    "strings": lambda ids: pd.Series(ids, dtype="string"),
    "arrow": lambda ids: pd.Series(ids, dtype=pd.ArrowDtype(pa.string())),
    "arrow dictionary": lambda ids: pd.Series(ids, dtype=pd.ArrowDtype(pa.dictionary(pa.int8(), pa.string()))),
}
NUMBERED, NAMED = COLUMNS | OF_NUMBERS, COLUMNS | OF_NAMES


@pytest.mark.parametrize("kind", NUMBERED)
def test_a_column_of_numbers_touches_the_bits_of_those_numbers(kind: str) -> None:
    assert touched(10, lambda est: est.update_many(NUMBERED[kind](NUMBERS))) == [2, 5, 9]


@pytest.mark.parametrize("kind", NUMBERED)
def test_listed_numbers_are_found_in_a_column(kind: str) -> None:
    users = pp.Users([9, 5, 2, 7])
    expected = sorted({users.index(user) for user in NUMBERS})
    assert touched(users, lambda est: est.update_many(NUMBERED[kind](NUMBERS))) == expected
    assert pp.Users(NUMBERED[kind](NUMBERS)).fingerprint == pp.Users(NUMBERS).fingerprint


@pytest.mark.parametrize("kind", NAMED)
def test_listed_names_are_found_in_a_column(kind: str) -> None:
    users = pp.Users(["zoe", *NAMES])
    expected = sorted({users.index(user) for user in NAMES})
    assert touched(users, lambda est: est.update_many(NAMED[kind](NAMES))) == expected
    assert pp.Users(NAMED[kind](NAMES)).fingerprint == pp.Users(NAMES).fingerprint


def hashes(ids: Any) -> list[int]:
    """The hashes of a batch, as an estimator would make them."""
    anyone = OpenUniverse(KEY)
    pieces = [piece for batch in batches(anyone.as_column(ids)) for piece in chunks(batch)]
    return [found for piece in pieces for found in anyone.indices(piece, Scratch()).tolist()]


@pytest.mark.parametrize("kind", NUMBERED)
def test_numbers_of_a_column_are_counted_as_the_same_numbers(kind: str) -> None:
    assert hashes(NUMBERED[kind](NUMBERS)) == hashes(NUMBERS)


@pytest.mark.parametrize("kind", NAMED)
def test_names_of_a_column_are_counted_as_the_same_names(kind: str) -> None:
    assert hashes(NAMED[kind](NAMES)) == hashes(NAMES)


def test_a_number_beside_a_name_stays_a_number() -> None:
    assert hashes(pd.Series([5, "ada", 2**63, -1], dtype=object)) == hashes([5, "ada", 2**63, -1])


@pytest.mark.parametrize("kind", [kind for kind in NUMBERED if kind != "rows chosen"])
def test_the_ends_of_edges_are_two_columns_or_a_frame_of_two(kind: str) -> None:
    graph, source, target = pp.Edges(10), NUMBERED[kind](NUMBERS), NUMBERED[kind]([0, 1, 3, 3])
    expected = sorted({graph.index(edge) for edge in zip(NUMBERS, [0, 1, 3, 3], strict=True)})
    assert touched(graph, lambda est: est.update_many((source, target))) == expected
    frame = pd.DataFrame({"from": np.asarray(source), "to": np.asarray(target)}, index=[4, 4, 2, 1])
    assert touched(graph, lambda est: est.update_many(frame)) == expected


def test_edges_of_a_frame_that_has_no_two_columns_are_refused() -> None:
    refused(pp.Edges(10), pd.DataFrame({"a": [1], "b": [2], "c": [3]}), TypeError, "source and target, got 3")


@pytest.mark.parametrize(
    "ids",
    [
        pd.Series([1, None], dtype="Int64"),
        pd.Series([1, None], dtype=pd.ArrowDtype(pa.int64())),
        pd.Series(["1", None], dtype="category"),
        pd.Index(["a", None]),
    ],
    ids=repr,
)
def test_missing_ids_are_refused(ids: Any) -> None:
    refused(10, ids, ValueError, "1 id is missing")
    with testing.refused("missing-ids", "1"):
        pp.DistinctCount(1.0, 64).update_many(ids)
    with testing.refused("missing-ids", "1"):
        pp.Users(ids)


def relation(columns: dict[str, list[Any]]) -> Any:
    duckdb = pytest.importorskip("duckdb")
    return duckdb.from_arrow(pa.table(columns))


FRAMES: dict[str, tuple[Callable[[dict[str, list[Any]]], Any], str]] = {
    "pandas": (pd.DataFrame, r"frame\['user'\]"),
    "polars": (pl.DataFrame, r"frame\.select\('user'\)"),
    "lazy": (pl.LazyFrame, r"frame\.select\('user'\)"),
    "arrow": (pa.table, r"table\.select\(\['user'\]\)"),
    "arrow batch": (pa.record_batch, r"table\.select\(\['user'\]\)"),
    "arrow reader": (lambda columns: pa.table(columns).to_reader(max_chunksize=2), r"table\.select\(\['user'\]\)"),
    "duckdb": (relation, r"relation\.select\('user'\)"),
}


@pytest.mark.parametrize("name", FRAMES)
def test_a_frame_is_refused_with_what_to_write_instead(name: str) -> None:
    """Walked through, a frame of pandas would give the names of its columns, and they would be counted."""
    make, instead = FRAMES[name]
    frame = make({"user": [1, 2], "other": [7, 8]})
    refused(
        10,
        frame,
        TypeError,
        f"has 2 columns, and ids are one of them: name it, column='user', or pass it alone, {instead}",
    )
    for take in (pp.DistinctCount(1.0, 64).update_many, pp.Users):
        with testing.refused("not-a-column", instead.replace("\\", "")):
            take(frame)


@pytest.mark.parametrize("name", FRAMES)
def test_a_frame_of_one_column_is_that_column(name: str) -> None:
    make, _ = FRAMES[name]
    assert touched(10, lambda est: est.update_many(make({"user": [1, 2, 9]}))) == [1, 2, 9]
    assert list(pp.Users(make({"user": ["b", "a", "b"]}))) == ["a", "b"]
    with testing.refused("float-ids"):
        pp.Density(10, 1.0).update_many(make({"user": [1.0, 2.0]}))


@pytest.mark.parametrize("name", FRAMES)
def test_a_list_of_users_is_a_column_of_a_frame_and_its_groups_are_another(name: str) -> None:
    make, _ = FRAMES[name]
    columns = {"id": ["b", "a", "c"], "region": ["north", "south", "north"]}
    users = pp.Users(make(columns), column="id", groups="region")
    assert users.fingerprint == pp.Users(columns["id"], groups=columns["region"]).fingerprint
    with testing.refused("no-such-column", "'user'", "'id'", "'region'"):
        pp.Users(make(columns), column="user")


def test_an_object_that_holds_rows_is_never_printed() -> None:
    rows = relation({"user": [4711, 4712]})
    for take in (pp.Density(10, 1.0).update, pp.Density(pp.Users(["a"]), 1.0).update, pp.DistinctCount(1.0, 64).update):
        with pytest.raises((TypeError, ValueError)) as error:
            take(rows)
        assert "4711" not in str(error.value)


def test_an_index_of_several_levels_is_refused_with_what_to_write_instead() -> None:
    levels = pd.MultiIndex.from_tuples([(1, 2), (3, 4)])
    refused(10, levels, TypeError, "get_level_values")
    assert touched(10, lambda est: est.update_many(levels.get_level_values(1))) == [2, 4]


@pytest.mark.parametrize("ids", [pd.Series([True]), pd.Series(pd.to_datetime(["2026-01-05"]))])
def test_what_is_no_column_of_ids_is_refused(ids: Any) -> None:
    refused(10, ids, TypeError, "ids must be integers")
    with testing.refused("ids-type"):
        pp.DistinctCount(1.0, 64).update_many(ids)


def test_text_where_ids_are_integers_is_called_text() -> None:
    refused(10, pd.Series(["ada", "mary"]), TypeError, "ids must be integers, got text; for other ids, list them")


def test_the_column_stays_as_it_was() -> None:
    for kind in NUMBERED:
        column = NUMBERED[kind](NUMBERS)
        pp.Density(10, 1.0).update_many(column)
        pp.DistinctCount(1.0, 64).update_many(column)
        pp.Density(pp.Users(NUMBERS), 1.0).update_many(column)
        assert [int(user) for user in column] == NUMBERS

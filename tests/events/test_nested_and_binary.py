"""Ids inside objects and structs, and ids that are bytes."""

import json
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import panprivacy as pp
from panprivacy.ingest import BadInput, Columns, Kind, read, read_ids
from panprivacy.ingest.columnar import bytes_as_text
from panprivacy.testing import refused

ROWS: list[dict[str, Any]] = [
    {"user": {"id": 3, "home": {"city": "Bonn"}}, "at": 1},
    {"user": {"id": 5, "home": None}, "at": 2},
    {"user": None, "at": 3},
]


def written(path: Path, rows: list[dict[str, Any]]) -> str:
    if path.suffix == ".ndjson":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif path.suffix == ".parquet":
        pl.DataFrame(rows).write_parquet(path)
    else:
        pl.DataFrame(rows).write_ipc(path)
    return str(path)


def column(file: str, name: str, kind: Kind | None = None) -> list[Any]:
    return [user for batch in read([file], Columns((name,), kind)) for user in batch.rows[name]]


@pytest.mark.parametrize("suffix", [".ndjson", ".parquet", ".arrow"])
def test_a_column_may_be_inside(suffix: str, tmp_path: Path) -> None:
    file = written(tmp_path / f"f{suffix}", ROWS)
    assert column(file, "user.id") == [3, 5, None]
    assert column(file, "user.id", Kind.text) == ["3", "5", None]
    assert column(file, "user.home.city") == ["Bonn", None, None]
    two = pl.concat([batch.rows for batch in read([file], Columns(("user.id",), time="at"))])
    assert (two.columns, two["user.id"].to_list()) == (["user.id", "at"], [3, 5, None])
    assert two["at"].cast(pl.Int64).to_list() == [1, 2, 3]
    both = next(read([file], Columns(("user.id", "user.home.city"), Kind.text))).rows
    assert both.row(0) == ("3", "Bonn")


@pytest.mark.parametrize("suffix", [".ndjson", ".parquet", ".arrow"])
def test_a_plain_name_with_a_dot_comes_first(suffix: str, tmp_path: Path) -> None:
    file = written(tmp_path / f"f{suffix}", [{"user": {"id": 3}, "user.id": 7}])
    assert column(file, "user.id") == [7]


@pytest.mark.parametrize("at", [0, 1, 3])
def test_each_row_says_for_itself_whether_its_id_is_inside(at: int, tmp_path: Path) -> None:
    others: list[dict[str, Any]] = [{"user": {"id": user}} for user in (3, 4, 5)]
    for one, user in (({"user.id": 7}, 7), ({"user.id": None}, None), ({"user.id": 7, "user": {"id": 8}}, 7)):
        file = written(tmp_path / "f.ndjson", [*others[:at], one, *others[at:]])
        expected: list[int | None] = [3, 4, 5]
        expected.insert(at, user)
        assert column(file, "user.id") == expected
        assert column(file, "user.id", Kind.text) == [None if each is None else str(each) for each in expected]
    file = written(tmp_path / "f.ndjson", [*others[:at], {"user.id": 7.0}, *others[at:]])
    assert sorted(column(file, "user.id")) == [3, 4, 5, 7]


def test_a_value_in_the_place_of_an_inner_object_is_named(tmp_path: Path) -> None:
    file = written(tmp_path / "f.ndjson", [{"user.id": 7}, {"user.id": 8, "user": "ann"}])
    with refused("unreadable", "row 2", "user.id", '"ann"'):
        column(file, "user.id")


@pytest.mark.parametrize("suffix", [".ndjson", ".parquet", ".arrow"])
def test_a_wrong_name_is_told_what_there_is_inside(suffix: str, tmp_path: Path) -> None:
    file = written(tmp_path / f"f{suffix}", ROWS)
    for name in ("user.idd", "usr"):
        with refused("no-column", name):
            column(file, name)
    with pytest.raises(BadInput) as caught:
        column(file, "user")
    assert caught.value.code in {"column-is-object", "no-column"}


def test_what_is_wrong_inside_is_named(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"user": {"id": 1}}, {"user": {"id": 2.0}}, {"user": {"id": "x"}}]
    assert column(written(tmp_path / "f.ndjson", rows[:2]), "user.id") == [1, 2]
    with refused("unreadable", "row 3", "user.id", '"x"'):
        column(written(tmp_path / "f.ndjson", rows), "user.id")
    with refused("unreadable", "row 2", "user.id"):
        column(written(tmp_path / "f.ndjson", [rows[0], {"user": 7}]), "user.id")


def test_a_key_is_a_value_or_an_object_and_not_both(tmp_path: Path) -> None:
    file = written(tmp_path / "f.ndjson", ROWS)
    with refused("column-value-or-object"):
        next(read([file], Columns(("user.id",), time="user")))


@pytest.mark.parametrize("suffix", [".ndjson", ".parquet", ".arrow"])
def test_a_list_of_users_may_be_inside(suffix: str, tmp_path: Path) -> None:
    file = written(tmp_path / f"f{suffix}", ROWS[:2])
    assert read_ids(file, "user.id").to_list() == [3, 5]
    assert pp.Users(file, column="user.id").size == 2


# --- bytes ----------------------------------------------------------------------------------------------------------


def text_of(values: list[bytes | None]) -> list[str | None]:
    return pl.DataFrame({"id": pl.Series(values, dtype=pl.Binary)}).select(bytes_as_text(pl.col("id")))["id"].to_list()


def expected(value: bytes) -> str:
    """The rule, a value at a time."""
    if len(value) == 16 and not all(32 <= byte < 127 for byte in value):
        return str(UUID(bytes=value))
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.hex()


@pytest.mark.slow
@given(st.lists(st.one_of(st.binary(max_size=20), st.binary(min_size=16, max_size=16), st.text().map(str.encode))))
def test_bytes_are_uuids_text_or_hexadecimal(values: list[bytes]) -> None:
    assert text_of([*values, None]) == [*map(expected, values), None]


@pytest.mark.parametrize("first", range(0x80, 0x100))
def test_what_is_utf_8_is_told_as_python_does(first: int) -> None:
    tails = [b"\x80", b"\x8f", b"\x90", b"\x9f", b"\xa0", b"\xbf", b"a", b""]
    values = [bytes([first]) + a + b + c for a in tails for b in [*tails[:6:5], b""] for c in (b"\x80", b"")]
    assert text_of(list(values)) == list(map(expected, values))


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_uuids_are_the_same_users_as_bytes_and_as_text(suffix: str, tmp_path: Path) -> None:
    ids = [uuid4() for _ in range(1000)]
    table = pa.table({"user": pa.array([each.bytes for each in ids], pa.uuid())})
    path = tmp_path / f"f.{suffix}"
    if suffix == "parquet":
        pq.write_table(table, path)
    else:
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
    texts = list(map(str, ids))
    assert column(str(path), "user") == texts
    assert pp.Users(path).fingerprint == pp.Users(texts).fingerprint
    with refused("id-type", "'user'"):
        column(str(path), "user", Kind.integers)

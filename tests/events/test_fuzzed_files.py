"""Whatever the bytes of a file are, reading it ends in events or in one plain error."""

import tempfile
from pathlib import Path

import polars as pl
import pytest
from event_files import SUFFIXES, revealing, write
from hypothesis import given, settings
from hypothesis import strategies as st

from panprivacy.ingest import BadInput, Columns, Kind, expand, read
from panprivacy.ingest.feed import BatchFeeder

FRAME = pl.DataFrame({"user": [3, None, 5] * 20, "note": ["a,b", 'c"d', "e\nf"] * 20})

edits = st.lists(st.tuples(st.integers(0, 2**16), st.binary(min_size=0, max_size=4), st.integers(0, 8)), max_size=6)


def _survives(path: Path) -> None:
    columns = Columns(("user",), Kind.integers)
    feed = BatchFeeder(revealing(10), columns, skip_missing=True)
    problem = ""
    try:
        for batch in read(expand([str(path)]), columns):
            feed.take(batch)
    except BadInput as error:
        problem = str(error)
    assert problem.startswith(str(path)) or not problem
    assert "\n" not in problem


def _mutated(data: bytes, changes: list[tuple[int, bytes, int]]) -> bytes:
    for place, inserted, removed in changes:
        at = place % (len(data) + 1)
        data = data[:at] + inserted + data[at + removed :]
    return data


# Not the compressed Arrow file (.feather): a wrong length in it makes Polars ask for so much memory that it aborts.
@pytest.mark.slow
@pytest.mark.parametrize("suffix", [suffix for suffix in SUFFIXES if suffix != ".feather"])
@settings(max_examples=40)
@given(changes=edits)
def test_altered_files_are_read_or_refused(suffix: str, changes: list[tuple[int, bytes, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write(FRAME, Path(folder) / f"f{suffix}")
        path.write_bytes(_mutated(path.read_bytes(), changes))
        _survives(path)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".csv", ".ndjson", ".parquet", ".arrow"])
@settings(max_examples=40)
@given(data=st.binary(max_size=200) | st.text(alphabet='user,1\n"{}:\r\0é', max_size=80).map(str.encode))
def test_arbitrary_bytes_are_read_or_refused(suffix: str, data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"f{suffix}"
        path.write_bytes(data)
        _survives(path)


cells = st.none() | st.integers(0, 9).map(str) | st.text(alphabet="ab\"\n,\r ;'", min_size=1, max_size=6)


@pytest.mark.slow
@settings(max_examples=60)
@given(rows=st.lists(st.tuples(st.integers(0, 9), cells), min_size=1, max_size=30))
def test_whatever_else_a_row_holds_its_id_is_found(rows: list[tuple[int, str | None]]) -> None:
    frame = pl.DataFrame(rows, schema={"user": pl.Int64, "note": pl.String}, orient="row")
    with tempfile.TemporaryDirectory() as folder:
        for suffix in (".csv", ".tsv", ".ndjson"):
            path = write(frame, Path(folder) / f"f{suffix}")
            batches = list(read([str(path)], Columns(("user",), Kind.integers)))
            assert pl.concat([batch.rows["user"] for batch in batches]).to_list() == [user for user, _ in rows]

"""Bodies that are nothing but integers are read as the readers of everything read them, or left to those."""

import io
import json
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panprivacy.events import Columns, Kind
from panprivacy.memory import Scratch
from panprivacy.serve.bodies import Body, Form
from panprivacy.serve.plain import plain_ids
from panprivacy.serve.refusals import Refused
from panprivacy.serve.rows import batch_of

USER = Columns(("user",), Kind.integers)


def plainly(data: bytes, form: Form) -> list[int] | None:
    with Scratch() as scratch:
        found = plain_ids(Body.copied(data, form), USER, scratch)
        return None if found is None else np.concatenate(found).tolist()


def otherwise(data: bytes, form: Form) -> list[int] | None:
    try:
        rows = batch_of(Body.copied(data, form), USER).rows["user"]
    except Refused:
        return None
    return None if rows.null_count() else rows.to_list()


INTEGERS = st.integers(-(10**18) + 1, 10**18 - 1)
VALUES = st.one_of(INTEGERS, st.booleans(), st.none(), st.text(max_size=5), st.floats(allow_nan=False), st.just([1]))


@pytest.mark.slow
@given(st.lists(st.dictionaries(st.sampled_from(["user", "x", "us\u00e9r"]), VALUES, max_size=3), max_size=6))
def test_whatever_is_read_plainly_is_read_the_same_by_everybody(rows: list[dict[str, Any]]) -> None:
    data = "".join(json.dumps(row) + "\n" for row in rows).encode()
    found = plainly(data, Form.ndjson)
    assert found is None or found == otherwise(data, Form.ndjson)


@given(st.lists(INTEGERS, min_size=1, max_size=50), st.booleans())
def test_lines_of_integers_are_plain(ids: list[int], spaced: bool) -> None:
    blanks = (", ", ": ") if spaced else (",", ":")
    lines = [json.dumps({"a": "b", "user": user, "ok": None}, separators=blanks) for user in ids]
    assert plainly("\r\n".join(lines).encode(), Form.ndjson) == ids


@pytest.mark.slow
@given(st.binary(max_size=40), st.integers(0, 60))
def test_lines_that_are_damaged_are_never_misread(noise: bytes, at: int) -> None:
    data = b'{"user": 17, "at": "noon"}\n{"user": 4}\n{"user": 5}\n'
    data = data[:at] + noise + data[at + len(noise) :]
    found = plainly(data, Form.ndjson)
    assert found is None or found == otherwise(data, Form.ndjson)


@pytest.mark.parametrize(
    "line",
    [
        '{"user": 05}',
        '{"user": -0}',
        '{"user": 5,}',
        '{"user": 5',
        '{"user": 5} x',
        '{"user": 5}{"user": 6}',
        "{}",
        "[5]",
        '{"user": 5, "user": 6}',
        '{"user": 5, "x": tru}',
        '{"user": 1e3}',
        '{"user": "5"}',
        '{"user": 9999999999999999999}',
    ],
)
def test_a_line_that_is_not_plain_is_left_to_others(line: str) -> None:
    assert plainly(line.encode(), Form.ndjson) is None


def stream(column: Any, batches: int = 1, **options: Any) -> bytes:
    table, out = pa.table({"user": column}), io.BytesIO()
    with pa.ipc.new_stream(out, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        for _ in range(batches):
            writer.write_table(table)
    return out.getvalue()


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()])
def test_arrow_streams_of_integers_are_plain_whoever_wrote_them(kind: pa.DataType) -> None:
    assert plainly(stream(pa.array([1, 2, 3], kind), batches=2), Form.arrow) == [1, 2, 3, 1, 2, 3]
    out = io.BytesIO()
    pl.DataFrame({"user": pa.array([1, 2, 3], kind)}).write_ipc_stream(out)
    assert plainly(out.getvalue(), Form.arrow) == [1, 2, 3]


@pytest.mark.parametrize(
    "data",
    [
        stream(pa.array([1, None, 3])),
        stream(pa.array(["a"])),
        stream(pa.array([1.0])),
        stream(pa.array([1, 2, 3]).dictionary_encode()),
        stream(pa.array([1] * 1000), compression="zstd"),
        stream(pa.array([1, 2, 3]))[:-20],
        stream(pa.array([1, 2, 3])) + b"x",
    ],
)
def test_an_arrow_stream_that_is_not_plain_is_left_to_others(data: bytes) -> None:
    assert plainly(data, Form.arrow) is None


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=4))
def test_an_arrow_stream_that_is_damaged_breaks_nothing(changes: list[tuple[int, int]]) -> None:
    data = bytearray(stream(pa.array([1, 2, 3], pa.int64()), batches=2))
    for at, octet in changes:
        data[at % len(data)] = octet
    found = plainly(bytes(data), Form.arrow)
    assert found is None or len(found) <= len(data)

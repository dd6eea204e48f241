"""Bodies that are nothing but integers are read as the readers of everything read them, or left to those."""

import io
import json
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panprivacy.ingest import Columns, Kind
from panprivacy.ingest.batch import ProblemType, Refused
from panprivacy.ingest.bodies import Body, ContentType, plain_ids, rows_of_body
from panprivacy.memory.scratch import Scratch
from panprivacy.periods import moments_in
from panprivacy.testing import refused

USER = Columns(("user",), Kind.integers)


def plainly(data: bytes, form: ContentType) -> list[int] | None:
    with Scratch() as scratch:
        found = plain_ids(Body.copied(data, form), USER, scratch)
        return None if found is None else np.concatenate(found).tolist()


def otherwise(data: bytes, form: ContentType) -> list[int] | None:
    try:
        rows = rows_of_body(Body.copied(data, form), USER).rows["user"]
    except Refused:
        return None
    return None if rows.null_count() else rows.to_list()


INTEGERS = st.integers(-(10**18) + 1, 10**18 - 1)
VALUES = st.one_of(INTEGERS, st.booleans(), st.none(), st.text(max_size=5), st.floats(allow_nan=False), st.just([1]))


@pytest.mark.slow
@given(st.lists(st.dictionaries(st.sampled_from(["user", "x", "us\u00e9r"]), VALUES, max_size=3), max_size=6))
def test_whatever_is_read_plainly_is_read_the_same_by_everybody(rows: list[dict[str, Any]]) -> None:
    data = "".join(json.dumps(row) + "\n" for row in rows).encode()
    found = plainly(data, ContentType.ndjson)
    assert found is None or found == otherwise(data, ContentType.ndjson)


@pytest.mark.slow
@given(st.lists(INTEGERS, min_size=1, max_size=50), st.booleans())
def test_lines_of_integers_are_plain(ids: list[int], spaced: bool) -> None:
    blanks = (", ", ": ") if spaced else (",", ":")
    lines = [json.dumps({"a": "b", "user": user, "ok": None}, separators=blanks) for user in ids]
    assert plainly("\r\n".join(lines).encode(), ContentType.ndjson) == ids


@pytest.mark.slow
@given(st.binary(max_size=40), st.integers(0, 60))
def test_lines_that_are_damaged_are_never_misread(noise: bytes, at: int) -> None:
    data = b'{"user": 17, "at": "noon"}\n{"user": 4}\n{"user": 5}\n'
    data = data[:at] + noise + data[at + len(noise) :]
    found = plainly(data, ContentType.ndjson)
    assert found is None or found == otherwise(data, ContentType.ndjson)


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
    assert plainly(line.encode(), ContentType.ndjson) is None


FIELDS = st.one_of(INTEGERS.map(str), st.text('0aé",\r\n -', max_size=4))


@pytest.mark.slow
@given(
    st.lists(st.sampled_from(["user", "x", "us\u00e9r", ""]), min_size=1, max_size=3),
    st.lists(st.lists(FIELDS, min_size=1, max_size=3), max_size=6),
    st.sampled_from(["\n", "\r\n"]),
)
def test_whatever_is_read_plainly_of_csv_is_read_the_same_by_everybody(
    names: list[str], rows: list[list[str]], end: str
) -> None:
    data = end.join(",".join(row) for row in [names, *rows]).encode()
    found = plainly(data, ContentType.csv)
    assert found is None or found == otherwise(data, ContentType.csv)


@pytest.mark.slow
@given(st.lists(INTEGERS, min_size=1, max_size=50), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_a_column_of_integers_is_plain(ids: list[int], end: str, ended: bool) -> None:
    one = end.join(["user", *map(str, ids)]) + end * ended
    assert plainly(one.encode(), ContentType.csv) == ids
    three = end.join(["at,user,note", *(f"noon,{user}," for user in ids)]) + end * ended
    assert plainly(three.encode(), ContentType.csv) == ids


@pytest.mark.parametrize(
    "rows",
    ["07", "-0", "5\n\n6", "5\r6", " 5", "5 ", '"5"', "1e3", "5.0", "9999999999999999999", "5\0", "é", "5;6"],
)
def test_csv_that_is_not_plain_is_left_to_others(rows: str) -> None:
    assert plainly(f"user\n{rows}".encode(), ContentType.csv) is None
    assert plainly(f"x,user\n1,2\n3,{rows}".encode(), ContentType.csv) is None


@pytest.mark.parametrize("rows", ["", "5,6", "5\n6,7", "\n5"])
def test_csv_whose_rows_are_missing_or_too_long_is_left_to_others(rows: str) -> None:
    assert plainly(f"user\n{rows}".encode(), ContentType.csv) is None


@pytest.mark.parametrize(
    "header", ["usr", "user,user", "user,", '"user"', "user;x", "\ufeffuser", "user" + ",x" * 1000]
)
def test_csv_with_another_header_is_left_to_others(header: str) -> None:
    fields = "5" + ",5" * header.count(",")
    assert plainly(f"{header}\n{fields}\n".encode(), ContentType.csv) is None


def stream(column: Any, batches: int = 1, **options: Any) -> bytes:
    table, out = pa.table({"user": column}), io.BytesIO()
    with pa.ipc.new_stream(out, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        for _ in range(batches):
            writer.write_table(table)
    return out.getvalue()


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()])
def test_arrow_streams_of_integers_are_plain_whoever_wrote_them(kind: pa.DataType) -> None:
    assert plainly(stream(pa.array([1, 2, 3], kind), batches=2), ContentType.arrow) == [1, 2, 3, 1, 2, 3]
    out = io.BytesIO()
    pl.DataFrame({"user": pa.array([1, 2, 3], kind)}).write_ipc_stream(out)
    assert plainly(out.getvalue(), ContentType.arrow) == [1, 2, 3]


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
    assert plainly(data, ContentType.arrow) is None


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=4))
def test_an_arrow_stream_that_is_damaged_breaks_nothing(changes: list[tuple[int, int]]) -> None:
    data = bytearray(stream(pa.array([1, 2, 3], pa.int64()), batches=2))
    for at, octet in changes:
        data[at % len(data)] = octet
    found = plainly(bytes(data), ContentType.arrow)
    assert found is None or len(found) <= len(data)


TEXT = Columns(("user",), Kind.text)
IDS = [f"somebody with a long name {i}" if i % 2 else str(i) for i in range(20)]


def texts(data: bytes) -> list[str]:
    found: list[str] = rows_of_body(Body.copied(data, ContentType.arrow), TEXT).rows["user"].to_list()
    return found


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.binary_view()])
def test_arrow_texts_are_read_however_they_are_written(kind: pa.DataType) -> None:
    assert texts(stream(pa.array([each.encode() for each in IDS]).cast(pa.string()).cast(kind), batches=2)) == 2 * IDS


def test_columns_that_nobody_asks_for_may_be_of_any_common_type() -> None:
    frame = pl.DataFrame({"user": IDS}).with_columns(
        pl.lit(None).alias("null"),
        pl.lit(1.5).alias("float"),
        pl.lit(True).alias("flag"),
        pl.lit(0).cast(pl.Date).alias("date"),
        pl.lit(0).cast(pl.Time).alias("time"),
        pl.lit(0).cast(pl.Datetime("us", "UTC")).alias("moment"),
        pl.lit(1).cast(pl.Decimal(10, 2)).alias("decimal"),
        pl.concat_list("user", "user").alias("list"),
        pl.struct("user").alias("struct"),
    )
    for part in (frame, frame[:0], frame[3:9]):
        out = io.BytesIO()
        part.write_ipc_stream(out)
        if len(part):
            assert texts(out.getvalue()) == part["user"].to_list()


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_compressed_arrow_is_refused_for_it_may_unfold_to_any_length(compression: str) -> None:
    with pytest.raises(Refused) as caught:
        texts(stream(pa.array(IDS), compression=compression))
    assert caught.value.code == "content-type"
    assert caught.value.type is ProblemType.content_type


def test_views_that_show_the_same_bytes_over_and_over_are_refused() -> None:
    view = np.array([100_000, 0, 0, 0], np.int32).tobytes()  # a length, four bytes, which buffer, and where in it
    buffers = [None, pa.py_buffer(1000 * view), pa.py_buffer(100_000 * b"\0")]
    with refused("unreadable", "views"):
        texts(stream(pa.Array.from_buffers(pa.string_view(), 1000, buffers)))


def test_a_json_array_is_short_for_its_objects_take_many_times_its_bytes() -> None:
    with pytest.raises(Refused) as caught:
        rows_of_body(Body.copied(b"[" + b"{}," * 2**19 + b"{}]", ContentType.json), USER)
    assert caught.value.code == "too-large"
    assert caught.value.type is ProblemType.too_large


_FUZZED = """
import sys
from panprivacy.ingest import Columns, Kind
from panprivacy.ingest.bodies import Body, ContentType, rows_of_body
from panprivacy.ingest.batch import Refused
from random import Random
import pickle, resource
resource.setrlimit(resource.RLIMIT_DATA, (2**32, 2**32))
seeds, draw, refused = pickle.load(sys.stdin.buffer), Random(1), 0
for _ in range(4000):
    data = bytearray(draw.choice(seeds))
    for _ in range(draw.choice([1, 2, 3])):
        data[draw.randrange(len(data))] = draw.choice([0, 1, 127, 128, 255, draw.randrange(256)])
    try:
        rows_of_body(Body.copied(bytes(data), ContentType.arrow), Columns(("user",), Kind.text))
    except Refused:
        refused += 1
print(refused)
"""


@pytest.mark.slow
def test_an_arrow_stream_that_lies_about_its_lengths_does_not_end_the_process() -> None:
    """Without the check the process aborts within a few hundred bodies."""
    kinds = [pa.string(), pa.large_string(), pa.string_view(), pa.binary_view()]
    seeds = [stream(pa.array(IDS).cast(kind)) for kind in kinds] + [stream(pa.array([[1], [2, 3]]))]
    seeds += [stream(pa.array(IDS), compression="zstd"), stream(pa.array([1, None, 3]))]
    done = subprocess.run([sys.executable, "-c", _FUZZED], input=pickle.dumps(seeds), capture_output=True, check=True)
    assert 1000 < int(done.stdout) <= 4000


@pytest.mark.parametrize("value", ["true", "false", "[1]", '{"a": 1}', "17.9", "-1.5e-7", "9" * 20, "1e400"])
def test_an_id_that_is_neither_text_nor_whole_is_refused_where_ids_are_text(value: str) -> None:
    with pytest.raises(Refused) as caught:
        rows_of_body(Body.copied(b'{"user": "a"}\n\n{"user": %s}\n' % value.encode(), ContentType.ndjson), TEXT)
    assert caught.value.type is ProblemType.unreadable


@pytest.mark.parametrize("key", ["user", "us\\u0065r"])
@pytest.mark.parametrize(
    ("columns", "value"),
    [(TEXT, each) for each in ("1e2", "1E+2", "100.0", "-0.0", "1e-400")]
    + [(USER, each) for each in ("1e-400", "9007199254740993.0", "1e17")],
)
def test_an_id_that_is_read_as_another_one_than_is_written_is_refused(columns: Columns, value: str, key: str) -> None:
    lines = f'{{"user": 1, "x": 1e2}}\n{{"{key}": {value}, "x": "\\""}}\n'
    with pytest.raises(Refused) as caught:
        rows_of_body(Body.copied(lines.encode(), ContentType.ndjson), columns)
    assert caught.value.code == "unreadable"
    assert (caught.value.type, caught.value.row) == (ProblemType.unreadable, 2)


def test_a_float_that_is_a_whole_number_is_that_number_where_ids_are_integers() -> None:
    lines = b'{"user": 100.0}\n{"user": 1e2}\n{"user": 7}\n'
    assert rows_of_body(Body.copied(lines, ContentType.ndjson), USER).rows["user"].to_list() == [100, 100, 7]


def test_other_columns_may_have_fractions() -> None:
    lines = '{"user": 1, "x": 1e2}\n{"user": 2, "x": 3.5, "said": "\\"user\\": 1e2"}\n'
    for columns, ids in ((USER, [1, 2]), (TEXT, ["1", "2"])):
        assert rows_of_body(Body.copied(lines.encode(), ContentType.ndjson), columns).rows["user"].to_list() == ids


def test_an_id_inside_an_object_is_looked_at_too() -> None:
    nested = Columns(("user.id",), Kind.integers)
    for line in ('{"user": {"id": 1e-400}}', '{"user.id": 1e-400}', '{"user.id": null, "user": {"id": 1e-400}}'):
        with refused("unreadable", "float"):
            rows_of_body(Body.copied(line.encode(), ContentType.ndjson), nested)


@pytest.mark.slow
@given(st.lists(st.one_of(st.sampled_from(["true", "[1]", "17.9", "3e9f", "{}"]), st.text(max_size=5)), min_size=1))
def test_texts_that_look_like_something_else_are_texts(ids: list[str]) -> None:
    data = "".join(json.dumps({"user": each}) + "\n" for each in [*ids, 17]).encode()
    assert rows_of_body(Body.copied(data, ContentType.ndjson), TEXT).rows["user"].to_list() == [*ids, "17"]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_a_time_that_would_wrap_around_is_no_time_of_today(unit: str) -> None:
    columns = Columns(("user",), Kind.integers, None, "at")
    for moment in (2**62, -(2**62)):
        table = pa.table({"user": [1], "at": pa.array([moment], pa.timestamp(unit))})
        out = io.BytesIO()
        with pa.ipc.new_stream(out, table.schema) as stream:
            stream.write_table(table)
        body = Body.copied(out.getvalue(), ContentType.arrow)
        if unit in ("s", "ms"):
            with pytest.raises(Refused):
                rows_of_body(body, columns)
        else:
            times = moments_in(rows_of_body(body, columns).rows["at"]).to_list()
            assert times == [None] if unit == "us" else abs(times[0] or 10**16) > 10**15


def test_milliseconds_that_would_wrap_around_are_no_time() -> None:
    times = pl.Series([2**62, 0, 1_700_000_000_000], dtype=pl.Int64).cast(pl.Datetime("ms"))
    assert moments_in(times).to_list()[0] is None
    assert moments_in(times).to_list()[2] == 1_700_000_000_000_000

"""Files that are read once: named pipes, `<(...)`, and Arrow streams, cut anywhere."""

import gzip
import io
import os
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import polars as pl
import pytest
from event_files import arrow_stream, fed, revealing, seen

from panprivacy import testing
from panprivacy.cli.output import cause_of
from panprivacy.ingest import BadInput, Columns, Format, Kind, read, read_ids
from panprivacy.ingest.arrow import ArrowStream
from panprivacy.ingest.files import batches_of, zstd_module

USER = Columns(("user",), Kind.integers)
FRAME = pl.DataFrame({"user": range(0, 5000, 2), "note": ["x"] * 2500})
CSV, NDJSON = FRAME.write_csv().encode(), FRAME.write_ndjson().encode()


@contextmanager
def named_pipe(folder: Path, data: bytes) -> Iterator[Path]:
    """A pipe with a name that does not tell what is in it, to which somebody writes."""
    path = folder / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=_write, args=(path, data), daemon=True)
    writer.start()
    yield path
    writer.join(60)


def _write(path: Path, data: bytes) -> None:
    with suppress(BrokenPipeError):  # the reader may have seen enough
        path.write_bytes(data)


@pytest.mark.parametrize(
    "data",
    [
        CSV,
        NDJSON,
        gzip.compress(CSV),
        zstd_module().compress(NDJSON),
        arrow_stream(FRAME),
        arrow_stream(FRAME[:9], FRAME[9:]),
    ],
    ids=["csv", "ndjson", "csv.gz", "ndjson.zst", "arrow", "arrow of two batches"],
)
def test_a_named_pipe_is_read_like_a_file(data: bytes, tmp_path: Path) -> None:
    est = revealing(5000)
    with named_pipe(tmp_path, data) as path:
        fed(est, path)
    assert seen(est) == set(range(0, 5000, 2))


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (b"", ("empty-file",)),
        (b"P", ("no-column", "'user'", "1 field")),
        (b"user\n1\nx\n", ("unreadable", "row 2", "'x'")),
        (gzip.compress(CSV)[:-9], ("cut-off",)),
    ],
)
def test_what_is_wrong_with_a_pipe_is_named(data: bytes, named: tuple[str, ...], tmp_path: Path) -> None:
    with named_pipe(tmp_path, data) as path, testing.refused(*named):
        fed(revealing(10), path)


@pytest.mark.parametrize("data", [b"P0550,3\nP0551,4\n", b"alice,north\nbob,south\n"])
def test_of_a_pipe_without_header_no_user_is_quoted(data: bytes, tmp_path: Path) -> None:
    with named_pipe(tmp_path, data) as path, pytest.raises(BadInput, match="is not shown") as error:
        fed(revealing(10), path)
    assert "say --no-header --column NUMBER" in cause_of(error.value)
    assert not any(word in str(error.value) for word in ("P0550", "alice", "north"))


@pytest.mark.parametrize(("suffix", "what"), [("parquet", "Parquet"), ("arrow", "an Arrow file")])
def test_files_with_an_index_at_their_end_cannot_be_piped(suffix: str, what: str, tmp_path: Path) -> None:
    path = tmp_path / f"f.{suffix}"
    FRAME.write_parquet(path) if suffix == "parquet" else FRAME.write_ipc(path)
    with named_pipe(tmp_path, path.read_bytes()) as pipe, testing.refused("cannot-be-piped", what):
        fed(revealing(10), pipe)


def test_arrow_streams_in_files_are_read_by_name_or_by_their_first_bytes(tmp_path: Path) -> None:
    for name in ("f.arrow", "f.arrows"):
        (tmp_path / name).write_bytes(arrow_stream(FRAME))
        est = revealing(5000)
        fed(est, tmp_path / name)
        assert seen(est) == set(range(0, 5000, 2))
    (tmp_path / "f.csv").write_bytes(CSV)
    with testing.refused("unreadable", "Arrow file"):
        list(read([str(tmp_path / "f.csv")], USER, format_=Format.arrow))


# --- cutting ----------------------------------------------------------------------------------------------------------


def _ids(data: bytes, length: int, columns: Columns = USER) -> list[object]:
    """The ids of a stream that comes in pieces of this length."""
    pieces = [data[start : start + length] for start in range(0, len(data), length)]
    frames = [batch.rows for batch in batches_of([*pieces, b""], lambda _: ArrowStream("f", columns)) if batch]
    assert all(frame.columns == ["user"] for frame in frames)
    return [user for frame in frames for user in frame["user"]]


@pytest.mark.parametrize("length", [1, 7, 1000, 10**6])
def test_a_stream_may_be_cut_anywhere(length: int) -> None:
    one, two = pl.DataFrame({"user": [5, 3], "x": ["a", "b"]}), pl.DataFrame({"user": [None, 2], "x": ["c", None]})
    data = arrow_stream(one, two)
    assert _ids(data, length) == [5, 3, None, 2]
    assert _ids(data + data, length) == [5, 3, None, 2] * 2, "one stream after the other"
    assert _ids(data[:-8], length) == [5, 3, None, 2], "the mark of the end may be left out"
    packed = io.BytesIO()
    one.write_ipc_stream(packed, compression="zstd")
    assert _ids(packed.getvalue(), length) == [5, 3]


def test_ids_are_what_the_users_are_known_by() -> None:
    text = Columns(("user",), Kind.text)
    assert _ids(arrow_stream(pl.DataFrame({"user": [7, 8]})), 10**6, text) == ["7", "8"]
    assert _ids(arrow_stream(pl.DataFrame({"user": ["Ada"]})), 10**6, text) == ["Ada"]
    with testing.refused("id-type", "'user'"):
        _ids(arrow_stream(pl.DataFrame({"user": ["Ada"]})), 10**6)


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (arrow_stream(FRAME)[:-100], ("unreadable", "cut off", "row 0")),
        (arrow_stream(FRAME)[:300], ("unreadable", "cut off")),
        (arrow_stream(FRAME)[:-8] + b"x" * 8, ("unreadable", "damaged", "row 2500")),
        (arrow_stream(pl.DataFrame({"id": [1]})), ("no-column", "'user'", "'id'")),
        (arrow_stream(pl.DataFrame({"user": [True]})), ("id-type", "'user'", "Boolean")),
        (arrow_stream(FRAME.with_columns(pl.col("note").cast(pl.Categorical))), ("unreadable", "dictionary")),
    ],
)
def test_streams_that_cannot_be_read_are_named(data: bytes, named: tuple[str, ...]) -> None:
    with testing.refused(*named):
        _ids(data, 1000)


@pytest.mark.slow
def test_no_damage_goes_further_than_bad_input() -> None:
    generator, whole = random.Random(1), arrow_stream(FRAME[:20])
    refused = 0
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(generator.randint(1, 4)):
            data[generator.randrange(len(data) // 2)] ^= 1 << generator.randrange(8)
        try:
            _ids(bytes(data), 100)
        except BadInput:
            refused += 1
    assert refused > 30


def test_a_list_of_users_is_not_read_from_a_pipe(tmp_path: Path) -> None:
    """It is read more than once; so it says so instead of breaking the process that writes."""
    os.mkfifo(tmp_path / "pipe")
    with testing.refused("not-a-file"):
        read_ids(str(tmp_path / "pipe"))

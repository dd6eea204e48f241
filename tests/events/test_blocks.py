"""Bytes are cut where records end, however they arrive."""

import csv
import io
import os
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panprivacy.ingest.batch import Columns
from panprivacy.ingest.csv_kernels import first_refused
from panprivacy.ingest.delimited import Cutter, record_ends
from panprivacy.ingest.reading import Live, SignalTimer, read
from panprivacy.ingest.text import Text

texts = st.text(alphabet='a1,"\n;', max_size=8)
tables = st.lists(st.lists(texts, min_size=2, max_size=2), min_size=1, max_size=12)


def _written(rows: list[list[str]]) -> bytes:
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue().encode()


@pytest.mark.slow
@given(tables, st.lists(st.integers(1, 9), max_size=40))
def test_every_block_holds_whole_records_and_nothing_is_lost(rows: list[list[str]], lengths: list[int]) -> None:
    data = _written(rows)
    cutter, blocks, at = Cutter(quotes=True), [], 0
    for length in [*lengths, len(data)]:
        blocks.append(cutter.cut(data[at : at + length]))
        at += length
    assert b"".join(blocks) + cutter.rest == data
    ends = set(record_ends(data, quotes=True)) | {0}
    position = 0
    for block in blocks:
        position += len(block)
        assert position in ends


@pytest.mark.slow
@given(tables)
def test_records_are_what_the_csv_module_reads(rows: list[list[str]]) -> None:
    data = _written(rows)
    ends = [0, *record_ends(data, quotes=True)]
    pieces = [data[start:end].decode() for start, end in pairwise(ends)]
    assert [next(csv.reader(io.StringIO(piece, newline=""))) for piece in pieces] == rows


@pytest.mark.slow
@given(tables, st.integers(0, 11), st.sampled_from([0, 1, 3]))
def test_the_first_row_with_a_field_too_many_or_too_few_is_found(rows: list[list[str]], at: int, width: int) -> None:
    whole = [["x", "y"], *rows]
    assert first_refused(_written(whole), ",", 2) == -1
    whole.insert(at % len(whole), ["z"] * width)
    # The csv module writes an empty row as an empty line, which counts as a row whose fields are missing.
    assert first_refused(_written(whole), ",", 2) == (at % (len(whole) - 1) if width else -1)


@pytest.mark.parametrize("blank", [b"\n", b"\r\n"])
def test_a_blank_line_is_not_ragged(blank: bytes) -> None:
    assert first_refused(b"1,a\n" + blank + b"2,b\n", ",", 2) == -1


def test_a_last_row_without_newline_is_checked_too() -> None:
    assert first_refused(b"1,a\n2", ",", 2) == 1


def test_a_quote_that_stays_open_keeps_the_rest_back() -> None:
    cutter = Cutter(quotes=True)
    assert cutter.cut(b'1,a\n2,"b\n3,c\n') == b"1,a\n"
    assert cutter.quoted


def sizes_of_blocks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How long the blocks are that are parsed from now on."""
    parse, parsed = Text.parse, []

    def noted(self: Text, block: bytes) -> pl.DataFrame:
        parsed.append(len(block))
        return parse(self, block)

    monkeypatch.setattr(Text, "parse", noted)
    return parsed


@pytest.mark.parametrize(("overwrites", "is_short"), [(True, True), (False, False)])
def test_blocks_of_a_file_are_short_where_nothing_of_them_may_stay(
    overwrites: bool, is_short: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Polars leaves rows behind that lie across the end of 32 KiB."""
    parsed = sizes_of_blocks(monkeypatch)
    monkeypatch.setattr("panprivacy.ingest.files.polars_overwrites", lambda: overwrites)
    file = tmp_path / "visits.csv"
    file.write_text("user\n" + "".join(f"{user}\n" for user in range(20_000)))
    rows = pl.concat(batch.rows for batch in read([str(file)], Columns(("user",))))
    assert rows["user"].to_list() == list(range(20_000))
    assert (max(parsed) < 2**15) is is_short


def test_blocks_of_a_pipe_are_short_however_its_bytes_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed, read_some = sizes_of_blocks(monkeypatch), os.read
    monkeypatch.setattr(os, "read", lambda handle, size: read_some(handle, min(size, 20_000)))
    out, into = os.pipe()
    with os.fdopen(out, "rb"), SignalTimer() as bell:
        os.write(into, b"user\n" + b"1234567890\n" * 5_000)
        os.close(into)
        batches = list(Live(out, Columns(("user",)), None, None, bell).batches())
    assert sum(len(batch.rows) for batch in batches if batch is not None) == 5_000
    assert max(parsed) < 2**15

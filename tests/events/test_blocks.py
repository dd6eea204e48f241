"""Bytes are cut where records end, however they arrive."""

import csv
import io
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from panprivacy.ingest.csv_kernels import first_refused
from panprivacy.ingest.delimited import Cutter, record_ends

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

"""Bodies: rows in bytes, from a sender or a broker, and how they are read.

Most bodies are one column of integers. Those that are written in the plainest way are read where they lie, many times
as fast as by the general readers (`plain_ids`). Everything else is read by the readers of pipes (`rows_of_body`), in
short blocks, and these readers also find errors. Errors of a reader may quote a row, refusals never do.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from panprivacy.ingest.arrow import ArrowStream, check_arrow, integers_in_arrow
from panprivacy.ingest.batch import BadInput, Batch, Columns, Kind, ProblemType, Refused
from panprivacy.ingest.files import ARROW_FILE, PIECE, Format, Stream, batches_of
from panprivacy.ingest.ndjson_kernels import integers_in_lines
from panprivacy.ingest.text import EXACT, Text, value_of
from panprivacy.memory.scratch import Scratch, wipe

if TYPE_CHECKING:
    import polars as pl

NAME = "the body"
"""What an error calls a body."""

_LONGEST_ARRAY = 2**20  # bytes of a JSON array: as Python's objects it takes up to 80 times as many
_LONGEST_ROW = 2**20  # bytes of a row: the rows of a block that cannot be read become Python's objects, too
_CONVERTED_TEXT = r"^(true|false|[\[{].*|-?[0-9]+(\.[0-9]+([eE].*)?|[eE].*)|[0-9-]{19,}|.*(inf|NaN))$"
_LINES = 1000  # that are read one by one between pauses
_UNREADABLE = (ValueError, TypeError, AttributeError, OverflowError, RecursionError)

_INTEGERS = "ids are integers, without quotes or leading zeros"
_TEXTS = "ids are texts, or integers in digits"
_ROW = "this row is malformed, or its id is not what ids are here: "
_SAFE_NAME = re.compile(r"[A-Za-z_][A-Za-z_.-]{0,39}")
_MOST_NAMES = 20


class ContentType(StrEnum):
    """What a body can be."""

    arrow = "application/vnd.apache.arrow.stream"
    ndjson = "application/x-ndjson"
    csv = "text/csv"
    json = "application/json"
    slots = "application/vnd.panprivacy.slots"
    """Not rows, but which slots their users own (`panprivacy.folder.marks`)."""


_FORMATS = {ContentType.arrow: Format.arrow, ContentType.ndjson: Format.ndjson, ContentType.csv: Format.csv}


@dataclass(frozen=True)
class Body:
    """Rows as they came, in memory of our own. The receiver of a body wipes it."""

    octets: NDArray[np.uint8]
    content_type: ContentType
    delete: bool = False
    """Whether all rows take users back."""

    @classmethod
    def copied(cls, data: bytes, content_type: ContentType, *, delete: bool = False) -> "Body":
        """A body with a copy of some bytes."""
        return cls(np.frombuffer(data, dtype=np.uint8).copy(), content_type, delete)

    def wipe(self) -> None:
        """Overwrite the bytes."""
        wipe(self.octets)


def plain_ids(body: Body, columns: Columns, scratch: Scratch) -> list[NDArray[Any]] | None:
    """The ids of a plain body, in pieces; None if the body, or what the columns ask of it, is not plain."""
    if columns.names != list(columns.ids) or len(columns.ids) != 1 or columns.kind is not Kind.integers:
        return None
    (name,) = columns.ids
    if body.content_type is ContentType.arrow:
        return integers_in_arrow(body.octets, name)
    if body.content_type is ContentType.ndjson:
        found = integers_in_lines(body.octets, name, scratch)
    elif body.content_type is ContentType.csv:
        from panprivacy.ingest.csv_kernels import integers_in_column  # compiles: only where there is a CSV body

        found = integers_in_column(body.octets, name, scratch)
    else:
        return None
    return None if found is None else [found]


def problem_type_of(error: BadInput) -> ProblemType:
    """The type of problem that an error of a reader is."""
    return next((type_ for type_ in ProblemType if type_.slug == error.code), ProblemType.unreadable)


def refusal(error: BadInput, columns: Columns) -> Refused:
    """The refusal that stands for an error of a reader, which may quote a row."""
    ids = _TEXTS if columns.kind is Kind.text else _INTEGERS
    type_, detail = problem_type_of(error), ""
    if error.code == "float-column":
        detail = "ids or categories are floats, which merge large ids: " + ids
    elif error.code == "id-type":
        detail = ids
    elif type_ is ProblemType.no_column:
        # The first row of a CSV body without a header is taken for names. So names are told only where ids are integers
        # and no name has a digit, and only if they are few: otherwise a sender could have anything repeated.
        few = columns.kind is Kind.integers and 0 < len(error.has) <= _MOST_NAMES
        there = f"; there are {', '.join(error.has)}" if few and all(map(_SAFE_NAME.fullmatch, error.has)) else ""
        detail = f"there is no column {error.lacks}{there}"
    elif type_ is ProblemType.unreadable and error.row is not None:
        detail = _ROW + ids
    return Refused(type_, detail, row=error.row)


def rows_of_body(
    body: Body,
    columns: Columns,
    refuse: Callable[[BadInput, Columns], Refused] = refusal,
    pause: Callable[[], None] = lambda: None,
) -> Batch:
    """All rows of a body as one batch; what cannot be read is refused, and not quoted.

    `pause` is called between its parts, so that the thread can do something else.
    """
    import polars as pl

    try:
        frame = _array(body, columns) if body.content_type is ContentType.json else _streamed(body, columns, pause)
    except BadInput as error:
        raise refuse(error, columns) from None
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, *_UNREADABLE):
        raise Refused(ProblemType.unreadable) from None
    return Batch(NAME, frame, 0, 0)


def _streamed(body: Body, columns: Columns, pause: Callable[[], None]) -> "pl.DataFrame":
    """The rows of Arrow, NDJSON and CSV, read block by block."""
    import polars as pl

    stream: Stream = ArrowStream(NAME, columns)
    if body.content_type is not ContentType.arrow:
        stream = Text(NAME, columns, _FORMATS[body.content_type], None, piped=True, longest=_LONGEST_ROW)
    elif bytes(body.octets[: len(ARROW_FILE)]) == ARROW_FILE:
        raise Refused(ProblemType.unreadable, "this is an Arrow file; send an IPC stream")
    else:
        check_arrow(body.octets)
    is_lines, is_dubious = body.content_type is ContentType.ndjson, False
    step = max(len(body.octets), 1) if body.content_type is ContentType.arrow else PIECE

    def pieces() -> Iterator[bytes]:
        for at in range(0, len(body.octets), step):
            yield body.octets[at : at + step].tobytes()
            pause()
        yield b""

    def parse(block: bytes) -> pl.DataFrame:
        nonlocal is_dubious
        rows = stream.parse(block)
        is_dubious |= is_lines and (_may_repeat(block, rows, columns) or _has_fractions(block, columns))
        return rows

    if not body.octets[:PIECE].tobytes().strip():
        raise Refused(ProblemType.unreadable, "the body is empty")
    batches = batches_of(pieces(), lambda _: stream, lambda _, block: partial(parse, block))
    frames = [batch.rows for batch in batches if batch is not None]
    if not frames:
        raise Refused(ProblemType.unreadable, "the body has no rows")
    frame = frames[0] if len(frames) == 1 else pl.concat(frames)
    if is_lines and columns.kind is Kind.text:  # Polars may have converted something else into texts: true, 17.9, lists
        converted = pl.any_horizontal(pl.col(columns.ids).str.contains(_CONVERTED_TEXT)).any()
        is_dubious |= frame.select(converted).item()
    if is_dubious:
        _check_lines(body, columns, pause)
    return frame


def _may_repeat(block: bytes, rows: "pl.DataFrame", columns: Columns) -> bool:
    """Whether a key that is asked for may come twice in an object of a block: readers of JSON differ in what they take.

    A row with a value has the key at least once. So where a key stands no more often than there are values, no row has
    it twice. A key can be spelled in another way by `\\u` alone.
    """
    values = {name: len(rows) - rows[name].null_count() for name in columns.names}
    parts = {(json.dumps(part, ensure_ascii=False), name) for name in values for part in (name, *name.split("."))}
    return b"\\u" in block or any(block.count(key.encode()) > values[name] for key, name in parts)


def _has_fractions(block: bytes, columns: Columns) -> bool:
    """Whether a block may have ids like 1e2, which Polars reads as 100, and 1e-400 as 0.

    A key that is written with escapes could be any.
    """
    ends = "|".join(re.escape(name.rpartition(".")[2]) for name in columns.ids)
    key = b"" if b"\\" in block else b'(%s)"\\s*' % ends.encode()
    # Without a key the search begins at a colon: beginning at any blank would take quadratic time.
    return re.search(key + rb":\s*-?[0-9]+[.eE]", block) is not None


def _check_lines(body: Body, columns: Columns, pause: Callable[[], None]) -> None:
    """Read all lines once more: refuse keys that come twice, and ids that Polars has read as something else."""
    lines = (line for line in body.octets.tobytes().split(b"\n") if line.strip())
    once = _without_repeats(columns)
    for number, line in enumerate(lines, 1):
        if not number % _LINES:
            pause()
        try:
            row = json.loads(line, parse_float=Decimal, object_pairs_hook=once)
        except Refused as refused:
            refused.row = number
            raise
        for name in columns.ids:
            value = value_of(name, row)
            if columns.kind is Kind.text:
                _check_id(value, number, as_text=True)
            elif isinstance(value, Decimal) and not (abs(value) < EXACT and value == value.to_integral_value()):
                raise Refused(ProblemType.unreadable, "an id is no integer, or too large for a float", row=number)


def _without_repeats(columns: Columns) -> Callable[[list[tuple[str, Any]]], dict[str, Any]]:
    """A function that makes an object of its members, for `json.loads`, and refuses a wanted key that comes twice."""
    asked = {part for name in columns.names for part in (name, *name.split("."))}

    def once(members: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(members)
        if len(found) < len(members) and any(sum(key == name for key, _ in members) > 1 for name in asked):
            raise Refused(ProblemType.unreadable, "a key comes twice in an object")
        return found

    return once


def _array(body: Body, columns: Columns) -> "pl.DataFrame":
    """The rows of a JSON array: objects with the columns as keys, or plain ids; of a graph, pairs of them."""
    import polars as pl

    if len(body.octets) > _LONGEST_ARRAY:
        detail = f"a JSON array has at most {_LONGEST_ARRAY} bytes; send more rows as NDJSON"
        raise Refused(ProblemType.too_large, detail)
    try:
        found = json.loads(body.octets.tobytes(), object_pairs_hook=_without_repeats(columns))
    except (ValueError, RecursionError):
        raise Refused(ProblemType.unreadable, "the body is not JSON") from None
    if not isinstance(found, list) or not found:
        raise Refused(ProblemType.unreadable, "the body is not an array with something in it")
    types = columns.types(pl.Int64 if columns.kind is Kind.integers else pl.String)
    values: dict[str, list[Any]] = {name: [] for name in types}
    for number, each in enumerate(found, 1):
        ids = each if isinstance(each, list) else [each]
        if len(ids) > len(columns.ids):
            raise Refused(ProblemType.unreadable, "a row has more ids than this counter takes", row=number)
        row = each if isinstance(each, dict) else dict(zip(columns.ids, ids, strict=False))
        for name, column in values.items():
            value, as_text = row.get(name), types[name] == pl.String
            if name in columns.ids:
                _check_id(value, number, as_text=as_text)
            column.append(str(value) if as_text and value is not None else value)
    return pl.DataFrame(values, schema=types)


def _check_id(value: Any, number: int, *, as_text: bool) -> None:
    whole = type(value) is int and -(2**63) <= value < 2**63
    if not (value is None or whole or (as_text and isinstance(value, str))):
        raise Refused(ProblemType.unreadable, _TEXTS if as_text else _INTEGERS, row=number)

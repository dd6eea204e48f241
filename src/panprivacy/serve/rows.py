"""From a body to its rows, read by the readers of pipes: in blocks so short that nothing of them stays behind."""

import json
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

from panprivacy.events import BadInput, Batch, Columns, Format, Kind
from panprivacy.events.live import PIECE
from panprivacy.events.magic import ARROW_FILE
from panprivacy.events.streams import stream_of
from panprivacy.serve.bodies import Body, Form
from panprivacy.serve.faults import INTEGERS, TEXTS, refusal
from panprivacy.serve.plain.sound import check_sound
from panprivacy.serve.refusals import Refused, Why

if TYPE_CHECKING:
    import polars as pl

NAME = "the body"
"""What an error calls it."""

_LONGEST_LIST = 2**20  # bytes of a JSON array: as Python's objects it takes up to 80 times as many
_MADE_TEXT = r"^(true|false|[\[{].*|-?[0-9]+(\.[0-9]+([eE].*)?|[eE].*)|[0-9-]{19,}|.*(inf|NaN))$"
_EXACT = 2**53  # from which on floats stand for several integers
_UNREADABLE = (ValueError, TypeError, OverflowError, RecursionError)
_FORMATS = {Form.arrow: Format.arrow, Form.ndjson: Format.ndjson, Form.csv: Format.csv}


def batch_of(body: Body, columns: Columns, refuse: Callable[[BadInput, Columns], Refused] = refusal) -> Batch:
    """All rows of a body as one batch; what cannot be read is refused, without a word of what it holds."""
    import polars as pl

    try:
        frame = _listed(body, columns) if body.form is Form.json else _streamed(body, columns)
    except BadInput as error:
        raise refuse(error, columns) from None
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, *_UNREADABLE):
        raise Refused(Why.unreadable) from None
    return Batch(NAME, frame, 0, 0)


def _streamed(body: Body, columns: Columns) -> "pl.DataFrame":
    import polars as pl

    if body.form is Form.arrow:
        if bytes(body.octets[: len(ARROW_FILE)]) == ARROW_FILE:
            raise Refused(Why.unreadable, "this is an Arrow file; send an IPC stream")
        check_sound(body.octets)
    pieces = _pieces(body)
    first = next(pieces, b"")
    if not first.strip():
        raise Refused(Why.unreadable, "the body is empty")
    stream = stream_of(NAME, first, columns, _FORMATS[body.form], None)
    frames: list[pl.DataFrame] = []
    while True:
        block = stream.block(first, last=not first)
        if block:
            frames.append(stream.batch(block, partial(stream.parse, block), 0).rows)
        stream.refuse_broken()
        if not first:
            break
        first = next(pieces, b"")
    if not frames:
        raise Refused(Why.unreadable, "the body has no rows")
    frame = frames[0] if len(frames) == 1 else pl.concat(frames)
    if body.form is Form.ndjson and (_has_made_texts(frame, columns) or _has_fractions(body, columns)):
        _check_lines(body, columns)
    return frame


def _has_made_texts(frame: "pl.DataFrame", columns: Columns) -> bool:
    """Whether there may be texts that Polars has made of other things: true, 17.9, lists."""
    import polars as pl

    if columns.kind is not Kind.text:
        return False
    return bool(frame.select(pl.any_horizontal(pl.col(columns.ids).str.contains(_MADE_TEXT)).any()).item())


def _has_fractions(body: Body, columns: Columns) -> bool:
    """Whether there may be ids like 1e2, which Polars reads as 100, and 1e-400 as 0.

    A key that is written with escapes could be any.
    """
    ends = "|".join(re.escape(name.rpartition(".")[2]) for name in columns.ids)
    key = b"" if re.search(rb"\\", body.octets.data) else b'(%s)"' % ends.encode()
    return re.search(key + rb"\s*:\s*-?[0-9]+[.eE]", body.octets.data) is not None


def _check_lines(body: Body, columns: Columns) -> None:
    """Read all lines once more, and refuse ids that were read as something else than what is written."""
    lines = (line for line in body.octets.tobytes().split(b"\n") if line.strip())
    for number, line in enumerate(lines, 1):
        row = json.loads(line, parse_float=Decimal)
        for name in columns.ids:
            value = _inside(row, name)
            if columns.kind is Kind.text:
                _check_id(value, number, as_text=True)
            elif isinstance(value, Decimal) and not (abs(value) < _EXACT and value == value.to_integral_value()):
                raise Refused(Why.unreadable, "an id is no integer, or too large for a float", row=number)


def _inside(row: Any, name: str) -> Any:
    """The value of a column: under a key of just that name, or like ``user.id`` inside."""
    if isinstance(row, dict) and name not in row and "." in name:
        outer, _, inner = name.partition(".")
        return _inside(row.get(outer), inner)
    return row.get(name) if isinstance(row, dict) else None


def _pieces(body: Body) -> Iterator[bytes]:
    step = len(body.octets) if body.form is Form.arrow else PIECE
    for at in range(0, len(body.octets), max(step, 1)):
        yield body.octets[at : at + step].tobytes()


def _listed(body: Body, columns: Columns) -> "pl.DataFrame":
    """The rows of a JSON array: objects with the columns as keys, or plain ids; of a graph, pairs of them."""
    if len(body.octets) > _LONGEST_LIST:
        raise Refused(Why.too_large, f"a JSON array has at most {_LONGEST_LIST} bytes; send more rows as NDJSON")
    try:
        found = json.loads(body.octets.tobytes())
    except (ValueError, RecursionError):
        raise Refused(Why.unreadable, "the body is not JSON") from None
    if not isinstance(found, list) or not found:
        raise Refused(Why.unreadable, "the body is not an array with something in it")
    rows = [_as_object(number, each, columns) for number, each in enumerate(found, 1)]
    import polars as pl

    types = columns.types(columns.kind or Kind.text)
    values = {name: _values(rows, name, columns, as_text=type_ == pl.String) for name, type_ in types.items()}
    return pl.DataFrame(values, schema=types)


def _as_object(number: int, each: Any, columns: Columns) -> dict[str, Any]:
    if isinstance(each, dict):
        return each
    ids = each if isinstance(each, list) else [each]
    if len(ids) > len(columns.ids):
        raise Refused(Why.unreadable, "a row has more ids than this counter takes", row=number)
    return dict(zip(columns.ids, ids, strict=False))


def _values(rows: list[dict[str, Any]], name: str, columns: Columns, *, as_text: bool) -> list[Any]:
    """One column; ids that are integers where they are to be text are read as text."""
    values = [row.get(name) for row in rows]
    for number, value in enumerate(values if name in columns.ids else (), 1):
        _check_id(value, number, as_text=as_text)
    return [None if value is None else str(value) for value in values] if as_text else values


def _check_id(value: Any, number: int, *, as_text: bool) -> None:
    whole = type(value) is int and -(2**63) <= value < 2**63
    if not (value is None or whole or (as_text and isinstance(value, str))):
        raise Refused(Why.unreadable, TEXTS if as_text else INTEGERS, row=number)

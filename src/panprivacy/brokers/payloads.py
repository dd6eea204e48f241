"""From payloads to bodies: many small messages become one body of NDJSON, which is read in one go.

A message is a JSON object, or several of them in lines; or a bare id; or an Arrow stream. Messages that are written in
the plainest way, one object in one line or an id without escapes, are copied without a Python object for each. The
others become Python objects, which cannot be wiped: in a process that was started hardened the C library overwrites
them when they are freed.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-untyped-decorators=False
import json
from collections.abc import Iterator
from contextlib import suppress
from enum import StrEnum

import numpy as np
from numba import njit, types
from numpy.typing import NDArray

from panprivacy.brokers import Block
from panprivacy.ingest import Columns, Kind
from panprivacy.ingest.batch import ProblemType, Refused
from panprivacy.ingest.bodies import Body, ContentType
from panprivacy.ingest.files import ARROW_STREAM
from panprivacy.memory.scratch import wipe

_MOST = 16 * 2**20  # bytes of a body that is made of several messages
_OCTETS = types.Array(types.uint8, 1, "C", readonly=True)
_STARTS = types.Array(types.int64, 1, "C", readonly=True)
_NEWLINE, _SPACE, _QUOTE, _BACKSLASH, _DELETE = 10, 32, 34, 92, 127


class Payload(StrEnum):
    """What a message can be."""

    json = "json"
    id = "id"
    arrow = "arrow"


def payload_kind(payload: bytes) -> Payload:
    """What a message is, by how it begins.

    >>> [payload_kind(payload).value for payload in (b' {"user": 7}', b"7", b"alice")]
    ['json', 'id', 'id']
    """
    if payload.startswith(ARROW_STREAM):
        return Payload.arrow
    return Payload.json if payload.lstrip()[:1] == b"{" else Payload.id


def bodies_of(payloads: Block, columns: Columns, kind: Payload | None = None) -> Iterator[Body]:
    """The bodies that hold these messages, in order; without a `kind`, the first message says what all are.

    Where other messages are something else, the body is refused; handing over one message at a time finds out which.

    >>> from panprivacy.ingest import Columns, Kind
    >>> [body] = bodies_of(Block.of([b"7", b"8"]), Columns(("user",), Kind.integers))
    >>> body.octets.tobytes()
    b'{"user":7}\\n{"user":8}\\n'
    """
    kind = kind or payload_kind(payloads[0])
    if kind is Payload.arrow:
        for number in range(len(payloads)):
            yield Body(payloads.part(number, number + 1).octets[:-1].copy(), ContentType.arrow)
    elif len(payloads) > 1 and len(payloads.octets) > _MOST:
        middle = len(payloads) // 2
        yield from bodies_of(payloads.part(0, middle), columns, kind)
        yield from bodies_of(payloads.part(middle, len(payloads)), columns, kind)
    else:
        lines = _objects(payloads) if kind is Payload.json else _ids(payloads, columns)
        yield Body(lines, ContentType.ndjson)


def _objects(payloads: Block) -> NDArray[np.uint8]:
    """Objects as NDJSON: one that is written over several lines is written in one, anything else stays as it is."""
    if payloads.of_lines:
        return payloads.octets.copy()
    lines = list(payloads)
    for number, payload in enumerate(lines):
        if b"\n" in payload.strip():
            with suppress(ValueError, RecursionError):  # several objects, or none
                lines[number] = json.dumps(json.loads(payload)).encode()
    return _lines(lines)


def _ids(payloads: Block, columns: Columns) -> NDArray[np.uint8]:
    """Bare ids as NDJSON."""
    if len(columns.ids) != 1:
        raise Refused(ProblemType.unreadable, "a message is one bare id, and an edge has two")
    before, after = b"{" + json.dumps(columns.ids[0]).encode() + b":", b"}"
    quote = b"" if columns.kind is Kind.integers else b'"'
    lines = ids_to_ndjson(payloads, before + quote, quote + after)
    if lines is not None:
        return lines
    values = (payload.strip() if not quote else _as_text(payload) for payload in payloads)
    return _lines([before + value + after for value in values])


def _as_text(payload: bytes) -> bytes:
    """A bare text as JSON; a text that is JSON already stays as it is."""
    payload = payload.strip()
    if len(payload) > 1 and payload[:1] == payload[-1:] == b'"':
        return payload
    try:
        return json.dumps(payload.decode()).encode()
    except UnicodeDecodeError:
        raise Refused(ProblemType.unreadable, "an id is not UTF-8") from None


def _lines(lines: list[bytes]) -> NDArray[np.uint8]:
    return np.frombuffer(bytearray(b"\n").join(lines), dtype=np.uint8)


def ids_to_ndjson(payloads: Block, before: bytes, after: bytes) -> NDArray[np.uint8] | None:
    """Lines with each payload between two texts; None if one has blanks around it, or a character that JSON escapes."""
    first, last = (np.frombuffer(text, dtype=np.uint8) for text in (before, after))
    lines = np.empty(len(payloads.octets) + len(payloads) * (len(first) + len(last)), dtype=np.uint8)
    if _write_lines(payloads.octets, payloads.starts, first, last, lines):
        return lines
    wipe(lines)
    return None


@njit(nogil=True, inline="always")
def _put(text, start, end, lines, at):
    for i in range(start, end):
        lines[at] = text[i]
        at += 1
    return at


@njit(types.boolean(_OCTETS, _STARTS, _OCTETS, _OCTETS, types.uint8[::1]), nogil=True, cache=True)
def _write_lines(text, starts, before, after, lines):
    at = 0
    for i in range(len(starts) - 1):
        start, end = starts[i] - starts[0], starts[i + 1] - starts[0] - 1
        plain = text[start] > _SPACE and text[end - 1] > _SPACE
        for j in range(start, end):
            plain &= (_SPACE <= text[j] < _DELETE) & (text[j] != _QUOTE) & (text[j] != _BACKSLASH)
        if not plain:
            return False
        at = _put(before, 0, len(before), lines, at)
        at = _put(text, start, end, lines, at)
        at = _put(after, 0, len(after), lines, at)
        lines[at] = _NEWLINE
        at += 1
    return True

"""From payloads to bodies: many small messages become one block of NDJSON, which is read in one go.

A message is a JSON object, or several of them in lines; or a bare id; or an Arrow stream. Messages that are written in
the plainest way, one object in one line or an id without escapes, become a body without an object of Python's for each.
What does become one, nobody can wipe: in a process that was started hardened the C library overwrites it.
"""

import json
from collections.abc import Iterator
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from panprivacy.events import Columns, Kind
from panprivacy.events.magic import ARROW_STREAM
from panprivacy.lazily import loaded
from panprivacy.serve.bodies import Body, Form
from panprivacy.serve.refusals import Refused, Why
from panprivacy.serve.sources.block import Block

_MOST = 16 * 2**20  # bytes of a body that is made of several messages


class Payload(StrEnum):
    """What a message can be."""

    json = "json"
    id = "id"
    arrow = "arrow"


def told(payload: bytes) -> Payload:
    """What a message is, by how it begins.

    >>> [told(payload).value for payload in (b' {"user": 7}', b"7", b"alice")]
    ['json', 'id', 'id']
    """
    if payload.startswith(ARROW_STREAM):
        return Payload.arrow
    return Payload.json if payload.lstrip()[:1] == b"{" else Payload.id


def bodies_of(payloads: Block, columns: Columns, form: Payload | None = None) -> Iterator[Body]:
    """The bodies that hold these messages, in order; the first message tells what all are, if nobody has said it.

    Where the others are something else, the bodies are refused; whoever then hands over one message at a time finds
    out which it is.

    >>> from panprivacy.events import Columns, Kind
    >>> [body] = bodies_of(Block.of([b"7", b"8"]), Columns(("user",), Kind.integers))
    >>> body.octets.tobytes()
    b'{"user":7}\\n{"user":8}\\n'
    """
    form = form or told(payloads[0])
    if form is Payload.arrow:
        for number in range(len(payloads)):
            yield Body(payloads.part(number, number + 1).octets[:-1].copy(), Form.arrow)
    elif len(payloads) > 1 and len(payloads.octets) > _MOST:
        middle = len(payloads) // 2
        yield from bodies_of(payloads.part(0, middle), columns, form)
        yield from bodies_of(payloads.part(middle, len(payloads)), columns, form)
    else:
        lines = _objects(payloads) if form is Payload.json else _of_ids(payloads, columns)
        yield Body(lines, Form.ndjson)


def _objects(payloads: Block) -> NDArray[np.uint8]:
    if payloads.of_lines:
        return payloads.octets.copy()
    return _lines([_in_one_line(payload) for payload in payloads])


def _in_one_line(payload: bytes) -> bytes:
    """An object that is written over several lines in one; anything else as it is."""
    if b"\n" not in payload.strip():
        return payload
    try:
        return json.dumps(json.loads(payload)).encode()
    except (ValueError, RecursionError):
        return payload  # several objects, or none


def _of_ids(payloads: Block, columns: Columns) -> NDArray[np.uint8]:
    """Bare ids as NDJSON."""
    if len(columns.ids) != 1:
        raise Refused(Why.unreadable, "a message is one bare id, and an edge has two")
    before, after = b"{" + json.dumps(columns.ids[0]).encode() + b":", b"}"
    quote = b"" if columns.kind is Kind.integers else b'"'
    woven = loaded("panprivacy.serve.sources.weaving").woven(payloads, before + quote, quote + after)
    if woven is not None:
        return woven  # type: ignore[no-any-return]
    values = (payload.strip() if not quote else _as_text(payload) for payload in payloads)
    return _lines([before + value + after for value in values])


def _as_text(payload: bytes) -> bytes:
    """A bare text as JSON; one that is JSON already stays what it is."""
    payload = payload.strip()
    if len(payload) > 1 and payload[:1] == payload[-1:] == b'"':
        return payload
    try:
        return json.dumps(payload.decode()).encode()
    except UnicodeDecodeError:
        raise Refused(Why.unreadable, "an id is not UTF-8") from None


def _lines(lines: list[bytes]) -> NDArray[np.uint8]:
    return np.frombuffer(bytearray(b"\n").join(lines), dtype=np.uint8)

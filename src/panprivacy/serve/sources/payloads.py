"""From payloads to bodies: many small messages become one block of NDJSON, which is read in one go.

A message is a JSON object, or several of them in lines; or a bare id; or an Arrow stream. The bytes of a body are
memory of our own, wiped when its rows are counted. The payloads are Python's, which nobody can wipe: they are let go
of, and in a process that was started hardened the C library overwrites them then.
"""

import json
from collections.abc import Iterator, Sequence
from enum import StrEnum

import numpy as np

from panprivacy.events import Columns, Kind
from panprivacy.events.magic import ARROW_STREAM
from panprivacy.serve.bodies import Body, Form
from panprivacy.serve.refusals import Refused, Why

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


def bodies_of(payloads: Sequence[bytes], columns: Columns, form: Payload | None = None) -> Iterator[Body]:
    """The bodies that hold these messages, in order; the first message tells what all are, if nobody has said it.

    Where the others are something else, the bodies are refused; whoever then hands over one message at a time finds
    out which it is.

    >>> from panprivacy.events import Columns, Kind
    >>> [body] = bodies_of([b"7", b"8"], Columns(("user",), Kind.integers))
    >>> body.octets.tobytes()
    b'{"user":7}\\n{"user":8}'
    """
    form = form or told(payloads[0])
    if form is Payload.arrow:
        for payload in payloads:
            yield Body.copied(payload, Form.arrow)
    elif len(payloads) > 1 and sum(map(len, payloads)) > _MOST:
        middle = len(payloads) // 2
        yield from bodies_of(payloads[:middle], columns, form)
        yield from bodies_of(payloads[middle:], columns, form)
    else:
        lines = _objects(payloads) if form is Payload.json else _of_ids(payloads, columns)
        yield Body(np.frombuffer(lines, dtype=np.uint8), Form.ndjson)


def _objects(payloads: Sequence[bytes]) -> bytearray:
    joined = bytearray(b"\n").join(payloads)
    if joined.count(b"\n") < len(payloads):
        return joined
    return bytearray(b"\n").join([_in_one_line(payload) for payload in payloads])


def _in_one_line(payload: bytes) -> bytes:
    """An object that is written over several lines in one; anything else as it is."""
    if b"\n" not in payload.strip():
        return payload
    try:
        return json.dumps(json.loads(payload)).encode()
    except (ValueError, RecursionError):
        return payload  # several objects, or none


def _of_ids(payloads: Sequence[bytes], columns: Columns) -> bytearray:
    """Bare ids as NDJSON."""
    if len(columns.ids) != 1:
        raise Refused(Why.unreadable, "a message is one bare id, and an edge has two")
    before = b"{" + json.dumps(columns.ids[0]).encode() + b":"
    values = payloads if columns.kind is Kind.integers else [_as_text(payload) for payload in payloads]
    joined = bytearray(b"}\n" + before).join(values)
    if joined.count(b"\n") >= len(values):  # some end with their line
        joined = bytearray(b"}\n" + before).join([value.strip() for value in values])
    joined[:0] = before
    joined += b"}"
    return joined


def _as_text(payload: bytes) -> bytes:
    """A bare text as JSON; one that is JSON already stays what it is."""
    payload = payload.strip()
    if len(payload) > 1 and payload[:1] == payload[-1:] == b'"':
        return payload
    try:
        return json.dumps(payload.decode()).encode()
    except UnicodeDecodeError:
        raise Refused(Why.unreadable, "an id is not UTF-8") from None

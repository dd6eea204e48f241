"""Arrow streams of one column of integers, without missing values, not compressed: views of where the integers lie.

A stream is a row of messages: four bytes of ones, the length of the metadata, the metadata (FlatBuffers), the body.
"""

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panprivacy.serve.plain.flatbuffers import NotThere, Table

_MARK = 0xFFFFFFFF
_SCHEMA, _BATCH = 1, 3  # kinds of messages
_INTEGER = 2  # the kind of a column
_DTYPES = {
    (bits, signed): np.dtype(f"<{'i' if signed else 'u'}{bits // 8}") for bits in (8, 16, 32, 64) for signed in (0, 1)
}
_LEAST = 8  # bytes of a message


class _NotPlain(Exception):
    """This stream needs a reader of all that streams can be."""


def integers_in_arrow(octets: NDArray[np.uint8], name: str) -> list[NDArray[Any]] | None:
    """The integers of each record batch of a stream; None if it is not plain."""
    try:
        return _batches(octets, name)
    except (_NotPlain, NotThere, struct.error, ValueError, LookupError):
        return None


def _batches(octets: NDArray[np.uint8], name: str) -> list[NDArray[Any]]:
    data, at, dtype = memoryview(octets.data), 0, None
    found: list[NDArray[Any]] = []
    while at + _LEAST <= len(data):
        mark, length = struct.unpack_from("<II", data, at)
        if mark != _MARK:
            raise _NotPlain
        if not length:  # the end of the stream
            at += _LEAST
            break
        start = at + _LEAST + length
        metadata = data[at + _LEAST : start]
        message = Table(metadata, struct.unpack_from("<I", metadata)[0])
        size, kind = message.number(3, "<q"), message.number(1, "<B")
        body = octets[start : start + size]
        if len(body) != size:
            raise _NotPlain
        if kind == _SCHEMA and dtype is None:
            dtype = _dtype(message.table(2), name)
        elif kind == _BATCH and dtype is not None:
            found.append(_integers(message.table(2), body, dtype))
        else:
            raise _NotPlain
        at = start + size
    if at != len(data) or not found:
        raise _NotPlain
    return found


def _dtype(schema: Table, name: str) -> np.dtype[Any]:
    """The type of the only column, if that has this name and is of integers."""
    fields = schema.below(1)
    (count, offset) = struct.unpack_from("<II", schema.data, fields)
    if count != 1 or schema.number(0, "<h"):  # of big-endian numbers
        raise _NotPlain
    field = Table(schema.data, fields + 4 + offset)
    if field.text(0) != name or field.number(2, "<B") != _INTEGER or field.place(4) is not None:  # a dictionary
        raise _NotPlain
    kind = field.table(3)
    return _DTYPES[kind.number(0, "<i"), kind.number(1, "<B")]


def _integers(batch: Table, body: NDArray[np.uint8], dtype: np.dtype[Any]) -> NDArray[Any]:
    rows = batch.number(0, "<q")
    ((length, missing),) = batch.structs(1, "<qq")
    (_, (start, size)) = batch.structs(2, "<qq")  # of the bits that say what is missing, and of the integers
    if missing or length != rows or batch.place(3) is not None or min(start, size) < 0:  # compressed
        raise _NotPlain
    integers = body[start : start + rows * dtype.itemsize].view(dtype)
    if len(integers) != rows or not integers.flags.aligned:
        raise _NotPlain
    return integers

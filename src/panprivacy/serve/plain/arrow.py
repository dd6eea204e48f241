"""Arrow streams of one column of integers, without missing values, not compressed: views of where the integers lie.

A stream is a row of messages: four bytes of ones, the length of the metadata, the metadata (FlatBuffers), the body. A
table of FlatBuffers begins with the distance back to a list of 16-bit numbers: two lengths, and places of fields.
"""

import struct
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_MARK = 0xFFFFFFFF
_SCHEMA, _BATCH = 1, 3  # kinds of messages
_INTEGER = 2  # the kind of a column
_DTYPES = {
    (bits, signed): np.dtype(f"<{'i' if signed else 'u'}{bits // 8}") for bits in (8, 16, 32, 64) for signed in (0, 1)
}
_LEAST = 8  # bytes of a message


class _NotPlain(Exception):
    """This stream needs a reader of all that streams can be."""


class _Table(NamedTuple):
    """A table of FlatBuffers in some metadata."""

    data: memoryview
    at: int

    def place(self, field: int) -> int | None:
        """Where a field is; None if it has its default."""
        (back,) = struct.unpack_from("<i", self.data, self.at)
        fields = self.at - back
        (length,) = struct.unpack_from("<H", self.data, fields)
        entry = 4 + 2 * field
        offset = struct.unpack_from("<H", self.data, fields + entry)[0] if entry < length else 0
        return self.at + offset if offset else None

    def number(self, field: int, form: str, default: int = 0) -> int:
        """The number in a field."""
        place = self.place(field)
        return default if place is None else int(struct.unpack_from(form, self.data, place)[0])

    def below(self, field: int) -> int:
        """Where the thing is that a field points to."""
        place = self.place(field)
        if place is None:
            raise _NotPlain
        return place + int(struct.unpack_from("<I", self.data, place)[0])

    def table(self, field: int) -> "_Table":
        return _Table(self.data, self.below(field))

    def only(self, field: int, form: str) -> tuple[Any, ...]:
        """What is in a list that has as many things as this format."""
        start, wanted = self.below(field), struct.Struct(form)
        if struct.unpack_from("<I", self.data, start)[0] * 16 != wanted.size:
            raise _NotPlain
        return wanted.unpack_from(self.data, start + 4)


def integers_in_arrow(octets: NDArray[np.uint8], name: str) -> list[NDArray[Any]] | None:
    """The integers of each record batch of a stream; None if it is not plain."""
    try:
        return _batches(octets, name)
    except (_NotPlain, struct.error, ValueError, LookupError):
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
        message = _Table(metadata, struct.unpack_from("<I", metadata)[0])
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


def _dtype(schema: _Table, name: str) -> np.dtype[Any]:
    """The type of the only column, if that has this name and is of integers."""
    fields = schema.below(1)
    (count, offset) = struct.unpack_from("<II", schema.data, fields)
    if count != 1 or schema.number(0, "<h"):  # of big-endian numbers
        raise _NotPlain
    field = _Table(schema.data, fields + 4 + offset)
    if _text(field, 0) != name or field.number(2, "<B") != _INTEGER or field.place(4) is not None:  # a dictionary
        raise _NotPlain
    kind = field.table(3)
    return _DTYPES[kind.number(0, "<i"), kind.number(1, "<B")]


def _integers(batch: _Table, body: NDArray[np.uint8], dtype: np.dtype[Any]) -> NDArray[Any]:
    rows = batch.number(0, "<q")
    (length, missing) = batch.only(1, "<qq")
    (_, _, start, size) = batch.only(2, "<qqqq")  # of the bits that say what is missing, and of the integers
    if missing or length != rows or batch.place(3) is not None or min(start, size) < 0:  # compressed
        raise _NotPlain
    integers = body[start : start + rows * dtype.itemsize].view(dtype)
    if len(integers) != rows or not integers.flags.aligned:
        raise _NotPlain
    return integers


def _text(table: _Table, field: int) -> str:
    start = table.below(field)
    (length,) = struct.unpack_from("<I", table.data, start)
    return bytes(table.data[start + 4 : start + 4 + length]).decode()

"""Arrow streams that Polars may be given: every buffer lies in the body and is as long as its rows need.

Polars believes what a stream says of its own lengths: one that lies ends the process, or makes it ask for memory
without bound. So whatever is not known to be sound is refused before, and so is what is compressed: a short body may
unfold to any length.
"""

import struct
from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from panprivacy.memory import Scratch
from panprivacy.serve.plain.flatbuffers import NotThere, Table
from panprivacy.serve.refusals import Refused, Why

_MARK = 0xFFFFFFFF
_PREFIX = 8  # bytes before the metadata of a message
_SCHEMA, _BATCH = 1, 3  # kinds of messages
_NULL, _INT, _FLOAT, _BINARY, _TEXT, _BOOL, _DECIMAL, _DATE, _TIME, _TIMESTAMP = range(1, 11)
_LIST, _STRUCT, _DURATION, _LARGE_BINARY, _LARGE_TEXT, _LARGE_LIST = 12, 13, 18, 19, 20, 21
_BINARY_VIEW, _TEXT_VIEW = 23, 24
_OFFSETS = dict.fromkeys((_BINARY, _TEXT, _LIST), "<i4") | dict.fromkeys(
    (_LARGE_BINARY, _LARGE_TEXT, _LARGE_LIST), "<i8"
)
_VIEW = np.dtype([("length", "<i4"), ("prefix", "<u4"), ("buffer", "<i4"), ("offset", "<i4")])
_INLINE = 12  # bytes of a text that is in its view
_UNFOLDED = 16  # times the bytes of a body that the texts of its views may have: views may share what they show
_PLAIN_BITS = {_BOOL: 1, _TIMESTAMP: 64, _DURATION: 64}
_TOLD_BITS: dict[int, tuple[int, str, int, dict[int, int]]] = {  # the field of a type that tells it, and what it tells
    _INT: (0, "<i", 0, {bits: bits for bits in (8, 16, 32, 64)}),
    _FLOAT: (0, "<h", 0, {0: 16, 1: 32, 2: 64}),
    _DECIMAL: (2, "<i", 128, {bits: bits for bits in (32, 64, 128, 256)}),
    _DATE: (0, "<h", 1, {0: 32, 1: 64}),
    _TIME: (1, "<i", 32, {32: 32, 64: 64}),
}
_DEEPEST = 8  # columns in columns
_MOST = 10_000  # columns


def check_sound(octets: NDArray[np.uint8]) -> None:
    """Refuse a stream that is not sound."""
    try:
        with Scratch() as scratch:
            _check(octets, scratch)
    except (NotThere, struct.error, ValueError, LookupError, OverflowError, StopIteration):
        _refuse()


def _refuse(what: str = "this Arrow stream is damaged") -> NoReturn:
    raise Refused(Why.unreadable, what) from None


def _check(octets: NDArray[np.uint8], scratch: Scratch) -> None:
    data, at = memoryview(octets.data), 0
    columns: list[Table] | None = None
    while at < len(data):
        mark, length = struct.unpack_from("<Ii", data, at)
        if mark != _MARK or length < 0:
            _refuse()
        start = at + _PREFIX + length
        if not length:  # the end of the stream
            at = start
            continue
        metadata = data[at + _PREFIX : start]
        message = Table.root(metadata)
        kind, size = message.number(1, "<B"), message.number(3, "<q")
        if len(metadata) != length or not 0 <= size <= len(data) - start:
            _refuse("this Arrow stream is cut off")
        if kind == _SCHEMA and columns is None:
            columns = _columns(message.table(2))
        elif kind == _BATCH and columns is not None:
            _Batch(message.table(2), octets[start : start + size], scratch).check(columns)
        else:
            _refuse("an Arrow stream is one schema and record batches; dictionaries are to be written as plain text")
        at = start + size


def _columns(schema: Table) -> list[Table]:
    columns = schema.tables(1)
    if schema.number(0, "<h"):
        _refuse("numbers of this Arrow stream are big-endian")
    left = _MOST
    level = columns
    for _ in range(_DEEPEST):
        left -= len(level)
        if left < 0:
            _refuse("this Arrow stream has too many columns")
        level = [child for column in level for child in column.tables(5)]
    if level:
        _refuse("this Arrow stream has columns in columns in columns")
    return columns


class _Batch:
    """One record batch: its nodes (a length for each column) and buffers are taken in the order of the columns."""

    def __init__(self, batch: Table, body: NDArray[np.uint8], scratch: Scratch) -> None:
        if batch.place(3) is not None:
            raise Refused(Why.type, "an Arrow stream is to be sent without compression")
        self._body, self._scratch = body, scratch
        self._rows = batch.number(0, "<q")
        self._nodes = iter(batch.structs(1, "<qq"))
        self._buffers = iter(batch.structs(2, "<qq"))
        self._shown: Iterator[tuple[Any, ...]] = iter(batch.structs(4, "<q"))  # buffers of each column of views

    def check(self, columns: list[Table]) -> None:
        for column in columns:
            if self._column(column) != self._rows:
                _refuse()
        if any(next(rest, None) is not None for rest in (self._nodes, self._buffers, self._shown)):
            _refuse()

    def _column(self, column: Table) -> int:
        """Check the next column, and those in it; returns how many values it has."""
        rows, missing = next(self._nodes)
        if not (0 <= missing <= rows <= 8 * len(self._body)) or column.place(4) is not None:  # a dictionary
            _refuse()
        kind, children = column.number(2, "<B"), column.tables(5)
        if kind == _NULL:
            return int(rows)
        valid = self._buffer()
        if missing and 8 * len(valid) < rows:
            _refuse()
        if kind in _OFFSETS:
            last = self._last_offset(rows, np.dtype(_OFFSETS[kind]))
            within = self._children(children, 1)[0] if kind in (_LIST, _LARGE_LIST) else len(self._buffer())
            if last > within:
                _refuse()
        elif kind in (_BINARY_VIEW, _TEXT_VIEW):
            self._views(rows)
        elif kind == _STRUCT:
            if any(length != rows for length in self._children(children, len(children))):
                _refuse()
        elif 8 * len(self._buffer()) < rows * _bits(kind, column):
            _refuse()
        return int(rows)

    def _children(self, children: list[Table], count: int) -> list[int]:
        if len(children) != count:
            _refuse()
        return [self._column(child) for child in children]

    def _buffer(self) -> NDArray[np.uint8]:
        start, size = next(self._buffers)
        if not 0 <= start <= start + size <= len(self._body):
            _refuse()
        return self._body[start : start + size]

    def _last_offset(self, rows: int, dtype: np.dtype[Any]) -> int:
        """The end of the last value, if all of them are in order."""
        buffer = self._buffer()
        if not rows:
            return 0
        offsets = np.frombuffer(buffer, dtype, rows + 1)
        if offsets[0] < 0 or self._scratch.own(offsets[1:] < offsets[:-1]).any():
            _refuse()
        return int(offsets[-1])

    def _views(self, rows: int) -> None:
        views = np.frombuffer(self._buffer(), _VIEW, rows) if rows else np.empty(0, _VIEW)
        (count,) = next(self._shown)
        if not 0 <= count <= len(self._body):
            _refuse()
        sizes = np.array([len(self._buffer()) for _ in range(count)], dtype=np.int64)
        own = self._scratch.own
        lengths = own(views["length"].astype(np.int64))
        far = own(lengths > _INLINE)
        which, begin, lengths_far = (own(column[far]) for column in (views["buffer"], views["offset"], lengths))
        if (
            own(lengths < 0).any()
            or own((which < 0) | (which >= count)).any()
            or own(begin < 0).any()
            or own(own(begin + lengths_far) > own(sizes[which])).any()
        ):
            _refuse()
        if lengths.sum() > _UNFOLDED * max(len(self._body), 1):
            _refuse("texts of this Arrow stream share their bytes too often: write it as plain text, not as views")


def _bits(kind: int, column: Table) -> int:
    """How many bits a value of a column takes."""
    if kind in _PLAIN_BITS:
        return _PLAIN_BITS[kind]
    if kind not in _TOLD_BITS:
        _refuse("this Arrow stream has a column of a type that is not taken")
    field, form, default, known = _TOLD_BITS[kind]
    return known[column.table(3).number(field, form, default)]

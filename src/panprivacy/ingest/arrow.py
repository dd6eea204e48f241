"""Arrow streams: their messages, streams of plain integers, checks before Polars reads one, and streams in pieces.

A stream is a row of messages: four bytes of ones, the length of the metadata, the metadata (a table of FlatBuffers),
and a body. Polars believes what a stream says of its own lengths: a stream that lies ends the process, or makes it ask
for memory without bound. So a stream that others send is checked before Polars reads it, and refused unless every
buffer lies in the body and is as long as its rows need. Compressed streams are refused, too: a short body may unfold to
any length.

An Arrow *file* (Feather) has an index at its end, and a pipe has no end to go to; a stream is read as it comes. Polars
reads streams only to their end, so `ArrowStream` cuts one where a record batch ends, and gives Polars the schema and
some whole batches at a time.
"""

import io
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from panprivacy.ingest.batch import BadInput, Columns, ProblemType, Refused
from panprivacy.ingest.columnar import field_names, overwrite_decoder, wanted
from panprivacy.ingest.files import Stream
from panprivacy.memory.scratch import Scratch

if TYPE_CHECKING:
    import polars as pl


PREFIX = struct.Struct("<Ii")
"""What stands before the metadata: `MARK` and the length of the metadata, 0 at the end of a stream."""
MARK = 0xFFFFFFFF
SCHEMA, DICTIONARY, BATCH = 1, 2, 3
"""Kinds of messages."""
_DAMAGED = "this Arrow stream is damaged"


class Table(NamedTuple):
    """A table of FlatBuffers. A field that is missing, or that points out of the metadata, is a `struct.error`.

    A table begins with the distance back to a list of 16-bit numbers: two lengths, and the place of each field.
    """

    data: memoryview
    at: int

    @classmethod
    def root(cls, data: memoryview) -> "Table":
        """The outermost table."""
        return cls(data, struct.unpack_from("<I", data)[0])

    def place(self, field: int) -> int | None:
        """Where a field is; None if it has its default."""
        (back,) = struct.unpack_from("<i", self.data, self.at)
        fields = self.at - back
        if fields < 0:
            raise struct.error
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
            raise struct.error
        return place + int(struct.unpack_from("<I", self.data, place)[0])

    def table(self, field: int) -> "Table":
        """The table that a field points to."""
        return Table(self.data, self.below(field))

    def tables(self, field: int) -> "list[Table]":
        """The tables of a list; none if there is no list."""
        offsets = self.structs(field, "<I")
        start = self.below(field) + 4 if offsets else 0
        return [Table(self.data, start + 4 * i + offset) for i, (offset,) in enumerate(offsets)]

    def structs(self, field: int, form: str) -> list[tuple[Any, ...]]:
        """The structs of a list, each with this format; none if there is no list."""
        if self.place(field) is None:
            return []
        start, each = self.below(field), struct.Struct(form)
        (count,) = struct.unpack_from("<I", self.data, start)
        found = self.data[start + 4 : start + 4 + count * each.size]
        if len(found) != count * each.size:
            raise struct.error
        return list(each.iter_unpack(found))

    def text(self, field: int) -> str:
        """The text in a field."""
        start = self.below(field)
        (length,) = struct.unpack_from("<I", self.data, start)
        return bytes(self.data[start + 4 : start + 4 + length]).decode()


def read_message(metadata: memoryview) -> tuple[int, int, Table]:
    """The kind of a message, how many bytes of body follow it, and the schema or record batch that it is."""
    table = Table.root(metadata)
    return table.number(1, "<B"), table.number(3, "<q"), table.table(2)


_BROKEN = (struct.error, ValueError, LookupError, OverflowError, StopIteration)


def _messages(octets: NDArray[np.uint8]) -> Iterator[tuple[int, Table, NDArray[np.uint8]] | None]:
    """All messages: their kinds, what they are, and their bodies; None where a stream ends."""
    data, at = memoryview(octets.data), 0
    while at < len(data):
        mark, length = PREFIX.unpack_from(data, at)
        _require(mark == MARK and length >= 0)
        start = at + PREFIX.size + length
        if not length:
            yield None
            at = start
            continue
        metadata = data[at + PREFIX.size : start]
        kind, size, header = read_message(metadata)
        _require(len(metadata) == length and 0 <= size <= len(data) - start, "this Arrow stream is cut off")
        at = start + size
        yield kind, header, octets[start:at]


def _require(holds: bool, detail: str = _DAMAGED) -> None:
    if not holds:
        raise Refused(ProblemType.unreadable, detail)


# --- Plain integers: one column, without missing values, not compressed ---------------------------------------------

_INTEGER_DTYPES = {
    (bits, signed): np.dtype(f"<{'i' if signed else 'u'}{bits // 8}") for bits in (8, 16, 32, 64) for signed in (0, 1)
}


def integers_in_arrow(octets: NDArray[np.uint8], name: str) -> list[NDArray[Any]] | None:
    """Views of the integers of each record batch, where they lie; None if the stream is not plain."""
    found: list[NDArray[Any]] = []
    dtype, ended = None, False
    try:
        for each in _messages(octets):
            if ended:
                return None
            if each is None:
                ended = True
                continue
            kind, header, body = each
            if kind == SCHEMA and dtype is None:
                (field,) = header.tables(1)
                is_plain = not header.number(0, "<h") and field.place(4) is None  # neither big-endian, nor a dictionary
                if not is_plain or field.text(0) != name or field.number(2, "<B") != _INT:
                    return None
                dtype = _INTEGER_DTYPES[field.table(3).number(0, "<i"), field.table(3).number(1, "<B")]
            elif kind == BATCH and dtype is not None:
                found.append(_integers(header, body, dtype))
            else:
                return None
    except (Refused, *_BROKEN):
        return None
    return found or None


def _integers(batch: Table, body: NDArray[np.uint8], dtype: np.dtype[Any]) -> NDArray[Any]:
    rows = batch.number(0, "<q")
    ((length, missing),) = batch.structs(1, "<qq")
    (_, (start, size)) = batch.structs(2, "<qq")  # the validity bits, and the integers
    if missing or length != rows or batch.place(3) is not None or min(start, size) < 0:  # compressed
        raise ValueError
    integers = body[start : start + rows * dtype.itemsize].view(dtype)
    if len(integers) != rows or not integers.flags.aligned:
        raise ValueError
    return integers


# --- Streams that Polars may be given -------------------------------------------------------------------------------

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
_COARSE_TIMES = ((_TIMESTAMP, 0), (_TIMESTAMP, 1), (_DATE, 1))  # seconds and milliseconds
_LATEST = 2**53  # of them, which are multiplied by 1,000 for each finer unit, and would wrap around
_DEEPEST = 8  # columns in columns
_MOST_COLUMNS = 10_000  # columns


def check_arrow(octets: NDArray[np.uint8]) -> None:
    """Refuse a stream that Polars must not be given."""
    columns: list[Table] | None = None
    try:
        with Scratch() as scratch:
            for kind, header, body in filter(None, _messages(octets)):
                if kind == SCHEMA and columns is None:
                    columns = _columns(header)
                else:
                    cause = "an Arrow stream is one schema and record batches; write dictionaries as plain text"
                    _require(kind == BATCH and columns is not None, cause)
                    _Batch(header, body, scratch).check(columns or [])
    except _BROKEN:
        raise Refused(ProblemType.unreadable, _DAMAGED) from None


def _columns(schema: Table) -> list[Table]:
    columns = schema.tables(1)
    _require(not schema.number(0, "<h"), "numbers of this Arrow stream are big-endian")
    left, level = _MOST_COLUMNS, columns
    for _ in range(_DEEPEST):
        left -= len(level)
        _require(left >= 0, "this Arrow stream has too many columns")
        level = [child for column in level for child in column.tables(5)]
    _require(not level, "this Arrow stream has columns in columns in columns")
    return columns


class _Batch:
    """One record batch: its nodes (a length for each column) and buffers are taken in the order of the columns."""

    def __init__(self, batch: Table, body: NDArray[np.uint8], scratch: Scratch) -> None:
        if batch.place(3) is not None:
            raise Refused(ProblemType.content_type, "an Arrow stream is to be sent without compression")
        self._body, self._scratch = body, scratch
        self._rows = batch.number(0, "<q")
        self._nodes = iter(batch.structs(1, "<qq"))
        self._buffers = iter(batch.structs(2, "<qq"))
        self._shown: Iterator[tuple[Any, ...]] = iter(batch.structs(4, "<q"))  # buffers of each column of views

    def check(self, columns: list[Table]) -> None:
        for column in columns:
            _require(self._column(column) == self._rows)
        _require(all(next(rest, None) is None for rest in (self._nodes, self._buffers, self._shown)))

    def _column(self, column: Table) -> int:
        """Check the next column, and those in it; returns how many values it has."""
        rows, missing = next(self._nodes)
        _require(0 <= missing <= rows <= 8 * len(self._body) and column.place(4) is None)  # no dictionary
        kind, children = column.number(2, "<B"), column.tables(5)
        if kind == _NULL:
            return int(rows)
        valid = self._buffer()
        _require(not missing or 8 * len(valid) >= rows)
        if kind in _OFFSETS:
            last, buffer = 0, self._buffer()
            if rows:  # the values are in order, and end in what holds them
                offsets = np.frombuffer(buffer, _OFFSETS[kind], rows + 1)
                _require(offsets[0] >= 0 and not self._scratch.own(offsets[1:] < offsets[:-1]).any())
                last = int(offsets[-1])
            _require(len(children) == (kind in (_LIST, _LARGE_LIST)))
            _require(last <= (self._column(children[0]) if children else len(self._buffer())))
        elif kind in (_BINARY_VIEW, _TEXT_VIEW):
            self._views(rows)
        elif kind == _STRUCT:
            _require(all(self._column(child) == rows for child in children))
        else:
            self._numbers(rows, kind, column)
        return int(rows)

    def _numbers(self, rows: int, kind: int, column: Table) -> None:
        values = self._buffer()
        bits = _PLAIN_BITS.get(kind)
        if bits is None:
            _require(kind in _TOLD_BITS, "this Arrow stream has a column of a type that is not taken")
            field, form, default, known = _TOLD_BITS[kind]
            bits = known[column.table(3).number(field, form, default)]
        _require(8 * len(values) >= rows * bits)
        if (kind, column.table(3).number(0, "<h", kind == _DATE)) in _COARSE_TIMES and rows:
            times = np.frombuffer(values, "<i8", rows)
            near = self._scratch.own((times <= _LATEST) & (times >= -_LATEST)).all()
            _require(bool(near), "a time of this Arrow stream is thousands of years away")

    def _buffer(self) -> NDArray[np.uint8]:
        start, size = next(self._buffers)
        _require(0 <= start <= start + size <= len(self._body))
        return self._body[start : start + size]

    def _views(self, rows: int) -> None:
        views = np.frombuffer(self._buffer(), _VIEW, rows) if rows else np.empty(0, _VIEW)
        (count,) = next(self._shown)
        _require(0 <= count <= len(self._body))
        sizes = np.array([len(self._buffer()) for _ in range(count)], dtype=np.int64)
        own = self._scratch.own
        lengths = own(views["length"].astype(np.int64))
        far = own(lengths > _INLINE)
        which, begin, lengths_far = (own(column[far]) for column in (views["buffer"], views["offset"], lengths))
        _require(not (own(lengths < 0).any() or own(begin < 0).any() or own((which < 0) | (which >= count)).any()))
        _require(not own(own(begin + lengths_far) > own(sizes[which])).any())
        cause = "texts of this Arrow stream share their bytes too often: write it as plain text, not as views"
        _require(int(lengths.sum()) <= _UNFOLDED * max(len(self._body), 1), cause)


# --- Streams in pieces, as they come through a pipe ------------------------------------------------------------------

_LARGEST_MESSAGE = 2**30  # bytes of a message: a record batch is in memory whole


class _Fault(Exception):
    """What is wrong with a stream, in words."""


class ArrowStream(Stream):
    """One Arrow stream. Its blocks are the schema and some whole record batches."""

    def __init__(self, file: str, columns: Columns) -> None:
        super().__init__(file, columns)
        self._rest = bytearray()
        self._needed = PREFIX.size  # bytes that must have come before the next message can be told
        self._schema = b""
        self._fault = _DAMAGED
        self._is_packed = False  # whether any record batch so far was compressed

    @property
    def names(self) -> list[str] | None:
        return field_names(_frame(self._schema).schema) if self._schema else None

    def fault(self) -> BadInput:
        return BadInput(self._file, f"{self._fault}, somewhere after row {self.rows}")

    def blame(self, _block: bytes) -> BadInput:
        return self.fault()

    def block(self, piece: bytes, last: bool = False) -> bytes:
        self._rest += piece
        messages = bytearray()
        try:
            while len(self._rest) >= self._needed:
                messages += self._next()
        except (_Fault, struct.error) as error:
            self.broken, self._fault = True, str(error) if isinstance(error, _Fault) else _DAMAGED
        if last and self._rest and not self.broken:
            self.broken, self._fault = True, "this Arrow stream is cut off"
        if last and not (self.broken or self._schema):
            raise BadInput(self._file, "there is nothing in it")
        return self._schema + messages if messages else b""

    def _next(self) -> bytes:
        """Take the next message, if it is whole: a record batch is given back, a schema is kept."""
        mark, length = PREFIX.unpack_from(self._rest)
        if mark != MARK or not 0 <= length <= _LARGEST_MESSAGE:
            raise struct.error
        kind, end = None, PREFIX.size + length
        if length and len(self._rest) >= end:
            kind, size, header = read_message(memoryview(bytes(self._rest[PREFIX.size : end])))
            if kind == DICTIONARY:
                # The entries of a dictionary would have to be kept until the stream ends, and they may be users.
                raise _Fault("a column of this Arrow stream is a dictionary (Categorical, Enum); write plain text")
            if not 0 <= size <= _LARGEST_MESSAGE:
                raise _Fault(f"a record batch of this Arrow stream has {size:,} bytes; write smaller ones")
            self._is_packed |= kind == BATCH and header.place(3) is not None
            end += size
        if len(self._rest) < end:
            self._needed = end
            return b""
        taken = bytes(self._rest[:end])
        del self._rest[:end]
        self._needed = PREFIX.size
        if kind == SCHEMA:
            self._check(taken)
        return b"" if kind in (None, SCHEMA) else taken  # after the end of a stream, another may follow

    def _check(self, schema: bytes) -> None:
        from polars.exceptions import PanicException, PolarsError

        try:
            frame = _frame(schema)
        except (PolarsError, PanicException, OSError):
            raise _Fault(_DAMAGED) from None
        wanted(self._file, frame.lazy(), self._columns)
        self._schema = schema

    def parse(self, block: bytes) -> "pl.DataFrame":
        found = wanted(self._file, _frame(block).lazy(), self._columns).collect()
        if self._is_packed:
            overwrite_decoder()
        return found


def _frame(messages: bytes) -> "pl.DataFrame":
    import polars as pl

    return pl.read_ipc_stream(io.BytesIO(messages + PREFIX.pack(MARK, 0)))

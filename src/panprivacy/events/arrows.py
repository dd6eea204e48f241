"""Arrow streams, which are made to be piped: a schema, and then record batches, each with its own length.

An Arrow *file* (Feather) has an index at its end, and a pipe has no end to go to; a stream is read as it comes. Polars
reads streams only to their end, so this one is cut where a record batch ends, and Polars is given the schema and some
whole batches at a time.
"""

import io
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from panprivacy.events.batch import BadInput, Batch, Columns
from panprivacy.events.columnar import wanted, with_whole_ids
from panprivacy.events.magic import ARROW_STREAM

if TYPE_CHECKING:
    import polars as pl

_MOST = 2**30  # bytes of a message: a record batch is in memory whole
_SCHEMA, _DICTIONARY = 1, 2
_PREFIX = struct.Struct("<4si")
_DAMAGED = "this Arrow stream is damaged"


class _Message(NamedTuple):
    kind: int
    size: int


class ArrowStream:
    """One Arrow stream: takes its bytes in pieces of any length, gives whole record batches, and parses them."""

    def __init__(self, file: str, columns: Columns) -> None:
        self._file = file
        self._columns = columns
        self._rest = bytearray()
        self._needed = _PREFIX.size  # bytes that must have come before the next message can be told
        self._schema = b""
        self._fault = ""
        self.rows = 0
        """How many rows have been handed on."""

    @property
    def broken(self) -> bool:
        """Whether nothing can be read from here on; `refuse_broken` says why, once the rows before it are read."""
        return bool(self._fault)

    def refuse_broken(self) -> None:
        """Refuse what cannot be read."""
        if self._fault:
            raise BadInput(self._file, f"{self._fault}, somewhere after row {self.rows}")

    def block(self, piece: bytes, last: bool = False) -> bytes:
        """Take a piece; give back the schema and all record batches that are whole now, or nothing."""
        self._rest += piece
        messages = bytearray()
        while not self.broken and len(self._rest) >= self._needed:
            messages += self._next()
        if last and not self.broken:
            if self._rest:
                self._fault = "this Arrow stream is cut off"
            elif not self._schema:
                raise BadInput(self._file, "there is nothing in it")
        return self._schema + messages if messages else b""

    def _next(self) -> bytes:
        """Take the next message, if it is whole: a record batch is given back, a schema is kept."""
        magic, length = _PREFIX.unpack_from(self._rest)
        if length == 0 and magic == ARROW_STREAM:  # the end of a stream; another may follow
            del self._rest[: _PREFIX.size]
            return b""
        start = _PREFIX.size + length
        if magic != ARROW_STREAM or not 0 < length <= _MOST:
            self._fault = _DAMAGED
        elif len(self._rest) < start:
            self._needed = start
        else:
            return self._whole(start)
        return b""

    def _whole(self, start: int) -> bytes:
        try:
            message = _read_message(bytes(self._rest[_PREFIX.size : start]))
        except (struct.error, IndexError):
            self._fault = _DAMAGED
            return b""
        end = start + message.size
        if message.kind == _DICTIONARY:
            # The entries of a dictionary would have to be kept until the stream ends, and they may be users.
            self._fault = "a column of this Arrow stream is a dictionary (Categorical, Enum); write it as plain text"
        elif not 0 <= message.size <= _MOST:
            self._fault = f"a record batch of this Arrow stream has {message.size:,} bytes; write smaller ones"
        elif len(self._rest) < end:
            self._needed = end
        else:
            taken = bytes(self._rest[:end])
            del self._rest[:end]
            self._needed = _PREFIX.size
            if message.kind != _SCHEMA:
                return taken
            self._check(taken)
        return b""

    def _check(self, schema: bytes) -> None:
        from polars.exceptions import PanicException, PolarsError

        self._schema = schema
        try:
            frame = _frame(schema)
        except (PolarsError, PanicException, OSError):
            self._fault = _DAMAGED
            return
        wanted(self._file, frame.lazy(), self._columns)

    def parse(self, block: bytes) -> "pl.DataFrame":
        """Read some record batches; safe on several threads."""
        return wanted(self._file, _frame(block).lazy(), self._columns).collect()

    def batch(self, _block: bytes, parsed: "Callable[[], pl.DataFrame]", position: int) -> Batch:
        """Number the rows of a block."""
        from polars.exceptions import PanicException, PolarsError

        try:
            frame = parsed()
        except (PolarsError, PanicException, OSError):
            raise BadInput(self._file, f"{_DAMAGED}, somewhere after row {self.rows}") from None
        frame = with_whole_ids(self._file, self._columns, frame, self.rows)
        batch = Batch(self._file, frame, self.rows, position)
        self.rows += len(frame)
        return batch


def _frame(messages: bytes) -> "pl.DataFrame":
    import polars as pl

    return pl.read_ipc_stream(io.BytesIO(messages + _PREFIX.pack(ARROW_STREAM, 0)))


def _read_message(metadata: bytes) -> _Message:
    """Two fields of a `Message`, a table of FlatBuffers: which kind it has, and how many bytes of body follow it.

    A table begins with the distance back to a list of 16-bit numbers: two lengths, and then the place of each field.
    """
    (table,) = struct.unpack_from("<I", metadata)
    (back,) = struct.unpack_from("<i", metadata, table)
    fields = table - back
    if fields < 0:
        raise IndexError(fields)
    kind, size = (_place(metadata, fields, number) for number in (1, 3))
    return _Message(
        metadata[table + kind] if kind else 0,
        struct.unpack_from("<q", metadata, table + size)[0] if size else 0,
    )


def _place(metadata: bytes, fields: int, number: int) -> int:
    """Where in its table a field is; 0 for one that is left out, since it has its default."""
    (length,) = struct.unpack_from("<H", metadata, fields)
    at = 4 + 2 * number
    return int(struct.unpack_from("<H", metadata, fields + at)[0]) if at < length else 0

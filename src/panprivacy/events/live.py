"""Standard input, counted as it arrives."""

import os
from collections.abc import Iterator
from functools import partial

from panprivacy.events.batch import BadInput, Batch, Columns
from panprivacy.events.bell import Bell
from panprivacy.events.delimited import Layout
from panprivacy.events.sources import Format, is_packed
from panprivacy.events.streams import Stream, refuse_parquet, stream_of, undecided

_NAME = "standard input"
PIECE = 24 * 1024
"""Bytes of text that are parsed at a time.

Polars reads text in pieces of 32 KiB and keeps rows that lie across their ends in memory that it frees without
overwriting it. Longer blocks would be parsed faster, and leave such rows behind.
"""


class Live:
    """A pipe of CSV, NDJSON or an Arrow stream, read as far as it has come.

    Whatever has arrived is parsed at once, so a slow pipe is counted line by line and a fast one in blocks.
    """

    def __init__(
        self, handle: int, columns: Columns, format_: Format | None, layout: Layout | None, bell: Bell
    ) -> None:
        refuse_parquet(_NAME, format_)
        self._handle = handle
        self._columns = columns
        self._format = format_
        self._layout = layout
        self._bell = bell
        self._read = 0

    def batches(self) -> Iterator[Batch | None]:
        """Yield batches as they come, and None when the bell woke the wait: then a release may be due."""
        stream: Stream | None = None
        held = b""  # until it tells what it is
        for arrived in self._pieces():
            if arrived is None:
                yield None
                continue
            piece, held = held + arrived if held else arrived, b""
            if stream is None and arrived and undecided(piece):
                held = piece
                continue
            stream = stream or self._stream(piece)
            block = stream.block(piece, last=not arrived)
            del piece, arrived  # while this waits for more, nothing is to be left of what was counted
            if block:
                yield self._parsed(stream, block)
            del block
            stream.refuse_broken()

    def _parsed(self, stream: Stream, block: bytes) -> Batch:
        return stream.batch(block, partial(self._bell.undisturbed, partial(stream.parse, block)), self._read)

    def _pieces(self) -> Iterator[bytes | None]:
        """Yield what has arrived, None for a wake without input, and b"" at the end, unless a signal was the end."""
        ended = False
        while not (ended or self._bell.over):
            ended, arrived = self._arrived(at_once=False)
            if arrived:
                yield arrived
            del arrived
            yield None
        if not ended:  # a signal ended it: what is in the pipe has come before that
            yield self._arrived(at_once=True)[1] or None
        if ended or not self._read:  # of a row that a signal cut short, nobody knows whose it is
            yield b""

    def _arrived(self, at_once: bool) -> tuple[bool, bytes]:
        """Wait for input, unless it has to be there at once; whether it has ended, and what has come."""
        pieces: list[bytes] = []
        size = 0
        while size < PIECE and self._bell.wait(self._handle, at_most=0 if pieces or at_once else None):
            piece = os.read(self._handle, PIECE)
            if not piece:
                return True, b"".join(pieces)
            pieces.append(piece)
            size += len(piece)
            self._read += len(piece)
        return False, b"".join(pieces)

    def _stream(self, first: bytes) -> Stream:
        if not first:
            raise BadInput(_NAME, "nothing came")
        if is_packed(first):
            raise BadInput(_NAME, "is compressed; unpack it on the way (zcat, zstdcat)")
        return stream_of(_NAME, first, self._columns, self._format, self._layout)

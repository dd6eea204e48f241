"""Files of text: blocks are read in order, parsed on all cores, and handed on in order."""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from panprivacy.ingest.batch import BadInput, Batch, Cause, Columns
from panprivacy.ingest.delimited import Cutter, Delimited, Layout, check_first, record_ends, split_row
from panprivacy.ingest.files import BLOCK, NOT_UTF8, Format, is_utf8, opened, pieces, refuse_known
from panprivacy.ingest.ndjson import JsonLines, keys_of

if TYPE_CHECKING:
    import polars as pl

    from panprivacy.ingest.pipes import Stream

_WORKERS = 2


class Text:
    """One stream of text: takes its bytes in pieces of any length, gives blocks of whole rows, and parses them."""

    def __init__(
        self,
        file: str,
        columns: Columns,
        format_: Format,
        layout: Layout,
        *,
        piped: bool = False,
        longest: int | None = None,
    ) -> None:
        self._file = file
        self._columns = columns
        self._format = format_
        self._layout = layout
        self._piped = piped
        self._cutter = Cutter(format_ is not Format.ndjson, longest)
        self._parser: Delimited | JsonLines | None = None
        self._begun = False
        self._waiting: list[bytes] = []  # the header, until a row has come; blank lines, until a row comes after them
        self.rows = 0
        """How many rows have been handed on."""
        self.broken = False
        """Whether a row has begun that does not end; `refuse_broken` says which, once the rows before it are read."""

    def block(self, piece: bytes, last: bool = False) -> bytes:
        """Take a piece; give back the whole rows that are there now, without the header and blank lines at the end."""
        if not self._begun:
            refuse_known(self._file, piece)
            self._begun = True
        come = self._cutter.cut(piece)
        self.broken = self._cutter.stuck or (last and self._cutter.quoted)
        if last and not self.broken:
            come += self._cutter.rest
        if not (last or come.strip(b"\r\n")):
            self._waiting.append(come)
            return b""
        block, self._waiting = b"".join((*self._waiting, come)), []
        if self._parser is None:
            block = self._first(block, last)
        return block if self._format is Format.ndjson else self._without_blank_end(block)

    def _without_blank_end(self, block: bytes) -> bytes:
        """Keep blank lines back until a row comes after them: at the end of a file they are no rows."""
        if not block:
            return b""
        rows = len(block.rstrip(b"\r\n"))
        end = (block.find(b"\n", rows) + 1 or len(block)) if rows else 0
        self._waiting = [block[end:]]
        return block[:end]

    def refuse_broken(self) -> None:
        """Refuse a row that does not end."""
        if self.broken:
            cause = f"a row does not end within {self._cutter.longest:,} bytes, or not at all; is a quote left open?"
            raise BadInput(self._file, cause, self.rows + 1, code="endless-row")

    def _first(self, block: bytes, last: bool) -> bytes:
        if not block.strip():
            self._waiting = [block]
            if last and not self.broken:
                raise BadInput(self._file, "there is nothing in it", code="empty-file")
            return b""
        if self._format is Format.ndjson:
            self._parser = JsonLines(self._file, self._columns, block)
        elif last or not self._layout.header or len(record_ends(block, quotes=True, most=2)) > 1:
            self._parser = Delimited(self._file, self._columns, self._layout, block, piped=self._piped)
        else:
            self._waiting = [block]
            return b""
        return block[self._parser.skip :]

    def parse(self, block: bytes) -> "pl.DataFrame":
        """Read one block; safe on several threads."""
        assert self._parser is not None
        return self._parser.parse(block)

    def batch(self, block: bytes, parsed: "Callable[[], pl.DataFrame]", position: int) -> Batch:
        """Number the rows of a block, or say which of them could not be parsed."""
        import polars as pl

        try:
            frame = parsed()
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError):
            raise self._blame(block) from None
        batch = Batch(self._file, frame, self.rows, position)
        self.rows += len(frame)
        return batch

    def _blame(self, block: bytes) -> BadInput:
        """Find the first row that cannot be parsed, while the rows before it can."""
        assert self._parser is not None
        ends = record_ends(block, self._parser.quotes)
        place = bisect_left(ends, True, key=lambda end: not self._parses(block[:end]))
        if place == len(ends):
            return BadInput(self._file, "cannot be read as text in rows", self.rows + 1, code="not-text")
        row = block[ends[place - 1] if place else 0 : ends[place]]
        cause = self._parser.cause(row) if is_utf8(row) else Cause(NOT_UTF8)
        return BadInput(self._file, cause.text, self.rows + place + 1, hints=cause.hints)

    def _parses(self, block: bytes) -> bool:
        import polars as pl

        try:
            self.parse(block)
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError):
            return False
        return True


def layout_of(format_: Format, asked: Layout | None) -> Layout:
    """How a file of text is written, unless it was said."""
    layout = asked or Layout()
    return replace(layout, separator="\t") if format_ is Format.tsv else layout


def first_names(file: str, format_: Format, layout: Layout) -> list[str]:
    """What the columns are called, or the keys of the first object."""
    with opened(file) as (_, unpacked):
        first = next(pieces(file, unpacked, size=BLOCK))
    refuse_known(file, first)
    block = first[: record_ends(first, quotes=format_ is not Format.ndjson, most=1)[0]]
    if format_ is Format.ndjson:
        return keys_of(block)
    check_first(file, block)
    return split_row(block, layout.separator)


class _Job(NamedTuple):
    block: bytes
    parsed: "Callable[[], pl.DataFrame]"
    position: int


def read_text(file: str, columns: Columns, format_: Format, layout: Layout) -> Iterator[Batch]:
    """Yield the batches of a file of text, in order; memory holds a few blocks."""
    text = Text(file, columns, format_, layout)
    with opened(file) as (raw, unpacked):
        yield from read_blocks(text, pieces(file, unpacked, lambda: text.rows), raw.tell)


def read_blocks(stream: "Stream", come: Iterator[bytes], position: Callable[[], int]) -> Iterator[Batch]:
    """Yield the batches of a stream whose last piece is empty: blocks are parsed ahead, and come in order."""
    jobs: deque[_Job] = deque()
    with ThreadPoolExecutor(_WORKERS) as pool:
        for piece in come:
            block = stream.block(piece, last=not piece)
            if block:
                jobs.append(_Job(block, pool.submit(stream.parse, block).result, position()))
            while jobs and (len(jobs) > _WORKERS or not piece or stream.broken):
                yield stream.batch(*jobs.popleft())
            stream.refuse_broken()

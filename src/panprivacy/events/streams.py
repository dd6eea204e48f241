"""What comes through a pipe, told by its first bytes, since it has no name and cannot be rewound."""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Protocol

from panprivacy.events.arrows import ArrowStream
from panprivacy.events.batch import BadInput, Batch, Columns
from panprivacy.events.delimited import Layout
from panprivacy.events.magic import ARROW_FILE, ARROW_STREAM, PARQUET
from panprivacy.events.sources import Format, opened, pieces
from panprivacy.events.text import Text, layout_of, read_blocks

if TYPE_CHECKING:
    import polars as pl

_CAN = "CSV, NDJSON and Arrow streams can"
_REFUSED = {
    PARQUET: f"Parquet cannot be piped, since its index is at its end; {_CAN}. Or write it to a file and name that",
    ARROW_FILE: f"an Arrow file cannot be piped, since its index is at its end; {_CAN} (Polars: write_ipc_stream)",
}


class Stream(Protocol):
    """Takes bytes in pieces of any length, gives blocks of whole rows, and parses them."""

    rows: int

    @property
    def broken(self) -> bool: ...
    def block(self, piece: bytes, last: bool = False) -> bytes: ...
    def parse(self, block: bytes) -> "pl.DataFrame": ...
    def batch(self, block: bytes, parsed: "Callable[[], pl.DataFrame]", position: int) -> Batch: ...
    def refuse_broken(self) -> None: ...


def undecided(first: bytes) -> bool:
    """Whether more bytes have to come before these can be told.

    >>> undecided(b"PA"), undecided(b"PATIENT"), undecided(b"")
    (True, False, True)
    """
    return any(magic != first and magic.startswith(first) for magic in (*_REFUSED, ARROW_STREAM))


def refuse_parquet(name: str, asked: Format | None) -> None:
    """Refuse what cannot be piped before anybody waits for it."""
    if asked is Format.parquet:
        raise BadInput(name, _REFUSED[PARQUET])


def stream_of(name: str, first: bytes, columns: Columns, asked: Format | None, layout: Layout | None) -> Stream:
    """The reader of what begins with these bytes; `asked` is what it is, if somebody said so."""
    for magic, cause in _REFUSED.items():
        if first.startswith(magic):
            raise BadInput(name, cause)
    if first.startswith(ARROW_STREAM):
        return ArrowStream(name, columns)
    if asked is Format.arrow:
        raise BadInput(name, "this does not begin like an Arrow stream")
    format_ = asked or (Format.ndjson if first.lstrip()[:1] == b"{" else Format.csv)
    return Text(name, columns, format_, layout_of(format_, layout), piped=True)


def read_stream(file: str, columns: Columns, asked: Format | None, layout: Layout | None) -> Iterator[Batch]:
    """Yield the batches of a file that is read once, from its beginning to its end: ``<(...)``, or a named pipe."""
    refuse_parquet(file, asked)
    stream: Stream | None = None
    with opened(file) as (raw, unpacked):
        come = pieces(file, unpacked, lambda: stream.rows if stream is not None else 0)
        first = piece = next(come)
        while piece and undecided(first):
            piece = next(come)
            first += piece
        stream = stream_of(file, first, columns, asked, layout)
        yield from read_blocks(stream, chain([first] if piece else [first, b""], come), raw.tell)

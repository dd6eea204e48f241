"""Bytes that are read once, from the first to the last: in pieces, cut into blocks of whole rows, which are parsed."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from panprivacy.ingest.batch import BadInput, Batch, Columns
from panprivacy.ingest.files import ARROW_FILE, ARROW_STREAM, PARQUET

if TYPE_CHECKING:
    import polars as pl


class Stream(ABC):
    """A file, pipe or body: takes its bytes in pieces of any length, gives blocks of whole rows, and parses them."""

    def __init__(self, file: str, columns: Columns) -> None:
        self._file, self._columns = file, columns
        self.rows = 0
        """How many rows have been handed on."""
        self.broken = False
        """Whether nothing can be read from here on; `fault` says why, once the rows before are read."""

    @property
    @abstractmethod
    def names(self) -> list[str] | None:
        """What the columns are called, once that is known."""

    @abstractmethod
    def block(self, piece: bytes, last: bool = False) -> bytes:
        """Take a piece; give back the whole rows that are there now, or nothing."""

    @abstractmethod
    def parse(self, block: bytes) -> "pl.DataFrame":
        """Read one block; safe on several threads."""

    @abstractmethod
    def blame(self, block: bytes) -> BadInput:
        """The error in a block that `parse` refuses."""

    @abstractmethod
    def fault(self) -> BadInput:
        """Why nothing more can be read."""

    def batch(self, block: bytes, parsed: "Callable[[], pl.DataFrame]", position: int) -> Batch:
        """Number the rows of a block, or say which of them could not be parsed."""
        from polars.exceptions import PanicException, PolarsError

        try:
            frame = parsed()
        except (PolarsError, PanicException, OSError, ValueError):
            raise self.blame(block) from None
        batch = Batch(self._file, frame, self.rows, position)
        self.rows += len(frame)
        return batch


def batches_of(
    come: Iterable[bytes | None],
    begin: Callable[[bytes], Stream],
    parse: Callable[..., Any] = partial,
    *,
    ahead: int = 0,
    position: Callable[[], int] = int,
) -> Iterator[Batch | None]:
    """Yield the batches of bytes that come in pieces, the last of which is empty; None where None comes.

    `begin` makes a stream as soon as the first bytes tell what it is. `parse` begins to parse a block, and returns a
    function that waits for the rows; the blocks `ahead` are begun before the first is waited for.
    """
    stream, held, jobs = None, b"", deque[Any]()
    for arrived in come:
        if arrived is None:
            yield None
            continue
        last, piece, held = not arrived, held + arrived if held else arrived, b""
        if stream is None and not last and undecided(piece):
            held = piece
            continue
        stream = stream or begin(piece)
        if block := stream.block(piece, last=last):
            jobs.append((block, parse(stream.parse, block), position()))
        del piece, arrived, block  # while this waits for more, nothing is to be left of what was counted
        while jobs and (len(jobs) > ahead or last or stream.broken):
            yield stream.batch(*jobs.popleft())
        if stream.broken:
            raise stream.fault()


def undecided(first: bytes) -> bool:
    """Whether more bytes have to come before these can be told.

    >>> undecided(b"PA"), undecided(b"PATIENT"), undecided(b"")
    (True, False, True)
    """
    return any(magic != first and magic.startswith(first) for magic in (PARQUET, ARROW_FILE, ARROW_STREAM))

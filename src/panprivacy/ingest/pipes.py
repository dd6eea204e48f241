"""Pipes: told by their first bytes, since they have no name and cannot be rewound, and counted as they arrive."""

import os
import select
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from panprivacy.ingest.arrow import ArrowStream
from panprivacy.ingest.batch import BadInput, Batch, Columns
from panprivacy.ingest.columnar import field_names
from panprivacy.ingest.delimited import Layout
from panprivacy.ingest.files import ARROW_FILE, ARROW_STREAM, PARQUET, PIECE, Format, is_packed, opened, pieces
from panprivacy.ingest.text import Text, layout_of, read_blocks

if TYPE_CHECKING:
    import polars as pl

T = TypeVar("T")

_CAN = "CSV, NDJSON and Arrow streams can"
_REFUSED = {
    PARQUET: f"Parquet cannot be piped, since its index is at its end; {_CAN}. Or write it to a file and name that",
    ARROW_FILE: f"an Arrow file cannot be piped, since its index is at its end; {_CAN} (Polars: write_ipc_stream)",
}
_NAME = "standard input"


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
        raise BadInput(name, _REFUSED[PARQUET], code="cannot-be-piped")


def stream_of(name: str, first: bytes, columns: Columns, asked: Format | None, layout: Layout | None) -> Stream:
    """The reader of what begins with these bytes; `asked` is what it is, if somebody said so."""
    for magic, cause in _REFUSED.items():
        if first.startswith(magic):
            raise BadInput(name, cause, code="cannot-be-piped")
    if first.startswith(ARROW_STREAM):
        return ArrowStream(name, columns)
    if asked is Format.arrow:
        raise BadInput(name, "this does not begin like an Arrow stream", code="other-format")
    format_ = asked or (Format.ndjson if first.lstrip()[:1] == b"{" else Format.csv)
    return Text(name, columns, format_, layout_of(format_, layout), piped=True)


def read_stream(file: str, columns: Columns, asked: Format | None, layout: Layout | None) -> Iterator[Batch]:
    """Yield the batches of a file that is read once, from its beginning to its end: ``<(...)``, or a named pipe."""
    refuse_parquet(file, asked)
    with _begun(file, columns, asked, layout) as (stream, come, position):
        yield from read_blocks(stream, come, position)


def stream_names(file: str) -> list[str]:
    """What the columns of an Arrow stream are called."""
    with _begun(file, Columns(()), Format.arrow, None) as (stream, come, _):
        assert isinstance(stream, ArrowStream)
        for piece in come:
            stream.block(piece, last=not piece)
            stream.refuse_broken()
            if stream.schema is not None:
                break
        return field_names(stream.schema or {})


@contextmanager
def _begun(
    file: str, columns: Columns, asked: Format | None, layout: Layout | None
) -> Iterator[tuple[Stream, Iterator[bytes], Callable[[], int]]]:
    """The reader of a file that is read once, its pieces from the first on, and how many bytes were read."""
    stream: Stream | None = None
    with opened(file) as (raw, unpacked):
        come = pieces(file, unpacked, lambda: stream.rows if stream is not None else 0)
        first = piece = next(come)
        while piece and undecided(first):
            piece = next(come)
            first += piece
        stream = stream_of(file, first, columns, asked, layout)
        yield stream, chain([first] if piece else [first, b""], come), raw.tell


class SignalTimer:
    """Rings for each SIGUSR1 and at the end of each period; SIGINT, SIGTERM and SIGHUP end the input.

    Python runs a signal's handler and goes back to waiting. So that it does not, every signal also writes to a
    socket that `wait` watches beside the input.
    """

    def __init__(self, every: float | None = None) -> None:
        self._every = every
        self._next = time.monotonic() + every if every else None
        self._asked = 0
        self.over = False
        """Whether the input is to end here."""
        self.wake_at: float | None = None
        """When to stop waiting because there is something else to do, by `time.monotonic`."""

    def __enter__(self) -> Self:
        self._woken, self._waker = socket.socketpair()
        self._waker.setblocking(False)
        self._woken.setblocking(False)
        self._old_waker = signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        self._old: dict[int, Any] = {
            number: signal.signal(number, handler)
            for number, handler in (
                (signal.SIGUSR1, self._ask),
                (signal.SIGINT, self._end),
                (signal.SIGTERM, self._end),
                (signal.SIGHUP, self._end),
            )
            if signal.getsignal(number) != signal.SIG_IGN or number == signal.SIGUSR1  # nohup ignores SIGHUP
        }
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._old_waker)
        self._woken.close()
        self._waker.close()

    def _ask(self, _number: int, _frame: FrameType | None) -> None:
        self._asked += 1

    def _end(self, _number: int, _frame: FrameType | None) -> None:
        self.over = True

    def wait(self, handle: int, *, at_most: float | None = None) -> bool:
        """Wait until there is input, the bell rings, or a time is over; tell whether there is input."""
        moments = [max(moment - time.monotonic(), 0.0) for moment in (self._next, self.wake_at) if moment is not None]
        times = [*moments, at_most] if at_most is not None else moments
        ready, _, _ = select.select([handle, self._woken.fileno()], [], [], min(times, default=None))
        if self._woken.fileno() in ready:
            self._woken.recv(4096)
        return handle in ready

    def undisturbed(self, call: Callable[[], T]) -> T:
        """Run a call that Ctrl-C may break off, and then once more: it ends the input, not what has come before it.

        Polars takes SIGINT for itself while it works, whatever the handler, and raises.
        """
        try:
            return call()
        except KeyboardInterrupt:
            self.over = True
            return call()

    def rings(self) -> bool:
        """Whether a release is due; each is told once."""
        if self._next is not None and time.monotonic() >= self._next:
            assert self._every is not None
            # Periods missed while something else took long are not made up for: their releases would be alike.
            self._next += self._every * ((time.monotonic() - self._next) // self._every + 1)
            return True
        if self._asked:
            self._asked -= 1
            return True
        return False


class Live:
    """A pipe of CSV, NDJSON or an Arrow stream, read as far as it has come.

    Whatever has arrived is parsed at once, so a slow pipe is counted line by line and a fast one in blocks.
    """

    def __init__(
        self, handle: int, columns: Columns, format_: Format | None, layout: Layout | None, bell: SignalTimer
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
        if not ended:  # a signal ended it: the content of the pipe came before that
            yield self._arrived(at_once=True)[1] or None
        if ended or not self._read:  # whose row it is that a signal cut short is not known
            yield b""

    def _arrived(self, at_once: bool) -> tuple[bool, bytes]:
        """Wait for input, unless it has to be there at once; whether it has ended, and what has come."""
        pieces: list[bytes] = []
        size = 0
        while size < PIECE and self._bell.wait(self._handle, at_most=0 if pieces or at_once else None):
            piece = os.read(self._handle, PIECE - size)
            if not piece:
                return True, b"".join(pieces)
            pieces.append(piece)
            size += len(piece)
            self._read += len(piece)
        return False, b"".join(pieces)

    def _stream(self, first: bytes) -> Stream:
        if not first:
            raise BadInput(_NAME, "nothing came", code="empty-file")
        if is_packed(first):
            raise BadInput(_NAME, "is compressed; unpack it on the way (zcat, zstdcat)", code="compressed-pipe")
        return stream_of(_NAME, first, self._columns, self._format, self._layout)

"""Files and pipes of any format: read as batches of columns one after the other, or as the ids of a universe.

Pipes are told by their first bytes, since they have no name and cannot be rewound, and are counted as they arrive.
"""

import os
import select
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePath
from types import FrameType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from panprivacy.ingest.arrow import ArrowStream
from panprivacy.ingest.batch import BadInput, Batch, Cause, Columns, Kind, shown_names
from panprivacy.ingest.columnar import column_names, kind_of, read_columnar
from panprivacy.ingest.delimited import MERGED, ROUNDED, WHOLE, Layout, told_of
from panprivacy.ingest.files import (
    ARROW_FILE,
    ARROW_STREAM,
    NOT_UTF8,
    PARQUET,
    PIECE,
    STDIN,
    UNPACK,
    Format,
    Stream,
    batches_of,
    expand,
    format_of,
    is_pipe,
    is_streamed,
    is_utf8,
    opened,
    partitions,
    pieces,
    refuse_known,
)
from panprivacy.ingest.text import Text
from panprivacy.urls import scheme_of

if TYPE_CHECKING:
    import polars as pl

T = TypeVar("T")

_CAN = "CSV, NDJSON and Arrow streams can"
_REFUSED = {
    PARQUET: f"Parquet cannot be piped, since its index is at its end; {_CAN}. Or write it to a file and name that",
    ARROW_FILE: f"an Arrow file cannot be piped, since its index is at its end; {_CAN} (Polars: write_ipc_stream)",
}
_NAME = "standard input"
_COLUMNAR = (Format.parquet, Format.arrow)
_WORKERS = 2  # threads that parse blocks of text


def stream_of(
    name: str, first: bytes, columns: Columns, asked: Format | None, layout: Layout | None, *, piped: bool
) -> Stream:
    """The reader of what begins with these bytes; `asked` is what it is, if that is known: of a pipe it may not be."""
    for magic, cause in _REFUSED.items():
        if piped and first.startswith(magic):
            raise BadInput(name, cause, code="cannot-be-piped")
    if (piped or asked is Format.arrow) and first.startswith(ARROW_STREAM):
        return ArrowStream(name, columns)
    if asked is Format.arrow:
        raise BadInput(name, "this does not begin like an Arrow stream", code="other-format")
    format_ = asked or (Format.ndjson if first.lstrip()[:1] == b"{" else Format.csv)
    return Text(name, columns, format_, layout, piped=piped)


def _refuse_parquet(name: str, asked: Format | None) -> None:
    """Refuse what cannot be piped before it is waited for."""
    if asked is Format.parquet:
        raise BadInput(name, _REFUSED[PARQUET], code="cannot-be-piped")


def _read_once(file: str, columns: Columns, asked: Format | None, layout: Layout | None) -> Iterator[Batch]:
    """Yield the batches of a file that is read from its beginning to its end: text, Arrow streams, and pipes."""
    made: list[Stream] = []

    def begin(first: bytes) -> Stream:
        made.append(stream_of(file, first, columns, asked, layout, piped=is_pipe(file)))
        return made[0]

    with opened(file) as (raw, unpacked), ThreadPoolExecutor(_WORKERS) as pool:
        come = pieces(file, unpacked, lambda: made[0].rows if made else 0)
        batches = batches_of(come, begin, lambda *work: pool.submit(*work).result, ahead=_WORKERS, position=raw.tell)
        yield from filter(None, batches)


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
            number: signal.signal(number, self._note)
            for number in (signal.SIGUSR1, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
            if signal.getsignal(number) != signal.SIG_IGN or number == signal.SIGUSR1  # nohup ignores SIGHUP
        }
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._old_waker)
        self._woken.close()
        self._waker.close()

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGUSR1:
            self._asked += 1
        else:
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
        _refuse_parquet(_NAME, format_)
        self._handle, self._bell = handle, bell
        self._columns, self._format, self._layout = columns, format_, layout
        self._read = 0

    def batches(self) -> Iterator[Batch | None]:
        """Yield batches as they come, and None when the bell woke the wait: then a release may be due."""

        def parse(read: Callable[[bytes], Any], block: bytes) -> Any:
            return partial(self._bell.undisturbed, partial(read, block))

        return batches_of(self._pieces(), self._stream, parse, position=lambda: self._read)

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
        if first.startswith(tuple(UNPACK)):
            raise BadInput(_NAME, "is compressed; unpack it on the way (zcat, zstdcat)", code="compressed-pipe")
        return stream_of(_NAME, first, self._columns, self._format, self._layout, piped=True)


def read(
    files: Sequence[str], columns: Columns, *, format_: Format | None = None, layout: Layout | None = None
) -> Iterator[Batch]:
    """Yield the batches of some files, in order, with constant memory.

    `format_` is what the files are, where their names do not tell; `layout` is how CSV files are written. Anything
    wrong with a file or a row is a `BadInput` that names it.
    """
    import polars as pl

    for file in files:
        # Directories of its path stand for columns (``day=2026-01-05/``).
        given = partitions(file)
        roles = {role: name for role in ("action", "time", "category") if (name := getattr(columns, role)) in given}
        added = [pl.lit(given[name]).alias(name) for name in roles.values()]
        left_out: dict[str, Any] = dict.fromkeys(roles)
        for batch in _batches(file, replace(columns, **left_out), format_, layout):
            if columns.kind is None:  # from now on, ids are what they were in the first file
                columns = replace(columns, kind=kind_of(batch.rows[columns.ids[0]].dtype))
            yield replace(batch, rows=batch.rows.with_columns(added)) if added else batch
            del batch  # a batch that is counted is not kept while the next one is waited for


def _batches(file: str, columns: Columns, asked: Format | None, layout: Layout | None) -> Iterator[Batch]:
    if is_pipe(file):
        _refuse_parquet(file, asked)
        return _read_once(file, columns, asked, layout)
    format_ = format_of(file, asked)
    if format_ in _COLUMNAR and not is_streamed(file, format_):
        return read_columnar(file, columns, format_)
    return _read_once(file, columns, format_, layout)


def columns_told(file: str, asked: Format | None, layout: Layout) -> Cause | None:
    """What can be said of the columns of a file: nothing of a pipe, which has to be read to tell.

    >>> columns_told("-", None, Layout()) is None
    True
    """
    if file == STDIN or is_pipe(file):
        return None
    format_ = format_of(file, asked)
    names = _names(file, format_, layout)
    return told_of(names, layout) if format_ in (Format.csv, Format.tsv) else Cause(f"it has {shown_names(names)}")


def _names(file: str, format_: Format, layout: Layout) -> list[str]:
    """The names of the columns of a file."""
    if format_ in _COLUMNAR and not is_streamed(file, format_):
        return column_names(file, format_)
    with opened(file) as (_, unpacked):
        come = pieces(file, unpacked)
        piece = next(come)
        stream = stream_of(file, piece, Columns((), Kind.text), format_, layout, piped=False)
        while True:
            stream.block(piece, last=not piece)
            if stream.broken:
                raise stream.fault()
            if stream.names is not None:
                return stream.names
            piece = next(come)


def read_ids(
    file: str, column: str | None = None, what: str = "id", storage_options: Mapping[str, Any] | None = None
) -> "pl.Series":
    """Read one column of a file whole, or the lines of a ``.txt`` file; `what` names the values in errors.

    Ids that a text file spells like integers are integers, if all of them are spelled that way: where one of them has
    a leading zero, they are all text, and 7 and 007 are two users. A CSV file may be separated by semicolons, tabs or
    bars: if its header has no comma, the separator that it has is taken.
    """
    import polars as pl

    if Path(file).is_dir():
        raise BadInput(file, "is a directory; a list of users is one file", code="users-are-one-file")
    found = expand([file], storage_options)
    if len(found) > 1:
        raise BadInput(file, "are several files; a list of users is one file", code="users-are-one-file")
    file = found[0]
    if PurePath(file).suffix == ".txt":
        if column is not None:
            cause = f"a .txt file has one id a line and no columns, so no column {column!r}"
            raise BadInput(file, cause, code="no-columns")
        lines = pl.Series(_lines(file), dtype=pl.String)
        rounded = lines.str.contains(ROUNDED).arg_true()
        if len(rounded):
            raise BadInput(file, f"{what} {lines[rounded[0]]!r} {MERGED}", rounded[0] + 1, code="float-id")
        return _typed(lines)
    format_, layout = format_of(file), Layout()
    names = _names(file, format_, layout)
    if format_ is Format.csv and len(names) == 1 and (other := next((each for each in ";\t|" if each in names[0]), "")):
        layout = Layout(separator=other)
        names = _names(file, format_, layout)
    if column is None and len(names) != 1:
        cause = f"which column holds the ids? Say FILE:COLUMN, in Python column=; it has {shown_names(names)}"
        raise BadInput(file, cause, code="which-column")
    name = column if column is not None else names[0]
    if format_ is not Format.ndjson:  # whose keys may come and go
        Columns((name,)).check_names(file, names)
    delimited = format_ in (Format.csv, Format.tsv)
    columns = Columns((name,), Kind.text if delimited else None)
    parts = [batch.rows[name] for batch in read([file], columns, format_=format_, layout=layout)]
    ids = pl.concat(parts) if parts else pl.Series(name, [], dtype=pl.String)
    if ids.null_count():
        raise BadInput(file, f"the {what} is missing", (ids.is_null().arg_true()[0]) + 1, code="missing-id")
    return _typed(ids) if delimited else ids


def _lines(file: str) -> list[str]:
    """The lines of a file, without blank ones at its end."""
    with opened(file) as (_, unpacked):
        text = b"".join(pieces(file, unpacked))
    refuse_known(file, text)
    if not is_utf8(text):
        raise BadInput(file, NOT_UTF8, code="not-utf8")
    return text.decode().rstrip("\r\n").splitlines()


def split_column(given: str) -> tuple[str, str | None]:
    """Read ``FILE`` or ``FILE:COLUMN``, as a command takes it.

    >>> split_column("patients.csv:id"), split_column("patients.txt")
    (('patients.csv', 'id'), ('patients.txt', None))
    >>> split_column("https://clinic.example:8000/patients.txt"), split_column("s3://clinic/patients.csv:id")
    (('https://clinic.example:8000/patients.txt', None), ('s3://clinic/patients.csv', 'id'))
    """
    file, _, column = given.rpartition(":")
    if Path(given).exists() or not file or (scheme_of(given) is not None and "/" in column):
        return given, None
    return file, column


def _typed(ids: "pl.Series") -> "pl.Series":
    """Read text as integers if that loses nothing; 12.0 is another way to write 12."""
    import polars as pl

    spelled = ids.str.replace(WHOLE, "$1")
    numbers = spelled.cast(pl.Int64, strict=False)
    return numbers if not numbers.null_count() and (numbers.cast(pl.String) == spelled).all() else spelled

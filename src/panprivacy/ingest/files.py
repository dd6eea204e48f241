"""Which files are meant, what they are by their names and first bytes, and their bytes: pieces, blocks, batches."""

import bz2
import errno
import glob
import gzip
import lzma
import re
import zlib
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote

from panprivacy.ingest.batch import BadInput, Batch, Columns, Hint
from panprivacy.ingest.remote import RemoteFile, find_remote
from panprivacy.memory.hardening import polars_overwrites
from panprivacy.urls import local_path, scheme_of

if TYPE_CHECKING:
    import polars as pl

BLOCK = 2**21
"""Bytes that are parsed at a time."""
PIECE = 24 * 1024
"""Bytes of text that are parsed at a time in a process that must not keep any.

Polars reads text in pieces of 32 KiB and keeps rows that lie across their ends in memory that it frees without
overwriting it. Longer blocks would be parsed faster, and leave such rows behind.
"""
STDIN = "-"
UNPACK: dict[bytes, Callable[[Any], Any]] = {
    b"\x1f\x8b": lambda raw: gzip.GzipFile(fileobj=raw),
    b"\x28\xb5\x2f\xfd": lambda raw: zstd_module().ZstdFile(raw),
    b"BZh": bz2.BZ2File,
    b"\xfd7zX": lzma.LZMAFile,
}
"""The first bytes of what is compressed, and what unpacks it."""
_PACKED = {".gz", ".zst", ".zstd", ".bz2", ".xz"}
PARQUET = b"PAR1"
ARROW_FILE = b"ARROW1"
ARROW_STREAM = b"\xff\xff\xff\xff"  # what each of its messages begins with
_TELLING = (PARQUET, ARROW_FILE, ARROW_STREAM)  # the first bytes of a stream, if it is no text

NOT_UTF8 = "not UTF-8; convert it, for example with iconv -f latin1 -t utf-8"

_UTF16 = "UTF-16, not UTF-8; convert it, for example with iconv -f utf-16 -t utf-8"
_KNOWN = {  # first bytes: what they are, and the format to ask for
    b"\xff\xfe": (_UTF16, ""),
    b"\xfe\xff": (_UTF16, ""),
    PARQUET: ("a Parquet file", "parquet"),
    ARROW_FILE: ("an Arrow file", "arrow"),
    ARROW_STREAM: ("an Arrow stream", "arrow"),
    b"PK\x03\x04": ("a zip archive or a spreadsheet; unpack it, or save it as CSV", ""),
}


class Readable(Protocol):
    """Whatever bytes can be read from."""

    def read(self, size: int, /) -> bytes: ...


class Format(StrEnum):
    """What a file can be."""

    csv = "csv"
    tsv = "tsv"
    ndjson = "ndjson"
    parquet = "parquet"
    arrow = "arrow"


_SUFFIXES = {
    ".csv": Format.csv,
    ".tsv": Format.tsv,
    ".tab": Format.tsv,
    ".ndjson": Format.ndjson,
    ".jsonl": Format.ndjson,
    ".parquet": Format.parquet,
    ".pq": Format.parquet,
    ".arrow": Format.arrow,
    ".ipc": Format.arrow,
    ".feather": Format.arrow,
}


def expand(given: Sequence[str], storage_options: Mapping[str, Any] | None = None) -> list[str]:
    """Turn what was given into files: globs and directories in alphabetical order, everything else as it is.

    A URL becomes a `RemoteFile`, with these options of its file system.

    >>> expand(["-"])
    ['-']
    """
    if STDIN in given:
        if len(given) > 1:
            raise BadInput(STDIN, "standard input comes alone, without other files", code="input-alone")
        return [STDIN]
    files: list[str] = []
    for each in given:
        files += [each] if isinstance(each, RemoteFile) else _meant(each, storage_options)
    return files


def _meant(given: str, storage_options: Mapping[str, Any] | None) -> Sequence[str]:
    """The files that one argument stands for; one that cannot be opened is refused before anything is read."""
    if _is_url(given):
        return find_remote(given, storage_options)
    pattern = local_path(given)
    path, found = Path(pattern), [pattern]
    if path.is_dir():
        # Not those that begin with . or _, where engines keep their notes.
        inside = [file for file in sorted(path.rglob("*")) if file.is_file()]
        found = [str(file) for file in inside if not re.search(r"(^|/)[._]", file.relative_to(path).as_posix())]
        if not found:
            raise BadInput(pattern, "there is no file in this directory", code="no-file")
    elif not path.exists() and glob.has_magic(pattern):
        matched = glob.glob(pattern, recursive=True)  # noqa: PTH207 (a Path cannot glob what is absolute)
        found = sorted(file for file in matched if not Path(file).is_dir())
        if not found:
            raise BadInput(pattern, "no file matches", code="no-file")
    for file in found:
        if is_pipe(file):
            continue  # opening and closing it would end the process that writes to it
        try:
            empty = not first_bytes(file)
        except OSError as error:
            raise BadInput(file, reason(error), code="cannot-be-opened") from None
        if empty:
            raise BadInput(file, "the file is empty", code="empty-file")
    return found


def _is_url(given: str) -> bool:
    return not Path(given).exists() and scheme_of(given) is not None


def is_slow(given: str) -> bool:
    """Whether bytes come as fast as somebody else sends them, which may take hours: a pipe, or a file behind a URL.

    >>> is_slow("-"), is_slow("https://clinic.example/visits.csv"), is_slow("visits.csv")
    (True, True, False)
    """
    return given == STDIN or is_pipe(given) or _is_url(given)


def partitions(file: str) -> dict[str, str]:
    """The columns that the directories of a file stand for, as engines write them.

    >>> partitions("visits/day=2026-01-05/clinic=St%20Mary/part-0.parquet")
    {'day': '2026-01-05', 'clinic': 'St Mary'}
    """
    parts = (part.partition("=") for part in PurePath(file).parts[:-1] if "=" in part)
    return {unquote(name): unquote(value) for name, _, value in parts}


def is_pipe(file: str) -> bool:
    """Whether a file can be read only once: a named pipe, what a shell makes of ``<(...)``, a device."""
    path = Path(file)
    return not isinstance(file, RemoteFile) and path.exists() and not path.is_file() and not path.is_dir()


def size_of(file: str) -> int:
    """How many bytes a file has; 0 if that is not known."""
    return file.size if isinstance(file, RemoteFile) else Path(file).stat().st_size


def reason(error: OSError) -> str:
    """Say what the operating system refused."""
    plain = {errno.ENOENT: "there is no such file", errno.EACCES: "permission denied"}
    return plain.get(error.errno or 0, (error.strerror or str(error) or type(error).__name__).lower())


def format_of(file: str, asked: Format | None = None) -> Format:
    """Tell the format by the name, or, for Parquet and Arrow, by the first bytes.

    >>> format_of("visits.csv.gz"), format_of("visits.jsonl")
    (<Format.csv: 'csv'>, <Format.ndjson: 'ndjson'>)
    """
    if asked is not None:
        return asked
    path = PurePath(file)
    bare = PurePath(path.stem) if path.suffix.lower() in _PACKED else path
    known = _SUFFIXES.get(bare.suffix.lower())
    if known in (Format.parquet, Format.arrow) and bare != path:
        cause = f"{known} files are compressed inside; unpack this one, or let its writer compress it"
        raise BadInput(file, cause, code="compressed-twice")
    if known is not None:
        return known
    if is_pipe(file):
        cause = "is a pipe, and cannot be read twice; write it to a file, and name that"
        raise BadInput(file, cause, code="not-a-file")
    first = first_bytes(file)
    for magic, (_, format_) in _KNOWN.items():
        if format_ and first.startswith(magic):
            return Format(format_)
    refuse_known(file, first)
    hints = (Hint("format", " or ".join(Format)),)
    raise BadInput(file, "its name does not tell what it is", hints=hints, code="unknown-format")


def first_bytes(file: str) -> bytes:
    """As many bytes of a file as tell what it is."""
    if isinstance(file, RemoteFile):
        return file.first(6)
    with Path(file).open("rb") as opened:
        return opened.read(6)


def is_streamed(file: str, format_: Format) -> bool:
    """Whether what is called an Arrow file is a stream, which is read from its beginning to its end."""
    return format_ is Format.arrow and first_bytes(file).startswith(ARROW_STREAM)


@contextmanager
def opened(file: str) -> Iterator[tuple["Ahead", Readable]]:
    """Open a file: the raw one, whose position tells the progress, and its unpacked bytes."""
    with file.open() if isinstance(file, RemoteFile) else Path(file).open("rb", buffering=0) as raw:
        ahead = Ahead(raw)
        unpack = next((each for magic, each in UNPACK.items() if ahead.first(4).startswith(magic)), None)
        yield ahead, ahead if unpack is None else unpack(ahead)


class Ahead:
    """Bytes whose beginning can be looked at before it is read; a pipe cannot be rewound.

    >>> from io import BytesIO
    >>> ahead = Ahead(BytesIO(b"user,1"))
    >>> ahead.first(4), ahead.read(2), ahead.read(9), ahead.read(9), ahead.tell()
    (b'user', b'us', b'er,1', b'', 6)
    """

    def __init__(self, raw: Readable) -> None:
        self._raw = raw
        self._first = b""
        self._given = 0

    def first(self, size: int) -> bytes:
        """Look at the first bytes; fewer, if there are no more."""
        while len(self._first) < size and (piece := self._raw.read(size - len(self._first))):
            self._first += piece
        return self._first[:size]

    def read(self, size: int) -> bytes:
        """Read the bytes that are there, up to a limit; nothing at the end."""
        piece, self._first = self._first[:size], self._first[size:]
        piece = piece + self._raw.read(size - len(piece)) if piece else self._raw.read(size)
        self._given += len(piece)
        return piece

    def tell(self) -> int:
        """How many bytes have been read."""
        return self._given


def zstd_module() -> Any:
    """The Zstandard of Python 3.14, or its backport."""
    try:
        from compression import zstd  # type: ignore[import-not-found]  # Python 3.14
    except ImportError:
        from backports import zstd
    return zstd


def pieces(file: str, unpacked: Readable, rows: Callable[[], int] = int) -> Iterator[bytes]:
    """Yield pieces until the end, and there an empty piece, which tells the reader to finish.

    `rows` tells how many rows have been read when something goes wrong. Pieces are short in a process that must not
    keep any of them.
    """
    piece, size = b".", PIECE if polars_overwrites() else BLOCK
    while piece:
        try:
            piece = unpacked.read(size)
        except (EOFError, OSError, zlib.error, lzma.LZMAError, zstd_module().ZstdError) as error:
            cause = f"its compressed bytes are {'cut off' if isinstance(error, EOFError) else 'damaged'}"
            if isinstance(error, OSError) and error.errno is not None:  # gzip and bzip2 raise one without a number
                cause = reason(error)
            raise BadInput(file, f"{cause}, somewhere after row {rows()}", code="cut-off") from None
        yield piece


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
        if stream is None and not last and any(each != piece and each.startswith(piece) for each in _TELLING):
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


def refuse_known(file: str, first: bytes) -> None:
    """Refuse what begins like a file that is not text in UTF-8.

    >>> refuse_known("visits.csv", b"PAR1")
    Traceback (most recent call last):
        ...
    panprivacy.ingest.batch.BadInput: visits.csv: this is a Parquet file
    """
    for magic, (what, format_) in _KNOWN.items():
        if first.startswith(magic):
            hints = (Hint("format", format_),) if format_ else ()
            raise BadInput(file, f"this is {what}", hints=hints, code="other-format")


def is_utf8(row: bytes) -> bool:
    """Whether bytes are text in UTF-8."""
    try:
        row.decode()
    except UnicodeDecodeError:
        return False
    return True

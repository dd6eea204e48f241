"""Which files are meant, what they are by their names and first bytes, and their bytes."""

import bz2
import errno
import glob
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from enum import StrEnum
from pathlib import Path, PurePath
from typing import Any, Protocol
from urllib.parse import unquote

from panprivacy.ingest.batch import BadInput, Hint
from panprivacy.ingest.remote import RemoteFile, find_remote
from panprivacy.memory.hardening import polars_overwrites
from panprivacy.urls import local_path, scheme_of

BLOCK = 2**21
"""Bytes that are parsed at a time."""
PIECE = 24 * 1024
"""Bytes of text that are parsed at a time in a process that must not keep any.

Polars reads text in pieces of 32 KiB and keeps rows that lie across their ends in memory that it frees without
overwriting it. Longer blocks would be parsed faster, and leave such rows behind.
"""
STDIN = "-"
_GZIP, _ZSTD, _BZIP2, _XZ = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zX"
_PACKED = {".gz", ".zst", ".zstd", ".bz2", ".xz"}
PARQUET = b"PAR1"
ARROW_FILE = b"ARROW1"
ARROW_STREAM = b"\xff\xff\xff\xff"  # what each of its messages begins with

NOT_UTF8 = "not UTF-8; convert it, for example with iconv -f latin1 -t utf-8"

_UTF16 = "UTF-16, not UTF-8; convert it, for example with iconv -f utf-16 -t utf-8"
_KNOWN = {
    b"\xff\xfe": _UTF16,
    b"\xfe\xff": _UTF16,
    PARQUET: "a Parquet file",
    ARROW_FILE: "an Arrow file",
    ARROW_STREAM: "an Arrow stream",
    b"PK\x03\x04": "a zip archive or a spreadsheet; unpack it, or save it as CSV",
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
    """The files that one argument stands for."""
    if _is_url(given):
        return find_remote(given, storage_options)
    pattern = local_path(given)
    if Path(pattern).is_dir():
        found = _inside(Path(pattern))
    else:
        found = [pattern] if Path(pattern).exists() or not glob.has_magic(pattern) else _matches(pattern)
    for file in found:
        _check_readable(file)
    return found


def _is_url(given: str) -> bool:
    return not Path(given).exists() and scheme_of(given) is not None


def is_slow(given: str) -> bool:
    """Whether bytes come as fast as somebody else sends them, which may take hours: a pipe, or a file behind a URL.

    >>> is_slow("-"), is_slow("https://clinic.example/visits.csv"), is_slow("visits.csv")
    (True, True, False)
    """
    return given == STDIN or is_pipe(given) or _is_url(given)


def _inside(folder: Path) -> list[str]:
    """The files in a directory and those below it; not those that begin with . or _, where engines keep their notes."""
    found = [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
    ]
    if not found:
        raise BadInput(str(folder), "there is no file in this directory", code="no-file")
    return [str(path) for path in found]


def partitions(file: str) -> dict[str, str]:
    """The columns that the directories of a file stand for, as engines write them.

    >>> partitions("visits/day=2026-01-05/clinic=St%20Mary/part-0.parquet")
    {'day': '2026-01-05', 'clinic': 'St Mary'}
    """
    parts = (part.partition("=") for part in PurePath(file).parts[:-1] if "=" in part)
    return {unquote(name): unquote(value) for name, _, value in parts}


def _matches(pattern: str) -> list[str]:
    found = glob.glob(pattern, recursive=True)  # noqa: PTH207 (a Path cannot glob what is absolute)
    found = sorted(file for file in found if not Path(file).is_dir())
    if not found:
        raise BadInput(pattern, "no file matches", code="no-file")
    return found


def _check_readable(file: str) -> None:
    """Refuse what cannot be opened before anything has been read."""
    path = Path(file)
    if is_pipe(file):
        return  # opening and closing it would end the process that writes to it
    try:
        with path.open("rb") as opened:
            empty = not opened.read(1)
    except OSError as error:
        raise BadInput(file, reason(error), code="cannot-be-opened") from None
    if empty:
        raise BadInput(file, "the file is empty", code="empty-file")


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
        raise BadInput(
            file,
            f"{known} files are compressed inside; unpack this one, or let its writer compress it",
            code="compressed-twice",
        )
    if known is not None:
        return known
    if is_pipe(file):
        raise BadInput(
            file, "is a pipe, and cannot be read twice; write it to a file, and name that", code="not-a-file"
        )
    magic = first_bytes(file)
    if magic.startswith(PARQUET):
        return Format.parquet
    if magic.startswith((ARROW_FILE, ARROW_STREAM)):
        return Format.arrow
    refuse_known(file, magic)
    raise BadInput(
        file, "its name does not tell what it is", hints=(Hint("format", " or ".join(Format)),), code="unknown-format"
    )


def first_bytes(file: str) -> bytes:
    """As many bytes of a file as tell what it is."""
    if isinstance(file, RemoteFile):
        return file.first(6)
    with Path(file).open("rb") as opened:
        return opened.read(6)


def _raw(file: str) -> AbstractContextManager["Readable"]:
    """The bytes of a file as they are."""
    return file.open() if isinstance(file, RemoteFile) else Path(file).open("rb", buffering=0)


def is_streamed(file: str, format_: Format) -> bool:
    """Whether what is called an Arrow file is a stream, which is read from its beginning to its end."""
    return format_ is Format.arrow and first_bytes(file).startswith(ARROW_STREAM)


@contextmanager
def opened(file: str) -> Iterator[tuple["Ahead", Readable]]:
    """Open a file: the raw one, whose position tells the progress, and its unpacked bytes."""
    with _raw(file) as raw:
        ahead = Ahead(raw)
        yield ahead, _unpacked(ahead, ahead.first(4))


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


def is_packed(first: bytes) -> bool:
    """Whether bytes that begin so are compressed."""
    return first.startswith((_GZIP, _ZSTD, _BZIP2, _XZ))


def _unpacked(raw: Any, magic: bytes) -> Any:
    if magic[:2] == _GZIP:
        return gzip.GzipFile(fileobj=raw)
    if magic == _ZSTD:
        return zstd_module().ZstdFile(raw)
    if magic[:3] == _BZIP2:
        return bz2.BZ2File(raw)
    return lzma.LZMAFile(raw) if magic == _XZ else raw


def zstd_module() -> Any:
    """The Zstandard of Python 3.14, or its backport."""
    try:
        from compression import zstd  # type: ignore[import-not-found]  # Python 3.14
    except ImportError:
        from backports import zstd
    return zstd


def pieces(file: str, unpacked: Readable, rows: Callable[[], int] = int, *, size: int | None = None) -> Iterator[bytes]:
    """Yield pieces until the end, and there an empty piece, which tells the reader to finish.

    `rows` tells how many rows have been read when something goes wrong. Unless their size is given, pieces are short in
    a process that must not keep any of them.
    """
    piece, size = b".", size or (PIECE if polars_overwrites() else BLOCK)
    while piece:
        try:
            piece = unpacked.read(size)
        except Exception as error:
            cause = _cause(error)
            if cause is None:
                raise
            raise BadInput(file, f"{cause}, somewhere after row {rows()}", code="cut-off") from None
        yield piece


def _cause(error: Exception) -> str | None:
    if isinstance(error, EOFError):
        return "its compressed bytes are cut off"
    if isinstance(error, zlib.error | gzip.BadGzipFile | lzma.LZMAError) or type(error).__name__ == "ZstdError":
        return "its compressed bytes are damaged"
    if isinstance(error, OSError):  # without a number: bzip2 has nothing else to raise
        return "its compressed bytes are damaged" if error.errno is None else reason(error)
    return None


def refuse_known(file: str, first: bytes) -> None:
    """Refuse what begins like a file that is not text in UTF-8.

    >>> refuse_known("visits.csv", b"PAR1")
    Traceback (most recent call last):
        ...
    panprivacy.ingest.batch.BadInput: visits.csv: this is a Parquet file
    """
    for magic, what in _KNOWN.items():
        if first.startswith(magic):
            hint = {PARQUET: "parquet", ARROW_FILE: "arrow", ARROW_STREAM: "arrow"}.get(magic)
            raise BadInput(
                file, f"this is {what}", hints=() if hint is None else (Hint("format", hint),), code="other-format"
            )


def is_utf8(row: bytes) -> bool:
    """Whether bytes are text in UTF-8."""
    try:
        row.decode()
    except UnicodeDecodeError:
        return False
    return True

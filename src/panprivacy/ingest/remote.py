"""Files behind URLs: listed, streamed, and never written to a disk.

Text is read from one end to the other. The index of a Parquet or Arrow file is at its end: it is read first, then some
rows at a time, of Parquet the wanted columns only. Polars reads a file, so these bytes lie in a file in memory
(``memfd_create``) that is as long as the real one and has holes for all that was not asked for.
"""

import io
import os
import re
import struct
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from typing import Any, NamedTuple

from panprivacy.errors import PanPrivacyError
from panprivacy.ingest.batch import BadInput
from panprivacy.urls import located, refusal

_BLOCK = 2**23  # bytes of a request
_STRETCH = 2**26  # bytes of the wanted columns of some row groups, which are in memory at a time
_TAIL = 2**16  # bytes of a Parquet file that are read first: most indexes are shorter
_BLOCK_FORM = "<qi4xq"  # an entry of the index of an Arrow file


class RemoteFile(str):
    """The name of a file behind a URL, as messages show it, with what is needed to read it."""

    filesystem: Any
    path: str
    size: int
    """Bytes; 0 if the server does not tell."""
    ranged: bool
    """Whether the server answers with parts of the file."""

    def __new__(cls, shown: str, filesystem: Any, path: str, info: Mapping[str, Any]) -> "RemoteFile":
        file = super().__new__(cls, shown)
        file.filesystem, file.path, file.size = filesystem, path, info.get("size") or 0
        file.ranged = bool(file.size and info.get("partial", not _is_page(filesystem)))
        return file

    @contextmanager
    def open(self) -> Iterator["_Reader"]:
        """The bytes, from the first to the last."""
        # A web server answers one request with all bytes, in order; it may know no other.
        how = {"block_size": 0} if _is_page(self.filesystem) else {"block_size": _BLOCK, "cache_type": "readahead"}
        with _refusing(self):
            opened = self.filesystem.open(self.path, "rb", **how)
        try:
            yield _Reader(self, opened)
        finally:
            opened.close()

    def first(self, size: int) -> bytes:
        """The first bytes."""
        if self.ranged:
            return self.ranges([(0, min(size, self.size))])[0]
        with self.open() as reader:
            return reader.read(size)

    def ranges(self, wanted: Sequence[tuple[int, int]]) -> list[bytes]:
        """The bytes from a start to an end, of each pair."""
        pieces = [(at, min(at + _BLOCK, end)) for start, end in wanted for at in range(start, end, _BLOCK)]
        starts, ends = [start for start, _ in pieces], [end for _, end in pieces]
        with _refusing(self):
            found = self.filesystem.cat_ranges([self.path] * len(pieces), starts, ends, on_error="raise")
        if [len(each) for each in found] != [end - start for start, end in pieces]:
            raise BadInput(self, "the file changed while it was read, or its server does not answer with parts of it")
        left = iter(found)
        return [b"".join(next(left) for _ in range(start, end, _BLOCK)) for start, end in wanted]


class _Reader:
    """The bytes of a remote file; what its file system raises becomes one line."""

    def __init__(self, name: str, opened: Any) -> None:
        self._name, self._opened = name, opened

    def read(self, size: int) -> bytes:
        try:
            return bytes(self._opened.read(size))
        except Exception as error:
            raise BadInput(self._name, f"the connection broke ({type(error).__name__})") from None


@contextmanager
def _refusing(name: str) -> Iterator[None]:
    """Turn what a file system raises into one line."""
    try:
        yield
    except PanPrivacyError:
        raise
    except Exception as error:
        raise BadInput(name, refusal(error)) from None


def _is_page(filesystem: Any) -> bool:
    return "https" in filesystem.protocol


def find_remote(url: str, options: Mapping[str, Any] | None) -> list[RemoteFile]:
    """The files that a URL means: itself, what it matches, or the files below it, in alphabetical order."""
    place = located(url, options)
    files, path, page = place.filesystem, place.path, _is_page(place.filesystem)
    start = "" if page else f"{place.shown.partition('://')[0]}://"
    with _refusing(place.shown):
        if "*" in path or (not page and set(path) & set("?[") and not files.exists(path)):  # a page may have a query
            listed, none = files.glob(path, detail=True), "no file matches"
        elif path.endswith("/") or (not page and files.isdir(path)):
            # Not those that begin with . or _, where engines keep their notes.
            below = files.find(path, detail=True).items()
            listed = {name: info for name, info in below if not re.search("(^|/)[._]", name[len(path.rstrip("/")) :])}
            none = "there is no file in this directory"
        else:
            listed, none = {path: files.info(path)}, ""
    kept = {name: info for name, info in sorted(listed.items()) if not (none and info.get("type") == "directory")}
    if not kept:
        raise BadInput(place.shown, none)
    shown = {name: f"{start}{name.lstrip('/')}" if none else place.shown for name in kept}
    for name, info in kept.items():
        if info.get("size") == 0:
            raise BadInput(shown[name], "the file is empty", code="empty-file")
    return [RemoteFile(shown[name], files, name, info) for name, info in kept.items()]


# --- Parquet and Arrow files ------------------------------------------------------------------------------------------


class Stretch(NamedTuple):
    """Some rows of a file, and where their bytes are."""

    ranges: list[tuple[int, int]]
    ending: bytes
    """The end of the file that tells of these rows."""
    rows: tuple[int, int] | None = None
    """The first row and the number of rows, if the index tells of more."""


@contextmanager
def _memory_file(file: RemoteFile) -> Iterator[int]:
    if not hasattr(os, "memfd_create"):
        raise BadInput(file, "Parquet and Arrow files behind a URL need Linux; copy this one to this machine")
    handle = os.memfd_create("panprivacy", os.MFD_CLOEXEC)
    try:
        yield handle
    finally:
        os.close(handle)


@contextmanager
def whole_in_memory(file: RemoteFile) -> Iterator[str]:
    """The path of a file in memory with all bytes, for a server that does not answer with parts of the file."""
    with _memory_file(file) as handle:
        start = 0
        with file.open() as reader:
            while piece := reader.read(_BLOCK):
                _write_whole(handle, piece, start)
                start += len(piece)
        yield f"/proc/self/fd/{handle}"


class RemoteTable:
    """A Parquet or Arrow file behind a URL, of which some rows at a time are in memory."""

    def __init__(self, file: RemoteFile, mark: bytes) -> None:
        self.file = file
        self._index, self._is_parquet = self._read_index(mark), mark == b"PAR1"

    def _read_index(self, mark: bytes) -> bytes:
        """The index at the end of the file: it is followed by its length and a mark."""
        file, ending = self.file, 4 + len(mark)
        (tail,) = file.ranges([(max(file.size - _TAIL, 0), file.size)])
        length = int.from_bytes(tail[-ending : -len(mark)], "little") + ending
        if not ending <= length <= file.size or not tail.endswith(mark):
            raise BadInput(file, "the file is cut off: it does not end with its index", code="cut-off")
        return tail[-length:] if length <= len(tail) else file.ranges([(file.size - length, file.size)])[0]

    def index(self) -> AbstractContextManager[str]:
        """The path of a file that tells the columns, and of Parquet how many rows."""
        told = Stretch([], self._index) if self._is_parquet else self._stretch_of([])
        return self._in_memory(told, self.file.ranges(told.ranges))

    def stretches(self, columns: Sequence[str]) -> Iterator[tuple[str, tuple[int, int] | None]]:
        """Paths of files with some rows each, and which rows to take; the next is fetched ahead.

        A file is there until the one after the next is asked for.
        """
        from concurrent.futures import ThreadPoolExecutor

        if self._is_parquet:
            planned = list(self._row_groups(columns))
        else:  # some record batches, whose lengths the file does not tell, in an index of their own
            batches = self._blocks(3)
            together = _together([metadata + body for _, metadata, body in batches])
            planned = [self._stretch_of([batches[i] for i in some]) for some in together]
        held: deque[ExitStack] = deque()
        with ThreadPoolExecutor(1, thread_name_prefix="panprivacy-fetch") as ahead, ExitStack() as last:
            coming = [ahead.submit(self.file.ranges, each.ranges) for each in planned[:1]]
            for stretch, following in zip(planned, [*planned[1:], None], strict=True):
                found = coming.pop().result()
                if following is not None:
                    coming.append(ahead.submit(self.file.ranges, following.ranges))
                held.append(last.enter_context(ExitStack()))
                path = held[-1].enter_context(self._in_memory(stretch, found))
                del found
                yield path, stretch.rows
                if len(held) > 1:
                    held.popleft().close()

    @contextmanager
    def _in_memory(self, stretch: Stretch, found: list[bytes]) -> Iterator[str]:
        """A file in memory with the bytes of a stretch where the real file has them; `found` is emptied."""
        with _memory_file(self.file) as handle:
            os.ftruncate(handle, self.file.size)
            _write_whole(handle, stretch.ending, self.file.size - len(stretch.ending))
            for start, _ in reversed(stretch.ranges):
                _write_whole(handle, found.pop(), start)
            yield f"/proc/self/fd/{handle}"

    def _row_groups(self, columns: Sequence[str]) -> Iterator[Stretch]:
        """Of a Parquet file: the wanted columns of some row groups."""
        groups = row_groups(self.file, self._index)
        asked = [
            [(start, end) for root, start, end in chunks if any(f"{name}.".startswith(f"{root}.") for name in columns)]
            for _, chunks in groups
        ]
        first = 0
        for some in _together([sum(end - start for start, end in each) for each in asked]):
            rows = sum(groups[i][0] for i in some)
            yield Stretch([each for i in some for each in asked[i]], self._index, (first, rows))
            first += rows

    def _stretch_of(self, batches: list[tuple[Any, ...]]) -> Stretch:
        """Some record batches, all dictionaries, whose entries they refer to, and an index of these batches only."""
        from panprivacy.ingest.arrow import Table

        index = bytearray(self._index)
        if self._blocks(3):
            start = Table.root(memoryview(self._index)).below(3)
            struct.pack_into("<I", index, start, len(batches))
            for i, batch in enumerate(batches):
                struct.pack_into(_BLOCK_FORM, index, start + 4 + i * struct.calcsize(_BLOCK_FORM), *batch)
        ranges = [(start, start + metadata + body) for start, metadata, body in [*self._blocks(2), *batches]]
        return Stretch(ranges, bytes(index))

    def _blocks(self, field: int) -> list[tuple[Any, ...]]:
        """Where messages are: a start, and the lengths of metadata and body (`Footer` of Arrow's File.fbs)."""
        from panprivacy.ingest.arrow import Table

        with suppress(struct.error):
            found = Table.root(memoryview(self._index)).structs(field, _BLOCK_FORM)
            if all(0 <= start <= start + metadata + body <= self.file.size for start, metadata, body in found):
                return found
        raise BadInput(self.file, "not a whole Arrow file: its index is damaged")


def _together(sizes: Sequence[int]) -> Iterator[range]:
    """Which of some parts are read at a time: as many as have few enough bytes, and at least one."""
    first = size = 0
    for i, more in enumerate(sizes):
        if i > first and size + more > _STRETCH:
            yield range(first, i)
            first, size = i, 0
        size += more
    if sizes:
        yield range(first, len(sizes))


def _write_whole(handle: int, found: bytes, start: int) -> None:
    left = memoryview(found)
    while left:
        written = os.pwrite(handle, left, start)
        left, start = left[written:], start + written


def row_groups(file: str, index: bytes) -> list[tuple[int, list[tuple[str, int, int]]]]:
    """How many rows each row group has, and where the bytes of each column are, by the top of its path in the schema.

    The index is a struct in Thrift's compact protocol (`FileMetaData` of parquet.thrift).
    """
    found: list[tuple[int, list[tuple[str, int, int]]]] = []
    with suppress(LookupError, TypeError, ValueError, RecursionError, OverflowError):
        for group in _Compact(index).struct()[4]:
            chunks = []
            for column in (each[3] for each in group[1]):
                start = min(column[9], column.get(11) or column[9])  # its dictionary comes first, if it has one
                chunks.append((column[3][0].decode(), start, start + column[7]))
            found.append((group[3], chunks))
        if all(0 <= start <= end for _, chunks in found for _, start, end in chunks):
            return found
    raise BadInput(file, "not a whole Parquet file: its index is damaged")


class _Compact:
    """A reader of Thrift's compact protocol: structs become dictionaries by the numbers of their fields."""

    def __init__(self, data: bytes) -> None:
        self._read = io.BytesIO(data).read

    def struct(self) -> dict[int, Any]:
        fields: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._signed()
            kind = head & 15
            fields[number] = kind == 1 if kind in (1, 2) else self._value(kind)
        return fields

    def _value(self, kind: int) -> Any:
        if kind in (1, 2, 3):  # of a list, where a truth value takes a byte
            return self._byte()
        if kind in (4, 5, 6):
            return self._signed()
        if kind == 7:
            return self._take(8)
        if kind == 8:
            return self._take(self._unsigned())
        if kind in (9, 10):
            head = self._byte()
            count = head >> 4 if head >> 4 != 15 else self._unsigned()
            return [self._value(head & 15) for _ in range(count)]
        if kind == 12:
            return self.struct()
        raise ValueError

    def _byte(self) -> int:
        return self._take(1)[0]

    def _take(self, size: int) -> bytes:
        found = self._read(size)
        if len(found) != size:
            raise LookupError
        return found

    def _unsigned(self) -> int:
        octet = self._byte()
        return octet & 127 | (self._unsigned() << 7 if octet > 127 else 0)

    def _signed(self) -> int:
        number = self._unsigned()
        return (number >> 1) ^ -(number & 1)

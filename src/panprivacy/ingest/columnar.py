"""Parquet and Arrow files through Polars' streaming readers: a few batches in memory, all cores decoding.

Such files have columns of bytes for UUIDs, hashes, and text that its writer did not declare as text. Polars does not
tell what a column of bytes was written as, so each value is told by itself: 16 bytes that are not all printable ASCII
are a UUID, which as ASCII it cannot be; other bytes are text if they are UTF-8, and are written in hexadecimal if they
are not.

Polars' threads live as long as the process. Each of them keeps a decoder of Zstandard with up to 64 KiB of the bytes
that it decoded, in memory that is never freed. So all of them decode some bytes of no meaning when a file ends, at one
moment: a thread that has come waits for the others, and none of them comes twice.
"""

import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import shake_128
from itertools import chain
from threading import Barrier, BrokenBarrierError, get_ident
from typing import TYPE_CHECKING, Any

from panprivacy.ingest.batch import BadInput, Batch, Columns, Kind
from panprivacy.ingest.files import ARROW_FILE, PARQUET, Format, size_of
from panprivacy.ingest.remote import RemoteFile, RemoteTable, whole_in_memory
from panprivacy.memory.hardening import polars_overwrites

if TYPE_CHECKING:
    import polars as pl

_MAPPED = 2**27  # bytes of an Arrow file that are mapped at a time
_BATCH = 2**20  # rows of a batch: enough for several threads to look them up
_TEXT_ROWS = 3 * 2**20  # rows with text that are decoded ahead at most: 500 MB if row groups have a million
_ASCII_16 = r"^([2-6].|7[0-9a-e]){16}$"
_TAIL = "[89ab]."
_UTF8 = (  # table 3-7 of the Unicode standard, two digits a byte
    rf"^([0-7].|(c[2-9a-f]|d.){_TAIL}|e0[ab].{_TAIL}|(e[1-9a-cef])({_TAIL}){{2}}|ed[89].{_TAIL}"
    rf"|f0[9ab].({_TAIL}){{2}}|f[1-3]({_TAIL}){{3}}|f48.({_TAIL}){{2}})*$"
)


def read_columnar(file: str, columns: Columns, format_: Format) -> Iterator[Batch]:
    """Yield the batches of a Parquet or Arrow file, in order."""
    import polars as pl

    size, before = size_of(file), 0
    with _scanned(file, format_, lambda: before) as (scan, remote):
        rows_wanted = wanted(file, scan, columns)
        total = scan.select(pl.len()).collect().item()
        parts = _parts(rows_wanted, format_, total, size) if remote is None else _fetched(remote, columns, format_)
        for found in _batches(parts):
            yield Batch(file, found, before, size * (before + len(found)) // max(total, 1))
            before += len(found)
            del found  # before the next one is waited for
    overwrite_decoders()


# --- What the decoders keep -------------------------------------------------------------------------------------------

_BLOCK = 2**17  # bytes that Zstandard decodes at a time
_FIRST_WAIT = 0.02  # seconds in which all threads should come; twice as long each time that one did not


def overwrite_decoders() -> None:
    """Overwrite what Polars' threads keep of the files that they decoded."""
    import polars as pl

    if not polars_overwrites():
        return
    threads, wait, done = pl.thread_pool_size(), _FIRST_WAIT, set[int]()
    while len(done) < threads:
        all_there = Barrier(threads - len(done))

        def overwrite(rows: pl.DataFrame, wait: float = wait, all_there: Barrier = all_there) -> pl.DataFrame:
            """Each thread that comes for the first time overwrites its decoder, and waits for the rest."""
            if get_ident() not in done:
                overwrite_decoder()
                done.add(get_ident())
                with suppress(BrokenBarrierError):
                    all_there.wait(wait)
            return rows

        rows = pl.LazyFrame({"": range(16 * threads)})  # more than any of them takes ahead
        rows.map_batches(overwrite, streamable=True).collect(engine="streaming")
        wait *= 2


def overwrite_decoder() -> None:
    """Overwrite what this thread's decoder of Zstandard keeps, and the dead part of its stack.

    Not where Polars leaves what it frees: there, copies of all ids stay behind.
    """
    import polars as pl

    from panprivacy.memory.intrinsics import wipe_stack

    if not polars_overwrites():
        return
    pl.read_ipc_stream(io.BytesIO(_of_no_meaning()))
    wipe_stack()


@cache
def _of_no_meaning() -> bytes:
    """An Arrow stream with a whole block that Zstandard can only pack symbol by symbol, so all of it are literals."""
    import polars as pl

    octets = shake_128(b"").digest(_BLOCK).translate(bytes(range(128)) * 2)
    packed = io.BytesIO()
    pl.DataFrame({"": pl.Series([octets], dtype=pl.Binary)}).write_ipc_stream(packed, compression="zstd")
    return packed.getvalue()


# --- Scans ------------------------------------------------------------------------------------------------------------


def _batches(parts: "Iterator[pl.LazyFrame]") -> "Iterator[pl.DataFrame]":
    """The batches of all parts, in order; a part is begun before the last batch of the one before is worked on."""
    last = None
    for part in parts:
        begun = part.collect_batches(chunk_size=_BATCH, maintain_order=True)
        for found in chain([None], begun):
            if last is not None:
                yield last
            last = found
            del found
    if last is not None:
        yield last


def column_names(file: str, format_: Format) -> list[str]:
    """What the columns are called; those inside a column of structs like ``user.id``."""
    with _scanned(file, format_) as (scan, _):
        return field_names(scan.collect_schema())


def field_names(schema: Mapping[str, Any]) -> list[str]:
    """What can be asked for, as `column_names` says it."""
    return [name for name, _ in _fields(schema)]


@contextmanager
def _scanned(
    file: str, format_: Format, rows: Callable[[], int] = int
) -> "Iterator[tuple[pl.LazyFrame, RemoteTable | None]]":
    """The scan of a file; of one behind a URL, that of its index. `rows` tells how many rows have been read."""
    from polars.exceptions import PanicException, PolarsError

    try:
        if not isinstance(file, RemoteFile):
            yield _scan(file, format_), None
        elif not file.ranged:
            with whole_in_memory(file) as path:
                yield _scan(path, format_), None
        else:
            remote = RemoteTable(file, PARQUET if format_ is Format.parquet else ARROW_FILE)
            with remote.index() as path:
                yield _scan(path, format_), remote
    except (PolarsError, PanicException, OSError) as error:
        after = f", somewhere after row {rows()}" if rows() else ""
        cause = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise BadInput(file, f"not a whole {format_.capitalize()} file{after}: {cause}") from None


def _fetched(remote: RemoteTable, columns: Columns, format_: Format) -> "Iterator[pl.LazyFrame]":
    """The scans of stretches of a file behind a URL."""
    for path, rows in remote.stretches(columns.names):
        scan = wanted(remote.file, _scan(path, format_), columns)
        yield scan if rows is None else scan.slice(*rows)


def _scan(file: str, format_: Format) -> "pl.LazyFrame":
    import polars as pl

    scan = pl.scan_parquet if format_ is Format.parquet else pl.scan_ipc
    return scan(file, glob=False, hive_partitioning=False)


def wanted(file: str, scan: "pl.LazyFrame", columns: Columns) -> "pl.LazyFrame":
    """The columns that were asked for, if they are there and their types can be ids.

    Ids are text, if they are no numbers or are to be text.
    """
    import polars as pl

    fields = dict(_fields(scan.collect_schema()))
    columns.check_names(file, list(fields))
    scan = scan.select(fields[name].alias(name) for name in columns.names)
    schema = scan.collect_schema()
    for name in columns.needed:
        if schema[name].is_float():
            cause = (
                f"column {name!r} holds floats ({schema[name]}), which merge large ids (2**53 and 2**53 + 1 are one "
                "float): write it as integers or text, in SQL with CAST(... AS BIGINT), in pandas with astype('Int64')"
            )
            raise BadInput(file, cause, code="float-column")
    for name in columns.ids:
        kind = kind_of(schema[name])
        if kind is None:
            raise BadInput(file, f"column {name!r} holds {schema[name]}; ids are integers or text", code="id-type")
        if kind is Kind.text and columns.kind is Kind.integers:
            cause = f"column {name!r} holds text, and ids are integers here"
            raise BadInput(file, cause, code="id-type", hints=columns.if_text)

    def read(name: str) -> pl.Expr:
        column = pl.col(name)
        as_text = name in columns.ids and (columns.kind is Kind.text or not schema[name].is_integer())
        if as_text and schema[name] == pl.Binary:
            return bytes_as_text(column)
        return column.cast(pl.String) if as_text or name == columns.category else column

    return scan.select(read(name) for name in columns.names)


def _fields(schema: Mapping[str, Any], outer: "pl.Expr | None" = None) -> "Iterator[tuple[str, pl.Expr]]":
    """What can be asked for, by name: columns, and like ``user.id`` the fields of structs; a plain name wins."""
    import polars as pl

    for name, type_ in sorted(schema.items(), key=lambda item: not isinstance(item[1], pl.Struct)):
        here = pl.col(name) if outer is None else outer.struct.field(name)
        if isinstance(type_, pl.Struct):
            yield from ((f"{name}.{inner}", found) for inner, found in _fields(type_.to_schema(), here))
        else:
            yield name, here


def _parts(scan: "pl.LazyFrame", format_: Format, total: int, size: int) -> "Iterator[pl.LazyFrame]":
    """The scan of a file whole, or, where that would fill the memory, of one stretch of it after the other.

    Polars maps Arrow files into memory, and keeps every page that it has touched until the scan ends; of Parquet it
    decodes some row groups ahead, which only text makes large.
    """
    step = max(total, 1)
    if format_ is Format.arrow:
        step = max(total * _MAPPED // max(size, 1), 1)
    elif not all(type_.is_numeric() for type_ in scan.collect_schema().dtypes()):
        step = _TEXT_ROWS
    for start in range(0, total, step):
        yield scan.slice(start, step) if step < total else scan


def kind_of(type_: "pl.DataType") -> Kind | None:
    """What a column of ids holds: integers, text, or neither."""
    import polars as pl

    if type_.is_integer():
        return Kind.integers
    return Kind.text if isinstance(type_, pl.String | pl.Categorical | pl.Enum | pl.Binary) else None


def bytes_as_text(column: "pl.Expr") -> "pl.Expr":
    """The text that each value of a column of bytes stands for.

    >>> import polars as pl
    >>> ids = pl.DataFrame({"id": [b"ada", b"\\xff\\x00", bytes(15) + b"\\x07", None]})
    >>> ids.select(bytes_as_text(pl.col("id")))["id"].to_list()
    ['ada', 'ff00', '00000000-0000-0000-0000-000000000007', None]
    """
    import polars as pl

    digits = column.bin.encode("hex")
    dashed = digits.str.replace(r"^(.{8})(.{4})(.{4})(.{4})(.{12})$", "$1-$2-$3-$4-$5")
    is_uuid = (column.bin.size() == 16) & ~digits.str.contains(_ASCII_16)
    is_text = digits.str.contains(_UTF8)
    text = pl.when(is_text).then(column).otherwise(pl.lit(b"")).cast(pl.String)
    return pl.when(is_uuid).then(dashed).when(is_text).then(text).otherwise(digits)

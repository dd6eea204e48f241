"""Parquet and Arrow files through Polars' streaming readers: a few batches in memory, all cores decoding."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from panprivacy.events import binary
from panprivacy.events.batch import BadInput, Batch, Columns, Kind
from panprivacy.events.sources import Format

if TYPE_CHECKING:
    import polars as pl

_MAPPED = 2**27  # bytes of an Arrow file that are mapped at a time
_LARGEST_FLOAT = 2**53  # beyond, floats have gaps between whole numbers
_BATCH = 2**20  # rows of a batch: enough for several threads to look them up
_TEXT_ROWS = 3 * 2**20  # rows with text that are decoded ahead at most: 500 MB if row groups have a million


def read_columnar(file: str, columns: Columns, format_: Format) -> Iterator[Batch]:
    """Yield the batches of a Parquet or Arrow file, in order."""
    from polars.exceptions import PanicException, PolarsError

    size, before = Path(file).stat().st_size, 0
    try:
        scan = _scan(file, format_)
        rows_wanted = wanted(file, scan, columns)
        total = _rows(scan)
        for found in _batches(_parts(rows_wanted, format_, total, size)):
            rows = with_whole_ids(file, columns, found, before)
            yield Batch(file, rows, before, size * (before + len(rows)) // total)
            before += len(rows)
    except (PolarsError, PanicException, OSError) as error:
        after = f", somewhere after row {before}" if before else ""
        raise BadInput(file, f"not a whole {format_.capitalize()} file{after}: {_first_line(error)}") from None


def _batches(parts: "Iterator[pl.LazyFrame]") -> "Iterator[pl.DataFrame]":
    """The batches of all parts, in order; a part is begun before the last batch of the one before is worked on."""
    last = None
    for part in parts:
        begun = part.collect_batches(chunk_size=_BATCH, maintain_order=True)
        if last is not None:
            yield last
        last = None
        for found in begun:
            if last is not None:
                yield last
            last = found
    if last is not None:
        yield last


def column_names(file: str, format_: Format) -> list[str]:
    """What the columns are called; those inside a column of structs like ``user.id``."""
    from polars.exceptions import PanicException, PolarsError

    try:
        return [name for name, _ in _fields(_scan(file, format_).collect_schema())]
    except (PolarsError, PanicException, OSError) as error:
        raise BadInput(file, f"not a whole {format_.capitalize()} file: {_first_line(error)}") from None


def _scan(file: str, format_: Format) -> "pl.LazyFrame":
    import polars as pl

    if format_ is Format.parquet:
        return pl.scan_parquet(file, glob=False, hive_partitioning=False)
    return pl.scan_ipc(file, glob=False, hive_partitioning=False)


def wanted(file: str, scan: "pl.LazyFrame", columns: Columns) -> "pl.LazyFrame":
    """The columns that were asked for, if they are there and their types can be ids."""
    fields = dict(_fields(scan.collect_schema()))
    columns.check_names(file, list(fields))
    scan = scan.select(fields[name].alias(name) for name in columns.names)
    schema = scan.collect_schema()
    check_types(file, columns, schema)
    return _typed(scan, columns, schema)


def _fields(schema: Mapping[str, Any], outer: "pl.Expr | None" = None) -> "Iterator[tuple[str, pl.Expr]]":
    """What can be asked for, by name: columns, and like ``user.id`` the fields of structs; a plain name wins."""
    import polars as pl

    for name, type_ in sorted(schema.items(), key=lambda item: not isinstance(item[1], pl.Struct)):
        here = pl.col(name) if outer is None else outer.struct.field(name)
        if isinstance(type_, pl.Struct):
            yield from ((f"{name}.{inner}", found) for inner, found in _fields(type_.to_schema(), here))
        else:
            yield name, here


def _typed(scan: "pl.LazyFrame", columns: Columns, schema: "pl.Schema") -> "pl.LazyFrame":
    """The columns that were asked for; ids as text, if they are no numbers or are to be text."""
    import polars as pl

    as_text = [
        name
        for name in columns.ids
        if not schema[name].is_float() and (columns.kind is Kind.text or not schema[name].is_integer())
    ]

    def read(name: str) -> pl.Expr:
        column = pl.col(name)
        if name == columns.category:
            return column.cast(pl.String)
        if name not in as_text:
            return column
        return binary.as_text(column) if schema[name] == pl.Binary else column.cast(pl.String)

    return scan.select(read(name) for name in columns.names)


def with_whole_ids(file: str, columns: Columns, rows: "pl.DataFrame", before: int) -> "pl.DataFrame":
    """The rows with whole floats among their ids read as integers; a float that is not whole is an error."""
    import polars as pl

    for name in columns.ids:
        ids = rows[name]
        if ids.dtype.is_float():
            numbers = ids.cast(pl.Int64, strict=False)
            exact = (numbers.cast(pl.Float64) == ids) & (numbers.abs() <= _LARGEST_FLOAT)
            wrong = (ids.is_not_null() & ~exact.fill_null(value=False)).arg_true()
            if len(wrong):
                cause = f"{name} {ids[wrong[0]]} is not a whole number; a float is an id only if it is"
                raise BadInput(file, cause, before + wrong[0] + 1, sort="id")
            rows = rows.with_columns(numbers.cast(pl.String) if columns.kind is Kind.text else numbers)
    return rows


def _parts(scan: "pl.LazyFrame", format_: Format, total: int, size: int) -> "Iterator[pl.LazyFrame]":
    """The scan of a file whole, or, where that would fill the memory, of one stretch of it after the other.

    Polars maps Arrow files into memory, and keeps every page that it has touched until the scan ends; of Parquet it
    decodes some row groups ahead, which only text makes large.
    """
    step = max(total, 1)
    if format_ is Format.arrow:
        step = max(total * _MAPPED // size, 1)
    elif not all(type_.is_numeric() for type_ in scan.collect_schema().dtypes()):
        step = _TEXT_ROWS
    for start in range(0, total, step):
        yield scan.slice(start, step) if step < total else scan


def _rows(scan: "pl.LazyFrame") -> int:
    import polars as pl

    count: int = scan.select(pl.len()).collect().item()
    return count


def check_types(file: str, columns: Columns, schema: "pl.Schema") -> None:
    """Refuse ids that are neither integers nor text, or not what the universe has."""
    for name in columns.ids:
        kind = kind_of(schema[name])
        if kind is None:
            raise BadInput(file, f"column {name!r} holds {schema[name]}; ids are integers or text", sort="id")
        if kind is Kind.text and columns.kind is Kind.integers:
            raise BadInput(file, f"column {name!r} holds text, and ids are integers here; {columns.if_text}", sort="id")


def kind_of(type_: "pl.DataType") -> Kind | None:
    """What a column of ids holds: integers (floats have to be whole numbers), text, or neither."""
    import polars as pl

    if type_.is_integer() or type_.is_float():
        return Kind.integers
    return Kind.text if isinstance(type_, pl.String | pl.Categorical | pl.Enum | pl.Binary) else None


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]

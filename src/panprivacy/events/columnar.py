"""Parquet and Arrow files through Polars' streaming readers: a few batches in memory, all cores decoding."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from panprivacy.events.batch import BadInput, Batch, Columns, Kind
from panprivacy.events.sources import Format

if TYPE_CHECKING:
    import polars as pl

_MAPPED = 2**27  # bytes of an Arrow file that are mapped at a time
_TEXT_ROWS = 3 * 2**20  # rows with text that are decoded ahead at most: 500 MB if row groups have a million


def read_columnar(file: str, columns: Columns, kind: Format) -> Iterator[Batch]:
    """Yield the batches of a Parquet or Arrow file, in order."""
    from polars.exceptions import PanicException, PolarsError

    size, before = Path(file).stat().st_size, 0
    try:
        scan = _scan(file, kind)
        schema = scan.collect_schema()
        columns.check_names(file, schema.names())
        check_types(file, columns, schema)
        total = _rows(scan)
        for part in _parts(wanted(scan, columns, schema), kind, total, size):
            for rows in part.collect_batches(maintain_order=True):
                yield Batch(file, rows, before, size * (before + len(rows)) // total)
                before += len(rows)
    except (PolarsError, PanicException, OSError) as error:
        after = f", somewhere after row {before}" if before else ""
        raise BadInput(file, f"not a whole {kind.capitalize()} file{after}: {_first_line(error)}") from None


def column_names(file: str, kind: Format) -> list[str]:
    """What the columns are called."""
    from polars.exceptions import PanicException, PolarsError

    try:
        return _scan(file, kind).collect_schema().names()
    except (PolarsError, PanicException, OSError) as error:
        raise BadInput(file, f"not a whole {kind.capitalize()} file: {_first_line(error)}") from None


def _scan(file: str, kind: Format) -> "pl.LazyFrame":
    import polars as pl

    if kind is Format.parquet:
        return pl.scan_parquet(file, glob=False, hive_partitioning=False)
    return pl.scan_ipc(file, glob=False, hive_partitioning=False)


def wanted(scan: "pl.LazyFrame", columns: Columns, schema: "pl.Schema") -> "pl.LazyFrame":
    """The columns that were asked for; ids that are not integers, or are to be text, as text."""
    import polars as pl

    as_text = [name for name in columns.ids if columns.kind is Kind.text or not schema[name].is_integer()]
    return scan.select(pl.col(name).cast(pl.String) if name in as_text else name for name in columns.names)


def _parts(scan: "pl.LazyFrame", kind: Format, total: int, size: int) -> "Iterator[pl.LazyFrame]":
    """The scan of a file whole, or, where that would fill the memory, of one stretch of it after the other.

    Polars maps Arrow files into memory, and keeps every page that it has touched until the scan ends; of Parquet it
    decodes some row groups ahead, which only text makes large.
    """
    step = max(total, 1)
    if kind is Format.arrow:
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
            raise BadInput(file, f"column {name!r} holds {schema[name]}; ids are integers or text")
        if kind is Kind.text and columns.kind is Kind.integers:
            raise BadInput(file, f"column {name!r} holds text, and the users are known by integers")


def kind_of(type_: "pl.DataType") -> Kind | None:
    """What a column of ids is: integers, text, or neither."""
    import polars as pl

    if type_.is_integer():
        return Kind.integers
    return Kind.text if isinstance(type_, pl.String | pl.Categorical | pl.Enum) else None


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]

"""Files of any format as batches of columns, one after the other."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from panprivacy.ingest.batch import Batch, Columns
from panprivacy.ingest.columnar import kind_of, read_columnar
from panprivacy.ingest.delimited import Layout
from panprivacy.ingest.files import Format, format_of, is_pipe, is_streamed, partitions
from panprivacy.ingest.pipes import read_stream
from panprivacy.ingest.text import layout_of, read_text


def read(
    files: Sequence[str], columns: Columns, *, format_: Format | None = None, layout: Layout | None = None
) -> Iterator[Batch]:
    """Yield the batches of some files, in order, with constant memory.

    `format_` is what the files are, where their names do not tell; `layout` is how CSV files are written. Anything
    wrong with a file or a row is a `BadInput` that names it.
    """
    for file in files:
        for batch in _partitioned(file, columns, format_, layout):
            if columns.kind is None:  # from now on, ids are what they were in the first file
                columns = replace(columns, kind=kind_of(batch.rows[columns.ids[0]].dtype))
            yield batch
            del batch  # a batch that is counted is not kept while the next one is waited for


def _partitioned(file: str, columns: Columns, asked: Format | None, layout: Layout | None) -> Iterator[Batch]:
    """The batches of a file, with the columns that the directories of its path stand for (``day=2026-01-05/``)."""
    given = partitions(file)
    roles = {role: name for role in ("action", "time", "category") if (name := getattr(columns, role)) in given}
    if not roles:
        yield from _batches(file, columns, asked, layout)
        return
    import polars as pl

    left_out: dict[str, Any] = dict.fromkeys(roles)
    for batch in _batches(file, replace(columns, **left_out), asked, layout):
        added = [pl.lit(given[name]).alias(name) for name in roles.values()]
        yield replace(batch, rows=batch.rows.with_columns(added))
        del batch


def _batches(file: str, columns: Columns, asked: Format | None, layout: Layout | None) -> Iterator[Batch]:
    if is_pipe(file):
        return read_stream(file, columns, asked, layout)
    format_ = format_of(file, asked)
    if format_ is Format.arrow and is_streamed(file):
        return read_stream(file, columns, format_, layout)
    if format_ in (Format.parquet, Format.arrow):
        return read_columnar(file, columns, format_)
    return read_text(file, columns, format_, layout_of(format_, layout))

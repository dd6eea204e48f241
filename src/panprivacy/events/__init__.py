"""Events and lists of ids as people have them: files and pipes, read as batches of columns."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from panprivacy.events.batch import BadInput, Batch, Columns, Kind
from panprivacy.events.bell import Bell
from panprivacy.events.columnar import kind_of, read_columnar
from panprivacy.events.delimited import Layout
from panprivacy.events.listed import columns_told, read_ids, split_column
from panprivacy.events.live import Live
from panprivacy.events.magic import ARROW_STREAM
from panprivacy.events.sources import STDIN, Format, expand, first_bytes, format_of, is_pipe
from panprivacy.events.streams import read_stream
from panprivacy.events.text import layout_of, read_text

__all__ = [
    "STDIN",
    "BadInput",
    "Batch",
    "Bell",
    "Columns",
    "Format",
    "Kind",
    "Layout",
    "Live",
    "columns_told",
    "expand",
    "is_pipe",
    "kind_of",
    "read",
    "read_ids",
    "split_column",
]


def read(
    files: Sequence[str], columns: Columns, *, format_: Format | None = None, layout: Layout | None = None
) -> Iterator[Batch]:
    """Yield the batches of some files, in order, with constant memory.

    `format_` is what the files are, where their names do not tell; `layout` is how CSV files are written. Anything
    wrong with a file or a row is a `BadInput` that names it.
    """
    for file in files:
        for batch in _batches(file, columns, format_, layout):
            if columns.kind is None:  # from now on, ids are what they were in the first file
                columns = replace(columns, kind=kind_of(batch.rows[columns.ids[0]].dtype))
            yield batch


def _batches(file: str, columns: Columns, asked: Format | None, layout: Layout | None) -> Iterator[Batch]:
    if is_pipe(file):
        return read_stream(file, columns, asked, layout)
    format_ = format_of(file, asked)
    if format_ is Format.arrow and first_bytes(file).startswith(ARROW_STREAM):
        return read_stream(file, columns, format_, layout)
    if format_ in (Format.parquet, Format.arrow):
        return read_columnar(file, columns, format_)
    return read_text(file, columns, format_, layout_of(format_, layout))

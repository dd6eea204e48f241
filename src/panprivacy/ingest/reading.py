"""Files of any format, read whole: as batches of columns one after the other, or as the ids of a universe."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from panprivacy.ingest.batch import BadInput, Batch, Cause, Columns, Kind, shown_names
from panprivacy.ingest.columnar import column_names, kind_of, read_columnar
from panprivacy.ingest.delimited import MERGED, ROUNDED, WHOLE, Layout, told_of
from panprivacy.ingest.files import (
    NOT_UTF8,
    STDIN,
    Format,
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
from panprivacy.ingest.pipes import read_stream, stream_names
from panprivacy.ingest.text import first_names, layout_of, read_text
from panprivacy.urls import scheme_of

if TYPE_CHECKING:
    import polars as pl


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


_COLUMNAR = (Format.parquet, Format.arrow)
_HOW_TO_SAY = "Say FILE:COLUMN in a command, column= in Python"


def columns_told(file: str, asked: Format | None, layout: Layout) -> Cause | None:
    """What can be said of the columns of a file: nothing of a pipe, which has to be read to tell.

    >>> columns_told("-", None, Layout()) is None
    True
    """
    if file == STDIN or is_pipe(file):
        return None
    format_ = format_of(file, asked)
    names = _names(file, format_, layout_of(format_, layout))
    if format_ in (*_COLUMNAR, Format.ndjson):
        return Cause(f"it has {shown_names(names)}")
    return told_of(names, layout)


def _names(file: str, format_: Format, layout: Layout) -> list[str]:
    """The names of the columns of a file."""
    if format_ is Format.arrow and is_streamed(file):
        return stream_names(file)
    return column_names(file, format_) if format_ in _COLUMNAR else first_names(file, format_, layout)


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
            raise BadInput(
                file, f"a .txt file has one id a line and no columns, so no column {column!r}", code="no-columns"
            )
        lines = pl.Series(_lines(file), dtype=pl.String)
        rounded = lines.str.contains(ROUNDED).arg_true()
        if len(rounded):
            raise BadInput(file, f"{what} {lines[rounded[0]]!r} {MERGED}", rounded[0] + 1, code="float-id")
        return _typed(lines)
    format_ = format_of(file)
    columnar = format_ in _COLUMNAR
    layout = layout_of(format_, None)
    names = _names(file, format_, layout)
    if format_ is Format.csv and len(names) == 1 and (other := next((each for each in ";\t|" if each in names[0]), "")):
        layout = Layout(separator=other)
        names = first_names(file, format_, layout)
    if column is None and len(names) != 1:
        raise BadInput(
            file, f"which column holds the ids? {_HOW_TO_SAY}; it has {shown_names(names)}", code="which-column"
        )
    name = column if column is not None else names[0]
    if format_ is not Format.ndjson:  # whose keys may come and go
        Columns((name,)).check_names(file, names)
    kind = None if columnar or format_ is Format.ndjson else Kind.text
    parts = [batch.rows[name] for batch in read([file], Columns((name,), kind), format_=format_, layout=layout)]
    ids = pl.concat(parts) if parts else pl.Series(name, [], dtype=pl.String)
    if ids.null_count():
        raise BadInput(file, f"the {what} is missing", (ids.is_null().arg_true()[0]) + 1, code="missing-id")
    return ids if columnar or format_ is Format.ndjson else _typed(ids)


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

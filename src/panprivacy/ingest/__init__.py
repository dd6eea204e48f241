"""Events and lists of ids as people have them: files and pipes, read as batches of columns."""

from panprivacy.ingest.batch import BadInput, Batch, Columns, Kind
from panprivacy.ingest.columnar import kind_of
from panprivacy.ingest.delimited import Layout
from panprivacy.ingest.files import STDIN, Format, expand, is_pipe, size_of
from panprivacy.ingest.reading import Live, SignalTimer, columns_told, read, read_ids, split_column

__all__ = [
    "STDIN",
    "BadInput",
    "Batch",
    "Columns",
    "Format",
    "Kind",
    "Layout",
    "Live",
    "SignalTimer",
    "columns_told",
    "expand",
    "is_pipe",
    "kind_of",
    "read",
    "read_ids",
    "size_of",
    "split_column",
]

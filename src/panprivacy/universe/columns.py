"""Ids as programs have them: lists, arrays, columns of Polars, Arrow and pandas, iterators.

They are cut into *batches*, each of which an estimator takes whole or not at all, and a batch into *chunks*, which the
kernels take. To find out whether it can take a batch, an estimator may read it twice. An iterator can be read only
once, so it becomes many batches. An array is not copied; of anything else no more than a chunk is copied at a time.
"""

from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Set
from itertools import islice
from typing import Any, NamedTuple, Protocol, TypeAlias, TypedDict

import numpy as np
from numpy.typing import NDArray

from panprivacy.checks import shown
from panprivacy.display import EventCounter, counted
from panprivacy.errors import InvalidType, InvalidValue
from panprivacy.memory.scratch import Scratch, moved, pages
from panprivacy.memory.threads import CHUNK


class LazyFrame(Protocol):
    """A lazy frame of Polars."""

    def collect_schema(self) -> Any: ...


class ArrowStream(Protocol):
    """A reader of Arrow, a relation of DuckDB."""

    def __arrow_c_stream__(self, *args: Any, **options: Any) -> Any: ...


class RowOptions(TypedDict, total=False):
    """Which rows of a batch count, as `update_many` of an estimator takes it."""

    column: str | tuple[str, str] | None
    """The name of the column of ids in a frame, a reader or a relation; two names for edges."""
    skip_outside: bool
    """Leave out rows whose user is not in the universe."""


class BatchOptions(RowOptions, total=False):
    """Which rows of a batch count, and how many threads work on it."""

    threads: int | None


Ids: TypeAlias = Iterable[Hashable | Iterable[Any]] | LazyFrame | ArrowStream
"""Many users at once, as `update_many` takes them.

A list, a set or a range of ids, a NumPy array, an Arrow, Polars or pandas column, or any iterator of ids; also, if it
has one column, or if `column` names one, a frame, a lazy frame, an Arrow reader or a DuckDB relation, of which each
batch is one. An id is an integer, a text, bytes or a UUID, or whatever `pp.Users` lists. Edges are pairs: a list of
them, an (n, 2) array, two columns in a tuple, or a frame of two columns.
"""

ITERATOR_BATCH = 8 * CHUNK
_OF_FILES = (".csv", ".tsv", ".txt", ".json", ".ndjson", ".parquet", ".arrow", ".gz", ".zip", ".bz2", ".xz", ".zst")
_SHORT = 2**16  # rows of text that a chunk of Polars has if it is hashed by itself; shorter ones are joined


class Chunk(Protocol):
    """Anything of known length that can be cut by rows."""

    def __len__(self) -> int: ...
    def __getitem__(self, rows: slice, /) -> Any: ...


class Chunks(NamedTuple):
    """A batch whose columns are already cut into pieces."""

    pieces: list[Chunk]


class SideBySide(Sequence[Any]):
    """Columns of one length, read as one column of tuples without copying them: ends of edges, users and categories."""

    def __init__(self, *columns: Any) -> None:
        self.columns: tuple[Any, ...] = columns

    def __len__(self) -> int:
        return len(self.columns[0])

    def __getitem__(self, rows: Any) -> Any:
        cut = tuple(column[rows] for column in self.columns)
        return SideBySide(*cut) if isinstance(rows, slice) else cut

    def chosen(self, wanted: NDArray[np.bool_], scratch: Scratch) -> "SideBySide":
        """Some of the rows."""
        return SideBySide(*(chosen_rows(column, wanted, scratch) for column in self.columns))


def side_by_side(chunk: Any) -> tuple[Any, Any]:
    """The two columns of a chunk of pairs."""
    if isinstance(chunk, SideBySide):
        first, second = chunk.columns
        return first, second
    return [row[0] for row in chunk], [row[1] for row in chunk]


# --- batches and chunks -------------------------------------------------------------------------------------------


def batches(ids: object) -> Iterator[list[Chunk]]:
    """Yield the batches in `ids`, each a list of pieces of known length."""
    pieces = pieces_of(ids)
    if pieces is not None:
        yield pieces
        return
    if is_stream(ids):
        name = only_name(ids)
        for batch in _batches_of(ids, [name]):
            yield pieces_of(batch[name]) or []
        return
    iterator = iter(check_many(ids))
    with EventCounter(ids) as counter:
        while taken := list(islice(iterator, ITERATOR_BATCH)):
            yield [taken]
            counter.advance(len(taken))


def check_many(ids: object) -> Iterable[Any]:
    """Refuse one id where many are taken."""
    if not isinstance(ids, Iterable) or isinstance(ids, str | bytes) or getattr(ids, "ndim", 1) == 0:
        if isinstance(ids, str) and ids.endswith(_OF_FILES):
            raise InvalidType(
                "update_many takes ids, and this is the name of a file: read it, as in "
                "update_many(polars.scan_csv(path), column='user')",
                code="one-id",
            )
        raise InvalidType(f"update_many takes many ids; for one id, {shown(ids)}, use update", code="one-id")
    return ids


def chunks(pieces: list[Chunk], most: int = CHUNK) -> Iterator[Any]:
    """Cut the pieces of a batch into chunks."""
    for piece in pieces:
        for start in range(0, len(piece), most):
            yield piece[start : start + most]


def pieces_of(ids: object, what: str = "ids") -> list[Chunk] | None:
    """A column of known length in pieces that can be cut by rows; None for an iterator, or for anything but a column.

    `what` is the noun for the values of the column, if one of its errors needs it.
    """
    if isinstance(ids, Chunks):
        return ids.pieces
    if not isinstance(ids, np.ndarray):
        if is_stream(ids):
            return None
        ids = plain_column(ids, what)
    refuse_floats(ids, what)
    if isinstance(ids, np.ndarray) and ids.ndim:
        refuse_missing(int(ids.mask.sum()) if isinstance(ids, np.ma.MaskedArray) else 0, what)
        return [ids]
    if is_polars(ids) or is_arrow(ids):
        return _of_polars(ids, what) if is_polars(ids) else _of_arrow(ids, what)
    if isinstance(ids, Sequence) and not isinstance(ids, str | bytes):
        return [list(ids) if isinstance(ids, deque) else ids]  # a deque cannot be cut
    return None


# --- columns of other libraries -----------------------------------------------------------------------------------


def plain_column(ids: Any, what: str = "ids") -> Any:
    """A pandas column as the array that it stands for, a frame of one column as that column; others as they are.

    A frame of several columns is refused, and so is a mapping: its columns would be taken for ids, or their names.
    """
    if isinstance(ids, Mapping):
        raise InvalidType(
            f"a {type(ids).__name__} is no column of ids: pass one, such as list(it) or it['user']", code="not-a-column"
        )
    if is_frame(ids):
        ids = ids[only_name(ids)]
    return _of_pandas(ids, what) if is_pandas(ids) else ids


def is_frame(ids: object) -> bool:
    """Whether this is a frame of pandas or Polars, or a table or record batch of Arrow."""
    if _library(ids) not in ("polars", "pyarrow", "pandas") or is_stream(ids):
        return False
    return hasattr(ids, "columns") or hasattr(ids, "column_names")


def is_stream(ids: object) -> bool:
    """Whether columns come in batches: a lazy frame of Polars, a reader of Arrow, a relation of DuckDB."""
    if _library(ids) == "polars":
        return hasattr(ids, "collect_batches")
    return hasattr(ids, "read_next_batch") or (_library(ids) == "duckdb" and hasattr(ids, "__arrow_c_stream__"))


def chosen_columns(ids: Any, *names: str) -> list[Any]:
    """Some columns of a frame or a stream, whole; a list of users is read so."""
    _check_names(ids, names)
    if is_stream(ids):
        ids = ids.select(names).collect() if _library(ids) == "polars" else _reader(ids).read_all()
    return [ids[name] for name in names]


class Named(NamedTuple):
    """The columns of a frame, or of one batch of a stream, that `update_many` was told the names of."""

    ids: Any
    categories: Any
    time: Any


def named_columns(
    frame: Any, column: Any, categories: Any = None, time: Any = None, *, pairs: bool = False
) -> Iterator[Named]:
    """Columns of a frame, or of each batch of a stream, by their names.

    `column` is the name of the ids; for `pairs`, two names. `categories` and `time` are names if they are text, and
    stay as they are if not.

    >>> import polars as pl
    >>> visits = pl.DataFrame({"user": [7, 8], "at": ["2026-01-05", "2026-01-06"], "clinic": ["flu", "cold"]})
    >>> [(each.ids.to_list(), each.categories.to_list(), each.time) for each in named_columns(visits, "user", "clinic")]
    [([7, 8], ['flu', 'cold'], None)]
    """
    if not (is_frame(frame) or is_stream(frame)):
        raise InvalidType(
            f"column= names a column of a frame, an Arrow table or reader, or a DuckDB relation, not of a "
            f"{type(frame).__name__}",
            code="not-a-frame",
        )
    ends = tuple(column) if isinstance(column, tuple | list) else (column,)
    others = tuple(name for name in (categories, time) if isinstance(name, str))
    if not all(isinstance(name, str) for name in ends) or len(ends) != 1 + pairs:
        needed = "two names, the source and the target of edges" if pairs else "the name of one column"
        raise InvalidType(f"column= is {needed}", code="column-name")
    _check_names(frame, (*ends, *others))
    parts: Iterable[Any] = [frame]
    if is_stream(frame):
        if any(hasattr(each, "__iter__") and not isinstance(each, str | bytes) for each in (categories, time)):
            raise InvalidType(  # its batches have other lengths than a column beside it
                "a lazy frame, a reader or a relation comes in batches: categories and time are names of its columns",
                code="column-beside-stream",
            )
        parts = _batches_of(frame, (*ends, *others))
    for part in parts:
        named = tuple(part[name] for name in ends)
        yield Named(
            named if pairs else named[0],
            part[categories] if isinstance(categories, str) else categories,
            part[time] if isinstance(time, str) else time,
        )


def _check_names(ids: Any, names: Sequence[str]) -> None:
    """Refuse the name of a column that is not there, or is there twice."""
    there = names_of(ids)
    for name in names:
        if name not in there:
            shown_names = ", ".join(map(repr, there[:20])) + (", ..." if len(there) > 20 else "")
            raise InvalidValue(f"there is no column {shown(name)}; there are {shown_names}", code="no-such-column")
        if there.count(name) > 1:
            raise InvalidValue(f"there are {there.count(name)} columns {name!r}: rename one", code="column-twice")


def _batches_of(ids: Any, names: Iterable[str]) -> Iterator[Any]:
    """The batches of a stream, with at least these columns."""
    names = list(dict.fromkeys(names))
    if _library(ids) == "duckdb":
        ids = ids.select(", ".join('"' + name.replace('"', '""') + '"' for name in names))
    polars = _library(ids) == "polars"
    found = iter(ids.select(names).collect_batches(maintain_order=True) if polars else _reader(ids))
    with EventCounter(found) as counter:
        for batch in found:
            yield batch
            counter.advance(len(batch))


def names_of(ids: Any) -> list[str]:
    """The names of the columns of a frame or a stream."""
    if hasattr(ids, "collect_schema"):
        return list(ids.collect_schema().names())
    return list(ids.schema.names if _library(ids) == "pyarrow" else ids.columns)


def _reader(ids: Any) -> Any:
    """The record batches of a reader, or of a relation."""
    import pyarrow as pa

    return ids if _library(ids) == "pyarrow" else pa.RecordBatchReader.from_stream(ids)


def only_name(ids: Any) -> str:
    """The name of the only column of a frame or a stream."""
    names = names_of(ids)
    if len(names) != 1:
        ways = {"duckdb": "relation.select('user')", "pyarrow": "table.select(['user'])", "pandas": "frame['user']"}
        way = ways.get(_library(ids), "frame.select('user')")
        raise InvalidType(
            f"a {type(ids).__name__} has {len(names)} columns, and ids are one of them: name it, column='user', or "
            f"pass it alone, {way}",
            code="not-a-column",
        )
    return names[0]


def _library(ids: object) -> str:
    """The library that a column is of, found without importing it."""
    return type(ids).__module__.partition(".")[0]


def is_pandas(ids: object) -> bool:
    """Whether this is a pandas column, index or frame."""
    return _library(ids) == "pandas" and hasattr(ids, "to_numpy")


def is_polars(ids: object) -> bool:
    """Whether this is a Polars column."""
    return _library(ids) == "polars" and hasattr(ids, "get_chunks")


def is_arrow(ids: object) -> bool:
    """Whether this is an Arrow array or chunked array."""
    return _library(ids) == "pyarrow" and hasattr(ids, "null_count")


def is_wide(series: Any) -> bool:
    """Whether this is a column of 128-bit integers, which NumPy does not have."""
    return str(series.dtype) in ("Int128", "UInt128")


def _of_pandas(column: Any, what: str) -> Any:
    """The values of a pandas column, whatever its index; nullable, categorical and Arrow types become plain ones."""
    if getattr(column, "nlevels", 1) > 1:
        raise InvalidType(
            "an index of several levels is no column of ids: pass one of them, as in index.get_level_values",
            code="not-a-column",
        )
    refuse_floats(column, what)  # before missing values: they are why pandas has made floats of integers
    refuse_missing(int(column.isna().sum()), what)
    if isinstance(column.dtype, np.dtype):
        return column.to_numpy()  # the column's own memory
    if hasattr(column.array, "codes"):
        return _of_categories(column.array.categories.to_numpy(), column.array.codes)
    made = column.to_numpy(copy=True)
    return _listed(made) if made.dtype == object else moved(made)


def _of_categories(categories: NDArray[Any], codes: NDArray[np.signedinteger]) -> Any:
    """The value of each code, in memory that goes back to the system, or in a list where values are objects."""
    octets = 8 * len(codes)
    room = pages(octets + categories.itemsize * len(codes))  # one for both: to ask the system takes long
    places = room[:octets].view(np.int64)
    np.copyto(places, codes)
    if categories.dtype == object:
        return _listed(categories[places])
    values = room[octets:].view(categories.dtype)
    return categories.take(places, out=values, mode="clip")  # any other mode makes a copy first


def _listed(objects: NDArray[np.object_]) -> list[Any]:
    """A list of the same objects; the array, of which NumPy may keep the memory as it is, no longer refers to them."""
    listed: list[Any] = objects.tolist()
    objects.fill(None)
    return listed


def _of_polars(series: Any, what: str) -> list[Chunk]:
    refuse_missing(series.null_count(), what)
    if is_wide(series):
        return [series.to_list()]
    if series.dtype.is_integer():
        return [part.to_numpy() for part in series.get_chunks()]
    parts: list[Chunk] = series.get_chunks()
    return parts if len(series) >= len(parts) * _SHORT else [series.rechunk()]


def _of_arrow(array: Any, what: str) -> list[Chunk]:
    refuse_missing(array.null_count, what)
    parts = getattr(array, "chunks", [array])
    if str(array.type).startswith(("int", "uint")):
        return [part.to_numpy() for part in parts]
    import polars as pl

    columns = [pl.Series(part) for part in parts]
    for column in columns:  # a dictionary may hold numbers
        refuse_floats(column, what)
    return [piece for column in columns for piece in _of_polars(column, what)]


def refuse_missing(missing: int, what: str = "ids") -> None:
    """Refuse a column with nulls: no user and no category is known by one."""
    if missing and what == "categories":
        are = "category is" if missing == 1 else "categories are"
        raise InvalidValue(f"{missing:,} {are} missing (null); drop such rows first", code="missing-categories")
    if missing:
        are = "is" if missing == 1 else "are"
        raise InvalidValue(f"{counted(missing, 'id')} {are} missing (null); drop such rows first", code="missing-ids")


def refuse_floats(column: Any, what: str = "ids") -> None:
    """Refuse a column of floats, by its type: what its rows hold does not matter."""
    type_: Any = column.type if is_arrow(column) else getattr(column, "dtype", None)
    if is_arrow(column):
        is_float = str(type_) in ("float", "double", "halffloat")
    else:
        is_float = type_.is_float() if is_polars(column) else getattr(type_, "kind", None) == "f"
    if is_float and len(column):  # an empty list becomes an array of floats
        raise floats_refused(str(type_), what)


def floats_refused(type_: str, what: str = "ids") -> InvalidType:
    """The error for floats where ids are taken. A float is never an id.

    Integers from 2**53 on share floats, and from 2**24 on in 32 bits. So a program that has made floats of ids may have
    made one id of several, and the float does not tell.
    """
    return InvalidType(
        f"{what} came as floats ({type_}), which merge large ids (2**53 and 2**53 + 1 are one float): read them as "
        "integers or text, in pandas with dtype='Int64' or 'string'; nothing was changed",
        code="float-ids",
    )


# --- some rows of ids ---------------------------------------------------------------------------------------------


def columns_of(ids: Any) -> list[Any] | None:
    """The columns of a frame, or of a tuple or list of two columns; None for a column of pairs."""
    if hasattr(ids, "get_columns"):
        return list(ids.get_columns())
    if is_pandas(ids) and hasattr(ids, "columns"):
        return [ids.iloc[:, i] for i in range(ids.shape[1])]
    if isinstance(ids, tuple | list) and len(ids) == 2:
        columns = (isinstance(end, np.ndarray) or is_polars(end) or is_arrow(end) or is_pandas(end) for end in ids)
        return list(ids) if all(columns) else None
    return None


def readable(column: Any) -> Any:
    """A column in a form that universes can read and that can be cut by rows; missing ids are refused."""
    column = plain_column(column)
    if is_arrow(column):
        import polars as pl

        column = pl.Series(column)
    column = list(column) if isinstance(column, tuple) else column
    listed = column.count(None) if isinstance(column, list) else 0
    refuse_missing(column.null_count() if is_polars(column) else listed)
    return column


def plain_rows(ids: Any, *, pairs: bool = False) -> Any:
    """Ids in a form whose rows can be chosen: one column, or two in a tuple; a frame of `pairs` is its two columns."""
    columns = columns_of(ids) if pairs else None
    ids = ids if columns is None else tuple(columns)
    return tuple(map(plain_column, ids)) if _are_columns(ids) else plain_column(ids)


def number_of_rows(ids: Any) -> int:
    """How many rows there are.

    >>> number_of_rows([5, 6, 7]), number_of_rows((np.array([1, 2]), np.array([3, 4])))
    (3, 2)
    """
    if not hasattr(ids, "__len__") or isinstance(ids, Set | Mapping):
        raise InvalidType(
            f"ids with a time each are a column, a list or an array, not a {type(ids).__name__}", code="no-order"
        )
    return len(ids[0]) if _are_columns(ids) else len(ids)


def chosen_rows(ids: Any, wanted: NDArray[np.bool_], scratch: Scratch) -> Any:
    """Some rows of ids: of a column, of two columns in a tuple, or of a list."""
    if hasattr(ids, "chosen"):  # columns side by side
        return ids.chosen(wanted, scratch)
    if _are_columns(ids):
        return tuple(chosen_rows(column, wanted, scratch) for column in ids)
    if isinstance(ids, np.ndarray):
        return scratch.own(ids[wanted]) if ids.dtype != object else ids[wanted]
    if is_arrow(ids):  # which takes a mask of its own kind only: over bits that are wiped
        import pyarrow as pa

        octets = scratch.own(np.packbits(wanted, bitorder="little"))
        return ids.filter(pa.Array.from_buffers(pa.bool_(), len(wanted), [None, pa.py_buffer(octets)]))
    if is_polars(ids):
        return ids.filter(wanted)
    return [user for user, keep in zip(ids, wanted, strict=True) if keep]


def _are_columns(ids: Any) -> bool:
    return isinstance(ids, tuple) and bool(ids) and hasattr(ids[0], "__len__") and not isinstance(ids[0], str | bytes)

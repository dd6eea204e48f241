"""Batches of ids as people have them, cut into chunks that the kernels take.

A batch is the ids that an estimator takes whole or not at all. To find out whether it can, it may walk through a long
batch twice; an iterator can be walked through once only, and is cut into many batches. Nothing is copied that is an
array already, and no more than a chunk at a time otherwise.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from panprivacy import memory
from panprivacy.privacy.coins import CHUNK
from panprivacy.sizes import counted
from panprivacy.universe.progress import Counter

_ITERATOR_BATCH = 8 * CHUNK
_SHORT = 2**16  # rows of text that a chunk of Polars has if it is hashed by itself; shorter ones are joined


class Piece(Protocol):
    """Anything of known length that can be cut by rows."""

    def __len__(self) -> int: ...
    def __getitem__(self, rows: slice, /) -> Any: ...


class Cut(NamedTuple):
    """A batch that whoever read its columns has cut into pieces already."""

    pieces: list[Piece]


def batches(ids: object) -> Iterator[list[Piece]]:
    """Yield the batches in `ids`, each a list of pieces of known length."""
    pieces = ids.pieces if isinstance(ids, Cut) else pieces_of(ids)
    if pieces is not None:
        yield pieces
        return
    iterator = iter(check_many(ids))
    with Counter(ids) as counter:
        while batch := list(islice(iterator, _ITERATOR_BATCH)):
            yield [batch]
            counter.advance(len(batch))


def check_many(ids: object) -> Iterable[Any]:
    """Refuse one id where many are taken."""
    if not isinstance(ids, Iterable) or isinstance(ids, str | bytes) or getattr(ids, "ndim", 1) == 0:
        raise TypeError(f"update_many takes many ids; for one, such as {ids!r}, use update")
    return ids


def chunks(pieces: list[Piece], most: int = CHUNK) -> Iterator[Any]:
    """Cut the pieces of a batch into chunks."""
    for piece in pieces:
        for start in range(0, len(piece), most):
            yield piece[start : start + most]


def pieces_of(ids: object) -> list[Piece] | None:
    """A column of known length in pieces that can be cut by rows; None for an iterator, or for what is no column."""
    ids = plain_column(ids)
    if isinstance(ids, np.ndarray) and ids.ndim:
        refuse_missing(int(ids.mask.sum()) if isinstance(ids, np.ma.MaskedArray) else 0)
        return [ids]
    if is_polars(ids):
        return _of_polars(ids)
    if is_arrow(ids):
        return _of_arrow(ids)
    if isinstance(ids, Sequence) and not isinstance(ids, str | bytes):
        return [list(ids) if isinstance(ids, deque) else ids]  # a deque cannot be cut
    return None


def plain_column(ids: Any) -> Any:
    """A pandas column as the NumPy or Arrow array that it stands for; all else that is one column as it is.

    A frame is refused, and so is a mapping: its columns would be taken for ids, or their names.
    """
    if isinstance(ids, Mapping):
        raise TypeError(f"a {type(ids).__name__} is no column of ids: pass one, such as list(it) or it['user']")
    library = type(ids).__module__.partition(".")[0]
    if library in ("polars", "pyarrow", "pandas") and any(
        hasattr(ids, sign) for sign in ("collect_schema", "columns", "column_names")
    ):
        raise TypeError(f"a {type(ids).__name__} has columns, and ids are one of them: {_how_to_choose(ids)}")
    return _of_pandas(ids) if is_pandas(ids) else ids


def _how_to_choose(frame: Any) -> str:
    chosen = "frame.select('user').collect()['user']" if hasattr(frame, "collect") else "frame['user']"
    return f"pass it alone, as in {chosen}"


def is_pandas(ids: object) -> bool:
    """Whether this is a pandas column, index or frame, without importing pandas to find out."""
    return type(ids).__module__.partition(".")[0] == "pandas" and hasattr(ids, "to_numpy")


def is_polars(ids: object) -> bool:
    """Whether this is a Polars column, without importing Polars to find out."""
    return type(ids).__module__.partition(".")[0] == "polars" and hasattr(ids, "get_chunks")


def is_wide(series: Any) -> bool:
    """Whether this is a column of 128-bit integers, which NumPy does not have."""
    return str(series.dtype) in ("Int128", "UInt128")


def is_arrow(ids: object) -> bool:
    """Whether this is an Arrow array or chunked array."""
    return type(ids).__module__.partition(".")[0] == "pyarrow" and hasattr(ids, "null_count")


def _of_pandas(column: Any) -> Any:
    """The values of a pandas column, whatever its index; nullable, categorical and Arrow types become plain ones."""
    if getattr(column, "nlevels", 1) > 1:
        raise TypeError(
            "an index of several levels is no column of ids: pass one of them, as in index.get_level_values"
        )
    refuse_missing(int(column.isna().sum()))
    if isinstance(column.dtype, np.dtype):
        return column.to_numpy()  # the column's own memory
    if hasattr(column.array, "codes"):
        return _of_categories(column.array.categories.to_numpy(), column.array.codes)
    made = column.to_numpy(copy=True)
    return _listed(made) if made.dtype == object else memory.moved(made)


def _of_categories(categories: NDArray[Any], codes: NDArray[np.signedinteger]) -> Any:
    """The value of each code, in memory that goes back to the system, or in a list where values are objects."""
    octets = 8 * len(codes)
    room = memory.room(octets + categories.itemsize * len(codes))  # one for both: to ask the system takes long
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


def _of_polars(series: Any) -> list[Piece]:
    refuse_missing(series.null_count())
    if is_wide(series):
        return [series.to_list()]
    if series.dtype.is_integer() or series.dtype.is_float():
        return [part.to_numpy() for part in series.get_chunks()]
    parts: list[Piece] = series.get_chunks()
    return parts if len(series) >= len(parts) * _SHORT else [series.rechunk()]


def _of_arrow(array: Any) -> list[Piece]:
    refuse_missing(array.null_count)
    parts = getattr(array, "chunks", [array])
    if str(array.type).startswith(("int", "uint", "float", "double")):
        return [part.to_numpy() for part in parts]
    import polars as pl

    return [piece for part in parts for piece in _of_polars(pl.Series(part))]  # a dictionary may hold integers


def refuse_missing(missing: int) -> None:
    """Refuse a column with nulls: who a missing id is, nobody knows."""
    if missing:
        are = "is" if missing == 1 else "are"
        raise ValueError(f"{counted(missing, 'id')} {are} missing (null); drop such rows first")

"""Batches of ids as people have them, cut into chunks that the kernels take.

A batch is taken whole or not at all, for which a long one may be walked twice; an iterator cannot be, and counts as
many batches. Nothing is copied that is already an array, and no more than a chunk at a time otherwise.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from panprivacy.coins import CHUNK
from panprivacy.sizes import counted

_ITERATOR_BATCH = 8 * CHUNK
_BOOLEANS = {bool, np.bool_}

Column: TypeAlias = NDArray[Any]


class Batch(Protocol):
    """Anything of known length that can be cut by rows."""

    def __len__(self) -> int: ...
    def __getitem__(self, rows: slice, /) -> Any: ...


def batches(ids: object) -> Iterator[list[Batch]]:
    """Yield the batches in `ids`, each a list of pieces of known length."""
    pieces = _pieces(ids)
    if pieces is not None:
        yield pieces
        return
    if not isinstance(ids, Iterable) or isinstance(ids, str | bytes) or getattr(ids, "ndim", 1) == 0:
        raise TypeError(f"update_many takes many ids; for one, such as {ids!r}, use update")
    iterator = iter(ids)
    while batch := list(islice(iterator, _ITERATOR_BATCH)):
        yield [batch]


def chunks(pieces: list[Batch]) -> Iterator[Any]:
    """Cut the pieces of a batch into chunks."""
    for piece in pieces:
        for start in range(0, len(piece), CHUNK):
            yield piece[start : start + CHUNK]


def _pieces(ids: object) -> list[Batch] | None:
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


def is_polars(ids: object) -> bool:
    """Whether this is a Polars column, without importing Polars to find out."""
    return type(ids).__module__.partition(".")[0] == "polars" and hasattr(ids, "get_chunks")


def is_wide(series: Any) -> bool:
    """Whether this is a column of 128-bit integers, which NumPy does not have."""
    return str(series.dtype) in ("Int128", "UInt128")


def is_arrow(ids: object) -> bool:
    """Whether this is an Arrow array or chunked array."""
    return type(ids).__module__.partition(".")[0] == "pyarrow" and hasattr(ids, "null_count")


def _of_polars(series: Any) -> list[Batch]:
    refuse_missing(series.null_count())
    if is_wide(series):
        return [series.to_list()]
    if series.dtype.is_integer():
        return [part.to_numpy() for part in series.get_chunks()]
    return [series]


def _of_arrow(array: Any) -> list[Batch]:
    refuse_missing(array.null_count)
    parts = getattr(array, "chunks", [array])
    if str(array.type).startswith(("int", "uint")):
        return [part.to_numpy() for part in parts]
    import polars as pl

    return [pl.Series(part) for part in parts]


def refuse_missing(missing: int) -> None:
    """Refuse a column with nulls: who a missing id is, nobody knows."""
    if missing:
        are = "is" if missing == 1 else "are"
        raise ValueError(f"{counted(missing, 'id')} {are} missing (null); drop such rows first")


def integers(chunk: Any) -> NDArray[np.integer]:
    """Turn a chunk into an integer array, refusing what only looks like one."""
    array = np.asarray(chunk)
    if array.size == 0:
        return np.empty(0, dtype=np.uint64)
    if array.dtype.kind in "iu" and not (isinstance(chunk, list | tuple) and _BOOLEANS & set(map(type, chunk))):
        return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
    # Integers that no 64-bit type holds together stay what they are: the check will say which of them are outside.
    objects = np.asarray(chunk, dtype=object)
    times = array.dtype.kind in "mM"  # counted in nanoseconds they become numbers
    if not times and all(isinstance(x, int | np.integer) and not isinstance(x, bool) for x in objects.flat):
        return objects
    kinds = {"O": "mixed objects", "U": "strings", "S": "bytes", "T": "strings", "i": "a mixture with True or False"}
    kind = kinds.get(array.dtype.kind)
    raise TypeError(f"ids must be integers, got {kind or array.dtype}; for other ids, list them with pp.Users(...)")


def column(chunk: Any) -> NDArray[np.integer]:
    """Turn a chunk into an integer array of one column."""
    array = integers(chunk)
    if array.ndim != 1:
        raise TypeError(f"ids must be one column, got an array of shape {array.shape}")
    return array


def check_weights(weight: object, pieces: list[Batch]) -> None:
    """Refuse weights that are not all positive, or not as many as the ids."""
    rows = sum(len(piece) for piece in pieces)
    given = _pieces(weight)
    if given is None or sum(len(part) for part in given) != rows:
        raise ValueError(f"weight needs one positive number for each of the {rows} ids")
    row = 0
    for chunk in chunks(given):
        bad = np.flatnonzero(~(np.asarray(chunk) > 0))
        if len(bad):
            value = np.asarray(chunk)[bad[0]]
            raise ValueError(
                f"weight {value} in row {row + int(bad[0])} is not positive; a deletion is remove_many, not a "
                "negative weight"
            )
        row += len(chunk)

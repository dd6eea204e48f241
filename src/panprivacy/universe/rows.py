"""Rows of ids as people have them, so that some of a batch can be chosen."""

from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panprivacy.memory import Scratch
from panprivacy.universe.batches import is_polars, plain_column
from panprivacy.universe.edges import Edges, columns_of


def plain_rows(ids: Any, universe: Any) -> Any:
    """Ids as they were given, in a form whose rows can be chosen: one column, or two in a tuple."""
    if isinstance(universe, Edges):
        columns = columns_of(ids)
        ids = ids if columns is None else tuple(columns)  # a frame of edges is its two columns
    return tuple(map(plain_column, ids)) if _are_columns(ids) else plain_column(ids)


def number_of_rows(ids: Any) -> int:
    """How many rows there are.

    >>> number_of_rows([5, 6, 7]), number_of_rows((np.array([1, 2]), np.array([3, 4])))
    (3, 2)
    """
    if not hasattr(ids, "__len__") or isinstance(ids, Set | Mapping):
        raise TypeError(f"ids with a time each are a column, a list or an array, not a {type(ids).__name__}")
    return len(ids[0]) if _are_columns(ids) else len(ids)


def chosen_rows(ids: Any, wanted: NDArray[np.bool_], scratch: Scratch) -> Any:
    """Some rows of ids: of a column, of two columns in a tuple, or of a list."""
    if _are_columns(ids):
        return tuple(chosen_rows(column, wanted, scratch) for column in ids)
    if isinstance(ids, np.ndarray):
        return scratch.own(ids[wanted]) if ids.dtype != object else ids[wanted]
    if hasattr(ids, "filter"):  # a column of Polars or Arrow, which takes a mask of its own kind only
        return ids.filter(wanted if is_polars(ids) else _arrow_mask(wanted, scratch))
    if not isinstance(ids, Sequence):
        raise TypeError(f"ids with a time each are a column, a list or an array: a {type(ids).__name__} has no order")
    return [user for user, keep in zip(ids, wanted, strict=True) if keep]


def _arrow_mask(wanted: NDArray[np.bool_], scratch: Scratch) -> Any:
    """The same as Arrow has it, over bits that are wiped."""
    import pyarrow as pa

    octets = scratch.own(np.packbits(wanted, bitorder="little"))
    return pa.Array.from_buffers(pa.bool_(), len(wanted), [None, pa.py_buffer(octets)])


def _are_columns(ids: Any) -> bool:
    return isinstance(ids, tuple) and bool(ids) and hasattr(ids[0], "__len__") and not isinstance(ids[0], str | bytes)

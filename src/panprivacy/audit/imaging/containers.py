"""Batches in the containers that people have, over memory that can be wiped, where that is possible.

The ids are read from a file straight into an array, so that no copy of them is in the process but those that the
container itself makes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Ids: TypeAlias = NDArray[Any]

PLAIN = ("NumPy int64", "NumPy int32", "NumPy big-endian", "NumPy strided", "Arrow", "Polars", "range", "NumPy pairs")
"""Containers whose memory is wiped together with the array: what is left of ids is then the library's doing."""

TEXTS = ("list of text", "NumPy text", "Polars text", "Arrow text", "iterator of text")
_TYPES = {"NumPy int32": "<i4", "NumPy big-endian": ">i8", "pandas categorical": "<i4"}
_MOST_USERS = 2**20  # of a pandas categorical
LETTERS = 12
"""How long a text is."""


@dataclass(frozen=True)
class Stored:
    """A batch in a file: ids one after the other, as the container wants them."""

    path: str
    container: str
    rows: int


def store(ids: Ids, container: str, path: Path) -> Stored:
    """Write a batch for another process."""
    layouts: dict[str, Any] = {
        "NumPy int32": lambda: ids.astype("<i4"),
        "pandas categorical": lambda: ids.astype("<i4"),
        "NumPy big-endian": lambda: ids.astype(">i8"),
        "NumPy strided": lambda: np.repeat(ids, 2),
        "NumPy text": lambda: ids.astype(f"U{LETTERS}"),
        "Arrow text": lambda: ids,
    }
    path.write_bytes(layouts.get(container, lambda: ids)().tobytes())
    return Stored(str(path), container, len(ids))


@contextmanager
def opened(batch: Stored) -> Iterator[Any]:
    """A batch in its container; what can be wiped of it is wiped in the end."""
    octets = np.zeros(Path(batch.path).stat().st_size, dtype=np.uint8)
    try:
        with Path(batch.path).open("rb", buffering=0) as file:
            file.readinto(octets.data)
        yield _contained(octets, batch.container, batch.rows)
    finally:
        octets.fill(0)


def singly(batch: Stored) -> Iterator[Any]:
    """The ids of a batch, one after the other, as Python has them."""
    with opened(batch) as ids:
        for i in range(batch.rows):  # `ids[i]` would leave the id in NumPy's own cache of small arrays
            user = ids.item(i) if ids.ndim == 1 else (ids.item(i, 0), ids.item(i, 1))
            yield user.decode() if isinstance(user, bytes) else user


def bare(container: str) -> str:
    """The container without anything around it, from which ids are taken one by one."""
    return "bare text" if container in TEXTS else "NumPy pairs" if container == "NumPy pairs" else "NumPy int64"


def _contained(octets: NDArray[np.uint8], container: str, rows: int) -> Any:
    if container in ("bare text", *TEXTS):
        return _texts(octets, container)
    ids = octets.view(_TYPES.get(container, "<i8"))
    if container in ("Arrow", "Polars", "pandas", "pandas categorical"):
        return _column(ids, container)
    if container in ("list", "iterator", "range"):
        return _objects(ids, container)
    if container == "NumPy pairs":
        return ids.reshape(rows, 2)
    return ids[::2] if container == "NumPy strided" else ids


def _objects(ids: Ids, container: str) -> Any:
    if container == "range":
        first, second, last = ids.item(0), ids.item(1), ids.item(-1)
        return range(first, last + 1, second - first)
    return iter(ids.tolist()) if container == "iterator" else ids.tolist()


def _column(ids: Ids, container: str) -> Any:
    """A column that shares the memory of the array."""
    if container == "pandas":
        import pandas as pd

        return pd.Series(ids, copy=False)
    if container == "pandas categorical":  # its codes are the ids, and its categories are those of all users
        import pandas as pd

        everybody = pd.CategoricalDtype(pd.RangeIndex(_MOST_USERS))
        return pd.Series(pd.Categorical.from_codes(ids, dtype=everybody), copy=False)
    import pyarrow as pa

    column = pa.Array.from_buffers(pa.int64(), len(ids), [None, pa.py_buffer(ids)])
    if container == "Arrow":
        return column
    import polars as pl

    return pl.from_arrow(column)


def _texts(octets: NDArray[np.uint8], container: str) -> Any:
    if container == "NumPy text":
        return octets.view(f"U{LETTERS}")
    bare = octets.view(f"S{LETTERS}")
    if container == "bare text":
        return bare
    if container == "Arrow text":
        import pyarrow as pa

        starts = np.arange(0, len(octets) + 1, LETTERS, dtype=np.int32)
        return pa.Array.from_buffers(pa.string(), len(bare), [None, pa.py_buffer(starts), pa.py_buffer(octets)])
    listed = [text.decode() for text in bare.tolist()]
    if container == "Polars text":
        import polars as pl

        return pl.Series(listed)
    return iter(listed) if container == "iterator of text" else listed

"""What an observer of many runs can compute with: numbers out of memories and releases."""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from panprivacy.audit.wording import leaves

Snapshot: TypeAlias = dict[str, NDArray[Any]]
"""The numbers in a memory or a release, by name."""


class Columns(NamedTuple):
    """Features of many runs: a name and a column for each."""

    names: list[str]
    values: NDArray[np.float64]


def snapshot(thing: Any) -> Snapshot:
    """Copy the numbers out of an object.

    >>> snapshot({"level": 3, "bits": [0, 1]})
    {'level': array(3), 'bits': array([0, 1])}
    """
    if isinstance(thing, bool | int | float):
        return {"value": np.array(thing)}
    found = ((name, _as_array(value)) for name, value in leaves(thing))
    return {name: array for name, array in found if array is not None}


def columns(snapshots: Sequence[Snapshot]) -> Columns:
    """Lay the snapshots of many runs side by side, without what never varies; packed bits are unpacked."""
    names: list[str] = []
    parts: list[NDArray[np.float64]] = []
    for name in dict.fromkeys(name for shot in snapshots for name in shot):
        block = _block([shot.get(name, np.empty(0)) for shot in snapshots])
        varies = (block != block[0]).any(axis=0)
        names += [f"{name}[{i}]" for i in np.flatnonzero(varies)]
        parts.append(block[:, varies])
        if varies.sum() > 1:
            names.append(f"sum of {name}")
            parts.append(block.sum(axis=1, keepdims=True))
    return Columns(names, np.hstack(parts) if parts else np.empty((len(snapshots), 0)))


def _as_array(value: Any) -> NDArray[Any] | None:
    try:
        array = np.array(value)  # a copy: the estimator goes on
    except ValueError:  # a list of lists of different lengths
        return None
    return array if array.dtype.kind in "biuf" else None


def _block(arrays: list[NDArray[Any]]) -> NDArray[np.float64]:
    flat = [np.ravel(array) for array in arrays]
    if len({array.shape for array in flat}) > 1:  # a list of changing length: its length and sum
        return np.array([[len(array), array.sum()] for array in flat], dtype=np.float64)
    block = np.stack(flat)
    if block.size and all(array.dtype == np.uint64 for array in arrays):
        block = np.unpackbits(block.astype("<u8").view(np.uint8), axis=1, bitorder="little")
    return block.astype(np.float64)

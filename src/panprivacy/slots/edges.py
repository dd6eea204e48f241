"""The universe of all possible edges of a graph."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panprivacy.errors import OutsideUniverse
from panprivacy.slots.batches import column, integers, is_arrow, is_polars
from panprivacy.slots.places import Indices


@dataclass(frozen=True)
class Edges:
    """All pairs of different nodes ``0..nodes-1``: estimate the density of a graph as its edges come and go.

    An undirected edge (u, v), u < v, is index ``v*(v-1)/2 + u`` of ``nodes*(nodes-1)/2``, whichever way round it
    is given; a directed one is ``u*(nodes-1) + v - [v > u]`` of ``nodes*(nodes-1)``. A node has no edge to itself.

    >>> import panprivacy as pp
    >>> graph = pp.Density(universe=pp.Edges(nodes=1000), epsilon=1.0)
    >>> graph.update((3, 7)); graph.update_many([(1, 2), (2, 9)]); graph.remove((7, 3))
    >>> pp.Edges(nodes=1000).size
    499500
    """

    nodes: int
    directed: bool = False

    def __post_init__(self) -> None:
        if self.nodes < 2:
            raise ValueError(f"a graph needs at least 2 nodes, got {self.nodes}")

    @property
    def size(self) -> int:
        """How many edges there could be."""
        pairs = self.nodes * (self.nodes - 1)
        return pairs if self.directed else pairs // 2

    def as_batch(self, ids: Any) -> Any:
        """Read a tuple of two columns, or a Polars frame of two, as one column of pairs."""
        columns = ids.get_columns() if hasattr(ids, "get_columns") else ids
        if isinstance(ids, tuple | list) and not (len(ids) == 2 and all(_is_column(end) for end in ids)):
            return ids
        if isinstance(columns, tuple | list):
            if len(columns) != 2:
                raise TypeError(f"edges are two columns, source and target, got {len(columns)}")
            return Pairs(*columns)
        return ids

    def index(self, user: Any) -> int:
        """The position of one edge."""
        return int(self.indices(np.asarray([user]))[0])

    def indices(self, chunk: Any) -> Indices:
        """The positions of a chunk of edges."""
        source, target = self._ends(chunk)
        bad = ~self._joins(source, target)
        if bad.any():
            edges = list(zip(source[bad].tolist(), target[bad].tolist(), strict=True))
            named = ", ".join(str(edge) for edge in edges[:3])
            more = " and more" if len(edges) > 3 else ""
            joining = f"edge {named} joins" if len(edges) == 1 else f"edges {named}{more} join"
            raise OutsideUniverse(f"{joining} no two different nodes of 0..{self.nodes - 1}; nothing was changed")
        source, target = source.astype(np.uint64), target.astype(np.uint64)
        if self.directed:
            return np.asarray(source * np.uint64(self.nodes - 1) + target - (target > source))
        low, high = np.minimum(source, target), np.maximum(source, target)
        return np.asarray(high * (high - np.uint64(1)) // np.uint64(2) + low)

    unchecked = indices  # looking a user up is the check

    def inside(self, chunk: Any) -> NDArray[np.bool_]:
        """Of each of a chunk of edges, whether it is one of them."""
        return self._joins(*self._ends(chunk))

    def _joins(self, source: NDArray[np.integer], target: NDArray[np.integer]) -> NDArray[np.bool_]:
        nodes = [(end >= 0) & (end < self.nodes) for end in (source, target)]
        return np.asarray(nodes[0] & nodes[1] & (source != target), dtype=np.bool_)

    def describe(self) -> str:
        """What the universe is, in a few words."""
        kind = "directed" if self.directed else "undirected"
        return f"{self.size:,} {kind} edges of {self.nodes:,} nodes"

    def _ends(self, chunk: Any) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
        ends = integers(chunk)
        if ends.size == 0:
            return ends.ravel(), ends.ravel()
        if ends.ndim != 2 or ends.shape[1] != 2:
            raise TypeError(f"edges are pairs (source, target), got an array of shape {ends.shape}")
        return ends[:, 0], ends[:, 1]


class Pairs(Sequence[Any]):
    """Two columns, source and target, read as one column of pairs without copying them whole."""

    def __init__(self, source: Any, target: Any) -> None:
        if len(source) != len(target):
            raise ValueError(f"an edge has two ends: got {len(source)} sources and {len(target)} targets")
        self._ends = (source, target)

    def __len__(self) -> int:
        return len(self._ends[0])

    def __getitem__(self, rows: Any) -> Any:
        ends = [column(end[rows]) for end in self._ends]
        if np.result_type(*ends).kind == "f":  # signed beside unsigned: stacked as they are, they would be rounded
            ends = [end.astype(object) for end in ends]
        return np.column_stack(ends)


def _is_column(ids: Any) -> bool:
    return isinstance(ids, np.ndarray) or is_polars(ids) or is_arrow(ids)

"""The universe of all possible edges of a graph."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panprivacy.checks import shown
from panprivacy.errors import InvalidType, InvalidValue, OutsideUniverse
from panprivacy.memory.scratch import Scratch
from panprivacy.universe import lookup_kernels as kernels
from panprivacy.universe.columns import (
    chosen_rows,
    columns_of,
    is_arrow,
    is_polars,
    plain_column,
    refuse_missing,
)
from panprivacy.universe.integers import NOT_THERE, LookedUp, Lookup, TooLarge, Words, as_words, integers, words_of
from panprivacy.universe.range import first_of
from panprivacy.universe.users import Users, as_users


@dataclass(frozen=True, eq=False)
class Edges(LookedUp):
    """All pairs of different nodes: estimate the density of a graph as its edges come and go.

    `nodes` is a number n, for nodes ``0..n-1``, or `pp.Users` for nodes with other names; a list of names will do. An
    undirected edge (u, v), u < v, is index ``v*(v-1)/2 + u`` of ``n*(n-1)/2``, whichever way round it is given; a
    directed one is ``u*(n-1) + v - [v > u]`` of ``n*(n-1)``. A node has no edge to itself.

    >>> import panprivacy as pp
    >>> graph = pp.Density(universe=pp.Edges(nodes=1000), epsilon=1.0)
    >>> graph.update((3, 7)); graph.update_many([(1, 2), (2, 9)]); graph.remove((7, 3))
    >>> pp.Edges(nodes=1000).size
    499500
    >>> flights = pp.Density(universe=pp.Edges(nodes=["JFK", "LAX", "ORD"]), epsilon=1.0)
    >>> flights.update(("JFK", "ORD"))
    """

    lookup = Lookup.HASHED

    nodes: Any
    directed: bool = False
    named: Users | None = field(init=False, repr=False)
    """The names of the nodes, where they are not numbers."""
    count: int = field(init=False, repr=False)
    """How many nodes there are."""
    fingerprint: bytes = field(init=False, repr=False)
    """What tells lists of names apart; nothing for nodes that are numbers."""

    def __post_init__(self) -> None:
        named = None if hasattr(self.nodes, "__index__") else as_users(self.nodes)
        count = self.nodes.__index__() if named is None else named.size
        if count < 2:
            raise InvalidValue(f"a graph needs at least 2 nodes, got {count}", code="nodes-number")
        found = {"named": named, "count": count, "fingerprint": named.fingerprint if named else b""}
        for name, value in found.items():
            object.__setattr__(self, name, value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Edges) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> tuple[int, bytes, bool]:
        return self.count, self.fingerprint, self.directed

    @property
    def size(self) -> int:
        """How many edges there could be."""
        pairs = self.count * (self.count - 1)
        return pairs if self.directed else pairs // 2

    def as_column(self, ids: Any) -> Any:
        """Read a tuple of two columns, or a frame of two, as one column of pairs."""
        columns = columns_of(ids)
        if columns is None:
            return ids
        if len(columns) != 2:
            raise InvalidType(f"edges are two columns, source and target, got {len(columns)}", code="edges-type")
        return Pairs(*map(_sliced if self.named else plain_column, columns))

    def index(self, user: Any) -> int:
        """The position of one edge."""
        if not isinstance(user, tuple | list | np.ndarray):
            raise InvalidType(f"an edge is a pair (source, target), got {shown(user)}", code="edges-type")
        with Scratch() as scratch:
            return int(self.indices([user], scratch)[0])

    def indices(self, chunk: Any, scratch: Scratch) -> Words:
        """The positions of a chunk of edges."""
        indices, wrong = self.places(chunk, scratch)
        if wrong:
            raise self._outside(first_of(_edges(chunk), (int(i) == NOT_THERE for i in indices)), wrong)
        return indices

    def places(self, chunk: Any, scratch: Scratch) -> tuple[Words, int]:
        """The position of each edge, `NOT_THERE` for a pair that joins no two nodes, and how many pairs do not."""
        try:
            if self.named is not None:
                ends = _named_ends(self.named, chunk, scratch)
            else:
                ends = chunk.ends(scratch) if isinstance(chunk, Pairs) else _ends(chunk, scratch)
        except TooLarge as error:
            raise self._outside([_edges(chunk)[error.row // 2]], 1) from None
        indices: Words = scratch.empty("indices", len(ends), np.uint64)
        return indices, int(kernels.edge_indices(ends, self.count, self.directed, indices))

    def _outside(self, named: list[Any], wrong: int) -> OutsideUniverse:
        plain = (tuple(edge) if self.named else tuple(int(end) for end in edge) for edge in named)
        listed = ", ".join(map(str, plain))
        more = " and more" if wrong > len(named) else ""
        joining = f"edge {listed} joins" if wrong == 1 else f"edges {listed}{more} join"
        nodes = f"the {self.count:,} listed" if self.named else f"0..{self.count - 1}"
        return OutsideUniverse(f"{joining} no two different nodes of {nodes}; nothing was changed")

    def describe(self) -> str:
        """What the universe is, in a few words."""
        kind = "directed" if self.directed else "undirected"
        return f"{self.size:,} {kind} edges of {self.count:,} {'listed ' if self.named else ''}nodes"


class Pairs(Sequence[Any]):
    """Two columns, source and target, read as one column of pairs without copying them whole."""

    def __init__(self, source: Any, target: Any) -> None:
        if len(source) != len(target):
            raise InvalidValue(
                f"an edge has two ends: got {len(source)} sources and {len(target)} targets", code="edges-length"
            )
        self.columns: tuple[Any, Any] = (source, target)

    def __len__(self) -> int:
        return len(self.columns[0])

    def __getitem__(self, rows: Any) -> Any:
        if isinstance(rows, slice):
            return Pairs(*(end[rows] for end in self.columns))
        return tuple(end[rows] for end in self.columns)

    def chosen(self, wanted: NDArray[np.bool_], scratch: Scratch) -> "Pairs":
        """Some of the pairs."""
        return Pairs(*(chosen_rows(end, wanted, scratch) for end in self.columns))

    def ends(self, scratch: Scratch) -> Words:
        """Both columns as words, side by side."""
        pairs: Words = scratch.empty("ends", 2 * len(self), np.uint64).reshape(len(self), 2)
        for place, end in enumerate(self.columns):
            try:
                with Scratch() as own:
                    pairs[:, place] = as_words(end, own)[0]
            except TooLarge as error:
                raise TooLarge(2 * error.row) from None
        pairs.flags.writeable = False
        return pairs


def _named_ends(nodes: Users, chunk: Any, scratch: Scratch) -> Words:
    """The positions of both ends among the listed nodes, side by side; an end that is not listed gets `NOT_THERE`."""
    columns = ends_of(chunk)
    pairs: Words = scratch.empty("ends", 2 * len(columns[0]), np.uint64).reshape(-1, 2)
    for place, end in enumerate(columns):
        with Scratch() as own:
            pairs[:, place] = nodes.places(end, own)[0]
    pairs.flags.writeable = False
    return pairs


def ends_of(edges: Any) -> tuple[Any, Any]:
    """The columns of sources and targets."""
    if isinstance(edges, Pairs):
        return edges.columns
    for edge in edges:
        if isinstance(edge, str | bytes) or not hasattr(edge, "__len__") or len(edge) != 2:
            raise InvalidType(f"edges are pairs (source, target), got {shown(edge)}", code="edges-type")
    return [edge[0] for edge in edges], [edge[1] for edge in edges]


def _sliced(column: Any) -> Any:
    """A column of names in a form that can be cut by rows; missing names are refused."""
    column = plain_column(column)
    if is_arrow(column):
        import polars as pl

        column = pl.Series(column)
    refuse_missing(column.null_count() if is_polars(column) else 0)
    return column


def _ends(chunk: Any, scratch: Scratch) -> Words:
    """An array or a list of pairs as words."""
    ends = integers(chunk, scratch)
    if ends.size == 0:
        ends = ends.reshape(0, 2)
    if ends.ndim != 2 or ends.shape[1] != 2:
        raise InvalidType(f"edges are pairs (source, target), got an array of shape {ends.shape}", code="edges-type")
    return words_of(ends, scratch, "ends")[0]


def _edges(chunk: Any) -> Any:
    """A chunk that gives an edge for a row number."""
    return chunk if isinstance(chunk, Pairs | np.ndarray) else list(chunk)

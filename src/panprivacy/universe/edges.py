"""The universe of all possible edges of a graph."""

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from panprivacy.checks import shown
from panprivacy.errors import InvalidType, InvalidValue, OutsideUniverse
from panprivacy.memory.scratch import Scratch
from panprivacy.universe import lookup_kernels as kernels
from panprivacy.universe.columns import (
    SideBySide,
    columns_of,
    plain_column,
    readable,
    side_by_side,
)
from panprivacy.universe.integers import Lookup, TooLarge, Words, integers, words_of
from panprivacy.universe.range import Range, Universe
from panprivacy.universe.users import Users


@dataclass(frozen=True, eq=False)
class Edges(Universe):
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
    KERNELS = ("universe.lookup_kernels",)

    nodes: Any
    directed: bool = False
    named: Users | None = field(init=False, repr=False)
    """The names of the nodes, where they are not numbers."""
    count: int = field(init=False, repr=False)
    """How many nodes there are."""
    size: int = field(init=False, repr=False)
    """How many edges there could be."""
    fingerprint: bytes = field(init=False, repr=False)
    """What tells lists of names apart; nothing for nodes that are numbers."""

    def __post_init__(self) -> None:
        nodes = self.nodes
        named = None if hasattr(nodes, "__index__") else nodes if isinstance(nodes, Users) else Users(nodes)
        count = self.nodes.__index__() if named is None else named.size
        if count < 2:
            raise InvalidValue(f"a graph needs at least 2 nodes, got {count}", code="nodes-number")
        size = count * (count - 1) // (1 if self.directed else 2)
        fingerprint = named.fingerprint if named else b""
        for name, value in {"named": named, "count": count, "size": size, "fingerprint": fingerprint}.items():
            object.__setattr__(self, name, value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Edges) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> tuple[int, bytes, bool]:
        return self.count, self.fingerprint, self.directed

    def as_column(self, ids: Any) -> Any:
        """Read a tuple of two columns, or a frame of two, as one column of pairs."""
        columns = columns_of(ids)
        if columns is None:
            return ids
        if len(columns) != 2:
            raise InvalidType(f"edges are two columns, source and target, got {len(columns)}", code="edges-type")
        source, target = map(readable if self.named else plain_column, columns)
        if len(source) != len(target):
            raise InvalidValue(
                f"an edge has two ends: got {len(source)} sources and {len(target)} targets", code="edges-length"
            )
        return SideBySide(source, target)

    def index(self, user: Any) -> int:
        if not isinstance(user, tuple | list | np.ndarray):
            raise InvalidType(f"an edge is a pair (source, target), got {shown(user)}", code="edges-type")
        with Scratch() as scratch:
            return int(self.indices([user], scratch)[0])

    def places(self, chunk: Any, scratch: Scratch) -> tuple[Words, int]:
        """The position of each edge, `NOT_THERE` for a pair that joins no two nodes, and how many pairs do not."""
        ends = self._ends(chunk, scratch)
        indices: Words = scratch.empty("indices", len(ends), np.uint64)
        return indices, int(kernels.edge_indices(ends, self.count, self.directed, indices))

    def _ends(self, chunk: Any, scratch: Scratch) -> Words:
        """The positions of both ends among the nodes, side by side; an end that is no node has one beyond them."""
        if not self.named and not isinstance(chunk, SideBySide):
            pairs = integers(chunk, scratch)
            pairs = pairs if pairs.size else pairs.reshape(0, 2)
            if pairs.ndim != 2 or pairs.shape[1] != 2:
                raise InvalidType(
                    f"edges are pairs (source, target), got an array of shape {pairs.shape}", code="edges-type"
                )
            with suppress(TooLarge):
                return words_of(pairs, scratch, "ends")[0]
        columns = ends_of(chunk)
        ends: Words = scratch.empty("ends", 2 * len(columns[0]), np.uint64).reshape(-1, 2)
        for place, column in enumerate(columns):
            with Scratch() as own:
                named = self.named
                ends[:, place] = named.places(column, own)[0] if named else Range(self.count).unchecked(column, own)
        ends.flags.writeable = False
        return ends

    def _outside(self, named: list[Any], wrong: int) -> OutsideUniverse:
        plain = (tuple(edge) if self.named else tuple(int(end) for end in edge) for edge in named)
        listed = ", ".join(map(str, plain))
        more = " and more" if wrong > len(named) else ""
        joining = f"edge {listed} joins" if wrong == 1 else f"edges {listed}{more} join"
        nodes = f"the {self.count:,} listed" if self.named else f"0..{self.count - 1}"
        return OutsideUniverse(f"{joining} no two different nodes of {nodes}; nothing was changed")

    def describe(self) -> str:
        kind = "directed" if self.directed else "undirected"
        return f"{self.size:,} {kind} edges of {self.count:,} {'listed ' if self.named else ''}nodes"


def ends_of(edges: Any) -> tuple[Any, Any]:
    """The columns of sources and targets."""
    for edge in () if isinstance(edges, SideBySide) else edges:
        if isinstance(edge, str | bytes) or not hasattr(edge, "__len__") or len(edge) != 2:
            raise InvalidType(f"edges are pairs (source, target), got {shown(edge)}", code="edges-type")
    return side_by_side(edges)

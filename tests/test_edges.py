"""The universe of a graph's edges."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import panprivacy as pp
from feeding import refused, touched
from panprivacy import testing
from panprivacy.memory.scratch import Scratch


@pytest.mark.parametrize("nodes", [2, 3, 5, 40])
@pytest.mark.parametrize("directed", [False, True])
def test_every_edge_has_an_index_of_its_own(nodes: int, directed: bool) -> None:
    graph = pp.Edges(nodes, directed)
    pairs = [(u, v) for u in range(nodes) for v in range(nodes) if u != v]
    alone = [graph.index(pair) for pair in pairs]
    assert graph.indices(np.array(pairs), Scratch()).tolist() == alone
    assert sorted(set(alone)) == list(range(graph.size))
    assert len(alone) == (graph.size if directed else 2 * graph.size)
    if not directed:
        assert alone == [graph.index((v, u)) for u, v in pairs]


@pytest.mark.slow
@given(nodes=st.integers(2, 5_000_000), data=st.data())
def test_edges_of_large_graphs_stay_inside(nodes: int, data: st.DataObject) -> None:
    source = data.draw(st.integers(0, nodes - 1))
    target = data.draw(st.integers(0, nodes - 1).filter(lambda v: v != source))
    for directed in (False, True):
        graph = pp.Edges(nodes, directed)
        assert 0 <= graph.index((source, target)) < graph.size
        assert graph.index((nodes - 1, nodes - 2)) < graph.size


COLUMNS: dict[str, Callable[[list[Any], list[Any]], Any]] = {
    "list of pairs": lambda s, t: list(zip(s, t, strict=True)),
    "generator of pairs": lambda s, t: zip(s, t, strict=True),
    "array of pairs": lambda s, t: np.column_stack([s, t]),
    "two arrays": lambda s, t: (np.array(s), np.array(t)),
    "signed and unsigned": lambda s, t: (np.array(s), np.array(t, dtype=np.uint64)),
    "two widths": lambda s, t: (np.array(s, dtype=np.int8), np.array(t, dtype=np.uint32)),
    "polars columns": lambda s, t: (pl.Series(s), pl.Series(t)),
    "polars frame": lambda s, t: pl.DataFrame({"from": s, "to": t}),
    "arrow columns": lambda s, t: (pa.array(s), pa.chunked_array([t])),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_edges_come_as_pairs_or_columns(name: str) -> None:
    source, target = [0, 3, 4], [1, 2, 0]
    expected = sorted(pp.Edges(5).index(pair) for pair in zip(source, target, strict=True))
    assert touched(pp.Edges(5), lambda est: est.update_many(COLUMNS[name](source, target))) == expected


@pytest.mark.parametrize(
    ("ids", "kind", "words"),
    [
        ([(1, 1)], pp.OutsideUniverse, r"edge \(1, 1\) joins no two different nodes of 0\.\.9"),
        ([(1, 2), (3, 10), (-1, 2)], pp.OutsideUniverse, r"\(3, 10\), \(-1, 2\) join"),
        ([(1, 2**70)], pp.OutsideUniverse, str(2**70)),
        (np.array([[1, -1]], dtype=np.int8), pp.OutsideUniverse, r"\(1, -1\)"),
        ((np.array([1, 2]), np.array([1, 3])), pp.OutsideUniverse, r"\(1, 1\)"),
        ([(1, 2, 3)], TypeError, "pairs"),
        ([5, 6], TypeError, "pairs"),
        ([(1.0, 2.0)], TypeError, "ids came as floats"),
        ([("a", "b")], TypeError, "got text"),
        ((np.array([1, 2]), np.array([1])), ValueError, "2 sources and 1 targets"),
    ],
)
def test_what_is_no_edge_of_the_graph_is_refused(ids: object, kind: type[Exception], words: str) -> None:
    refused(pp.Edges(10), ids, kind, words)


def test_a_graph_has_two_nodes_at_least() -> None:
    with testing.refused("nodes-number"):
        pp.Edges(1)


# --- nodes with names -----------------------------------------------------------------------------------------------

AIRPORTS = ["JFK", "LAX", "ORD", "ÅLA", ""]
NAMED: dict[str, Callable[[list[str], list[str]], Any]] = {
    **{name: COLUMNS[name] for name in COLUMNS if name not in ("signed and unsigned", "two widths")},
    "categories": lambda s, t: (pl.Series(s, dtype=pl.Categorical), pl.Series(t, dtype=pl.Categorical)),
    "pandas frame": lambda s, t: pd.DataFrame({"from": s, "to": t}, index=range(7, 7 + len(s))),
}


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("directed", [False, True])
def test_nodes_may_have_names(name: str, directed: bool) -> None:
    graph, numbered = pp.Edges(AIRPORTS, directed), pp.Edges(len(AIRPORTS), directed)
    source, target = ["JFK", "ORD", ""], ["LAX", "JFK", "ÅLA"]
    listed = pp.Users(AIRPORTS)
    expected = [numbered.index((listed.index(s), listed.index(t))) for s, t in zip(source, target, strict=True)]
    assert touched(graph, lambda est: est.update_many(NAMED[name](source, target))) == sorted(expected)
    assert [graph.index(edge) for edge in zip(source, target, strict=True)] == expected
    assert touched(graph, lambda est: est.update_many(NAMED[name](source[:0], target[:0]))) == []


@pytest.mark.parametrize(
    ("edges", "words"),
    [
        ([("JFK", "EWR")], r"edge \('JFK', 'EWR'\) joins no two different nodes of the 5 listed"),
        ([("JFK", "LAX"), ("JFK", "JFK")], r"edge \('JFK', 'JFK'\) joins no"),
        ((pl.Series(["JFK"]), pl.Series(["jfk"])), r"edge \('JFK', 'jfk'\) joins no"),
        ([(1, 2)], r"edge \(1, 2\) joins no"),
    ],
)
def test_an_edge_of_others_is_refused_by_name(edges: Any, words: str) -> None:
    refused(pp.Edges(AIRPORTS), edges, pp.OutsideUniverse, words)


@pytest.mark.parametrize("edges", ["JFK", ["JF"], [("JFK",)], [("JFK", "LAX", "ORD")], [5]])
def test_what_is_no_pair_of_names_is_no_edge(edges: Any) -> None:
    refused(pp.Edges(AIRPORTS), edges, TypeError, "edges are pairs|takes many ids")


def test_an_edge_without_an_end_is_refused() -> None:
    columns = (pl.Series(["JFK", None]), pl.Series(["LAX", "ORD"]))
    refused(pp.Edges(AIRPORTS), columns, ValueError, "1 id is missing")


def test_names_of_nodes_are_a_universe_that_is_given_again() -> None:
    graph = pp.Edges(AIRPORTS, directed=True)
    assert graph == pp.Edges(pp.Users(reversed(AIRPORTS)), directed=True)
    assert len({graph, pp.Edges(AIRPORTS), pp.Edges(5), pp.Edges(5, directed=True), pp.Edges([*AIRPORTS, "SFO"])}) == 5
    est = pp.Density(graph, 1.0)
    blob = est.to_bytes()
    assert pp.load(blob, graph).to_bytes() == blob
    alone = pp.load(blob)
    assert alone.to_bytes() == blob
    assert alone.universe.describe() == "20 edges of listed nodes (list not loaded)"
    with testing.refused("users-not-loaded", "pp.Edges(nodes=...)"):
        alone.update(("JFK", "LAX"))
    for other in (pp.Edges(AIRPORTS), pp.Edges(5, directed=True), pp.Users(AIRPORTS), pp.Edges([*"abcde"], True)):
        with pytest.raises(pp.OtherUniverse):
            pp.load(blob, other)


def test_shards_of_different_graphs_are_not_merged() -> None:
    for one, other in ((pp.Edges(5), pp.Edges(6)), (pp.Edges(AIRPORTS), pp.Edges([*"abcde"])), (pp.Edges(5), 10)):
        parts = [pp.Density(universe, 1.0, shard=(i, 2)) for i, universe in enumerate((one, other))]
        with testing.refused("different-plans", "universes"):
            pp.merge(parts)

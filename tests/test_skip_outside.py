"""`skip_outside=True`: rows whose user is not in the universe are left out."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import panprivacy as pp
from panprivacy.memory import scratch as scratch_module
from panprivacy.testing import refused
from panprivacy.universe.strangers import StrangerFilter
from sources import Always

CLINIC = ["ada", "grace", "mary", "rosalind"]


def absent(universe: Any, **options: Any) -> tuple[pp.Density, Always]:
    """A density all of whose bits are 0, and coins that draw ones from now on."""
    coins = Always(False)
    est = pp.Density(universe, 2.0, coins=coins, **options)
    coins.outcome = True
    return est, coins


def fed(universe: Any, ids: Any, *more: Any, skip_outside: bool = False, **options: Any) -> bytes:
    est, _ = absent(universe, **options)
    est.update_many(ids, *more, skip_outside=skip_outside)
    return est.to_bytes(insecure=True)


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize(
    "made",
    [
        list,
        lambda pairs: [tuple(pair) for pair in pairs],
        tuple,
        lambda pairs: (pl.Series([one for one, _ in pairs]), pl.Series([other for _, other in pairs])),
        lambda pairs: pl.DataFrame(pairs, schema=["source", "target"], orient="row"),
        lambda pairs: pd.DataFrame(pairs, columns=["source", "target"]),
        iter,
    ],
    ids=["list", "tuples", "tuple", "columns", "Polars", "pandas", "iterator"],
)
def test_edges_to_strangers_are_left_out(named: bool, made: Any) -> None:
    nodes: Any = ["n0", "n1", "n2", "n3"] if named else 4
    pairs: Any = [(0, 1), (1, 3), (7, 1), (2, 2), (9, 8)]
    if named:
        pairs = [(f"n{one}", f"n{other}") for one, other in pairs]
    universe = pp.Edges(nodes)
    assert fed(universe, made(pairs), skip_outside=True) == fed(universe, pairs[:2])


def test_edges_of_an_array_are_left_out() -> None:
    pairs = np.array([(0, 1), (1, 3), (7, 1), (2, 2)])
    assert fed(pp.Edges(4), pairs, skip_outside=True) == fed(pp.Edges(4), pairs[:2])


def test_of_an_edge_only_the_end_that_is_not_listed_is_compared() -> None:
    universe = pp.Edges(["JFK", "LAX", "ORD"])
    assert fed(universe, [("JFK", "CDG")], skip_outside=True) == fed(universe, [])
    with pytest.raises(pp.OutsideUniverse) as error:
        fed(universe, [("JFK", "lax")], skip_outside=True)
    assert error.value.code == "lookalike"
    assert "'lax'" in str(error.value)


@pytest.mark.parametrize(
    "made", [list, pl.Series, pa.array, pd.Series, iter], ids=["list", "Polars", "Arrow", "pandas", "iterator"]
)
def test_the_categories_of_strangers_are_left_out_with_them(made: Any) -> None:
    users, kinds = ["ada", "ida", "mary", "eve"], ["flu", "plague", "cold", "flu"]
    options: dict[str, Any] = {"categories": ["flu", "cold"], "key": bytes(16)}
    some = fed(pp.Users(CLINIC), made(users), made(kinds), skip_outside=True, **options)
    assert some == fed(pp.Users(CLINIC), ["ada", "mary"], ["flu", "cold"], **options)
    same = fed(pp.Users(CLINIC), made(users), "flu", skip_outside=True, **options)
    assert same == fed(pp.Users(CLINIC), ["ada", "mary"], "flu", **options)


def test_times_of_strangers_end_no_window() -> None:
    weeks = pp.Windows(lambda: absent(pp.Users(CLINIC))[0], every="7d", start="2026-01-05")
    users, times = ["ada", "ida", "mary"], ["2026-01-06", "2026-01-13", "2026-01-07"]
    for made in (list, pl.Series, pa.array, pd.Series):
        weeks.update_many(made(users), time=made(times), skip_outside=True)
    assert weeks.closed == ()
    weeks.update_many([*users, "eve"], time=[*times, "2031-01-01"], skip_outside=True)
    with refused("times-length", "3 ids", "2 times"):
        weeks.update_many(users, time=times[:2], skip_outside=True)
    by_kind = pp.Windows(lambda: pp.Density(pp.Users(CLINIC), 1.0, categories=["flu"]), every="7d", start="2026-01-05")
    with pytest.raises(pp.InvalidValue) as error:
        by_kind.update_many(users, ["flu"], time=times, skip_outside=True)
    assert error.value.code == "categories-length"
    by_kind.update_many(users, ["flu", "plague", "flu"], time=times, skip_outside=True)


def test_text_is_asked_for_where_integers_are_listed_as_text() -> None:
    with pytest.raises(pp.InvalidType) as error:
        fed(pp.Users(["7", "8"]), [7, 99], skip_outside=True)
    assert error.value.code == "ids-type"
    with pytest.raises(pp.InvalidType):
        fed(pp.Users([7, 8]), ["7", "99"], skip_outside=True)
    with pytest.raises(pp.InvalidType):
        fed(10, [1.0, 99.0], skip_outside=True)


def test_a_missing_id_is_no_stranger() -> None:
    for ids in (["ada", None], pl.Series(["ada", None]), pa.array(["ada", None]), iter(["ada", None])):
        with pytest.raises(pp.InvalidValue) as error:
            fed(pp.Users(CLINIC), ids, skip_outside=True)
        assert error.value.code == "missing-ids"


def test_a_list_that_is_compared_exactly_leaves_lookalikes_out() -> None:
    users = pp.Users(["007", "8"], normalize="none")
    assert fed(users, ["7", "8"], skip_outside=True) == fed(users, ["8"])
    same = pp.Users(["007", "8"], normalize="zeros")
    assert fed(same, ["7", "99"], skip_outside=True) == fed(same, ["007"])


def test_only_the_first_batch_of_an_iterator_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("panprivacy.universe.columns.ITERATOR_BATCH", 2)
    users = pp.Users(CLINIC)
    assert fed(users, iter(["ada", "eve", "Grace", "mary"]), skip_outside=True) == fed(users, ["ada", "mary"])


def test_masks_and_chosen_rows_are_wiped(monkeypatch: pytest.MonkeyPatch) -> None:
    owned: list[Any] = []
    own = scratch_module.Scratch.own

    def noted(self: Any, array: Any) -> Any:
        owned.append(array)
        return own(self, array)

    monkeypatch.setattr(scratch_module.Scratch, "own", noted)
    found: list[Any] = []
    mask = StrangerFilter.mask

    def kept(*given: Any) -> Any:
        found.append(mask(*given))
        return found[-1]

    monkeypatch.setattr(StrangerFilter, "mask", kept)
    est, _ = absent(1000)
    est.update_many(np.arange(500, 1500), skip_outside=True)
    assert len(found) == 1
    assert any(array.dtype == np.int64 and len(array) == 500 for array in owned)
    assert not any(array.any() for array in [*owned, *found])


def test_the_comparison_is_made_ready_before_there_is_a_stranger() -> None:
    users = pp.Users(CLINIC)
    absent(users)[0].update_many([], skip_outside=True)
    assert "spellings" in vars(users)

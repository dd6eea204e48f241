"""What is refused is called by its name: missing ids, mappings, groups that nobody would see, folders."""

from decimal import Decimal
from inspect import signature
from math import inf, nan
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import panprivacy as pp
from panprivacy.testing import refused

GROUPED = pp.Users(["ada", "grace", "mary"], groups=["north", "south", "north"])

TAKERS: dict[str, Any] = {
    "a range": lambda: pp.Density(100, 1.0),
    "a list": lambda: pp.Density(pp.Users([1, 2, 3]), 1.0),
    "edges": lambda: pp.Density(pp.Edges(nodes=9), 1.0),
    "anybody": lambda: pp.DistinctCount(1.0),
    "counts": lambda: pp.Counts(100, 1.0, 4),
    "periods": lambda: pp.Retention(100, 1.0),
    "a watch": lambda: pp.Continual(100_000, 1.0),
}


@pytest.mark.parametrize("taker", TAKERS.values(), ids=TAKERS)
def test_a_mapping_is_no_column_and_its_keys_are_nobody(taker: Any) -> None:
    est = taker()
    with refused("not-a-column", "dict"):
        est.update_many({"a": [1]})


def test_the_keys_of_a_mapping_are_ids_where_they_are_passed() -> None:
    pp.Density(100, 1.0).update_many({1: "ada", 2: "grace"}.keys())
    with refused("not-a-column", "dict"):
        pp.Users({1: "ada"})


def test_a_missing_id_is_called_missing() -> None:
    with refused("missing-ids", "1"):
        pp.Density(100, 1.0).update_many([1, None])


def test_groups_that_nothing_would_release_are_refused() -> None:
    with refused("groups-not-supported", "a Continual"):
        pp.Continual(GROUPED, 1.0)


def test_a_column_is_no_universe_and_none_of_its_ids_is_shown() -> None:
    with refused("universe-type", "sers("):
        pp.Density(pl.Series(["ada", "grace"]), 1.0)  # type: ignore[arg-type]
    with refused("universe-type", "float"):
        pp.Density(1.5, 1.0)  # type: ignore[arg-type]


def test_labels_without_their_keyword_are_pointed_to_it() -> None:
    with refused("column-of-a-file"):
        pp.Users(["ada", "grace"], ["north", "south"])  # type: ignore[arg-type]
    with refused("column-of-a-file", "'region'"):
        pp.Users(["ada", "grace"], "region")


def test_an_active_users_asks_for_its_start_and_for_users_enough_for_its_days() -> None:
    with refused("start-missing"):
        pp.ActiveUsers(1000, 1.0, start=None)
    with refused("too-few-users"):
        pp.ActiveUsers(10, 1.0, start="2026-01-05")


def test_a_folder_has_no_more_shards_than_are_worth_it_and_says_what_they_take(tmp_path: Path) -> None:
    small, few, usual = (pp.StateFolder.create(tmp_path / str(users), users, 1.0) for users in (2, 5000, 10_000_000))
    assert (small.shards, few.shards, usual.shards) == (1, 1, 64)
    assert "all tracked in 8 B" in repr(small)
    assert few.memory == 632
    with refused("shards-range", "2", "3"):
        pp.StateFolder.create(tmp_path / "more", 2, 1.0, shards=3)
    with refused("state-is-folder"):
        pp.load(tmp_path / "2")


class Rows:
    """What prints the ids that it holds, as a relation of DuckDB does."""

    def __repr__(self) -> str:
        return "┌──────┐\n│ ada  │\n│ mary │\n└──────┘"


WRONG: tuple[Any, ...] = (0, -1, 1.5, "5%", "1", True, None, nan, inf, 10**30, b"x", "x", [], {}, (), object(), Rows())
MADE: dict[str, dict[str, Any]] = {
    "Density": {"universe": 1000, "epsilon": 1.0},
    "DistinctCount": {"epsilon": 1.0},
    "Counts": {"universe": 1000, "epsilon": 1.0, "up_to": 4},
    "ActiveUsers": {"universe": 1000, "epsilon": 1.0, "span": "7d", "start": "2026-01-05"},
    "Retention": {"universe": 1000, "epsilon": 1.0},
    "Continual": {"universe": 1000, "epsilon": 1.0},
    "Windows": {"make": lambda: pp.Density(1000, 1.0), "every": "7d", "start": "2026-01-05"},
    "Users": {"ids": ["ada", "mary"]},
    "Edges": {"nodes": 10},
    "plan": {"universe": 1000, "epsilon": 1.0},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MADE)
def test_whatever_is_given_for_an_argument_python_s_own_errors_and_rows_are_never_shown(name: str) -> None:
    """Every argument of every constructor, with values of every type: it is taken, or refused in one line."""
    make = getattr(pp, name)
    for argument in signature(make).parameters:
        for wrong in WRONG:
            try:
                make(**MADE[name] | {argument: wrong})
            except pp.PanPrivacyError as error:
                said = str(error)
                assert "\n" not in said, (argument, wrong)
                assert not (isinstance(wrong, Rows) and "mary" in said), argument
                assert len(said) < 300, (argument, wrong)


def test_what_is_no_number_no_flag_and_no_source_of_coins_is_refused() -> None:
    wrong: Any = "1"
    with refused("not-a-number", "'1'"):
        pp.Continual(1000, wrong)
    with refused("memory-type"):
        pp.Density(1000, 1.0, memory=True)
    with refused("not-a-flag", "'no'"):
        pp.Retention(1000, 1.0, newcomers="no")  # type: ignore[arg-type]
    wrong_coins: tuple[Any, ...] = (0, [], 7, "seed")
    for coins in wrong_coins:
        with refused("coins-type"):
            pp.Density(1000, 1.0, coins=coins)
    with refused("period-type", "a list"):
        pp.ActiveUsers(1000, 1.0, span=[7], start="2026-01-05")  # type: ignore[arg-type]


def test_several_arguments_for_merge_and_a_class_for_windows_are_pointed_to_the_right_call() -> None:
    one, other = (pp.Density(1000, 1.0, shard=(i, 2)) for i in range(2))
    with refused("merge-type", "2 arguments"):
        pp.merge(one, other)  # type: ignore[arg-type]
    with refused("window-maker", "the class Density"):
        pp.Windows(pp.Density, every="7d")  # type: ignore[arg-type]


def test_an_object_that_prints_its_rows_is_named_by_its_type_alone() -> None:
    est = pp.Density(GROUPED, 1.0)
    with refused("no-such-group", "a Rows") as error:
        est.density_stderr_at(0.5, Rows())  # type: ignore[arg-type]
    assert "mary" not in str(error)
    with refused("edges-type", "a Rows"):
        pp.Density(pp.Edges(9), 1.0).update(Rows())


def test_ids_that_are_truths_complex_numbers_or_lists_are_no_users() -> None:
    for ids in ([True, False], [1j], pl.Series([[1], [2]])):
        with refused("ids-type"):
            pp.Users(ids)
    with refused("ids-type", "Decimal"):
        pp.Density(100, 1.0).update_many([Decimal(1)])

"""What is refused is called by its name: missing ids, mappings, groups that nobody would see, folders."""

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

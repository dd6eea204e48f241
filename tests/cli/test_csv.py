"""`--csv`: rows as the frames of Python have them, below one header, with unrounded numbers."""

import io
import json
import re
import shlex
from typing import Any

import polars as pl
import pytest
from terminal import watched
from test_plots import BY, COUNTED, USERS, WEEKLY, _visits  # noqa: F401

import panprivacy as pp
from commands import refused, run

SERIES = COUNTED["series"]


def table(command: str, *more: Any) -> pl.DataFrame:
    """What a command prints as CSV."""
    result = run(*shlex.split(command), *more, "--csv")
    assert result.exit_code == 0, result.output
    return pl.read_csv(io.StringIO(result.stdout))


@pytest.mark.slow
@pytest.mark.parametrize("command", COUNTED.values(), ids=COUNTED.keys())
def test_every_command_prints_one_table(command: str) -> None:
    found = table(command)
    assert found.height > 0
    assert all(found.columns)
    result = run(*shlex.split(command), "--json")
    assert result.exit_code == 0, result.output
    assert all(isinstance(json.loads(line), dict) for line in result.stdout.splitlines())


@pytest.mark.slow
def test_numbers_are_those_of_the_frame() -> None:
    table(COUNTED["density"], "--state", "kept.pp", "--release")
    last: Any = pp.load("kept.pp", detached=True).last
    shown = table("show kept.pp")
    assert shown.columns == last.to_polars().columns
    assert shown["density"].to_list() == [last.density]
    assert shown["density_high"].to_list() == [last.density_interval[1]]
    assert json.loads(run("show", "kept.pp", "--json").stdout)["last"]["density"] == last.density


@pytest.mark.slow
def test_a_series_has_a_row_for_each_group_and_one_for_the_total() -> None:
    listed = pl.DataFrame({"id": range(USERS), "region": ["coast" if user % 4 else "hills" for user in range(USERS)]})
    listed.write_csv("users.csv")
    groups = f"density visits.csv -c user -e 4 --universe-file users.csv:id --group region --releases 3 {WEEKLY}"
    found = table(f"{groups} --time when")
    assert found["group"].to_list() == ["coast", "hills", None] * 3
    assert found["until"].n_unique() == 3
    assert found["period_over"].to_list() == [True] * 6 + [False] * 3
    categories = table(f"{SERIES} {BY}")
    assert categories["group"].to_list() == ["north", "south"] * 3


@pytest.mark.slow
def test_a_retention_has_a_row_for_each_release_of_its_second_period() -> None:
    found = table(COUNTED["retention by time"])
    assert found["release"].to_list() == [1, 2]
    assert found["until"].to_list() == ["2026-01-19T00:00:00+00:00", "2026-01-26T00:00:00+00:00"]
    assert found["cohort"].n_unique() == 1
    assert found["rate"].null_count() == 0


@pytest.mark.slow
def test_actives_have_a_row_for_each_day_and_each_number_of_days() -> None:
    found = table(COUNTED["actives"])
    assert found.height == sum(min(day, 7) for day in range(1, 22))
    assert found["end"].n_unique() == 21


def test_there_is_one_format() -> None:
    for command in (COUNTED["density"], COUNTED["plan"], "audit Density"):
        assert "say one of them" in refused(*shlex.split(command), "--json", "--csv")


@pytest.mark.slow
def test_an_audit_is_a_table_too() -> None:
    found = table("audit Density")
    assert found["name"].to_list() == ["Density"]
    assert found["holds"].to_list() == [True]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "header"),
    [
        (SERIES, ["until", "density", "95% interval", "users"]),
        (f"{SERIES} {BY}", ["until", "group", "density", "95% interval", "users"]),
    ],
)
def test_a_terminal_shows_a_series_as_a_table(command: str, header: list[str]) -> None:
    lines = watched(*shlex.split(command), "--quiet")
    (first,) = (place for place, line in enumerate(lines) if line.startswith("until "))
    assert re.split("  +", lines[first].strip()) == header
    assert lines[first + 1].startswith("2026-01-")
    assert lines[first + 1].index("0.") == lines[first].index("density")


@pytest.mark.slow
def test_a_table_of_actives_has_the_columns_that_are_known_by_then() -> None:
    """No column stays empty: a week is known from the seventh day on, and a span of seven days has no month."""
    lines = watched(*shlex.split(COUNTED["actives"]), "--quiet")
    headers = {place: line.split() for place, line in enumerate(lines) if line.startswith("until ")}
    assert list(headers.values()) == [["until", "daily"], ["until", "daily", "weekly"]]
    days, weeks = headers
    assert weeks - days == 7
    for row in lines[weeks + 1 : weeks + 5]:
        assert row.index("0.") == lines[weeks].index("daily")
        assert row.count("±") == 2


@pytest.mark.slow
def test_days_without_a_name_are_in_a_table_too() -> None:
    command = COUNTED["actives"].replace("--span 7d", "--span 15d --every 5d --ahead 9")
    lines = watched(*shlex.split(command), "--quiet")
    (header,) = (line for line in lines if line.startswith("until "))
    assert header.split() == ["until", "last", "1", "longest"]

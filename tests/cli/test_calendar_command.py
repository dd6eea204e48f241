"""Series of the shell by the calendar of a time zone, anew in each period, and from files that are not in order."""

import json
from pathlib import Path
from typing import Any

import pytest

from command_line import invoke

DAYS = ["2026-01-30 12:00", "2026-02-01 00:30", "2026-01-31 23:30", "2026-02-02 12:00", "2026-03-01 08:00"]


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    """Visits of users 0 to 99; a row of January stands behind one of February."""
    rows = [f"{user},{day}" for day in DAYS for user in range(100)]
    file = tmp_path / "visits.csv"
    file.write_text("\n".join(["id,at", *rows]))
    return file


def asked(file: Path, *more: str) -> list[str | Path]:
    each_month = ("--time", "at", "--release-every", "month")
    return ["density", file, "-c", "id", "-n", "100", "-e", "20", *each_month, *more]


def released(file: Path, *more: str) -> list[dict[str, Any]]:
    made = invoke(asked(file, "--json", *more))
    assert made.exit_code == 0, made.stderr
    return [row for row in map(json.loads, made.stdout.splitlines()) if "until" in row]


@pytest.mark.slow
def test_periods_of_the_calendar_end_by_local_clocks_and_begin_anew(visits: Path) -> None:
    rows = released(visits, "--anew", "--lateness", "1d", "--tz", "Europe/Berlin")
    assert [row["until"] for row in rows] == [
        "2026-02-01T00:00:00+01:00",
        "2026-03-01T00:00:00+01:00",
        "2026-04-01T00:00:00+02:00",
    ]
    assert [row["period_over"] for row in rows] == [True, True, False]
    assert {row["number"] for row in rows} == {1}
    assert all(row["density"] > 0.9 for row in rows)


@pytest.mark.slow
def test_a_series_of_one_estimator_takes_rows_that_are_late_by_as_much_as_stated(visits: Path) -> None:
    assert [row["number"] for row in released(visits, "--lateness", "1d", "--releases", "3")] == [1, 2, 3]


def test_a_row_that_is_late_is_named_where_no_lateness_is_stated(visits: Path) -> None:
    made = invoke(asked(visits, "--anew"))
    assert made.exit_code != 0
    assert "2026-01-31 23:30:00" in made.stderr


@pytest.mark.slow
@pytest.mark.parametrize("more", ["0,", "0,2031-01-01"], ids=["no time", "years ahead"])
def test_one_row_that_is_left_out_does_not_end_the_wait_of_others(more: str, tmp_path: Path) -> None:
    """Its batch is the second of three; the third has rows of the first month."""
    days = ["2026-01-30", "2026-02-01", "2026-01-31"]
    files = [tmp_path / f"{number}.csv" for number in range(3)]
    for number, (file, day) in enumerate(zip(files, days, strict=True)):
        users = range(1 + 33 * number, 34 + 33 * number)
        file.write_text("\n".join(["id,at", *([more] if number == 1 else []), *(f"{user},{day}" for user in users)]))
    kept = ("--releases", "2", "--start", "2026-01-01", "--lateness", "7d", "--late", "skip", "--early", "skip")
    densities = [row["density"] for row in released(tmp_path, *kept, "-e", "200")]
    assert densities == pytest.approx([0.66, 0.99], abs=0.05)


def test_a_row_without_a_time_refuses_its_batch_before_anything_is_released(visits: Path) -> None:
    visits.write_text(visits.read_text().replace("id,at", "id,at\n0,soon"))
    made = invoke(asked(visits, "--lateness", "1d", "--releases", "3", "--json"))
    assert made.exit_code != 0
    assert "row 1: at 'soon' is not a time" in made.stderr
    assert "until" not in made.stdout


def written(folder: Path, *days: str, users: int = 30) -> None:
    """A file for each of these, with a row of each of some users at this time; others with a row of one user first."""
    for number, given in enumerate(days):
        day, _, one = given.partition("+")
        rows = (f"{user},{day}" for user in range(1 + users * number, 1 + users * (number + 1)))
        (folder / f"{number}.csv").write_text("\n".join(["id,at", *([f"0,{one}"] if one else []), *rows]))


def test_an_early_row_refuses_its_batch_before_anything_is_released(tmp_path: Path) -> None:
    """Its batch is the second; as if it moved the clock, the rows of January that come third would be late."""
    written(tmp_path, "2026-01-30", "2026-02-01+2031-01-01", "2026-01-31")
    made = invoke(asked(tmp_path, "--lateness", "7d", "--releases", "3", "--json"))
    assert made.exit_code != 0
    assert "1.csv: row 1: at 2031-01-01 is 59 periods after the one from 2026-02-01 on" in made.stderr
    assert "until" not in made.stdout


@pytest.mark.slow
def test_rows_that_are_late_may_fill_a_gap_before_rows_that_wait(tmp_path: Path) -> None:
    """Days without rows in between refuse a row only if no row of them can come any more."""
    written(tmp_path, "2026-01-01", "2026-01-04", "2026-01-02", "2026-01-03", users=20)
    daily = ("--release-every", "day", "--releases", "4", "-e", "200")
    densities = [row["density"] for row in released(tmp_path, *daily, "--lateness", "3d")]
    assert densities == pytest.approx([0.2, 0.4, 0.6, 0.8], abs=0.05)
    made = invoke(asked(tmp_path, *daily, "--lateness", "1d"))
    assert "1.csv: row 1: at 2026-01-04 is 3 periods after" in made.stderr


@pytest.mark.slow
def test_rows_wait_also_where_no_start_is_given_and_early_rows_are_left_out(tmp_path: Path) -> None:
    written(tmp_path, "2026-01-30", "2026-02-01+2031-01-01", "2026-01-31")
    skip = ("--lateness", "7d", "--late", "skip", "--early", "skip", "--releases", "2", "-e", "200")
    densities = [row["density"] for row in released(tmp_path, *skip)]
    assert densities == pytest.approx([0.6, 0.9], abs=0.05)


def test_what_is_counted_anew_keeps_no_state(visits: Path, tmp_path: Path) -> None:
    made = invoke(["density", visits, "-c", "id", "-n", "100", "-e", "1", "--anew", "--state", tmp_path / "flu.pp"])
    assert made.exit_code != 0
    assert "--anew" in made.stderr

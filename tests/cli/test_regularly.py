"""`--release-every` of a new state: how many periods share the budget has to be said."""

from pathlib import Path

import pytest
from weekly import BUDGET, WEEKLY, rows, visits

from commands import refused, run

TIMED = (*WEEKLY, "--time", "when")


@pytest.mark.parametrize("kind", ["csv", "parquet", "ndjson", "arrow"])
def test_without_releases_nothing_is_spent_and_the_periods_of_the_files_are_named(tmp_path: Path, kind: str) -> None:
    file = tmp_path / f"visits.{kind}"
    if kind in ("parquet", "arrow"):
        (visits().write_parquet if kind == "parquet" else visits().write_ipc)(file)
    else:
        spelled = visits().with_columns(visits()["when"].dt.strftime("%Y-%m-%d %H:%M:%S"))
        (spelled.write_csv if kind == "csv" else spelled.write_ndjson)(file)
    kept = tmp_path / "flu.pp"

    message = refused("density", file, *BUDGET, *TIMED, "--state", kept)
    assert "how many periods? Say --releases K" in message
    assert message.endswith("; from 2026-01-05 on, these files have 4 of 7d")
    assert not kept.exists()


@pytest.mark.slow
def test_the_periods_go_from_the_start_that_was_said(tmp_path: Path) -> None:
    file = rows(tmp_path / "visits.csv", "2026-01-05", "2026-01-18")
    for start, periods in (("2026-01-05", 2), ("2026-01-04", 3)):
        message = refused("distinct", file, "-c", "user", "-e", 1, *WEEKLY, "--time", "when", "--start", start)
        assert message.endswith(f"from {start} on, these files have {periods} of 7d")


@pytest.mark.parametrize("command", ["density", "distinct", "counts"])
def test_of_a_pipe_the_number_of_periods_is_asked_for_and_no_folder_is_made(tmp_path: Path, command: str) -> None:
    universe = () if command == "distinct" else ("-n", 10)
    folder = tmp_path / "flu"

    message = refused(command, "-", "-c", "user", *universe, "-e", 1, *WEEKLY, "--state", f"{folder}/")
    assert message == "panprivacy: how many periods? Say --releases K, of which one is spent after each"
    assert not folder.exists()


@pytest.mark.slow
def test_a_state_that_is_there_knows_its_releases(tmp_path: Path) -> None:
    file, kept = rows(tmp_path / "visits.csv", "2026-01-05", "2026-01-12"), tmp_path / "flu.pp"
    start = ("--time", "when", "--start", "2026-01-05", "--state", kept)
    assert run("density", file, *BUDGET, "--releases", 3, *WEEKLY, *start).exit_code == 0

    later = rows(tmp_path / "later.csv", "2026-01-13", "2026-01-19")
    assert run("density", later, "-c", "user", *WEEKLY, *start).exit_code == 0

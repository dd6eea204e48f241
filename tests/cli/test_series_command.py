"""`panprivacy density --release-every 7d --time COLUMN`: a series of releases by the events' own time."""

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from commands import refused, run

USERS, WEEKS = 4000, 4
MONDAY = datetime(2026, 1, 5)  # files without a zone are in UTC
BUDGET = ("-c", "user", "-n", USERS, "-e", 12)
WEEKLY = ("--release-every", "7d")


def visits() -> pl.DataFrame:
    """In each of four weeks a quarter of the users appears, the last event of a week an hour before it ends."""
    users = range(USERS)
    span = timedelta(days=7) - timedelta(hours=1)
    quarter = USERS // WEEKS
    when = [MONDAY + user // quarter * timedelta(days=7) + (user % quarter + 1) / quarter * span for user in users]
    return pl.DataFrame({"user": users, "when": when})


@pytest.fixture(params=["parquet", "csv", "ndjson", "seconds.csv", "zone.csv"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path, frame = tmp_path / f"visits.{request.param}", visits()
    if request.param == "parquet":
        frame.write_parquet(path)
    elif request.param == "ndjson":
        frame.with_columns(pl.col("when").cast(pl.String)).write_ndjson(path)
    elif request.param == "seconds.csv":
        frame.with_columns(pl.col("when").dt.epoch("s")).write_csv(path)
    elif request.param == "zone.csv":
        frame.with_columns(pl.col("when").dt.to_string("%Y-%m-%dT%H:%M:%SZ")).write_csv(path)
    else:
        frame.write_csv(path)
    return path


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    path = tmp_path / "visits.parquet"
    visits().write_parquet(path)
    return path


def lines(*arguments: Any) -> list[dict[str, Any]]:
    result = run("density", *arguments, "--json")
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_every_week_is_released_when_it_is_over(file: Path) -> None:
    *weeks, audit = lines(file, *BUDGET, "--releases", WEEKS, *WEEKLY, "--time", "when")

    assert [week["density"] for week in weeks] == pytest.approx([0.25, 0.5, 0.75, 1.0], abs=0.05)
    assert [week["until"][:10] for week in weeks] == ["2026-01-12", "2026-01-19", "2026-01-26", "2026-02-02"]
    assert audit["holds"]
    assert audit["exact_total"] == pytest.approx(12, abs=1e-6)


def test_people_get_a_line_for_each_release_and_the_audit_under_it(parquet: Path) -> None:
    result = run("density", parquet, *BUDGET, "--releases", WEEKS, *WEEKLY, "--time", "when@2026-01-05")
    *weeks, audit = result.stdout.splitlines()

    assert [line[:17] for line in weeks] == [f"until 2026-{day}:" for day in ("01-12", "01-19", "01-26", "02-02")]
    assert audit.startswith("audit: 4 of 4 releases, one reading of the state: nobody has lost more than 12.000000")
    assert audit.endswith("holds")
    assert result.stderr == ""


def test_a_start_that_only_the_data_tell_is_pointed_out(parquet: Path) -> None:
    result = run("density", parquet, *BUDGET, "--releases", WEEKS, *WEEKLY, "--time", "when")

    assert "starts on 2026-01-05, which shows when the first event came" in result.stderr


def test_weeks_in_which_nothing_happened_are_released_too(parquet: Path) -> None:
    *weeks, _ = lines(parquet, *BUDGET, "--releases", 6, *WEEKLY, "--time", "when@2025-12-22")

    assert [week["density"] for week in weeks] == pytest.approx([0, 0, 0.25, 0.5, 0.75, 1.0], abs=0.05)


def test_events_after_the_last_planned_release_are_counted_and_not_released(parquet: Path) -> None:
    *weeks, audit = lines(parquet, *BUDGET, "--releases", 2, *WEEKLY, "--time", "when")

    assert [week["density"] for week in weeks] == pytest.approx([0.25, 0.5], abs=0.05)
    assert audit["epsilon_spent"] == audit["epsilon_total"]
    result = run("density", parquet, *BUDGET, "--releases", 2, *WEEKLY, "--time", "when@2026-01-05")
    assert result.stderr == "panprivacy: no planned release is left: later events are counted, and not released\n"


def test_many_releases_are_audited_by_the_formula(parquet: Path) -> None:
    *_, audit = lines(parquet, *BUDGET, "--releases", 28, "--release-every", "1d", "--time", "when")

    assert audit["exact_total"] is None
    assert audit["holds"]


def test_late_events_are_counted_with_those_they_come_with(tmp_path: Path) -> None:
    frame = visits()
    path = tmp_path / "late.csv"
    pl.concat([frame[1000:], frame[:1000]]).write_csv(path)
    *weeks, _ = lines(path, *BUDGET, "--releases", WEEKS, *WEEKLY, "--time", "when@2026-01-05")

    assert [week["density"] for week in weeks] == pytest.approx([0, 0.25, 0.5, 1.0], abs=0.05)


def test_a_state_goes_on_with_the_series(tmp_path: Path) -> None:
    frame, kept = visits(), tmp_path / "flu.pp"
    early, late = tmp_path / "early.csv", tmp_path / "late.csv"
    frame[:1500].write_csv(early)
    frame[1500:].write_csv(late)
    options = (*WEEKLY, "--time", "when@2026-01-05", "--state", kept)

    first = lines(early, *BUDGET, "--releases", WEEKS, *options)
    second = lines(late, "-c", "user", *options)

    assert [week["density"] for week in first[:-1]] == pytest.approx([0.25], abs=0.05)
    assert [week["density"] for week in second[:-1]] == pytest.approx([0.5, 0.75], abs=0.05)
    assert second[1]["until"].startswith("2026-01-26")
    again = refused("density", late, "-c", "user", *WEEKLY, "--time", "when", "--state", kept)
    assert "say when its first period started" in again


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_the_series_is_drawn(parquet: Path, tmp_path: Path, suffix: str) -> None:
    picture = tmp_path / f"series.{suffix}"
    lines(parquet, *BUDGET, "--releases", 2, *WEEKLY, "--time", "when", "--plot", picture)

    assert picture.stat().st_size > 1000


def test_the_picture_has_the_audit_line_under_it(parquet: Path, tmp_path: Path) -> None:
    picture = tmp_path / "series.svg"
    lines(parquet, *BUDGET, "--releases", 2, *WEEKLY, "--time", "when", "--plot", picture)

    assert "audit: 2 of 2 releases" in picture.read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--time", "when"), "--time goes with --release-every"),
        (("--plot", "a.png"), "--plot draws a series"),
        (WEEKLY, "goes by the clock of a pipe"),
        ((*WEEKLY, "--time", "then"), "no column 'then'"),
        ((*WEEKLY, "--time", "when@soon"), "'soon' is not a time"),
        ((*WEEKLY, "--time", "user"), "a column has one role only"),
        (("--release-every", "soon", "--time", "when"), "period 'soon' is not understood"),
        ((*WEEKLY, "--time", "when", "--plot", "a.txt"), "a picture ends in"),
        ((*WEEKLY, "--time", "when", "--plot", "/nowhere/at/all.png"), "there is no such folder"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(parquet: Path, options: tuple[Any, ...], message: str) -> None:
    assert message in refused("density", parquet, *BUDGET, *options)


def test_a_pipe_goes_by_the_clock() -> None:
    assert "leave --time out" in refused("density", "-", *BUDGET, *WEEKLY, "--time", "when")


@pytest.mark.parametrize("bad", ["", "soon", "2026-13-45"])
def test_a_row_without_a_time_is_named(tmp_path: Path, bad: str) -> None:
    path = tmp_path / "visits.csv"
    path.write_text(f"user,when\n1,2026-01-05\n2,{bad}\n")

    message = refused("density", path, *BUDGET, *WEEKLY, "--time", "when@2026-01-05")
    assert "visits.csv: row 2: when" in message
    assert "is not a time" in message


def test_without_events_a_start_is_needed(tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    path.write_text("user,when\n")

    assert "there are no events" in refused("density", path, *BUDGET, *WEEKLY, "--time", "when")
    assert len(lines(path, *BUDGET, *WEEKLY, "--time", "when@2026-01-05")) == 2

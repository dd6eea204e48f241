"""`--release-every 7d --time COLUMN`: a series of releases by the events' own time."""

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from weekly import BUDGET, FROM, USERS, WEEKLY, WEEKS, rows, visits, visits_file

from commands import refused, run


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
    return visits_file(tmp_path)


def lines(*arguments: Any) -> list[dict[str, Any]]:
    """The releases of a series, as programs get them: all of one shape, and the curve through them in the last line."""
    result = run("density", *arguments, "--json")
    assert result.exit_code == 0, result.output
    *found, last = (json.loads(line) for line in result.stdout.splitlines())
    assert len({tuple(line) for line in found}) <= 1, "all lines have one shape"
    assert list(last) == ["monotone"]
    assert [point["density"] for point in last["monotone"]] == [line["density"] for line in found]
    return found


@pytest.mark.slow
def test_every_week_is_released_when_it_is_over(file: Path) -> None:
    weeks = lines(file, *BUDGET, "--releases", WEEKS, *WEEKLY, "--time", "when")

    assert [week["density"] for week in weeks] == pytest.approx([0.25, 0.5, 0.75, 1.0], abs=0.05)
    assert [week["until"][:10] for week in weeks] == ["2026-01-12", "2026-01-19", "2026-01-26", "2026-02-02"]
    assert [week["period_over"] for week in weeks] == [True, True, True, False], "nothing shows that the last one is"


@pytest.mark.slow
def test_people_get_a_line_for_each_release_and_the_curve_under_them(parquet: Path) -> None:
    result = run("density", parquet, *BUDGET, "--releases", WEEKS, *WEEKLY, *FROM)
    shown = result.stdout.splitlines()
    until = [f"until 2026-{day}" for day in ("01-12", "01-19", "01-26")]
    until.append("until the events end, in the period to 2026-02-02")

    assert [line.partition(": ")[0] for line in shown[:4]] == until
    assert shown[4] == "monotone curve through 4 releases, at no cost of epsilon:"
    assert [line.partition(": ")[0] for line in shown[5:]] == until
    assert re.fullmatch(r"until 2026-01-12: density 0\.\d{4}; users [\d,]+", shown[5])
    assert result.stderr.startswith("panprivacy: epsilon 12 protects hardly anybody")


@pytest.mark.slow
def test_a_start_that_only_the_data_tell_is_pointed_out(parquet: Path) -> None:
    result = run("density", parquet, *BUDGET, "--releases", WEEKS, *WEEKLY, "--time", "when")

    assert "periods are 7d each, counted from Monday, 1970-01-05, on; the first one shown starts on" in result.stderr
    assert "starts on 2026-01-05, which shows when the first event came" in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("tz", ["UTC", "America/Sao_Paulo"])  # where clocks skipped midnight on 4 November 2018
@pytest.mark.parametrize("every", ["2d", "week", "36h"])
@pytest.mark.parametrize("way", [("--releases", 4), ("--anew",)])
def test_a_first_row_that_is_earlier_moves_the_bounds_of_no_period(
    tmp_path: Path, every: str, tz: str, way: tuple[str | int, ...]
) -> None:
    def ends(*times: str) -> list[str]:
        path = rows(tmp_path / "visits.csv", *times)
        result = run("density", path, *BUDGET, *way, "--release-every", every, *timed, "--tz", tz, "--json")
        assert result.exit_code == 0, result.output
        return re.findall(r'"until": "([^"]+)", "period_over"', result.stdout)

    timed, others = ("--time", "when", "--ahead", 20), ("2018-11-05T12:00", "2018-11-14", "2018-11-15")
    alone = ends(*others)[:2]  # of four planned releases, the earlier row may spend two
    for earlier in ("2018-11-05T01:00", "2018-11-04T08:00", "2018-11-04T00:30", "2018-11-03T20:00"):
        with_earlier = ends(earlier, *others)
        assert len(alone) == 2
        assert set(alone) <= set(with_earlier)
        assert with_earlier.index(alone[0]) <= 2


@pytest.mark.slow
def test_rows_without_a_time_do_not_decide_when_a_series_begins(tmp_path: Path) -> None:
    path = rows(tmp_path / "visits.csv", "", "2026-01-06", "never", "2026-01-13")
    weeks = lines(path, *BUDGET, "--releases", WEEKS, *WEEKLY, "--time", "when", "--early", "skip")

    assert [week["until"][:10] for week in weeks] == ["2026-01-12", "2026-01-19"]
    empty = rows(tmp_path / "empty.csv", "", "")
    message = refused("density", empty, *BUDGET, "--releases", WEEKS, *WEEKLY, "--time", "when", "--early", "skip")
    assert "the start of a period is not known" in message


@pytest.mark.slow
def test_weeks_in_which_nothing_happened_are_released_too(parquet: Path) -> None:
    weeks = lines(parquet, *BUDGET, "--releases", 6, *WEEKLY, "--time", "when", "--start", "2025-12-22", "--ahead", 2)

    assert [week["density"] for week in weeks] == pytest.approx([0, 0, 0.25, 0.5, 0.75, 1.0], abs=0.05)


@pytest.mark.slow
def test_events_after_the_last_planned_release_are_counted_and_not_released(parquet: Path) -> None:
    weeks = lines(parquet, *BUDGET, "--releases", 2, *WEEKLY, "--time", "when")

    assert [week["density"] for week in weeks] == pytest.approx([0.25, 0.5], abs=0.05)
    result = run("density", parquet, *BUDGET, "--releases", 2, *WEEKLY, *FROM)
    assert "panprivacy: all planned releases are made: later events are counted and will never" in result.stderr


@pytest.mark.slow
def test_a_file_that_is_not_sorted_is_refused_and_nothing_is_released(tmp_path: Path) -> None:
    frame, kept = visits(), tmp_path / "flu.pp"
    path = tmp_path / "late.csv"
    pl.concat([frame[1000:], frame[:1000]]).write_csv(path)

    message = refused("density", path, *BUDGET, "--releases", 4, *WEEKLY, *FROM, "--state", kept)
    assert "late.csv: row 3001: when 2026-01-05 00:10:01 comes after a row of the period from 2026-01-26 on" in message
    assert message.endswith("sort by when, or say --lateness 28d, or more if other rows are later")
    waiting = (*WEEKLY, *FROM, "--lateness", "28d")
    assert run("density", path, *BUDGET, "--releases", 4, *waiting, "--quiet").exit_code == 0, "the hint helps"
    assert not kept.exists()


@pytest.mark.slow
def test_rows_of_one_period_come_in_any_order(tmp_path: Path) -> None:
    path = tmp_path / "shuffled.csv"
    pl.concat(week.sample(fraction=1, shuffle=True, seed=1) for week in visits().iter_slices(USERS // WEEKS)).write_csv(
        path
    )
    weeks = lines(path, *BUDGET, "--releases", WEEKS, *WEEKLY, *FROM)

    assert [week["density"] for week in weeks] == pytest.approx([0.25, 0.5, 0.75, 1.0], abs=0.05)


@pytest.mark.slow
def test_rows_after_the_last_release_come_in_any_order(tmp_path: Path) -> None:
    path = rows(tmp_path / "visits.csv", "2026-01-05", "2026-01-12", "2026-03-01", "2026-02-01")

    assert len(lines(path, *BUDGET, "--releases", 1, *WEEKLY, *FROM)) == 1


@pytest.mark.slow
def test_files_out_of_order_are_refused_and_what_was_released_stays(tmp_path: Path) -> None:
    first = rows(tmp_path / "b.csv", "2026-01-05", "2026-01-12")
    second = rows(tmp_path / "a.csv", "2026-01-06")
    kept = tmp_path / "flu.pp"
    options = (*WEEKLY, *FROM, "--state", kept)

    result = run("density", first, second, *BUDGET, "--releases", WEEKS, *options)
    assert result.exit_code == 2
    assert result.stdout.startswith("until 2026-01-12: ")
    assert "a.csv: row 1: when 2026-01-06 comes after a row of the period from 2026-01-12 on" in result.stderr
    again = refused("density", first, "-c", "user", *options)
    assert "b.csv: row 1: when 2026-01-05 is before 2026-01-12, until which this state has released" in again


@pytest.mark.parametrize("time", [("--time", "when"), FROM])
def test_events_before_the_first_period_are_refused(tmp_path: Path, time: tuple[str, ...]) -> None:
    path = rows(tmp_path / "visits.csv", "2026-01-05", "2026-01-04T23:59")

    message = refused("density", path, *BUDGET, "--releases", WEEKS, *WEEKLY, *time)
    assert "row 2: when 2026-01-04 23:59:00 is before 2026-01-05, when the first period starts" in message


@pytest.mark.parametrize(
    ("times", "periods"), [(("2026-01-05", "2027-01-06"), 52), (("2027-01-06",), 52), (("2026-01-05", "2026-01-19"), 2)]
)
def test_a_row_ends_no_more_than_the_open_period(tmp_path: Path, times: tuple[str, ...], periods: int) -> None:
    path, kept = rows(tmp_path / "visits.csv", *times), tmp_path / "flu.pp"

    message = refused("density", path, *BUDGET, "--releases", 4, *WEEKLY, *FROM, "--state", kept)
    assert f"row {len(times)}: when {times[-1]} is {periods} periods after the one from 2026-01-05 on" in message
    assert f"say --ahead {periods}" in message
    assert not kept.exists()


@pytest.mark.slow
def test_a_row_far_ahead_is_counted_once_all_releases_are_spent(tmp_path: Path) -> None:
    path, kept = rows(tmp_path / "visits.csv", "2026-01-05"), tmp_path / "flu.pp"
    options = (*WEEKLY, *FROM, "--state", kept)
    lines(path, *BUDGET, "--releases", 1, *options)
    far = rows(tmp_path / "far.csv", "2027-01-06")

    assert "is 52 periods after" in refused("density", far, "-c", "user", *options)
    assert run("release", kept).exit_code == 0
    assert run("density", far, "-c", "user", *options).exit_code == 0


@pytest.mark.slow
def test_as_many_quiet_weeks_are_taken_as_ahead_says(tmp_path: Path) -> None:
    path = rows(tmp_path / "visits.csv", "2026-01-05", "2026-01-26", "2026-02-02", "2027-01-01")
    weeks = lines(path, *BUDGET, "--releases", WEEKS, *WEEKLY, *FROM, "--ahead", 3)

    assert len(weeks) == 4, "what comes after the last planned release is one period that never ends"


@pytest.mark.slow
def test_late_and_early_rows_are_left_out_one_by_one_where_that_is_asked_for(tmp_path: Path) -> None:
    """The rows of one user neither refuse the file nor move the clock."""
    good = [(user, "2026-01-05" if user < 2000 else "2026-01-12") for user in range(4000)]
    bad = [(0, "2030-01-01"), (0, "2025-01-01"), (0, "never")]
    path = tmp_path / "visits.csv"
    path.write_text("user,when\n" + "".join(f"{user},{when}\n" for user, when in (*bad, *good, *bad)))
    series = ("--releases", WEEKS, *WEEKLY, *FROM, "--late", "skip", "--early", "skip")
    weeks = lines(path, *BUDGET, *series)

    assert [week["density"] for week in weeks] == pytest.approx([0.5, 1.0], abs=0.05)
    assert "--late: about the times of rows; say --time NAME" in refused("density", path, *BUDGET, "--late", "skip")


@pytest.mark.slow
def test_a_state_goes_on_with_the_series(tmp_path: Path) -> None:
    frame, kept = visits(), tmp_path / "flu.pp"
    early, late = tmp_path / "early.csv", tmp_path / "late.csv"
    frame[:1500].write_csv(early)
    frame[1500:].write_csv(late)
    options = (*WEEKLY, *FROM, "--state", kept)

    first = lines(early, *BUDGET, "--releases", WEEKS, *options)
    second = lines(late, "-c", "user", *options)

    assert [week["density"] for week in first] == pytest.approx([0.25], abs=0.05)
    assert [week["density"] for week in second] == pytest.approx([0.5, 0.75], abs=0.05)
    assert second[1]["until"].startswith("2026-01-26")
    again = refused("density", late, "-c", "user", *WEEKLY, "--time", "when", "--state", kept)
    assert "say when its first period started" in again


@pytest.mark.slow
def test_a_state_that_has_not_released_yet_needs_its_start_as_well(tmp_path: Path) -> None:
    path, kept = rows(tmp_path / "visits.csv", "2026-01-05"), tmp_path / "flu.pp"
    lines(path, *BUDGET, "--releases", WEEKS, *WEEKLY, "--time", "when", "--state", kept)

    assert "say when its first period started" in refused(
        "density", path, "-c", "user", *WEEKLY, "--time", "when", "--state", kept
    )


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_the_series_is_drawn(parquet: Path, tmp_path: Path, suffix: str) -> None:
    picture = tmp_path / f"series.{suffix}"
    lines(parquet, *BUDGET, "--releases", 2, *WEEKLY, "--time", "when", "--plot", picture)

    assert picture.stat().st_size > 1000


@pytest.mark.slow
def test_the_picture_says_what_it_shows_and_what_it_cost(parquet: Path, tmp_path: Path) -> None:
    picture = tmp_path / "series.svg"
    lines(parquet, *BUDGET, "--releases", 2, *WEEKLY, "--time", "when", "--plot", picture)

    drawn = picture.read_text()
    assert "audit" not in drawn
    assert "Users who have ever appeared: 2 releases, epsilon 12 in all" in drawn
    assert f"(% of {USERS:,})" in drawn
    assert "end of the period (UTC)" in drawn
    assert "released, with 95 % interval" in drawn
    assert "smoothed: never falls" in drawn
    assert ".md" not in drawn


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--time", "when"), "--time goes with --release-every"),
        (("--start", "2026-01-05"), "--start: about the times of rows"),
        ((*WEEKLY, "--time", "when@2026-01-05"), "say --time when --start 2026-01-05"),
        (WEEKLY, "goes by the clock of standard input (-), or by --time COLUMN of events"),
        ((*WEEKLY, "--time", "then"), "no column 'then'"),
        ((*WEEKLY, "--time", "when", "--start", "soon"), "'soon' is not a time"),
        ((*WEEKLY, "--time", "user"), "a column has one role only"),
        (("--release-every", "soon", "--time", "when"), "period 'soon' is not understood"),
        (("--release-every", "7", "--time", "when"), "period '7' has no unit"),
        (("--release-every", "1M", "--time", "when"), "is that minutes or months?"),
        ((*WEEKLY, "--time", "when", "--plot", "a.txt"), "use a name that ends in .png, .svg or .pdf"),
        ((*WEEKLY, "--time", "when", "--plot", "a.jpg"), "use a name that ends in .png, .svg or .pdf"),
        ((*WEEKLY, "--time", "when", "--start", "05/01/2026"), "'05/01/2026' is not a time; write it like"),
        (("--release-every", "9999999999d", "--time", "when"), "a period must be"),
        (("--release-every", "2920000d", *FROM), "ends after 9999"),
        ((*WEEKLY, "--time", "when", "--plot", "/nowhere/at/all.png"), "there is no folder /nowhere/at"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(parquet: Path, options: tuple[Any, ...], message: str) -> None:
    assert message in refused("density", parquet, *BUDGET, "--releases", 1, *options)


@pytest.mark.slow
@pytest.mark.parametrize("first", ["2026-01-05", "1767571300"])
@pytest.mark.parametrize(
    "bad",
    ["", "soon", "2026-13-45", "2026-02-29", "05.02.2026", "5.2.2026", "05/02/2026", "01/05/2026", "20260105", "1e9"],
)
def test_a_row_without_a_time_is_named_whatever_came_before(tmp_path: Path, first: str, bad: str) -> None:
    path = rows(tmp_path / "visits.csv", first, bad)

    message = refused("density", path, *BUDGET, *WEEKLY, *FROM)
    assert f"visits.csv: row 2: when {bad or None!r} is not a time; write it like 2026-01-31" in message


@pytest.mark.parametrize(
    "column",
    [
        pl.Series([1.767571300e9]),
        pl.Series([20260105]),
        pl.Series([2**63], dtype=pl.UInt64),
        pl.Series([True]),
        pl.Series([2**62]).cast(pl.Datetime("ms")),
    ],
)
def test_columns_of_other_types_are_not_times(tmp_path: Path, column: pl.Series) -> None:
    path = tmp_path / "visits.parquet"
    pl.DataFrame({"user": [1], "when": column}).write_parquet(path)

    assert "row 1: when" in refused("density", path, *BUDGET, *WEEKLY, *FROM)


@pytest.mark.slow
def test_without_events_a_start_is_needed(tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    path.write_text("user,when\n")

    assert "there are no events" in refused("density", path, *BUDGET, "--releases", 1, *WEEKLY, "--time", "when")
    assert len(lines(path, *BUDGET, "--releases", 1, *WEEKLY, *FROM)) == 1


@pytest.mark.slow
def test_a_bad_id_in_a_later_period_of_a_batch_is_found_before_anything_is_released(tmp_path: Path) -> None:
    state, file = tmp_path / "s.pp", tmp_path / "visits.csv"
    visits().with_columns(user=pl.when(pl.col("user") == USERS - 1).then(USERS).otherwise("user")).write_csv(file)
    asked = ("density", file, *BUDGET, "--releases", WEEKS, *WEEKLY, *FROM, "--state", state)
    assert f"row {USERS}: user {USERS} is outside the universe" in refused(*asked)
    assert not state.exists()
    result = run(*asked, "--skip-outside")
    assert result.exit_code == 0, result.output

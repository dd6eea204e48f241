"""The curve through a series of releases, printed and drawn: it never falls, as those who have ever appeared do not."""

import json
import re
from datetime import timedelta
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from rich.console import Console
from weekly import BUDGET, FROM, MONDAY, USERS, WEEKLY, WEEKS, rows, visits, visits_file

import panprivacy as pp
from altered import altered
from commands import run
from panprivacy.cli import published
from panprivacy.cli.published import draw_rows
from panprivacy.periods import DAY

NOISY = ("-c", "user", "-n", USERS, "-e", 1, "--releases", 28, "--release-every", "1d", *FROM)


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    return visits_file(tmp_path)


def curve_of(*arguments: Any) -> list[dict[str, Any]]:
    """The points of the curve, which the last line of JSON has."""
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    found: list[dict[str, Any]] = json.loads(result.stdout.splitlines()[-1])["monotone"]
    return found


def falls(values: list[float]) -> int:
    return sum(later < earlier for earlier, later in pairwise(values))


@pytest.mark.slow
def test_releases_of_little_epsilon_fall_and_their_curve_never_does(parquet: Path) -> None:
    points = curve_of("density", parquet, *NOISY)

    assert falls([point["density"] for point in points]) > 0
    for unit in ("density", "count"):
        assert falls([point[f"monotone_{unit}"] for point in points]) == 0
    assert [point["number"] for point in points] == list(range(1, 29))
    assert points[0]["monotone_count"] == pytest.approx(USERS * points[0]["monotone_density"])


@pytest.mark.slow
def test_distinct_users_have_a_series_too(parquet: Path, tmp_path: Path) -> None:
    picture = tmp_path / "series.svg"
    budget = ("-c", "user", "-e", 12, "--buckets", 16384, "--releases", WEEKS)
    points = curve_of("distinct", parquet, *budget, *WEEKLY, "--time", "when", "--plot", picture)

    assert [point["count"] for point in points] == pytest.approx([1000, 2000, 3000, 4000], rel=0.2)
    assert falls([point["monotone_count"] for point in points]) == 0
    assert "different users who have ever appeared" in picture.read_text()


def deleting(path: Path) -> Path:
    """All users come in the first week, and are deleted in the third."""
    coming = visits().with_columns(when=MONDAY, action=pl.lit("insert"))
    going = coming.with_columns(when=MONDAY + timedelta(days=14), action=pl.lit("delete"))
    pl.concat([coming, going]).write_csv(path)
    return path


@pytest.mark.slow
def test_where_users_are_deleted_there_is_no_curve(tmp_path: Path) -> None:
    picture, file = tmp_path / "series.svg", deleting(tmp_path / "visits.csv")
    budget = (*BUDGET, "--action", "action", "--releases", 3, *WEEKLY, "--time", "when", "--plot", picture)
    result = run("density", file, *budget, "--ahead", 2, "--json")
    weeks = [json.loads(line) for line in result.stdout.splitlines()]

    assert [week["density"] for week in weeks] == pytest.approx([1.0, 1.0, 0.0], abs=0.05)
    drawn = picture.read_text()
    assert "Users who have appeared and were not deleted since" in drawn
    assert "ever" not in drawn
    assert "monotone" not in drawn + run("density", file, *budget).stdout


def test_a_terminal_shows_the_curve_as_a_table() -> None:
    est = pp.Density(USERS, 12.0, releases=2)
    made = [est.release(), est.release()]
    shown = [published.Dated(published.UNTIL, day * DAY, release) for day, release in enumerate(made, 1)]
    terminal = Console(width=80)
    with terminal.capture() as captured:
        terminal.print(published.Curve(shown, made, None))

    assert "monotone curve through 2 releases" in captured.get()
    assert re.search("│ until 1970-01-03 │ density 0\\.0[0-9]{3} │ users [0-9]+ +│", captured.get())


@pytest.mark.slow
def test_one_release_is_its_own_curve_and_is_not_shown_twice(tmp_path: Path) -> None:
    path = rows(tmp_path / "visits.csv", "2026-01-05")
    series = (path, *BUDGET, "--releases", 1, *WEEKLY, *FROM)

    assert "monotone" not in run("density", *series).stdout
    (point,) = curve_of("density", *series)
    assert point["monotone_density"] == point["density"]


class Recorder:
    """Notes what is drawn by which name."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from matplotlib.axes import Axes

        self.lines: dict[str, list[float]] = {}
        for method in ("plot", "errorbar"):
            monkeypatch.setattr(Axes, method, self.noting(getattr(Axes, method)))

    def noting(self, draw: Any) -> Any:
        def noted(panel: Any, x: Any, y: Any, *rest: Any, **options: Any) -> Any:
            joined = options.get("fmt", "-") != "o"
            self.lines[f"{options.get('label')}, {'joined' if joined else 'points'}"] = list(y)
            return draw(panel, x, y, *rest, **options)

        return noted


@pytest.mark.slow
def test_the_picture_joins_no_points_of_which_one_falls(
    parquet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = Recorder(monkeypatch).lines
    curve_of("density", parquet, *NOISY, "--plot", tmp_path / "series.png")

    assert set(drawn) == {"released, with 95 % interval, points", "smoothed: never falls, joined"}
    assert falls(drawn["released, with 95 % interval, points"]) > 0
    assert falls(drawn["smoothed: never falls, joined"]) == 0


@pytest.mark.slow
def test_a_picture_of_falls_would_be_noticed(parquet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published, "monotone", _as_released)
    drawn = Recorder(monkeypatch).lines
    curve_of("density", parquet, *NOISY, "--plot", tmp_path / "series.png")

    assert falls(drawn["smoothed: never falls, joined"]) > 0


def _as_released(releases: list[pp.Release]) -> pp.MonotoneCurve[pp.Release]:
    return pp.MonotoneCurve(tuple(release.count for release in releases), tuple(releases))


@pytest.mark.slow
def test_an_interval_without_end_is_drawn_to_the_edge(tmp_path: Path) -> None:
    est = pp.DistinctCount(1.0, releases=2)
    first, second = est.release(), est.release()
    shown = [
        published.Dated(published.UNTIL, moment * DAY, altered(release, count={"interval": (0.0, inf)}))
        for moment, release in ((1, first), (2, second))
    ]
    draw_rows(shown, {None: pp.monotone([first, second])}, str(tmp_path / "series.png"), est)

    assert (tmp_path / "series.png").stat().st_size > 1000

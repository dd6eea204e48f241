"""The releases of windows as one frame and as a picture."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import panprivacy as pp
from panprivacy.testing import refused

KINDS: dict[str, tuple[Callable[[], Any], str]] = {
    "density": (lambda: pp.Density(1000, 20.0), "density"),
    "distinct": (lambda: pp.DistinctCount(20.0, 64), "count"),
    "counts": (lambda: pp.Counts(1000, 20.0, up_to=3), "mean"),
    "the mean alone": (lambda: pp.Counts(1000, 20.0, up_to=3, only="mean"), "mean"),
}
GROUPED = pp.Users(range(1000), groups=["north", "south"] * 500)


def weeks(make: Callable[[], Any]) -> pp.Windows[Any]:
    windows: pp.Windows[Any] = pp.Windows(make, every="7d", start="2026-01-05")
    windows.update_many(range(300), time="2026-01-06")
    windows.advance("2026-01-19")
    return windows


@pytest.mark.parametrize("kind", KINDS)
def test_the_frame_has_a_row_for_each_window(kind: str) -> None:
    make, name = KINDS[kind]
    windows = weeks(make)
    frame = windows.to_polars()
    assert frame.columns[:2] == ["start", "end"]
    assert frame["start"].to_list() == [week.start for week in windows.closed]
    assert frame["end"].to_list() == [week.end for week in windows.closed]
    assert frame[name].to_list() == [getattr(week.release, name) for week in windows.closed]
    assert frame[f"{name}_low"].to_list() == [getattr(week.release, f"{name}_interval")[0] for week in windows.closed]


def test_groups_have_a_row_each_in_every_window() -> None:
    frame = weeks(lambda: pp.Density(GROUPED, 20.0)).to_polars()
    assert frame.select("group").to_series().to_list() == ["north", "south", None] * 2
    assert frame["start"].n_unique() == 2


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_windows_are_drawn_over_time(kind: str, tmp_path: Path) -> None:
    picture = tmp_path / "weeks.svg"
    weeks(KINDS[kind][0]).plot(picture)
    drawn = picture.read_text()
    assert "in each window, with 95 % intervals" in drawn
    assert "end of the window (UTC)" in drawn


def test_before_a_window_is_over_there_is_no_frame_and_no_picture(tmp_path: Path) -> None:
    windows = pp.Windows(KINDS["density"][0], every="7d")
    with refused("no-windows"):
        windows.to_polars()
    with refused("no-windows"):
        windows.plot(tmp_path / "weeks.png")

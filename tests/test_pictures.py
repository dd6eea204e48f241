"""Every release, series, curve and window has a picture and frames."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import panprivacy as pp
from panprivacy.estimates.plots import natural
from panprivacy.estimates.timelines import draw_retention, draw_windows
from panprivacy.testing import SeededCoins


def density(**more: Any) -> Any:
    est = pp.Density(500, 4.0, coins=SeededCoins(1), **more)
    est.update_many(range(500))
    return est.release()


def distinct() -> Any:
    est = pp.DistinctCount(epsilon=4.0, buckets=256, coins=SeededCoins(1))
    est.update_many(range(500))
    return est.release()


def frequencies(**more: Any) -> Any:
    est = pp.Counts(500, 4.0, 3, coins=SeededCoins(1), **more)
    est.update_many(range(300))
    return est.release()


def actives() -> Any:
    est = pp.ActiveUsers(700, 4.0, span="7d", start="2026-01-05", coins=SeededCoins(1))
    for _ in range(9):
        est.update_many(range(100))
        est.release()
    return est


def retention() -> Any:
    est = pp.Retention(500, 8.0, releases=3, coins=SeededCoins(1))
    est.update_many(range(300))
    est.close()
    for day in range(3):
        est.update_many(range(40 * day))
        est.release()
    return est


def curve() -> Any:
    est = pp.Density(500, 4.0, releases=5, coins=SeededCoins(1))
    series = []
    for day in range(5):
        est.update_many(range(50 * day))
        series.append(est.release())
    return pp.monotone(series)


def windows(**more: Any) -> Any:
    weeks = pp.Windows(lambda: pp.Density(500, 4.0, coins=SeededCoins(1), **more), every="7d", start="2026-01-05")
    weeks.advance("2026-01-20")
    return weeks


AGES = ["100+" if i % 3 == 2 else f"{9 * (i % 3)}-9" for i in range(500)]
SHOWN: dict[str, Callable[[], Any]] = {
    "density": density,
    "groups": lambda: density(groups=AGES),
    "distinct": distinct,
    "frequencies": frequencies,
    "frequencies of groups": lambda: frequencies(groups=AGES),
    "mean alone": lambda: frequencies(only="mean"),
    "actives": actives,
    "a day": lambda: actives().released[-1],
    "smoothed actives": lambda: actives().smoothed(),
    "retention": retention,
    "a release of retention": lambda: retention().last,
    "curve": curve,
    "windows": windows,
    "windows by category": lambda: windows(categories=["flu", "cold"]),
    "plan": lambda: pp.plan(universe=1000, epsilon=1.0),
    "plan of counts": lambda: pp.plan(universe=1000, epsilon=1.0, up_to=3),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SHOWN)
def test_a_picture_returns_its_axes_and_is_written_if_there_is_a_path(name: str, tmp_path: Path) -> None:
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot
    from matplotlib.axes import Axes

    shown = SHOWN[name]()
    inline = shown.plot()
    assert isinstance(inline, Axes)
    assert inline.get_title() or inline.get_title(loc="left")
    assert pyplot.fignum_exists(inline.figure.number)  # type: ignore[union-attr]
    pyplot.close("all")
    _, (left, _) = pyplot.subplots(1, 2)
    assert shown.plot(ax=left) is left
    pyplot.close("all")
    assert shown.plot(tmp_path / "picture.png").figure is not None
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
    assert not pyplot.get_fignums()  # a file leaves no figure open


@pytest.mark.parametrize("name", [name for name in SHOWN if not name.startswith("plan")])
def test_everything_is_a_frame_and_plain_data(name: str) -> None:
    shown = SHOWN[name]()
    frame = shown.to_polars()
    assert len(frame) > 0
    assert shown.to_pandas().columns.to_list() == frame.columns
    if not isinstance(shown, pp.ActiveUsers | pp.Retention):
        assert isinstance(shown.to_dict(), dict)


@pytest.mark.slow
def test_labels_and_points_of_a_picture_are_whole(tmp_path: Path) -> None:
    """Nothing that is written leaves the figure, and a point at 100 % is not cut."""
    for name in ("groups", "frequencies", "actives", "retention", "curve", "windows"):
        panel = SHOWN[name]().plot(tmp_path / "picture.png")
        figure = panel.figure
        figure.canvas.draw()
        edges = figure.bbox
        for text in (panel.yaxis.label, panel.xaxis.label):
            box = text.get_window_extent()
            assert not text.get_text() or (box.x0 >= edges.x0 - 1 and box.y0 >= edges.y0 - 1 and box.y1 <= edges.y1 + 1)
        assert not any(line.get_clip_on() for line in panel.lines if line.get_marker() == "o")


@pytest.mark.slow
def test_a_picture_says_what_is_mostly_noise(tmp_path: Path) -> None:
    noisy = pp.Density(100, 0.02, coins=SeededCoins(1)).release()
    noisy.plot(tmp_path / "noisy.svg")
    assert "mostly noise" in (tmp_path / "noisy.svg").read_text()


@pytest.mark.slow
def test_retention_is_drawn_by_time_with_its_rate(tmp_path: Path) -> None:
    ends = np.arange("2026-02-01", "2026-02-04", dtype="datetime64[D]").tolist()
    draw_retention(retention().last, tmp_path / "back.svg", ends=ends)
    assert "share of the cohort that came back" in (tmp_path / "back.svg").read_text()


def test_groups_are_in_natural_order() -> None:
    labels = ["100+", "10-19", "0-9", "other", "20-29", 3]
    assert sorted(labels, key=natural) == ["0-9", 3, "10-19", "20-29", "100+", "other"]


# --- groups over time -----------------------------------------------------------------------------------------------

DECADES = [f"{10 * (i % 11)}-{10 * (i % 11) + 9}" if i % 11 < 10 else "100+" for i in range(550)]
FEW = ["north" if i < 300 else "south" for i in range(550)]


def actives_of(groups: list[str]) -> Any:
    est = pp.ActiveUsers(550, 20.0, span="7d", start="2026-01-05", groups=groups, coins=SeededCoins(1))
    for _ in range(9):
        est.update_many(range(0, 550, 3))
        est.release()
    return est


def retention_of(groups: list[str]) -> Any:
    est = pp.Retention(550, 20.0, releases=2, groups=groups, coins=SeededCoins(1))
    est.update_many(range(300))
    est.close()
    est.update_many(range(100))
    est.release()
    return est.release()


def windows_of(groups: list[str]) -> Any:
    def make() -> pp.Density:
        return pp.Density(550, 20.0, groups=groups, coins=SeededCoins(1))

    weeks = pp.Windows(make, every="7d", start="2026-01-05")
    weeks.update_many(range(200), time="2026-01-06")
    weeks.advance("2026-01-27")
    return weeks


def curve_of(groups: list[str]) -> Any:
    est = pp.Density(550, 20.0, releases=4, groups=groups, coins=SeededCoins(1))
    series = []
    for day in range(4):
        est.update_many(range(100 * day))
        series.append(est.release())
    return pp.monotone(series)


OVER_TIME: dict[str, Callable[[list[str]], Any]] = {
    "actives": actives_of,
    "smoothed actives": lambda groups: actives_of(groups).smoothed(),
    "windows": windows_of,
    "curve": curve_of,
}


def names_of_panels(figure: Any) -> list[str]:
    return [panel.get_title(loc="left") for panel in figure.axes if panel.get_visible() and panel.lines]


@pytest.mark.slow
@pytest.mark.parametrize("name", OVER_TIME)
def test_over_time_each_group_has_a_panel_in_natural_order(name: str, tmp_path: Path) -> None:
    panel = OVER_TIME[name](DECADES).plot(tmp_path / "picture.svg")
    names = [each.partition(":")[0] for each in names_of_panels(panel.figure)]
    assert names == ["all users", *(f"{10 * i}-{10 * i + 9}" for i in range(8))]
    assert "3 groups not shown here" in (tmp_path / "picture.svg").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("name", OVER_TIME)
def test_axes_that_are_given_have_room_for_all_users_only(name: str) -> None:
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2)
    assert OVER_TIME[name](FEW).plot(ax=left) is left
    assert not right.lines
    assert "2 groups not shown here" in left.get_xlabel()
    pyplot.close(figure)


@pytest.mark.slow
def test_no_legend_lies_on_lines_and_points(tmp_path: Path) -> None:
    for name in ("actives", "smoothed actives", "retention", "curve", "windows by category"):
        panel = SHOWN[name]().plot(tmp_path / "picture.png")
        figure = panel.figure
        figure.canvas.draw()
        assert panel.get_legend() is None, name
        for legend in figure.legends:
            assert legend.get_window_extent().y0 >= panel.bbox.y1 - 1, name


@pytest.mark.slow
def test_a_group_without_enough_data_says_so_and_has_no_interval(tmp_path: Path) -> None:
    tiny = ["alone"] + ["many"] * 549
    released = retention_of(tiny)
    bars = released.plot(tmp_path / "bars.svg")
    assert "not enough data" in (tmp_path / "bars.svg").read_text()
    assert bars.get_xlim()[1] >= released.groups[1].main.interval[1]
    draw_retention(released, tmp_path / "curves.svg")
    assert "not enough data" in (tmp_path / "curves.svg").read_text()


@pytest.mark.slow
def test_one_date_has_one_tick(tmp_path: Path) -> None:
    est = pp.Retention(500, 8.0, coins=SeededCoins(1))
    est.update_many(range(300))
    est.close()
    panel = draw_retention(est.release(), tmp_path / "one.png", ends=[datetime(2026, 2, 1)])
    assert len(panel.get_xticks()) == 1
    low, high = panel.get_xlim()
    assert high - low <= 2


@pytest.mark.slow
def test_releases_are_whole_numbers_and_a_window_that_is_not_over_is_hollow(tmp_path: Path) -> None:
    panel = SHOWN["curve"]().plot(tmp_path / "curve.png")
    assert all(float(tick).is_integer() for tick in panel.get_xticks())
    dated = [(week.end, week.release) for week in windows().closed]
    hollow = draw_windows(dated, tmp_path / "open.svg", unfinished=True)
    assert [line.get_markerfacecolor() for line in hollow.lines].count("white") == 1
    assert "the last window is not over" in (tmp_path / "open.svg").read_text()


def test_a_curve_has_a_curve_for_each_group_and_the_total_as_the_last_rows() -> None:
    curve = curve_of(FEW)
    assert [each.group for each in curve.groups] == ["north", "south"]
    for each in curve.groups:
        assert list(each.counts) == sorted(each.counts)
        assert each.releases[0].group == each.group
    frame = curve.to_polars()
    assert frame["group"].to_list() == ["north"] * 4 + ["south"] * 4 + [None] * 4
    assert frame["smoothed_count"].to_list()[-4:] == list(curve.counts)
    assert frame["users"].to_list() == [300] * 4 + [250] * 4 + [550] * 4
    assert [each["group"] for each in curve.to_dict()["groups"]] == ["north", "south"]


def test_a_curve_of_categories_has_groups_only() -> None:
    est = pp.Density(550, 20.0, releases=3, categories=["flu", "cold"], coins=SeededCoins(1))
    series = []
    for day in range(3):
        est.update_many(range(100 * day), "flu")
        series.append(est.release())
    curve = pp.monotone(series)
    assert (curve.counts, curve.densities) == ((), ())
    assert [each.group for each in curve.groups] == ["flu", "cold"]
    assert curve.to_polars()["group"].to_list() == ["flu"] * 3 + ["cold"] * 3
    assert "2, each with a curve" in str(curve)

"""Every release, series, curve and window has a picture and frames."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import panprivacy as pp
from panprivacy.estimates.plots import draw_retention, natural
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

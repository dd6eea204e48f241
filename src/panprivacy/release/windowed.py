"""Releases of one window after the other: as one frame, and as a picture over time."""

from collections.abc import Sequence
from datetime import datetime
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from panprivacy.drawing import check_picture, look, save
from panprivacy.errors import PanPrivacyError
from panprivacy.release.estimates import EstimatedCount, EstimatedDensity
from panprivacy.release.groups import columns_of
from panprivacy.release.often import EstimatedFrequency, columns_of_frequency
from panprivacy.release.picture import kind_of

if TYPE_CHECKING:
    import polars as pl

Closed: TypeAlias = tuple[datetime, datetime, Any]
"""From when, until when, and what was released."""

_NONE = "before a window is over, there is nothing of it to show"


def frame_of_windows(closed: Sequence[Closed]) -> "pl.DataFrame":
    """A frame with a row for each window, or for each of its groups."""
    import polars as pl

    if not closed:
        raise PanPrivacyError(_NONE)
    bounds = pl.exclude("start", "end")
    frames = [
        _frame(release).select(pl.lit(start).alias("start"), pl.lit(end).alias("end"), bounds)
        for start, end, release in closed
    ]
    return pl.concat(frames, how="vertical_relaxed")


def _frame(release: Any) -> "pl.DataFrame":
    import polars as pl

    if not getattr(release, "groups", ()):
        if isinstance(release, EstimatedFrequency):
            return pl.DataFrame([columns_of_frequency(release)])
        if isinstance(release, EstimatedDensity | EstimatedCount):
            return pl.DataFrame([columns_of(release)])
    found: pl.DataFrame = release.to_polars()
    return found


def draw_windows(closed: Sequence[Closed], path: str | Path) -> None:
    """Draw what was released of each window, with its interval, where the window ends."""
    check_picture(path)
    if not closed:
        raise PanPrivacyError(_NONE)
    first: Any = closed[0][2]
    if not isinstance(first, EstimatedDensity | EstimatedCount | EstimatedFrequency):
        raise PanPrivacyError("windows by category are not drawn: draw what to_polars() gives, or one by release.plot")
    from matplotlib.figure import Figure

    kind, level = kind_of(first), closed[0][2].level
    until: Any = [end for _, end, _ in closed]  # of which Matplotlib's types know only numbers
    values = [getattr(release, kind.field) for *_, release in closed]
    ends = [getattr(release, f"{kind.field}_interval") for *_, release in closed]
    top = 1.1 * max(value for value in (*values, *(high for _, high in ends)) if isfinite(value))
    arms = [
        (max(value - low, 0.0), max(min(high, 2 * top) - value, 0.0))
        for value, (low, high) in zip(values, ends, strict=True)
    ]
    with look():
        figure = Figure(figsize=(8, 4.4), layout="constrained")
        panel = figure.subplots()
        panel.errorbar(until, values, [*zip(*arms, strict=True)], fmt="o-", color=kind.colour, markersize=4, capsize=3)
        panel.set_ylim(0, min(top, kind.most) or 1.0)
        panel.yaxis.set_major_formatter(lambda value, _: kind.number(value))
        panel.set_ylabel(kind.unit)
        panel.set_xlabel("end of the window (UTC)")
        panel.set_title(f"{kind.title} in each window, with {100 * level:g} % intervals")
        figure.autofmt_xdate(rotation=30, ha="right")
        save(figure, path)

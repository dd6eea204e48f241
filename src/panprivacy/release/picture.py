"""The groups of a release as bars with their intervals."""

from collections.abc import Callable, Sequence
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from panprivacy.drawing import BLACK, COLOURS, GREY, SKY, check_picture, look, save
from panprivacy.release.estimates import EstimatedCount, EstimatedDensity
from panprivacy.release.often import EstimatedFrequency

if TYPE_CHECKING:
    from panprivacy.release.groups import Row

_MOST = 40  # groups that a picture has room for


class Kind(NamedTuple):
    """What the bars of a row are, or the points of a series."""

    field: str
    title: str
    unit: str
    number: Callable[[float], str]
    colour: str
    most: float = inf


def kind_of(row: EstimatedDensity | EstimatedCount | EstimatedFrequency) -> Kind:
    """What is drawn of a group, or of a release."""
    seen = "Who has appeared"
    if isinstance(row, EstimatedFrequency):
        unit = f"appearances of a user on average, more than {row.up_to} counting as {row.up_to}"
        return Kind("mean", "How often users appeared", unit, lambda value: f"{value:g}", COLOURS["Counts"])
    if isinstance(row, EstimatedDensity):
        return Kind("density", seen, "share of the users", lambda value: f"{100 * value:g} %", SKY, 1.0)
    return Kind("count", seen, "different users", lambda value: f"{value:,.0f}", COLOURS["DistinctCount"])


def draw(rows: "Sequence[Row]", level: float, path: str | Path, column: str) -> None:
    """Draw a bar for each group, in order, and its interval; groups that are mostly noise are pale."""
    check_picture(path)
    from matplotlib.figure import Figure

    kind = kind_of(rows[0])
    shown = rows[:_MOST]
    names = [str(row.group) for row in shown]
    values = [getattr(row, kind.field) for row in shown]
    ends = [getattr(row, f"{kind.field}_interval") for row in shown]
    with look():
        figure = Figure(figsize=(8, 1.4 + 0.32 * len(shown)), layout="constrained")
        panel = figure.subplots()
        at = range(len(shown))
        bars = panel.barh(at, values, height=0.62, color=kind.colour)
        for bar, row in zip(bars, shown, strict=True):
            bar.set_alpha(0.25 if row.mostly_noise else 0.75)
        largest = max(value for value in (*values, *(high for _, high in ends)) if value < float("inf"))
        for place, (low, high) in enumerate(ends):
            panel.plot([low, min(high, 2 * largest)], [place, place], color=BLACK, linewidth=1.4, solid_capstyle="butt")
        panel.plot(values, at, "o", color=BLACK, markersize=4, clip_on=False, zorder=5)  # whole at 0 and at 100 %
        panel.set_yticks(at, [name if len(name) <= 24 else name[:23] + "…" for name in names])
        panel.invert_yaxis()
        panel.grid(axis="y", visible=False)
        panel.set_xlim(0, min(1.05 * largest, kind.most))
        panel.set_xlabel(kind.unit)
        panel.set_ylabel(column)
        panel.xaxis.set_major_formatter(lambda value, _: kind.number(value))
        panel.set_title(f"{kind.title}, by {column}: released, with intervals of {100 * level:g} %", loc="left")
        said = [f"{len(rows) - _MOST:,} more groups are not shown"] if len(rows) > _MOST else []
        said += ["pale: mostly noise"] if any(row.mostly_noise for row in shown) else []
        if said:
            figure.supxlabel("; ".join(said), fontsize=8, color=GREY)
        save(figure, path)

"""The groups of a release as bars with their intervals."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from panprivacy.drawing import BLACK, COLOURS, GREY, SKY, check_picture, look, save

if TYPE_CHECKING:
    from panprivacy.release.groups import Row

_MOST = 40  # groups that a picture has room for


def draw(rows: "Sequence[Row]", level: float, path: str | Path, column: str) -> None:
    """Draw a bar for each group, in order, and its interval; groups that are mostly noise are pale."""
    from panprivacy.release.groups import GroupDensity

    check_picture(path)
    from matplotlib.figure import Figure

    shares = isinstance(rows[0], GroupDensity)
    shown = rows[:_MOST]
    names = [str(row.group) for row in shown]
    values = [row.density if shares else row.count for row in shown]
    ends = [row.density_interval if shares else row.count_interval for row in shown]
    with look():
        figure = Figure(figsize=(8, 1.4 + 0.32 * len(shown)), layout="constrained")
        panel = figure.subplots()
        at = range(len(shown))
        colour = SKY if shares else COLOURS["DistinctCount"]
        bars = panel.barh(at, values, height=0.62, color=colour)
        for bar, row in zip(bars, shown, strict=True):
            bar.set_alpha(0.25 if row.mostly_noise else 0.75)
        largest = max(value for value in (*values, *(high for _, high in ends)) if value < float("inf"))
        for place, (low, high) in enumerate(ends):
            panel.plot([low, min(high, 2 * largest)], [place, place], color=BLACK, linewidth=1.4, solid_capstyle="butt")
        panel.plot(values, at, "o", color=BLACK, markersize=4, clip_on=False, zorder=5)  # whole at 0 and at 100 %
        panel.set_yticks(at, [name if len(name) <= 24 else name[:23] + "…" for name in names])
        panel.invert_yaxis()
        panel.grid(axis="y", visible=False)
        panel.set_xlim(0, min(1.05 * largest, 1.0) if shares else 1.05 * largest)
        panel.set_xlabel("share of the users" if shares else "different users")
        panel.set_ylabel(column)
        panel.xaxis.set_major_formatter(
            (lambda value, _: f"{100 * value:g} %") if shares else (lambda value, _: f"{value:,.0f}")
        )
        panel.set_title(f"Who has appeared, by {column}: released, with intervals of {100 * level:g} %", loc="left")
        said = [f"{len(rows) - _MOST:,} more groups are not shown"] if len(rows) > _MOST else []
        said += ["pale: mostly noise"] if any(row.mostly_noise for row in shown) else []
        if said:
            figure.supxlabel("; ".join(said), fontsize=8, color=GREY)
        save(figure, path)

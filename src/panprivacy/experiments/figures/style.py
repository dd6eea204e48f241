"""One look for all figures: an algorithm has the same colour, marker and line everywhere."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from panprivacy.experiments.cells import ALGORITHMS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STREAMS = {
    "uniform": "uniform stream",
    "zipf": "Zipf(1) stream",
    "random half": "a random half of the ids",
    "even ids": "all even ids",
    "one block": "one block of ids",
}

GREY = "#6b6b6b"

_RC: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.titlesize": 10.5,
    "axes.labelsize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "lines.linewidth": 1.6,
    "lines.markersize": 5.5,
    "figure.dpi": 100,
    "savefig.dpi": 160,
    "svg.hashsalt": "panprivacy",  # the same picture is the same file
    "text.parse_math": True,
}


@dataclass(frozen=True)
class Look:
    """How an algorithm is drawn. The colours are those of Okabe and Ito, told apart by all kinds of eyes."""

    colour: str
    marker: str


LOOKS = {
    "Dwork": Look("#D55E00", "o"),
    "OptBern": Look("#0072B2", "s"),
    "PPDS": Look("#009E73", "^"),
    "FixedLevelPPDS": Look("#CC79A7", "D"),
    "Density": Look("#000000", "o"),
    "DistinctCount": Look("#E69F00", "v"),
}


@contextmanager
def applied() -> Iterator[None]:
    """Draw and save in this look."""
    import matplotlib as mpl

    with mpl.rc_context(_RC):
        yield


def panels(rows: int, columns: int, size: tuple[float, float], **shared: Any) -> tuple["Figure", list["Axes"]]:
    """A figure of equal panels, listed row by row; the size is that of a panel, in inches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(size[0] * columns, size[1] * rows), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, **shared)
    return figure, list(grid.flat)


def drawn_as(name: str, *, theory: bool = False) -> dict[str, Any]:
    """Keywords for an algorithm's line: dashed and hollow if it is not private, solid and filled if it is."""
    look = LOOKS[name]
    if theory:
        return {"color": look.colour, "linestyle": "-", "marker": ""}
    hollow = {"markerfacecolor": "white", "linestyle": (0, (4, 1.5))}
    filled = {"markerfacecolor": look.colour, "linestyle": "-"}
    return {"color": look.colour, "marker": look.marker} | (filled if ALGORITHMS[name].private else hollow)


def band(axes: "Axes", part: pl.DataFrame, x: str, y: str, name: str, *, label: str | None = None) -> None:
    """A line through estimates, in its confidence band."""
    part = part.sort(x)
    axes.fill_between(part[x], part["low"], part["high"], color=LOOKS[name].colour, alpha=0.18, linewidth=0)
    axes.plot(part[x], part[y], label=label or name, **drawn_as(name))


def bars(axes: "Axes", part: pl.DataFrame, x: str, y: str, name: str, *, label: str) -> None:
    """Estimates with error bars and no line, to be put on a line of the theory."""
    part = part.sort(x)
    spread = [(part[y] - part["low"]).to_numpy(), (part["high"] - part[y]).to_numpy()]
    axes.errorbar(
        part[x], part[y], yerr=spread, label=label, capsize=2, elinewidth=1, **(drawn_as(name) | {"linestyle": ""})
    )


def plain_ticks(axis: Any, values: list[float], labels: list[str]) -> None:
    """Ticks at these values of a logarithmic axis, and no others."""
    from matplotlib.ticker import NullLocator

    axis.set_ticks(values, labels)
    axis.set_minor_locator(NullLocator())


def legend_below(figure: "Figure", axes: "Axes", columns: int) -> None:
    """One legend for all panels, under them, where it covers nothing."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns)

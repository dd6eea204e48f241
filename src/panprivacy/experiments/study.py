"""What a figure is made of, how algorithms look in all of them, and how a figure is saved: data and picture."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import polars as pl

from panprivacy.estimates import plots as drawing
from panprivacy.estimates.plots import COLOURS, NOT_PRIVATE
from panprivacy.experiments.cells import ALGORITHMS, Cell, Scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


Frames: TypeAlias = dict[type[Cell], pl.DataFrame]
"""The rows of all cells of a figure, by the kind of cell."""


@dataclass(frozen=True)
class Study:
    """One figure: the cells it needs, the table they make, and the picture of that table."""

    number: int
    title: str
    caption: str
    cells: Callable[[Scale], list[Cell]]
    table: Callable[[Frames, Scale], pl.DataFrame]
    """The data of the figure: everything that is drawn, and nothing that is not."""
    draw: Callable[[pl.DataFrame], "Figure"]

    @property
    def name(self) -> str:
        """The name of its files, without their endings."""
        return f"figure-{self.number:02d}"


STREAMS = {
    "uniform": "uniform stream",
    "zipf": "Zipf(1) stream",
    "random half": "a random half of the ids",
    "even ids": "all even ids",
    "one block": "one block of ids",
}


BOTH_STREAMS = ("uniform", "zipf")
"""The streams of the paper's experiments."""


@dataclass(frozen=True)
class Look:
    """How an algorithm is drawn."""

    colour: str
    marker: str


_MARKERS = {"Dwork": "o", "OptBern": "s", "PPDS": "^", "FixedLevelPPDS": "D", "Density": "o", "DistinctCount": "v"}
LOOKS = {name: Look(COLOURS[name], marker) for name, marker in _MARKERS.items()}


def called(name: str) -> str:
    """The name of an algorithm in legends; it says if the algorithm is not private."""
    return name if ALGORITHMS[name].private else f"{name}, as printed (not private)"


def panels(rows: int, columns: int, size: tuple[float, float], **shared: Any) -> tuple["Figure", list["Axes"]]:
    """A figure of equal panels, listed row by row; the size of a panel is in inches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(size[0] * columns, size[1] * rows), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, **shared)
    return figure, list(grid.flat)


def drawn_as(name: str, *, theory: bool = False) -> dict[str, Any]:
    """Keywords for an algorithm's line: dashed and hollow if it is not private, solid and filled if it is."""
    look = LOOKS[name]
    if theory:
        return {"color": look.colour, "linestyle": "-", "marker": ""}
    private = {"markerfacecolor": look.colour, "linestyle": "-"}
    return {"color": look.colour, "marker": look.marker} | (private if ALGORITHMS[name].private else NOT_PRIVATE)


def band(axes: "Axes", part: pl.DataFrame, x: str, y: str, name: str, *, label: str | None = None) -> None:
    """A line through estimates, in its confidence band."""
    part = part.sort(x)
    axes.fill_between(part[x], part["low"], part["high"], color=LOOKS[name].colour, alpha=0.18, linewidth=0)
    axes.plot(part[x], part[y], label=label or called(name), **drawn_as(name))


def errors_by_stream(
    table: pl.DataFrame, names: Collection[str], x: str, xlabel: str, size: tuple[float, float]
) -> tuple["Figure", list["Axes"]]:
    """Two panels, the uniform and the Zipf stream, with the mean squared error of each algorithm."""
    figure, grid = panels(1, len(BOTH_STREAMS), size, sharey=True)
    for axes, stream in zip(grid, BOTH_STREAMS, strict=True):
        for name in names:
            band(axes, table.filter(stream=stream, algorithm=name), x, "mse", name)
        axes.set(title=STREAMS[stream], xscale="log", yscale="log", xlabel=xlabel)
    return figure, grid


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


DATA, PICTURES = "data", "figures"
"""The folders."""


def save(study: Study, table: pl.DataFrame, out: Path) -> None:
    """Write all four files of a figure."""
    data, pictures = out / DATA / study.name, out / PICTURES / study.name
    for path in (data, pictures):
        path.parent.mkdir(parents=True, exist_ok=True)
    table.write_parquet(data.with_suffix(".parquet"))
    table.write_csv(data.with_suffix(".csv"))
    with drawing.look():
        figure = study.draw(table)
        drawing.save(figure, pictures.with_suffix(".png"))
        figure.set_layout_engine("none")  # everything has its place by now
        drawing.save(figure, pictures.with_suffix(".svg"))

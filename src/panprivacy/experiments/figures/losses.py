"""Figure 9: what each algorithm claims, and what it loses."""

from math import inf
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from panprivacy.drawing import GREY
from panprivacy.experiments.cells import ALGORITHMS, Cell, TrueLoss
from panprivacy.experiments.figures import style
from panprivacy.experiments.figures.study import Frames, Study
from panprivacy.experiments.scale import Scale

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _cells(scale: Scale) -> list[Cell]:
    return [TrueLoss(name, 2 * epsilon) for name in ALGORITHMS for epsilon in scale.epsilons]


def _table(frames: Frames, scale: Scale) -> pl.DataFrame:  # noqa: ARG001 (every table function takes both)
    return frames[TrueLoss]


def _draw(table: pl.DataFrame) -> "Figure":
    figure, [axes] = style.panels(1, 1, (7.4, 5.6))
    largest = table.filter(pl.col("loss") < inf)["loss"].to_numpy().max()
    top = 1.15 * largest  # where infinity is drawn
    claims = np.array([0, 1.04 * table["claimed"].to_numpy().max()])
    axes.plot(claims, claims, color=GREY, linestyle=":", label="the claim")
    axes.fill_between(claims, 0, claims, color="#eef3ee")
    sizes = {"FixedLevelPPDS": 10, "Density": 6.5, "DistinctCount": 3.5}  # they lie on each other
    for name in ALGORITHMS:
        part = table.filter(algorithm=name).sort("claimed")
        losses = part["loss"].clip(upper_bound=top)
        look = style.drawn_as(name) | ({"markersize": sizes[name]} if name in sizes else {})
        axes.plot(part["claimed"], losses, label=style.called(name), **look)
    axes.axhline((top + largest) / 2, color=GREY, linewidth=0.8)
    ticks = np.arange(0, largest)
    axes.set_yticks([*ticks, top], [*(f"{tick:g}" for tick in ticks), "∞"])
    axes.set(
        xlabel=r"claimed total: $2\varepsilon$, or the budget",
        ylabel="true loss of state and output together",
        xlim=claims,
    )
    axes.annotate("private", (claims[1], 0), xytext=(-6, 6), textcoords="offset points", ha="right", color=GREY)
    style.legend_below(figure, axes, columns=2)
    return figure


LOSSES = Study(
    9,
    "Claimed against true loss",
    "The worst case over all streams of two events and three users that differ in one user's events, with one reading "
    "of the state at any moment and one output, by the exact auditor, which runs the algorithms' own code under every "
    "outcome of their coins. On the dotted line the claim is exact; above it, it is false. The three private "
    "algorithms lie on the line, and on each other.",
    _cells,
    _table,
    _draw,
)

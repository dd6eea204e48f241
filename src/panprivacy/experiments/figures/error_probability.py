"""Figure 4: how often Dwork and OptBern err by more than alpha."""

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from panprivacy import theory
from panprivacy.experiments import statistics
from panprivacy.experiments.cells import Cell, Runs, Stream, Trial, runs
from panprivacy.experiments.figures import style
from panprivacy.experiments.figures.study import Frames, Study
from panprivacy.experiments.scale import Scale

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COMPARED = ("Dwork", "OptBern")
_STREAMS = ("uniform", "zipf")


def _cells(scale: Scale) -> list[Cell]:
    size = scale.sample(0.05)
    trials = tuple(Trial(name, 2 * epsilon, size) for name in _COMPARED for epsilon in scale.epsilons)
    return [cell for name in _STREAMS for cell in runs(Stream(name, scale.universe), trials, scale.tail_repetitions)]


def _table(frames: Frames, scale: Scale) -> pl.DataFrame:
    rows = []
    for (stream, name, total, size), part in statistics.settings_of(frames[Runs]).items():
        errors = np.abs(part["estimate"].to_numpy() - part["truth"].to_numpy())
        wrong = int(np.count_nonzero(errors >= scale.alpha))
        found = statistics.proportion(wrong, len(errors))
        row = {"stream": stream, "algorithm": name, "epsilon": total / 2, "sample": size, "alpha": scale.alpha}
        density = float(part["truth"].to_numpy().mean())
        counts = {"repetitions": len(errors), "errors": wrong, "probability": found.estimate}
        bound = float(theory.error_bound(name.lower(), total / 2, scale.alpha, size))
        rows.append(row | {"density": density} | counts | {"low": found.low, "high": found.high, "bound": bound})
    return pl.DataFrame(rows)


def _draw(table: pl.DataFrame) -> "Figure":
    figure, grid = style.panels(1, 2, (4.6, 4.2), sharey=True)
    for axes, stream in zip(grid, _STREAMS, strict=True):
        for name in _COMPARED:
            part = table.filter(stream=stream, algorithm=name).sort("epsilon")
            style.band(axes, part, "epsilon", "probability", name, label=f"{name}, measured")
            epsilons = np.linspace(part["epsilon"][0], part["epsilon"][-1], 60)
            bounds = theory.error_bound(name.lower(), epsilons, part["alpha"][0], part["sample"][0])
            look = style.drawn_as(name, theory=True) | {"linestyle": ":"}
            axes.plot(epsilons, np.asarray(bounds), label=f"{name}, bound", **look)
        axes.set(title=style.STREAMS[stream], xlabel=r"privacy budget of the state $\varepsilon$", ylim=(-0.03, 1.05))
    grid[0].set_ylabel(rf"P(|estimate $-$ density| $\geq$ {table['alpha'][0]:g})")
    style.legend_below(figure, grid[0], columns=4)
    return figure


ERROR_PROBABILITY = Study(
    4,
    "Empirical probability of error against the privacy budget",
    "m = 0.05 |U|, |U| = T, alpha = 0.1. Lines: share of the repetitions that erred by alpha or more, with exact 95 % "
    "bands. Dotted: the tightest bound of Thm 3.3 and 4.3, cut at 1.",
    _cells,
    _table,
    _draw,
)

"""Figure 1: how many users Dwork and OptBern propose to sample."""

from typing import TYPE_CHECKING

import polars as pl

from panprivacy.experiments.cells import Cell, SampleSize
from panprivacy.experiments.figures import style
from panprivacy.experiments.figures.study import Frames, Study
from panprivacy.experiments.scale import Scale

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COMPARED = ("Dwork", "OptBern")


def _cells(scale: Scale) -> list[Cell]:
    return [SampleSize(name, epsilon, scale.alpha, scale.beta) for name in _COMPARED for epsilon in scale.epsilons]


def _table(frames: Frames, scale: Scale) -> pl.DataFrame:  # noqa: ARG001 (every table function takes both)
    return frames[SampleSize]


def _draw(table: pl.DataFrame) -> "Figure":
    figure, [axes] = style.panels(1, 1, (6.4, 4))
    for name in _COMPARED:
        part = table.filter(algorithm=name).sort("epsilon")
        axes.plot(part["epsilon"], part["sample"], label=style.called(name), **style.drawn_as(name))
    alpha, beta = table["alpha"][0], table["beta"][0]
    axes.set(
        yscale="log",
        xlabel=r"privacy budget of the state $\varepsilon$",
        ylabel="proposed sample size $m^*$",
        title=rf"error below $\alpha$ = {alpha:g} with probability $1 - \beta$ = {1 - beta:g}",
    )
    axes.legend()
    return figure


SAMPLE_SIZES = Study(
    1,
    "Proposed sample size of Dwork and OptBern",
    "The first line of Alg. 1 and 2 as the printed algorithms compute it. The paper does not print its alpha and beta.",
    _cells,
    _table,
    _draw,
)

"""Figures 5, 6 and 7: mean squared error against the privacy budget and against the sample size."""

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
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BITS = ("Dwork", "OptBern")
_ALL = ("Dwork", "OptBern", "PPDS")
_STREAMS = ("uniform", "zipf")
_FRACTIONS = (0.001, 0.01)
_EPSILON = 0.2  # the budget of the state in figure 7


def _against_epsilon(scale: Scale, names: tuple[str, ...]) -> list[Cell]:
    settings = [(fraction, epsilon) for fraction in _FRACTIONS for epsilon in scale.epsilons]
    trials = tuple(Trial(name, 2 * epsilon, scale.sample(fraction)) for fraction, epsilon in settings for name in names)
    return [cell for name in _STREAMS for cell in runs(Stream(name, scale.universe), trials, scale.repetitions)]


def _against_sample(scale: Scale) -> list[Cell]:
    """Runs of all sample sizes, twice as many of the whole universe, where the paper says that two are equal."""
    trials = tuple(Trial(name, 2 * _EPSILON, scale.sample(f)) for f in scale.fractions for name in _ALL)
    whole = tuple(trial for trial in trials if trial.size == scale.universe)
    parts = tuple(trial for trial in trials if trial.size < scale.universe)
    cells: list[Cell] = []
    for stream in (Stream(name, scale.universe) for name in _STREAMS):
        cells += runs(stream, parts, scale.repetitions) + runs(stream, whole, 2 * scale.repetitions)
    return cells


def _table(frames: Frames, scale: Scale) -> pl.DataFrame:
    found = statistics.mse_table(frames[Runs])
    return found.select(
        "stream",
        "algorithm",
        (pl.col("total") / 2).alias("epsilon"),
        pl.col("size").alias("sample"),
        (pl.col("size") / scale.universe).alias("fraction"),
        pl.exclude("stream", "algorithm", "total", "size"),
    )


def _table_with_theory(frames: Frames, scale: Scale) -> pl.DataFrame:
    """The table with the exact MSE, sampling error included, and the bound of Thm 3.2 and 4.2."""
    table = _table(frames, scale)
    rows = table.select("algorithm", "epsilon", "sample", "density").iter_rows()
    exact, bound = [], []
    for name, epsilon, sample, density in rows:
        exact.append(float(theory.mse(name.lower(), epsilon, sample, density, scale.universe)))
        bound.append(float(theory.mse_bound(name.lower(), epsilon, sample)))
    return table.with_columns(theory=pl.Series(exact), bound=pl.Series(bound))


def _grid(table: pl.DataFrame) -> tuple["Figure", list[tuple["Axes", pl.DataFrame]]]:
    """Panels for the streams, side by side, and the sample sizes, one above the other."""
    samples = sorted(set(table["sample"]))
    figure, grid = style.panels(len(samples), len(_STREAMS), (4.6, 3.3), sharex=True, sharey="row")
    cases = [(sample, stream) for sample in samples for stream in _STREAMS]
    for axes, (sample, stream) in zip(grid, cases, strict=True):
        axes.set(title=f"{style.STREAMS[stream]}, m = {sample:,}", yscale="log")
        if stream == _STREAMS[0]:
            axes.set_ylabel("mean squared error")
        if sample == samples[-1]:
            axes.set_xlabel(r"privacy budget of the state $\varepsilon$")
    parts = [table.filter(sample=sample, stream=stream) for sample, stream in cases]
    return figure, list(zip(grid, parts, strict=True))


def _draw_with_theory(table: pl.DataFrame) -> "Figure":
    figure, cases = _grid(table)
    for axes, part in cases:
        for name in _BITS:
            mine = part.filter(algorithm=name).sort("epsilon")
            epsilons = np.linspace(mine["epsilon"][0], mine["epsilon"][-1], 80)
            universe = round(mine["sample"][0] / mine["fraction"][0])
            curve = theory.mse(name.lower(), epsilons, mine["sample"][0], mine["density"][0], universe)
            axes.plot(epsilons, np.asarray(curve), label=f"{name}, theory", **style.drawn_as(name, theory=True))
            style.bars(axes, mine, "epsilon", "mse", name, label=f"{name}, measured")
    style.legend_below(figure, cases[0][0], columns=4)
    return figure


def _draw_all(table: pl.DataFrame) -> "Figure":
    figure, cases = _grid(table)
    for axes, part in cases:
        for name in _ALL:
            style.band(axes, part.filter(algorithm=name), "epsilon", "mse", name)
    style.legend_below(figure, cases[0][0], columns=3)
    return figure


def _draw_against_sample(table: pl.DataFrame) -> "Figure":
    figure, grid = style.panels(1, 2, (4.6, 4.2), sharey=True)
    for axes, stream in zip(grid, _STREAMS, strict=True):
        for name in _ALL:
            style.band(axes, table.filter(stream=stream, algorithm=name), "fraction", "mse", name)
        axes.set(title=style.STREAMS[stream], xscale="log", yscale="log", xlabel="sample size, share of the universe")
        shares = [10.0**-i for i in range(3, -1, -1)]
        style.plain_ticks(axes.xaxis, shares, [f"{100 * share:g} %" for share in shares])
    grid[0].set_ylabel("mean squared error")
    style.legend_below(figure, grid[0], columns=3)
    return figure


MSE_THEORY = Study(
    5,
    "Theoretical and empirical MSE of Dwork and OptBern against the privacy budget",
    "|U| = T. Markers: measured, with 95 % bars. Lines: the exact mean squared error, sampling without replacement.",
    lambda scale: _against_epsilon(scale, _BITS),
    _table_with_theory,
    _draw_with_theory,
)
MSE_EPSILON = Study(
    6,
    "Empirical MSE of all three algorithms against the privacy budget",
    "|U| = T, with 95 % bands. Dwork's and OptBern's runs are those of figure 5.",
    lambda scale: _against_epsilon(scale, _BITS) + _against_epsilon(scale, ("PPDS",)),
    _table,
    _draw_all,
)
MSE_SAMPLE = Study(
    7,
    "Empirical MSE against the sample size",
    "epsilon = 0.2, |U| = T, with 95 % bands. PPDS advances in steps: its level halves whom it samples.",
    _against_sample,
    _table,
    _draw_against_sample,
)

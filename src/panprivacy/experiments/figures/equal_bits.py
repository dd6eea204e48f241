"""Figure 8: what each algorithm makes of the same memory and the same total budget."""

from typing import TYPE_CHECKING

import polars as pl

from panprivacy.drawing import GREY
from panprivacy.experiments import statistics
from panprivacy.experiments.cells import ALGORITHMS, Cell, Runs, Stream, Trial, bits_of_an_id, runs
from panprivacy.experiments.figures import style
from panprivacy.experiments.figures.study import Frames, Study
from panprivacy.experiments.scale import Scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TOTAL = 0.4
GOAL = ("PPDS", "Density")
"""The two algorithms that are compared at `Scale.goal_ids`, with more repetitions than the others."""

GOAL_STREAM = "uniform"
"""The stream on which the goal is to be reached."""

_STREAMS = ("uniform", "zipf")
_ONE_BIT_A_USER = ("Dwork", "OptBern", "Density")


def _trials(scale: Scale) -> dict[Trial, int]:
    """All trials, with the bits that their states take: those of so many ids, or one for each sampled user."""
    trials = {}
    for ids in scale.ids:
        bits = ids * bits_of_an_id(scale.universe)
        for name, algorithm in ALGORITHMS.items():
            size = algorithm.size(scale.universe, bits)
            trials[Trial(name, TOTAL, size)] = size if name in _ONE_BIT_A_USER else bits
    return trials


def _is_goal(trial: Trial, bits: int, scale: Scale) -> bool:
    return trial.algorithm in GOAL and bits == scale.goal_ids * bits_of_an_id(scale.universe)


def _cells(scale: Scale) -> list[Cell]:
    trials = _trials(scale)
    goal = tuple(trial for trial, bits in trials.items() if _is_goal(trial, bits, scale))
    others = tuple(trial for trial in trials if trial not in goal)
    cells: list[Cell] = []
    for name in _STREAMS:
        cells += runs(Stream(name, scale.universe), others, scale.repetitions, block=10)
        repetitions = scale.goal_repetitions if name == GOAL_STREAM else scale.goal_repetitions // 4
        cells += runs(Stream(name, scale.universe), goal, repetitions, block=100)
    return cells


def _table(frames: Frames, scale: Scale) -> pl.DataFrame:
    """The MSE of each algorithm, with its bits, and whether it keeps the total budget that it claims."""
    known = _trials(scale)
    found = statistics.mse_table(frames[Runs])
    settings = found.select("algorithm", "total", "size").iter_rows()
    bits = [known[Trial(*setting)] for setting in settings]
    private = [ALGORITHMS[name].private for name in found["algorithm"]]
    return found.with_columns(bits=pl.Series(bits), private=pl.Series(private)).sort("stream", "algorithm", "bits")


def advantage(table: pl.DataFrame, stream: str, bits: int, error: float = statistics.BAND) -> statistics.Interval:
    """How many times smaller Density's MSE is than PPDS's, in so many bits."""
    rival, mine = (table.filter(stream=stream, algorithm=name, bits=bits) for name in GOAL)
    return statistics.ratio_interval(rival["mse"][0] / mine["mse"][0], rival["freedom"][0], mine["freedom"][0], error)


def goal_bits(table: pl.DataFrame) -> int:
    """The bits of state for which the goal is set: those with which PPDS was run most often."""
    return int(table.filter(algorithm="PPDS").sort("repetitions", "bits")["bits"][-1])


def _draw(table: pl.DataFrame) -> "Figure":
    figure, grid = style.panels(1, 2, (4.9, 4.7), sharey=True)
    for axes, stream in zip(grid, _STREAMS, strict=True):
        for name in ALGORITHMS:
            style.band(axes, table.filter(stream=stream, algorithm=name), "bits", "mse", name)
        axes.set(title=style.STREAMS[stream], xscale="log", yscale="log", xlabel="bits of state")
        axes.set_ylim(top=min(axes.get_ylim()[1], 1.5))
        _mark_advantage(axes, table, stream)
    grid[0].set_ylabel(f"mean squared error, total budget {TOTAL:g}")
    style.legend_below(figure, grid[0], columns=3)
    return figure


def _mark_advantage(axes: "Axes", table: pl.DataFrame, stream: str) -> None:
    """An arrow from PPDS down to Density, with the factor and its interval: few repetitions leave much open."""
    bits = goal_bits(table)
    rival, mine = (table.filter(stream=stream, algorithm=name, bits=bits)["mse"][0] for name in GOAL)
    arrow = {"arrowstyle": "->", "color": GREY, "lw": 1.2}
    axes.annotate("", (bits, mine * 1.12), (bits, rival / 1.15), arrowprops=arrow, zorder=1)  # behind the lines
    factor = advantage(table, stream, bits)
    text = f"÷ {factor.estimate:.0f} at {bits:,} bits\n(95 % interval: {factor.low:.0f} to {factor.high:.0f})"
    axes.annotate(text, (bits, mine), xytext=(-6, -8), textcoords="offset points", ha="right", va="top", color=GREY)


EQUAL_BITS = Study(
    8,
    "MSE at equal bits of state and equal total budget",
    "Total budget 0.4, |U| = T = 10^5, with 95 % bands. Solid and filled: private, the total is true. Dashed and "
    "hollow: as printed with epsilon = 0.2, which claims a total of 0.4 and loses more (figure 9). Counted are 17 bits "
    "for each id that PPDS and FixedLevelPPDS may hold, and every bit of the others' tables; keys are not. Dwork and "
    "OptBern must also store whom they sample, which is not counted, in their favour: with a list of ids they would "
    "take 18 times the bits. DistinctCount does not know the universe, and pays for that where many have come. "
    "Estimates are not brought into [0, 1], and errors above 1 are cut off.",
    _cells,
    _table,
    _draw,
)

"""Figure 8, each algorithm with the same memory and total budget, and figure 10, streams with a structure; and all.

On some of the streams of figure 10 the linear hash of PPDS samples badly, on others suspiciously well.
"""

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from panprivacy.estimates.plots import GREY
from panprivacy.experiments import cells, statistics, study
from panprivacy.experiments.cells import ALGORITHMS, Cell, Runs, Scale, Trial, bits_of_an_id
from panprivacy.experiments.paper_figures import (
    BUDGETS,
    ERROR_PROBABILITY,
    LOSSES,
    MSE_EPSILON,
    MSE_SAMPLE,
    MSE_THEORY,
    RATIOS,
    SAMPLE_SIZES,
)
from panprivacy.experiments.study import Frames, Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


TOTAL = 0.4
GOAL = ("PPDS", "Density")
"""The two algorithms that are compared at `Scale.goal_ids`, with more repetitions than the others."""

GOAL_STREAM = "uniform"
"""The stream on which the goal is to be reached."""

_ONE_BIT_A_USER = ("Dwork", "OptBern", "Density")
_STRUCTURES = ("random half", "even ids", "one block")
_COMPARED = ("PPDS", "FixedLevelPPDS", "Density")
_STRUCTURED_TOTAL = 1.0


def _trials(scale: Scale) -> dict[Trial, int]:
    """All trials, with the bits that their states take: for a list of ids, or one for each sampled user."""
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
    found: list[Cell] = []
    for name in study.BOTH_STREAMS:
        found += cells.runs([name], scale, others, scale.repetitions, block=10)
        repetitions = scale.goal_repetitions if name == GOAL_STREAM else scale.goal_repetitions // 4
        found += cells.runs([name], scale, goal, repetitions, block=100)
    return found


def _table(frames: Frames, scale: Scale) -> pl.DataFrame:
    """The MSE of each algorithm, with its bits, and whether it keeps the total budget that it claims."""
    known = _trials(scale)
    found = statistics.mse_table(frames[Runs])
    settings = found.select("algorithm", "total", "size").iter_rows()
    bits = [known[Trial(*setting)] for setting in settings]
    private = [ALGORITHMS[name].private for name in found["algorithm"]]
    return found.with_columns(bits=pl.Series(bits), private=pl.Series(private)).sort("stream", "algorithm", "bits")


def advantage(table: pl.DataFrame, stream: str, bits: int, error: float = statistics.BAND) -> statistics.Interval:
    """How many times smaller Density's MSE is than PPDS's, with equal bits."""
    rival, mine = (table.filter(stream=stream, algorithm=name, bits=bits) for name in GOAL)
    return statistics.ratio_interval(rival["mse"][0] / mine["mse"][0], rival["freedom"][0], mine["freedom"][0], error)


def goal_bits(table: pl.DataFrame) -> int:
    """The bits of state for which the goal is set: those with which PPDS was run most often."""
    return int(table.filter(algorithm="PPDS").sort("repetitions", "bits")["bits"][-1])


def _draw(table: pl.DataFrame) -> "Figure":
    figure, grid = study.errors_by_stream(table, ALGORITHMS, "bits", "bits of state", (4.9, 4.7))
    for axes, stream in zip(grid, study.BOTH_STREAMS, strict=True):
        axes.set_ylim(top=min(axes.get_ylim()[1], 1.5))
        _mark_advantage(axes, table, stream)
    grid[0].set_ylabel(f"mean squared error, total budget {TOTAL:g}")
    study.legend_below(figure, grid[0], columns=3)
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


# --- figure 10 -------------------------------------------------------------------------------------------------------


def _structured_cells(scale: Scale) -> list[Cell]:
    bits = scale.goal_ids * bits_of_an_id(scale.universe)
    trials = tuple(Trial(name, _STRUCTURED_TOTAL, ALGORITHMS[name].size(scale.universe, bits)) for name in _COMPARED)
    return cells.runs(_STRUCTURES, scale, trials, scale.repetitions, block=100)


def _structured_table(frames: Frames, scale: Scale) -> pl.DataFrame:  # noqa: ARG001 (every table function takes both)
    return frames[Runs].with_columns(error=pl.col("estimate") - pl.col("truth"))


def _draw_structured(table: pl.DataFrame) -> "Figure":
    figure, grid = study.panels(1, 3, (3.3, 4.2), sharey=True)
    for axes, stream in zip(grid, _STRUCTURES, strict=True):
        for place, name in enumerate(_COMPARED):
            part = table.filter(stream=stream, algorithm=name)
            aside = _spread_out(part["repetition"].to_numpy())
            look = study.LOOKS[name]
            face = look.colour if ALGORITHMS[name].private else "white"
            axes.scatter(place + aside, part["estimate"], s=9, facecolor=face, edgecolor=look.colour, linewidth=0.6)
            error = float(np.sqrt(np.mean(part["error"].to_numpy() ** 2)))
            axes.annotate(
                f"RMS error\n{error:.2g}", (place, 1), xycoords=("data", "axes fraction"), ha="center", va="top"
            )
        axes.axhline(table.filter(stream=stream)["truth"][0], color=GREY, linestyle=":", linewidth=1.2)
        axes.set_xticks(range(len(_COMPARED)), ["PPDS\n(not private)", "Fixed-\nLevelPPDS", "Density"])
        axes.set(title=study.STREAMS[stream], xlim=(-0.5, len(_COMPARED) - 0.5))
        axes.grid(visible=False, axis="x")
    low, high = grid[0].get_ylim()
    grid[0].set_yticks([tick for tick in grid[0].get_yticks() if low < tick < high])  # none behind the numbers above
    grid[0].set_ylim(low, high + 0.15 * (high - low))
    grid[0].set_ylabel("estimated density (dotted: the truth)")
    return figure


def _spread_out(places: NDArray[np.int64]) -> NDArray[np.float64]:
    """Where dots go so that they hide each other little: multiples of the golden ratio fill any interval evenly."""
    return np.asarray((places * 0.618034 % 1 - 0.5) * 0.6, dtype=np.float64)


STRUCTURED = Study(
    10,
    "Estimates of structured streams",
    "Every dot is one run on a stream of half of the ids, at a total budget of 1 in the bits of 1,000 ids; above, the "
    "root mean squared error. PPDS's linear hash keeps ids in steps of a power of two: of all even ids everyone or "
    "nobody, so that the estimate is 1 or 0 whatever the memory. A block of ids it samples evenly, so there it does "
    "not fail. The keyed permutation treats all alike.",
    _structured_cells,
    _structured_table,
    _draw_structured,
)

STUDIES: dict[int, Study] = {
    study.number: study
    for study in (
        SAMPLE_SIZES,
        RATIOS,
        BUDGETS,
        ERROR_PROBABILITY,
        MSE_THEORY,
        MSE_EPSILON,
        MSE_SAMPLE,
        EQUAL_BITS,
        LOSSES,
        STRUCTURED,
    )
}
"""All figures, by their numbers: 1 to 7 are the paper's, 8 to 10 are what it does not have."""

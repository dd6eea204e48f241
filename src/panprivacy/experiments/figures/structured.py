"""Figure 10: streams with a structure, on which the linear hash of PPDS samples badly, or suspiciously well."""

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from panprivacy.drawing import GREY
from panprivacy.experiments.cells import ALGORITHMS, Cell, Runs, Stream, Trial, bits_of_an_id, runs
from panprivacy.experiments.figures import style
from panprivacy.experiments.figures.study import Frames, Study
from panprivacy.experiments.scale import Scale

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_STREAMS = ("random half", "even ids", "one block")
_COMPARED = ("PPDS", "FixedLevelPPDS", "Density")
_TOTAL = 1.0


def _cells(scale: Scale) -> list[Cell]:
    bits = scale.goal_ids * bits_of_an_id(scale.universe)
    trials = tuple(Trial(name, _TOTAL, ALGORITHMS[name].size(scale.universe, bits)) for name in _COMPARED)
    return [cell for name in _STREAMS for cell in runs(Stream(name, scale.universe), trials, scale.repetitions, 100)]


def _table(frames: Frames, scale: Scale) -> pl.DataFrame:  # noqa: ARG001 (every table function takes both)
    return frames[Runs].with_columns(error=pl.col("estimate") - pl.col("truth"))


def _draw(table: pl.DataFrame) -> "Figure":
    figure, grid = style.panels(1, 3, (3.3, 4.2), sharey=True)
    for axes, stream in zip(grid, _STREAMS, strict=True):
        for place, name in enumerate(_COMPARED):
            part = table.filter(stream=stream, algorithm=name)
            aside = _spread_out(part["repetition"].to_numpy())
            look = style.LOOKS[name]
            face = look.colour if ALGORITHMS[name].private else "white"
            axes.scatter(place + aside, part["estimate"], s=9, facecolor=face, edgecolor=look.colour, linewidth=0.6)
            error = float(np.sqrt(np.mean(part["error"].to_numpy() ** 2)))
            axes.annotate(
                f"RMS error\n{error:.2g}", (place, 1), xycoords=("data", "axes fraction"), ha="center", va="top"
            )
        axes.axhline(table.filter(stream=stream)["truth"][0], color=GREY, linestyle=":", linewidth=1.2)
        axes.set_xticks(range(len(_COMPARED)), ["PPDS\n(not private)", "Fixed-\nLevelPPDS", "Density"])
        axes.set(title=style.STREAMS[stream], xlim=(-0.5, len(_COMPARED) - 0.5))
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
    _cells,
    _table,
    _draw,
)

"""Runs that were never run: errors drawn from the laws that the algorithms should have, or from wrong ones."""

from collections.abc import Callable
from functools import cache

import numpy as np
import polars as pl

from panprivacy import theory
from panprivacy.experiments.cells import Runs, Scale, Stream, Trial
from panprivacy.experiments.figures import STUDIES

Distortion = Callable[[Trial, Stream], float]
"""By how much the mean squared error of a trial is multiplied."""

_DENSITIES = {"uniform": 0.632, "zipf": 0.2436, "random half": 0.5, "even ids": 0.5, "one block": 0.5}


def right(trial: Trial, stream: Stream) -> float:  # noqa: ARG001
    return 1.0


@cache
def table(number: int, scale: Scale, seed: int, distortion: Distortion = right) -> pl.DataFrame:
    """The table of a figure that is made of runs."""
    study = STUDIES[number]
    generator = np.random.default_rng(seed)
    frames = [_invented(cell, generator, distortion) for cell in study.cells(scale) if isinstance(cell, Runs)]
    return study.table({Runs: pl.concat(frames)}, scale)


def _invented(cell: Runs, generator: np.random.Generator, distortion: Distortion) -> pl.DataFrame:
    truth = _DENSITIES[cell.stream.name]
    estimates = []
    for trial in cell.trials:
        square = mean_squared_error(trial, cell.stream) * distortion(trial, cell.stream)
        estimates.append(truth + generator.normal(0, np.sqrt(square), cell.count))
        if cell.stream.name == "even ids" and trial.algorithm == "PPDS":
            estimates[-1] += generator.choice([-0.5, 0.5], cell.count)  # everyone or nobody
    each = {name: [getattr(trial, name) for trial in cell.trials] for name in ("algorithm", "total", "size")}
    return pl.DataFrame(
        {
            "repetition": np.tile(np.arange(cell.first, cell.first + cell.count), len(cell.trials)),
            "estimate": np.concatenate(estimates),
            "truth": np.full(len(cell.trials) * cell.count, truth),
            "stream": [cell.stream.name] * (len(cell.trials) * cell.count),
            **{name: np.repeat(values, cell.count) for name, values in each.items()},
        }
    )


@cache
def mean_squared_error(trial: Trial, stream: Stream) -> float:
    """About what each algorithm has: exact for Dwork and OptBern, PPDS at the level where its set just fits."""
    density, epsilon = _DENSITIES[stream.name], trial.total / 2
    if trial.algorithm in ("Dwork", "OptBern"):
        name = trial.algorithm.lower()
        return float(theory.mse(name, epsilon, trial.size, density, stream.universe))
    if trial.algorithm == "Density":
        return float(theory.mse("optbern", 0.9 * trial.total, trial.size, density, stream.universe))
    share = 0.5 + (density - 0.5) * np.tanh(epsilon / 2)
    level = next(level for level in range(18) if stream.universe / 2**level * share < trial.size)
    return float(theory.mse("ppds", epsilon, None, density, stream.universe, level=level))

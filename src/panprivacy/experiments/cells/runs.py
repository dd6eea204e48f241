"""Cells of runs: algorithms fed whole streams, again and again."""

from dataclasses import dataclass

import polars as pl

from panprivacy.experiments.cells import seeds
from panprivacy.experiments.cells.algorithms import ALGORITHMS
from panprivacy.experiments.cells.streams import Stream
from panprivacy.testing import SeededCoins


@dataclass(frozen=True)
class Trial:
    """One setting of one algorithm."""

    algorithm: str
    total: float
    """What is claimed of state and output together: the budget of a private algorithm, ``2 * epsilon`` of a printed."""
    size: int
    """Sampled users, ids or buckets, whichever the algorithm has."""


@dataclass(frozen=True)
class Runs:
    """Repetitions of several trials on the same streams.

    Repetition r has one stream, which all trials share (common random numbers: their difference owes nothing to the
    stream), and every trial has coins of its own.
    """

    stream: Stream
    trials: tuple[Trial, ...]
    first: int
    """The first repetition."""
    count: int

    @property
    def runs(self) -> int:
        return self.count * len(self.trials)

    def compute(self, seed: int) -> pl.DataFrame:
        """One row a run: the estimate beside the truth."""
        universe = self.stream.universe
        rows = []
        for repetition in range(self.first, self.first + self.count):
            ids = self.stream.draw(seeds.generator(seed, self.stream, repetition))
            truth = self.stream.density(ids)
            for trial in self.trials:
                coins = SeededCoins(seeds.number(seed, self.stream, trial, repetition))
                estimate = ALGORITHMS[trial.algorithm].run(universe, trial.total, trial.size, ids, coins)
                rows.append((self.stream.name, trial.algorithm, trial.total, trial.size, repetition, truth, estimate))
        return pl.DataFrame(rows, schema=_RUNS, orient="row")


_RUNS = {
    "stream": pl.String,
    "algorithm": pl.String,
    "total": pl.Float64,
    "size": pl.Int64,
    "repetition": pl.Int64,
    "truth": pl.Float64,
    "estimate": pl.Float64,
}


def runs(stream: Stream, trials: tuple[Trial, ...], repetitions: int, block: int = 20) -> list[Runs]:
    """Cut the repetitions into cells; the cells of few repetitions are also cells of many."""
    return [Runs(stream, trials, first, min(block, repetitions - first)) for first in range(0, repetitions, block)]

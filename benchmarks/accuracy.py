"""How far `Density` is off, measured: the mean squared error beside its design value, and the coverage of intervals.

    python benchmarks/accuracy.py           # a minute or two; --runs and --seed change what is drawn

The coins are seeded, so that the numbers can be printed again. A run is fed each user of a stream once: an event
redraws the user's bit from the same coin whatever it was, so repeated events do not change the law of the bits.
"""

import argparse
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from rich.table import Table

import panprivacy as pp
from panprivacy.privacy.splitting import best_split
from panprivacy.testing import SeededCoins

UNIVERSE = STREAM = 100_000
EPSILON = 0.4
RUNS_A_STREAM = 100
DENSITIES = (0.0, 0.01, 0.25, 0.63, 1.0)


@dataclass(frozen=True)
class Design:
    """How many of how many users are tracked, with what total budget."""

    universe: int
    sample: int | None
    epsilon: float

    def estimator(self, coins: SeededCoins) -> pp.Density:
        """A fresh estimator of this design."""
        return pp.Density(self.universe, self.epsilon, sample=self.sample, coins=coins)


DESIGNS = [
    Design(universe, sample, epsilon)
    for universe, sample in ((1_000, None), (100_000, 1_000), (20_000, 10_000))
    for epsilon in (0.4, 1.0, 5.0)
]


def designed_error() -> float:
    """``(m*p1*p0 + Var(noise)) / (m*(p1-p0))^2`` with every user tracked."""
    split = best_split(EPSILON, UNIVERSE)
    spread = UNIVERSE * float(split.pair.p1 * split.pair.p0) + split.noise.variance
    return spread / (UNIVERSE * split.pair.gap) ** 2


def users_of_stream(kind: str, generator: np.random.Generator) -> NDArray[np.intp]:
    """Who appears in a stream of `STREAM` events, user u with probability 1/|U| or proportional to 1/(u+1)."""
    weights = np.ones(UNIVERSE) if kind == "uniform" else 1 / np.arange(1, UNIVERSE + 1)
    bounds = np.cumsum(weights) / weights.sum()
    return np.unique(np.searchsorted(bounds, generator.random(STREAM)))


def squared_errors(kind: str, runs: int, seed: int) -> tuple[NDArray[np.float64], float]:
    """The squared error of each run, and the mean density of the streams."""
    coins, generator = SeededCoins(seed), np.random.default_rng(seed)
    errors, densities = [], []
    for run in track(range(runs), description=f"{kind} streams", transient=True):
        if run % RUNS_A_STREAM == 0:
            users = users_of_stream(kind, generator)
            densities.append(len(users) / UNIVERSE)
        est = pp.Density(UNIVERSE, EPSILON, coins=coins)
        est.update_many(users)
        errors.append(est.release().raw_density - densities[-1])
    return np.square(errors), float(np.mean(densities))


def covered(design: Design, density: float, runs: int, seed: int) -> float:
    """How often the 95 % interval holds the truth."""
    coins = SeededCoins(seed)
    users = np.arange(round(density * design.universe))
    hits = 0
    for _ in range(runs):
        est = design.estimator(coins)
        est.update_many(users)
        low, high = est.release().density_interval
        hits += low <= density <= high
    return hits / runs


def print_errors(console: Console, runs: int, seed: int) -> None:
    """Print the table of mean squared errors."""
    expected = designed_error()
    title = f"mean squared error, {runs:,} runs, |U| = T = {UNIVERSE:,}, total epsilon {EPSILON}"
    table = Table("stream", "density", "measured", "design", "ratio", title=title)
    for kind in ("uniform", "zipf(1)"):
        squares, density = squared_errors(kind, runs, seed)
        mse, uncertain = squares.mean(), squares.std() / np.sqrt(runs)
        ratio = f"{mse / expected:.3f} ± {uncertain / expected:.3f}"
        table.add_row(kind, f"{density:.3f}", f"{mse:.3e}", f"{expected:.3e}", ratio)
    console.print(table)


def print_coverage(console: Console, runs: int, seed: int) -> None:
    """Print the table of coverages."""
    title = f"coverage of 95 % intervals by density, {runs:,} runs each"
    table = Table("tracked", "epsilon", *(f"at {d:g}" for d in DENSITIES), title=title)
    for design in track(DESIGNS, description="coverage", transient=True):
        shares = [covered(design, density, runs, seed) for density in DENSITIES]
        tracked = f"{design.sample or design.universe:,} of {design.universe:,}"
        table.add_row(tracked, f"{design.epsilon:g}", *(f"{100 * share:.1f} %" for share in shares))
    console.print(table)
    console.print("At densities 0 and 1 one side of an interval cannot miss: 97.5 % are due there.")


def main() -> None:
    """Read the options and print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    console = Console()
    print_errors(console, options.runs, options.seed)
    print_coverage(console, max(options.runs // 2, 1), options.seed)


if __name__ == "__main__":
    main()

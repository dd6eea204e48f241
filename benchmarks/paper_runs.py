"""The paper's algorithms in numbers: errors beside their theory, sample sizes, true losses, and time per run.

    python benchmarks/paper_runs.py                  # all tables, a few minutes
    python benchmarks/paper_runs.py --runs 50 errors # one of them: errors, sizes, losses, times

Errors are over independent streams of 10^5 events on 10^5 users, uniform or Zipf(1), as in section 6 of the paper,
with seeded coins. Times are of complete runs: construction, stream, estimate; the best of several, interleaved.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from math import exp, log

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress, track
from rich.table import Table

from panprivacy import paper, theory
from panprivacy.testing import SeededCoins

USERS = EVENTS = 100_000
SAMPLES = (100, 1000)
CELLS = [(sample, epsilon) for sample in SAMPLES for epsilon in (0.1, 0.2, 0.5)]
ALGORITHMS = (paper.Dwork, paper.Continuous, paper.OptBern, paper.PPDS)

Stream = NDArray[np.int64]


def uniform(generator: np.random.Generator) -> Stream:
    """Every event is of a random user."""
    return generator.integers(0, USERS, EVENTS)


def zipf(generator: np.random.Generator) -> Stream:
    """User u has probability proportional to ``1/(u + 1)``."""
    return np.searchsorted(_ZIPF, generator.random(EVENTS))


_WEIGHTS = 1 / np.arange(1, USERS + 1)
_ZIPF = np.cumsum(_WEIGHTS)[:-1] / _WEIGHTS.sum()
STREAMS = {"uniform": uniform, "Zipf(1)": zipf}

Key = tuple[str, int, float, str]


def run_all(runs: int) -> tuple[dict[Key, list[float]], dict[str, list[float]]]:
    """The squared errors of every algorithm in every cell, and the densities of the streams."""
    errors: dict[Key, list[float]] = {}
    densities: dict[str, list[float]] = {}
    with Progress() as progress:
        task = progress.add_task("runs", total=runs * len(STREAMS))
        for name, make in STREAMS.items():
            for run in range(runs):
                stream = make(np.random.default_rng(run))
                density = len(np.unique(stream)) / USERS
                densities.setdefault(name, []).append(density)
                for cell, (sample, epsilon) in enumerate(CELLS):
                    for number, kind in enumerate(ALGORITHMS):
                        coins = SeededCoins((run * 100 + cell) * 10 + number)
                        est = kind(USERS, epsilon, sample, coins=coins)
                        est.update_many(stream)
                        error = (est.estimate() - density) ** 2
                        errors.setdefault((name, sample, epsilon, kind.__name__), []).append(error)
                progress.advance(task)
    return errors, densities


def show_errors(runs: int, console: Console) -> None:
    """Mean squared errors: of the three with a formula beside it, of PPDS beside OptBern's."""
    errors, densities = run_all(runs)
    for name, seen in densities.items():
        console.print(f"density of a {name} stream: {np.mean(seen):.4f}")
    names = [kind.__name__ for kind in ALGORITHMS]
    table = Table("stream", "m", "epsilon", *names, title=f"MSE over {runs} runs (and its ratio)")
    for stream in STREAMS:
        for sample, epsilon in CELLS:
            row = []
            for name in names:
                mse = float(np.mean(errors[stream, sample, epsilon, name]))
                row.append(
                    f"{mse:.3e} ({mse / exact_mse(name, epsilon, sample, float(np.mean(densities[stream]))):.2f})"
                )
            table.add_row(stream, str(sample), str(epsilon), *row)
    console.print(table)
    console.print(
        "The ratio is to the exact formula; for PPDS, whose level is random, to that of OptBern. "
        f"If the formula is right, 19 ratios of 20 are within {2 * (2 / runs) ** 0.5:.2f} of 1."
    )


def exact_mse(name: str, epsilon: float, sample: int, density: float) -> float:
    """The formula that a mean squared error is compared with."""
    if name == "Continuous":  # the variance 2/epsilon^2 of the numbers, the sampling, and the output's noise
        unsampled = (USERS - sample) / (USERS - 1)
        return 2 / (sample * epsilon**2) + density * (1 - density) / sample * unsampled + 2 / (epsilon * sample) ** 2
    return float(theory.mse("dwork" if name == "Dwork" else "optbern", epsilon, sample, density, USERS))


def show_sizes(console: Console) -> None:
    """The sample sizes m* that the paper proves sufficient."""
    table = Table("epsilon", "Dwork", "OptBern", "ratio", title="m* at alpha 0.1, beta 0.05")
    for epsilon in (0.05, 0.1, 0.2, 0.3, 0.4, 0.5):
        dwork, optbern = (int(theory.sample_size(name, epsilon, 0.1, 0.05)) for name in ("dwork", "optbern"))
        table.add_row(str(epsilon), f"{dwork:,}", f"{optbern:,}", f"{dwork / optbern:.2f}")
    console.print(table)


def show_losses(console: Console) -> None:
    """The true joint loss of state and output, by what neighbouring streams may differ in."""
    table = Table("epsilon", "claimed", "algorithm", "moved", "added or removed", "or deleted", title="true joint loss")
    for epsilon in (0.01, 0.1, 0.5):
        for name in ("dwork", "optbern", "ppds"):
            moved, added = (float(theory.joint_loss(name, epsilon, moved=moved)) for moved in (True, False))
            deleted = max(added, inserted_and_deleted(name, epsilon))
            table.add_row(str(epsilon), f"{2 * epsilon:g}", name, *(f"{loss:.3f}" for loss in (moved, added, deleted)))
    console.print(table)


def inserted_and_deleted(algorithm: str, epsilon: float) -> float:
    """The loss about a user who came before the reading and was deleted after it, against one who never came.

    Seen as 1, and an output far below: ``R(1) * (p_init + (1 - p_init) e^x)``, x as in `theory.joint_loss`.
    """
    pair = theory.dwork_pair(epsilon) if algorithm == "dwork" else theory.symmetric_pair(epsilon)
    p_init, p_upd = (float(p) for p in pair)
    x = epsilon / (p_upd - p_init)
    return log(p_upd / p_init) + log(p_init + (1 - p_init) * exp(x))


def show_times(console: Console) -> None:
    """The time of one complete run with the system's coins."""
    stream = uniform(np.random.default_rng(1))
    rows = [(sample, kind) for sample in SAMPLES for kind in ALGORITHMS]
    best = {(sample, kind.__name__): float("inf") for sample, kind in rows}
    for _ in track(range(30), description="timing", transient=True):  # the first round compiles
        for sample, kind in rows:
            start = time.perf_counter()
            est = kind(USERS, 0.2, sample)
            est.update_many(stream)
            est.estimate()
            row = sample, kind.__name__
            best[row] = min(best[row], time.perf_counter() - start)
    table = Table("m", "algorithm", "ms", "of Dwork", title=f"one run, {EVENTS:,} events on {USERS:,} users")
    for (sample, name), seconds in best.items():
        table.add_row(str(sample), name, f"{seconds * 1e3:.2f}", f"{seconds / best[sample, 'Dwork']:.1f}")
    console.print(table)


def main() -> None:
    """Read the options and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    tables: dict[str, Callable[[Console], None]] = {
        "errors": lambda console: show_errors(options.runs, console),
        "sizes": show_sizes,
        "losses": show_losses,
        "times": show_times,
    }
    parser.add_argument("table", nargs="?", choices=tables, help="default: all")
    parser.add_argument("--runs", type=int, default=300)
    options = parser.parse_args()
    warnings.simplefilter("ignore", paper.NotPrivateAsPrinted)
    console = Console(width=120)
    for name in [options.table] if options.table else tables:
        tables[name](console)


if __name__ == "__main__":
    main()

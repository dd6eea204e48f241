"""How much better a series gets by the curve that never falls: the numbers of docs/explanation/continual.md.

    python benchmarks/series.py

The visits are those of the year of `epidemic.py`: a million people, of whom one after the other has ever been to a
clinic. Several estimators with seeded coins are fed the same year, and each is released every week, day or hour.
"""

from dataclasses import dataclass, field

import numpy as np
from rich.console import Console
from rich.table import Table

import panprivacy as pp
from epidemic import DAYS, EPSILON, HOURS, PEOPLE, epidemic
from panprivacy.testing import SeededCoins

EVERY = {"week": 7 * HOURS, "day": HOURS, "hour": 1}
RUNS = 5


@dataclass
class Run:
    """One estimator, its releases, and the truth at each of them."""

    est: pp.Density
    every: int
    """Hours between two releases."""
    releases: list[pp.Release] = field(default_factory=list)
    truth: list[float] = field(default_factory=list)

    def errors(self) -> tuple[float, float, float]:
        """Mean squared error of the releases and of their curve, and the deepest fall from one to the next."""
        raw = np.array([release.raw_density for release in self.releases])
        curve = np.array(pp.monotone(self.releases).densities)
        truth = np.array(self.truth)
        return float(np.mean((raw - truth) ** 2)), float(np.mean((curve - truth) ** 2)), float(-np.diff(raw).min())


def watch_the_year() -> dict[str, list[Run]]:
    """Feed all estimators the same visits."""
    runs = {
        name: [
            Run(pp.Density(PEOPLE, EPSILON, releases=DAYS * HOURS // every, coins=SeededCoins(seed)), every)
            for seed in range(RUNS)
        ]
        for name, every in EVERY.items()
    }
    for hour in epidemic():
        for run in (run for each in runs.values() for run in each):
            run.est.update_many(hour.visitors)
            if (hour.number + 1) % run.every == 0:
                run.releases.append(run.est.release())
                run.truth.append(hour.ever)
    return runs


def main() -> None:
    """Print the table."""
    console = Console(width=140)
    with console.status("a year passes"):
        runs = watch_the_year()
    table = Table(
        "a release every", "releases", "error of a release", "of the curve", "squared, times less", "deepest fall"
    )
    for name, each in runs.items():
        raw, curve, fall = np.mean([run.errors() for run in each], axis=0)
        cells = f"{raw**0.5:.4f}", f"{curve**0.5:.4f}", f"{raw / curve:.1f}", f"{fall:.4f}"
        table.add_row(name, f"{len(each[0].releases):,}", *cells)
    console.print(
        f"Root mean squared errors of the density, {PEOPLE:,} users, epsilon {EPSILON:g} in all, {RUNS} runs:"
    )
    console.print(table)


if __name__ == "__main__":
    main()

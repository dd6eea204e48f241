"""The error of groups and categories, measured against what they say of themselves.

    python benchmarks/answers_groups.py                                      # the table, 200 runs and more a row
    python benchmarks/answers_groups.py --figure docs/img/groups.png         # the picture of docs/explanation/groups.md

Of each run every group counts, so 200 runs of ten categories are 2,000 estimates. Coins are seeded, and keys are new in
each run.
"""

import argparse
from collections.abc import Iterator
from math import sqrt
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from rich.table import Table

import panprivacy as pp
from panprivacy.estimates.plots import BLUE, GREY, ORANGE, look, save
from panprivacy.testing import SeededCoins

RUNS = 200
UNIVERSE = 10**6
CATEGORIES = 10
OFTEN = 200_000
"""Users whose appearances are counted."""
SHARE = 0.5
"""Of the users, in every category: where sampling errs most."""


class Measured(NamedTuple):
    """One figure: what was measured, the standard error that was designed, the one measured, and coverage."""

    what: str
    designed: float
    measured: float
    coverage: float


def rows(runs: int = RUNS) -> Iterator[Measured]:
    """Every figure of groups and categories."""
    yield categories(runs)
    yield groups(runs, (100_000,) * 10, "ten groups of 100,000 users")
    yield groups(runs, (2_000, 500, 100), "groups of 2,000, 500 and 100 users")
    yield total(runs)
    yield counts(runs)
    yield often(runs, "ten groups of 20,000 users", groups=np.arange(OFTEN) // 20_000)
    yield often(runs, "ten categories of 200,000 users", categories=range(10))


def categories(runs: int) -> Measured:
    """Ten categories, a million users, epsilon 1: each user is asked about one, and half of them are in each."""
    coins, seen = SeededCoins(1), np.arange(round(SHARE * UNIVERSE))
    found = []
    for _ in track(range(runs), description="categories", transient=True):
        est = pp.Density(UNIVERSE, 1.0, categories=range(CATEGORIES), coins=coins)
        for category in range(CATEGORIES):
            est.update_many(seen, category)
        found.append([_of(row, SHARE, est.density_stderr_at(SHARE, row.group)) for row in est.release().groups])
    return _measured("Density, 10 categories, 10^6 users: density", est.density_stderr_at(SHARE), found)


def groups(runs: int, sizes: tuple[int, ...], what: str) -> Measured:
    """Groups of these sizes, in each of which a quarter has appeared."""
    coins = SeededCoins(2)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    seen = np.arange(0, sum(sizes), 4)
    found = []
    for _ in track(range(runs), description=what, transient=True):
        est = pp.Density(sum(sizes), 1.0, groups=labels, coins=coins)
        est.update_many(seen)
        found.append([_of(row, 0.25, est.density_stderr_at(0.25, row.group)) for row in est.release().groups])
    return _measured(f"Density, {what}: density", est.density_stderr_at(0.25, 0), found)


def total(runs: int) -> Measured:
    """The sum of a hundred groups, each with noise of its own."""
    coins, universe = SeededCoins(3), 100_000
    found = []
    for _ in track(range(8 * runs), description="totals", transient=True):
        est = pp.Density(universe, 1.0, groups=np.arange(universe) // 1000, coins=coins)
        est.update_many(np.arange(0, universe, 4))
        found.append([_of(est.release(), 0.25, est.density_stderr_at(0.25))])
    return _measured("Density, the total of 100 groups of 1,000 users", est.density_stderr_at(0.25), found)


def counts(runs: int) -> Measured:
    """Four categories of a `DistinctCount`, the first with 200,000 users, each further one with half as many."""
    coins, sizes = SeededCoins(4), [200_000, 100_000, 50_000, 25_000]
    found = []
    for _ in track(range(2 * runs), description="counts", transient=True):
        est = pp.DistinctCount(1.0, categories=range(4), coins=coins)
        for category, size in enumerate(sizes):
            est.update_many(np.arange(size), category)
        each = est.release().groups
        found.append(
            [
                ((row.raw_count - n) / est.count_stderr_at(n), row.count_interval[0] <= n <= row.count_interval[1])
                for row, n in zip(each, sizes, strict=True)
            ]
        )
    return _measured("DistinctCount, 4 categories: relative", est.count_stderr_at(sizes[0]) / sizes[0], found)


def often(runs: int, what: str, **divided: Any) -> Measured:
    """How often users appear, up to four times, in ten groups or categories: a quarter each never, once, twice, thrice.

    In a category everybody appears that often; in a group, only its own users can.
    """
    coins, found = SeededCoins(5), []
    ids = np.repeat(np.arange(OFTEN), np.arange(OFTEN) % 4)
    for _ in track(range(runs), description=what, transient=True):
        est = pp.Counts(OFTEN, 1.0, up_to=4, coins=coins, **divided)
        for category in divided.get("categories", [None]):
            est.update_many(ids, category)
        rows = est.release().groups
        found.append([each for row in rows for each in _shares_of(row, (0.75, 0.5, 0.25, 0.0))])
    return _measured(f"Counts up to 4, {what}: P(n >= j)", max(rows[0].at_least_stderr), found)


def _shares_of(row: Any, truth: tuple[float, ...]) -> list[tuple[float, bool]]:
    """What `_of` says of an estimate, of each share of a group."""
    told = zip(row.raw_at_least, row.at_least_stderr, row.at_least_interval, truth, strict=True)
    return [((raw - true) / stderr, low <= true <= high) for raw, stderr, (low, high), true in told]


def _of(row: Any, truth: float, stderr: float) -> tuple[float, bool]:
    """The error of an estimate in standard errors, and whether its interval holds the truth."""
    low, high = row.density_interval
    return (row.raw_density - truth) / stderr, low <= truth <= high


def _measured(what: str, designed: float, found: list[list[tuple[float, bool]]]) -> Measured:
    flat: NDArray[np.float64] = np.array(found, dtype=np.float64).reshape(-1, 2)
    quotient = sqrt(float(np.mean(flat[:, 0] ** 2)))
    return Measured(what, designed, designed * quotient, float(flat[:, 1].mean()))


def draw(path: Path) -> None:
    """Draw the standard error of a group against its size, and of a category against how many there are."""
    from matplotlib.figure import Figure

    with look():
        figure = Figure(figsize=(9, 3.9), layout="constrained")
        left, right = figure.subplots(1, 2)
        sizes = np.unique(np.geomspace(10, 10**6, 60).astype(int))
        for epsilon, colour in ((1.0, BLUE), (3.0, ORANGE)):
            small = sizes[:-12]
            errors = [
                pp.Density(int(2 * n), epsilon, groups=[0] * n + [1] * n).density_stderr_at(0.5, 0) for n in small
            ]
            left.plot(small, errors, color=colour, label=f"epsilon {epsilon:g}")
        left.axhline(12**-0.5, color=GREY, linewidth=1, linestyle=":")
        left.annotate(
            "a guess is as good", (3000, 12**-0.5), (0, 3), textcoords="offset points", color=GREY, fontsize=8
        )
        left.set(xscale="log", yscale="log", xlabel="users in the group", ylabel="standard error of its density")
        left.set_title("A group errs by its own size", loc="left")
        left.legend()
        kinds = np.unique(np.geomspace(1, 1000, 25).astype(int))
        asked = [
            pp.Density(UNIVERSE, 1.0, categories=range(int(k)), key=bytes(16)).density_stderr_at(0.5) for k in kinds
        ]
        every = [pp.Density(UNIVERSE, 1.0 / int(k)).density_stderr_at(0.5) for k in kinds if k <= 40]
        right.plot(kinds, asked, color=BLUE, label="one category a user, which the key chooses")
        right.plot(kinds[kinds <= 40], every, color=GREY, linestyle="--", label="a bit for every category")
        right.set(xscale="log", yscale="log", xlabel="categories", ylabel="standard error of a density")
        right.set_title("A million users, epsilon 1", loc="left")
        right.legend()
        save(figure, path)


def main() -> None:
    """Read the options, print the table, and draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--figure", type=Path)
    options = parser.parse_args()
    if options.figure:
        draw(options.figure)
        return
    table = Table("", "designed", "measured", "measured / designed", "95 % intervals hold")
    for row in rows(options.runs):
        quotient = row.measured / row.designed
        table.add_row(row.what, f"{row.designed:.5f}", f"{row.measured:.5f}", f"{quotient:.3f}", f"{row.coverage:.1%}")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()

"""The error of `DistinctCount` against the number of users: tables, and the figure of docs/explanation/distinct.md.

    python benchmarks/distinct_error.py                                    # the tables, 200 runs a row
    python benchmarks/distinct_error.py --figure docs/img/distinct-error.png

Crowds are drawn from the exact law of the cells that they occupy and released by the shipping code, so a billion users
take no longer than a thousand. The figure needs pip install '.[bench]'.
"""

import argparse
from math import ceil, log2, sqrt
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from rich.table import Table

import panprivacy as pp
from panprivacy import theory
from panprivacy.estimates.plots import COLOURS, GREY, NOT_PRIVATE, look, save
from panprivacy.memory.scratch import Scratch
from panprivacy.testing import SeededCoins

EPSILON = 1.0
"""That of the figure."""
COUNTS = (0, 1, 1000, 10**4, 10**5, 10**6, 10**7, 10**9)
UNIVERSE = 10**9
"""What the algorithms for a known universe are told."""


class Measured(NamedTuple):
    """What many releases of crowds of one size gave."""

    stated: float
    stderr: float
    covered: float


def crowd(users: int, levels: int, buckets: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """The cells that so many users occupy: first how many are in each level, then in which buckets."""
    shares = np.ldexp(1.0, -np.minimum(np.arange(1, levels + 1), levels - 1))
    cells = [np.empty(0, dtype=np.int64)]
    for level, inside in enumerate(rng.multinomial(users, shares)):
        if inside > 100 * buckets:  # a bucket stays empty once in e^100
            occupied = np.arange(buckets)
        else:
            occupied = np.flatnonzero(rng.multinomial(inside, np.full(buckets, 1 / buckets)))
        cells.append(level * buckets + occupied)
    return np.concatenate(cells)


def measure(users: int, buckets: int, epsilon: float, runs: int) -> Measured:
    """Release so many crowds of this size."""
    rng = np.random.default_rng(users)
    releases = []
    for run in track(range(runs), description=f"{users:,} users in {buckets:,} buckets", transient=True):
        est = pp.DistinctCount(epsilon, buckets, coins=SeededCoins(run))
        cells = crowd(users, est.levels, buckets, rng).astype(np.uint64)
        with Scratch() as scratch:
            est._table.redraw(cells, est._ledger.pair.present, est._coins, scratch)
        releases.append(est.release())
    errors = np.array([r.raw_count - users for r in releases])
    covered = np.mean([r.count_interval[0] <= users <= r.count_interval[1] for r in releases])
    return Measured(est.count_stderr_at(users), sqrt(np.mean(errors**2)), float(covered))


def report(buckets: int, epsilon: float, runs: int, console: Console) -> dict[int, Measured]:
    """Print one table: a number of buckets, all counts."""
    est = pp.DistinctCount(epsilon, buckets)
    size = f"epsilon {epsilon:g}, {est.levels} levels x {buckets:,} buckets, {est.memory:,} bytes"
    table = Table("users", "bound", "measured", "measured / bound", "95 % intervals hold", title=f"{size}, {runs} runs")
    found = {}
    for users in COUNTS:
        found[users] = got = measure(users, buckets, epsilon, runs)
        bound, error = got.stated, got.stderr
        texts = [f"{x / users:.2%}" if users >= 1000 else f"{x:.0f} users" for x in (bound, error)]
        table.add_row(f"{users:,}", *texts, f"{error / bound:.2f}", f"{got.covered:.1%}")
    console.print(table)
    return found


def report_merges(console: Console) -> None:
    """Print what a merge of overlapping tables costs."""
    tables = (1, 2, 3, 4)
    table = Table("epsilon", *(f"{k} tables" for k in tables), title="relative error of a merge of overlapping tables")
    for epsilon in (1.0, 2.0, 4.0):
        parts = [pp.DistinctCount(epsilon, key=bytes(16)) for _ in tables]
        merges = [pp.merge(parts[:k], overlapping=True) for k in tables]
        cells = [f"{merged.relative_error:.1%} (state {merged._ledger.pair.loss:.2f})" for merged in merges]
        table.add_row(f"{epsilon:g}", *cells)
    console.print(table)


def hyperloglog(users: int, runs: int, lg_buckets: int) -> float:
    """The measured relative error of a DataSketches HLL, which is not private."""
    from datasketches import hll_sketch, tgt_hll_type

    errors = []
    for run in track(range(runs), description=f"HLL, {users:,} users", transient=True):
        sketch = hll_sketch(lg_buckets, tgt_hll_type.HLL_6)
        for user in range(run * users, (run + 1) * users):
            sketch.update(user)
        errors.append(sketch.get_estimate() / users - 1)
    return sqrt(np.mean(np.square(errors)))


def printed(name: str, users: NDArray[np.float64], memory: int) -> NDArray[np.float64]:
    """The relative error of one of the paper's algorithms in that memory, with 64-bit ids, claiming EPSILON."""
    ids = 8 * memory // 65
    if name == "ppds":
        level = ceil(log2(UNIVERSE / ids)) - 1  # about half of the users that it samples are in its set
        squared = theory.mse(name, EPSILON / 2, None, users / UNIVERSE, UNIVERSE, level=level)
    else:
        squared = theory.mse(name, EPSILON / 2, ids, users / UNIVERSE, UNIVERSE)
    return np.asarray(np.sqrt(squared) / (users / UNIVERSE))


def draw(found: dict[int, Measured], path: Path) -> None:
    """Draw relative error against the number of users, everything in the same memory."""
    est = pp.DistinctCount(EPSILON)
    counts = np.geomspace(100, UNIVERSE, 200)
    figure = Figure(figsize=(8.5, 6.0), layout="constrained")
    axes, mine = figure.subplots(), COLOURS["DistinctCount"]
    model = [est.count_stderr_at(n) / n for n in counts]
    axes.plot(counts, model, "-", color=mine, lw=2.5, label="DistinctCount, model")
    at = [n for n in found if n >= 100]
    axes.plot(at, [found[n].stderr / n for n in at], "v", color=mine, ms=8, label="DistinctCount, measured")
    sketched = [10**4, 10**5, 10**6]
    errors = [hyperloglog(n, min(200, 2 * 10**7 // n), 14) for n in sketched]
    axes.plot(
        sketched, errors, "s", color=GREY, ms=6, label="HLL of DataSketches (not private), measured", **NOT_PRIVATE
    )
    density = pp.Density(UNIVERSE, EPSILON, sample=8 * est.memory)
    known = [density.density_stderr_at(n / UNIVERSE) * UNIVERSE / n for n in counts]
    axes.plot(counts, known, "-", color=COLOURS["Density"], label="Density, sampling $10^9$ known users")
    for name, width in {"OptBern": 4.0, "PPDS": 1.4, "Dwork": 1.6}.items():  # the first two lie on each other
        error = printed(name.lower(), counts, est.memory)
        label = f"{name} as printed (not private), $10^9$ known users"
        axes.plot(counts, error, color=COLOURS[name], label=label, **(NOT_PRIVATE | {"linewidth": width}))
    finish(axes, est)
    figure.legend(loc="outside lower center", ncols=2)
    save(figure, path)


def finish(axes: Axes, est: pp.DistinctCount) -> None:
    """Scales, labels and words."""
    axes.set(xscale="log", yscale="log", xlim=(100, 1.3 * UNIVERSE), ylim=(1e-3, 1e2))
    axes.set_xlabel("different users in the stream")
    axes.set_ylabel("relative standard error of their number")
    axes.set_title(f"Counting in {est.memory:,} bytes at epsilon {EPSILON:g}", loc="left")
    axes.axhline(1, color="black", lw=0.6)
    axes.annotate("as wrong as it is large", (1e4, 1), (0, 3), textcoords="offset points", fontsize=8)


def main() -> None:
    """Read the options, print the tables and draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--epsilon", type=float, default=EPSILON)
    parser.add_argument("--buckets", type=int, action="append", help="default: 4096 and 65536")
    parser.add_argument("--figure", type=Path)
    options = parser.parse_args()
    console = Console()
    report_merges(console)
    for buckets in options.buckets or (4096, 65_536):
        report(buckets, options.epsilon, options.runs, console)
    if options.figure:
        with look():
            draw(report(4096, EPSILON, options.runs, console), options.figure)


if __name__ == "__main__":
    main()

"""Time per event of `Density.update_many`, beside non-private sketches of the same ids on one core.

    python benchmarks/updates.py            # the table; needs pip install '.[bench]'

Every row is the best of several rounds, and the rounds of all rows are interleaved, so that a slow spell of the
machine hits them alike. Compare the ratios, not the nanoseconds.
"""

import os

os.environ["POLARS_MAX_THREADS"] = "1"  # read once, when Polars is imported

import argparse
import time
import timeit
from collections.abc import Callable
from functools import partial

import duckdb
import numpy as np
import polars as pl
from rich.console import Console
from rich.progress import track
from rich.table import Table

import panprivacy as pp


def contestants(universe: int, events: int) -> dict[str, Callable[[], object]]:
    """What is timed: name and call."""
    ids = np.random.default_rng(1).integers(0, universe, events, dtype=np.uint64)
    column = pl.Series("user", ids)
    database = duckdb.connect(config={"threads": 1})
    database.register("events", column.to_frame().to_arrow())
    everyone = pp.Density(universe, epsilon=1.0)
    some = pp.Density(universe, epsilon=1.0, sample=universe // 20)
    return {
        "Density, all users": lambda: everyone.update_many(ids),
        "Density, 5 % sample": lambda: some.update_many(ids),
        "Polars approx_n_unique": column.approx_n_unique,
        "DuckDB approx_count_distinct": lambda: database.sql(
            "select approx_count_distinct(user) from events"
        ).fetchall(),
    }


def best_times(
    calls: dict[str, Callable[[], object]], rounds: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """The least seconds of each call by this clock, the rounds interleaved."""
    best = dict.fromkeys(calls, float("inf"))
    for _ in track(range(rounds), description="timing", transient=True):
        for name, call in calls.items():
            start = clock()
            call()
            best[name] = min(best[name], clock() - start)
    return best


def report(universe: int, events: int, rounds: int, console: Console) -> None:
    """Print one table: a universe, all contestants."""
    calls = contestants(universe, events)
    for call in calls.values():
        call()  # compile and warm up
    best = best_times(calls, rounds)
    polars, duck = best["Polars approx_n_unique"], best["DuckDB approx_count_distinct"]
    table = Table("", "ns an event", "of Polars", "of DuckDB", title=f"{events:,} events, {universe:,} users, one core")
    for name, seconds in best.items():
        table.add_row(name, f"{seconds / events * 1e9:.2f}", f"{seconds / polars:.2f}", f"{seconds / duck:.2f}")
    console.print(table)


def single(console: Console) -> None:
    """Print the time of one `update` from Python."""
    for name, sample in (("all users", None), ("5 % sample, sampled user", 50_000)):
        est = pp.Density(1_000_000, epsilon=1.0, sample=sample)
        user = next(u for u in range(1_000_000) if est._slots.slot(u) >= 0)
        seconds = min(timeit.repeat(partial(est.update, user), number=20_000, repeat=7)) / 20_000
        console.print(f"one update(user), {name}: {seconds * 1e6:.2f} microseconds")


def main() -> None:
    """Read the options and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=20_000_000)
    parser.add_argument("--universe", type=int, action="append", help="default: 10^7 and 10^9")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    pp.use_threads(1)
    console = Console()
    for universe in options.universe or (10**7, 10**9):
        report(universe, options.events, options.rounds, console)
    single(console)


if __name__ == "__main__":
    main()

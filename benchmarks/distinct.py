"""Time per event of `DistinctCount.update_many`, beside non-private sketches of the same ids on one core.

    python benchmarks/distinct.py            # the table; needs pip install '.[bench]'

Every row is the best of several rounds in processor time, and the rounds of all rows are interleaved, so that a slow
spell of the machine hits them alike. Compare the ratios, not the nanoseconds.
"""

import os

os.environ["POLARS_MAX_THREADS"] = "1"  # read once, when Polars is imported

import argparse
import time
import timeit
from collections.abc import Callable
from functools import partial
from uuid import UUID

import duckdb
import numpy as np
import polars as pl
from rich.console import Console
from rich.table import Table

import panprivacy as pp
from updates import best_times


def contestants(column: pl.Series) -> dict[str, Callable[[], object]]:
    """What is timed: name and call. Polars comes first: the others are measured by it."""
    database = duckdb.connect(config={"threads": 1})
    database.register("events", column.to_frame("user").to_arrow())
    small = pp.DistinctCount(epsilon=1.0)
    large = pp.DistinctCount(epsilon=1.0, buckets=65_536)
    return {
        "Polars approx_n_unique": column.approx_n_unique,
        "DuckDB approx_count_distinct": lambda: database.sql(
            "select approx_count_distinct(user) from events"
        ).fetchall(),
        "DistinctCount, 4,096 buckets": lambda: small.update_many(column),
        "DistinctCount, 65,536 buckets": lambda: large.update_many(column),
    }


def report(title: str, column: pl.Series, rounds: int, console: Console) -> None:
    """Print one table: a column of ids, all contestants."""
    calls = contestants(column)
    for call in calls.values():
        call()  # compile and warm up
    best = best_times(calls, rounds, time.process_time)
    polars = next(iter(best.values()))
    table = Table("", "ns an event", "of Polars", title=f"{len(column):,} {title}, one core")
    for name, seconds in best.items():
        table.add_row(name, f"{seconds / len(column) * 1e9:.2f}", f"{seconds / polars:.2f}")
    console.print(table)


def single(console: Console) -> None:
    """Print the time of one `update` from Python."""
    est = pp.DistinctCount(epsilon=1.0)
    for name, user in (("integer", 12_345), ("string", "user 12345"), ("UUID", UUID(int=12_345))):
        seconds = min(timeit.repeat(partial(est.update, user), number=20_000, repeat=7)) / 20_000
        console.print(f"one update(user), {name}: {seconds * 1e6:.2f} microseconds")


def main() -> None:
    """Read the options and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=20_000_000)
    parser.add_argument("--users", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    pp.use_threads(1)
    console = Console()
    ids = np.random.default_rng(1).integers(0, options.users, options.events, dtype=np.uint64)
    column = pl.Series("user", ids)
    report("uint64 ids", column, options.rounds, console)
    texts = column.to_frame().select(pl.lit("user-") + pl.col("user").cast(pl.String)).to_series()
    report("string ids", texts, options.rounds, console)
    single(console)


if __name__ == "__main__":
    main()

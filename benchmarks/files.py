"""From a file on disk to an answer: panprivacy beside DuckDB's `approx_count_distinct`, two threads each.

    python benchmarks/files.py            # the table; needs pip install '.[bench]', 1 GB of disk, some minutes
    python benchmarks/files.py --events 5_000_000 --rounds 3

Every row is the best of several rounds, and the rounds of all rows are interleaved, so that a slow spell of the
machine hits them alike. Compare the ratios, not the seconds. The processor time, of all threads together, is what to
look at on a machine that has other work.
"""

import os

os.environ["POLARS_MAX_THREADS"] = "2"  # read once, when Polars is imported

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np
import polars as pl
from rich.console import Console
from rich.progress import track
from rich.table import Table

import panprivacy as pp
from panprivacy.estimators.distinct import DistinctCount
from panprivacy.ingest import Columns, read
from panprivacy.ingest.feed import BatchFeeder

USERS = 10_000_000
LIMITS = {"ints.parquet": 1.1, "ints.csv": 1.1, "strings.parquet": 1.1}
LISTED, LISTED_LIMIT = "Density, listed", 2.0


class Cost(NamedTuple):
    """Seconds on the clock and on all processors together."""

    wall: float
    processor: float


def write_files(folder: Path, events: int) -> None:
    """Write the files: integers as Parquet and CSV, and two fifths as many strings as Parquet."""
    ids = pl.Series("user", np.random.default_rng(1).integers(0, USERS, events)).to_frame()
    ids.write_parquet(folder / "ints.parquet")
    ids.write_csv(folder / "ints.csv")
    names(ids.head(2 * events // 5).to_series()).to_frame("user").write_parquet(folder / "strings.parquet")


def names(ids: pl.Series) -> pl.Series:
    """A text for each integer."""
    return pl.select(pl.format("user-{}", ids.cast(pl.String).str.zfill(8))).to_series()


def feed(est: Any, file: Path) -> Any:
    """Read a file into an estimator and release."""
    columns = Columns(("user",))
    to = BatchFeeder(est, columns)
    for batch in read([str(file)], columns):
        to.take(batch)
    return est.release()


def contestants(folder: Path) -> dict[tuple[str, str], Callable[[], object]]:
    """What is timed, by file and name."""
    database = duckdb.connect(config={"threads": 2})

    def ask(file: Path) -> object:
        return database.execute(f"select approx_count_distinct(user) from '{file}'").fetchall()

    calls: dict[tuple[str, str], Callable[[], object]] = {}
    for name in LIMITS:
        file = folder / name
        calls[name, "DuckDB"] = lambda file=file: ask(file)  # type: ignore[misc]
        if name == "strings.parquet":
            listed = pp.Users(names(pl.int_range(USERS, eager=True)))
            calls[name, LISTED] = lambda file=file, who=listed: feed(pp.Density(who, 1.0), file)  # type: ignore[misc]
        else:
            calls[name, "Density"] = lambda file=file: feed(pp.Density(USERS, 1.0), file)  # type: ignore[misc]
        calls[name, "DistinctCount"] = lambda file=file: feed(DistinctCount(1.0), file)  # type: ignore[misc]
    return calls


def timed(call: Callable[[], object]) -> Cost:
    """Run once."""
    used, start = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    call()
    wall, now = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF)
    return Cost(wall, now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime)


def best_costs(calls: dict[tuple[str, str], Callable[[], object]], rounds: int) -> dict[tuple[str, str], Cost]:
    """The least costs of each call, the rounds interleaved; the first round warms up and does not count."""
    seen: dict[tuple[str, str], list[Cost]] = {key: [] for key in calls}
    for _ in track(range(rounds + 1), description="timing", transient=True):
        for key, call in calls.items():
            seen[key].append(timed(call))
    return {
        key: Cost(min(cost.wall for cost in costs[1:]), min(cost.processor for cost in costs[1:]))
        for key, costs in seen.items()
    }


def report(events: int, rounds: int, console: Console) -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder:
        write_files(Path(folder), events)
        costs = best_costs(contestants(Path(folder)), rounds)
    table = Table("file", "", "seconds", "of DuckDB", "processor seconds", "of DuckDB", "limit")
    for (file, name), cost in costs.items():
        duck = costs[file, "DuckDB"]
        ratio, work = f"{cost.wall / duck.wall:.2f}", f"{cost.processor / duck.processor:.2f}"
        limit = {"DuckDB": "", LISTED: f"{LISTED_LIMIT}"}.get(name, f"{LIMITS[file]}")
        table.add_row(file, name, f"{cost.wall:.2f}", ratio, f"{cost.processor:.2f}", work, limit)
    console.print(table)


def main() -> None:
    """Read the options and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=50_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    pp.use_threads(2)
    report(options.events, options.rounds, Console())


if __name__ == "__main__":
    main()

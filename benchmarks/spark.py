"""Spark into a state folder, beside a pass that only counts rows and Spark's own counts of distinct ids.

    python benchmarks/spark.py               # needs pip install '.[spark,bench]', Java, 2 GB of disk, ten minutes
    python benchmarks/spark.py --events 2_000_000 --rounds 1

All four read the same Parquet files in one session, with encrypted shuffle files, on two cores: a `mapInArrow` that
only counts rows, `update` of a `Density` of 10^7 users in 64 shards, and Spark's exact and approximate counts of
distinct ids. The rounds of all of them are interleaved, and the best of each is shown: compare the ratios, not the
seconds. Each does its work once before the clock starts, on few ids: Python workers and Java are warm then, as in a
stream. The time of the processors, Java's and that of all Python workers, is what to look at on a machine that has
other work.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

import panprivacy as pp
from panprivacy import spark as pps
from panprivacy.spark import NEEDED

USERS, EVENTS, FILES = 10_000_000, 50_000_000, 8
BARE, OURS, EXACT, APPROXIMATE = (
    "rows counted, mapInArrow",
    "panprivacy.spark.update",
    "count_distinct",
    "approx_count_distinct",
)
LIMITS = {BARE: 1.3, EXACT: 0.5}


def session(local: str, memory: str) -> Any:
    """A session on two cores that `update` accepts."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", memory)
    for name, value in (dict.fromkeys(NEEDED, "true") | {"spark.local.dir": local, "spark.log.level": "ERROR"}).items():
        builder = builder.config(name, value)
    return builder.config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false").getOrCreate()


def write_events(place: Path, events: int, seed: int) -> Path:
    """Ids of users drawn evenly, in files of one size."""
    place.mkdir()
    draw = np.random.default_rng(seed)
    for number in range(FILES):
        ids = pa.table({"id": draw.integers(0, USERS, events // FILES)})
        pq.write_table(ids, place / f"{number}.parquet", compression="snappy")
    return place


def count_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The least that a pass through Python can do."""
    rows = sum(batch.num_rows for batch in batches)
    yield pa.record_batch([pa.array([rows], pa.int64())], ["rows"])


def works(spark: Any, folder: pp.StateFolder) -> dict[str, Callable[[Path], Any]]:
    """What is measured, each of a folder of files."""
    from pyspark.sql import functions as f

    def read(place: Path) -> Any:
        return spark.read.parquet(str(place))

    return {
        BARE: lambda place: read(place).mapInArrow(count_rows, "rows bigint").agg(f.sum("rows")).collect(),
        OURS: lambda place: pps.update(read(place), "id", folder),
        APPROXIMATE: lambda place: read(place).agg(f.approx_count_distinct("id")).collect(),
        EXACT: lambda place: read(place).agg(f.count_distinct("id")).collect(),
    }


class Cost(NamedTuple):
    """Seconds on the clock, and on all processors together."""

    wall: float
    processor: float


def measured(named: dict[str, Callable[[Path], Any]], place: Path, rounds: int) -> dict[str, Cost]:
    """The least of several rounds."""
    taken: dict[str, list[Cost]] = {name: [] for name in named}
    for _ in range(rounds):
        for name, work in named.items():
            start, before = time.perf_counter(), processor_time()
            work(place)
            taken[name].append(Cost(time.perf_counter() - start, processor_time() - before))
            print(f"{place.name} {name}: {taken[name][-1]}", file=sys.stderr)
    return {name: Cost(*(min(each) for each in zip(*costs, strict=True))) for name, costs in taken.items()}


def processor_time() -> float:
    """Seconds that this process, and all that it has started, have worked."""
    fields = {
        int(stat.parent.name): stat.read_text().rpartition(")")[2].split() for stat in Path("/proc").glob("[0-9]*/stat")
    }
    ours, new = {os.getpid()}, {os.getpid()}
    while new:
        new = {process for process, stat in fields.items() if int(stat[1]) in new}
        ours |= new
    ticks = sum(int(tick) for process in ours for tick in fields[process][11:15])  # its own, and of children that ended
    return ticks / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--events", type=int, default=EVENTS, help="how many ids are in the files that are compared")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument(
        "--grow", type=float, nargs="*", default=[0.25, 1, 4], help="the same for so many times as many"
    )
    options.add_argument("--shards", type=int, default=64)
    options.add_argument("--memory", default="4g", help="of Java")
    told = options.parse_args()
    columns = [int(told.events * factor) for factor in told.grow]
    table = Table(
        "",
        *(f"{events / 1e6:,g}M ids" for events in columns),
        title="seconds, those of the processors, and each in terms of the bare pass",
    )
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        spark = session(str(place / "local"), told.memory)
        folder = pp.StateFolder.create(place / "folder", universe=USERS, epsilon=1.0, shards=told.shards)
        named, found = works(spark, folder), {}
        few = write_events(place / "few", 80_000, 0)
        for work in named.values():
            work(few)
        for events in columns:
            files = write_events(place / f"{events}", events, events)
            found[events] = measured(named, files, told.rounds if events <= told.events else 1)
            for file in files.iterdir():
                file.unlink()
        spark.stop()
    for work_name in named:
        cells = (_shown(found[n][work_name], found[n][BARE]) for n in columns)
        table.add_row(work_name, *cells)
    Console().print(table)
    if told.events in found:
        for other, limit in LIMITS.items():
            ours, its = found[told.events][OURS], found[told.events][other]
            ratios = (
                f"{ours.wall / its.wall:.2f} of the time and {ours.processor / its.processor:.2f} of the processors"
            )
            print(f"{OURS} takes {ratios} that {other} takes; at most {limit}")


def _shown(cost: Cost, bare: Cost) -> str:
    return (
        f"{cost.wall:.1f} ({cost.wall / bare.wall:.2f}), {cost.processor:.1f} ({cost.processor / bare.processor:.2f})"
    )


if __name__ == "__main__":
    main()

"""Tasks, workers and drivers are killed, run twice, or end too late, and every event counts once.

The folders are of `Counts`, where an event that counts twice shows. A test holds the lock of a shard, so that the task
that feeds this shard waits, does something to that task, and lets the lock go.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cluster import PATIENCE, Cluster, held, kill, offspring, trying, until
from driver import read_stream
from sparks import HERE, UNIVERSE, counted, density, needs_spark, start

import panprivacy as pp
from panprivacy import spark as pps

ONCE = {1: 2000, 2: 1000}
"""How many users came how often, if each event of `write_events` counts once."""

pytestmark = needs_spark


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'panprivacy[spark]'")
    running = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="module")
def spark(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    session = start(
        cluster.master,
        tmp_path_factory.mktemp("local"),
        spark_executor_memory="500m",
        spark_speculation="true",
        spark_speculation_interval="100ms",
        spark_speculation_multiplier="1.1",
        spark_speculation_quantile="0.1",
        spark_speculation_minTaskRuntime="300ms",
        spark_shuffle_io_retryWait="100ms",
    )
    yield session
    session.stop()


def visits(place: Path, shards: int) -> pp.StateFolder:
    return density(place, shards=shards, up_to=8)


def fed(spark: Any, folder: pp.StateFolder, number: int = 1) -> Any:
    """Feed everybody once, in the background; what it returns says when that is done."""
    frame = spark.range(0, UNIVERSE, 1, 3)
    pool = ThreadPoolExecutor(1)
    try:
        return pool.submit(pps.update, frame, "id", folder, batch=("test", number))
    finally:
        pool.shutdown(wait=False)


def test_a_task_that_is_run_twice_counts_once(spark: Any, cluster: Cluster, tmp_path: Path) -> None:
    folder = visits(tmp_path / "folder", shards=2)
    with held(tmp_path / "folder", shard=1):
        done = fed(spark, folder)
        for worker in cluster.workers:  # Spark thinks that the task is slow, and runs it on the other worker, too
            until(lambda: trying(offspring(worker.pid)), "an attempt on each worker")  # noqa: B023 - called at once
    done.result(PATIENCE)
    assert counted(folder) == {1: UNIVERSE}


def test_a_task_that_is_killed_is_run_again(spark: Any, cluster: Cluster, tmp_path: Path) -> None:
    folder = visits(tmp_path / "folder", shards=1)
    with held(tmp_path / "folder", shard=0):
        done = fed(spark, folder)
        (first,) = until(lambda: trying(cluster.processes()), "a task that waits")
        kill(first)
        until(lambda: set(trying(cluster.processes())) - {first}, "another attempt")
    done.result(PATIENCE)
    assert counted(folder) == {1: UNIVERSE}


def test_an_attempt_that_ends_after_the_next_batch_changes_nothing(
    spark: Any, cluster: Cluster, tmp_path: Path
) -> None:
    folder, shard = visits(tmp_path / "folder", shards=1), tmp_path / "folder" / "shard-00000.pp"
    write_events(tmp_path / "events")
    with held(tmp_path / "folder", shard=0):
        query = read_stream(spark, tmp_path)
        (late,) = until(lambda: trying(cluster.processes()), "a task that waits")
        # As if the machine stood still, and its connection broke: Spark gives it up, and goes on elsewhere.
        frozen = cluster.freeze(cluster.worker_of(late))
    try:
        assert query.awaitTermination(PATIENCE)
        assert query.lastProgress["batchId"] == 1
        assert counted(folder) == ONCE
        changed = shard.stat().st_mtime_ns
        with held(tmp_path / "folder", shard=0):
            kill(late, signal.SIGCONT)
            until(lambda: trying([late]), "the late attempt")
        until(lambda: not trying([late]), "the end of the late attempt")
        assert counted(folder) == ONCE
        assert shard.stat().st_mtime_ns == changed
    finally:
        for process in frozen:
            kill(process)


def test_a_worker_that_is_killed_loses_nothing(spark: Any, cluster: Cluster, tmp_path: Path) -> None:
    folder = visits(tmp_path / "folder", shards=3)
    with held(tmp_path / "folder", shard=2):
        done = fed(spark, folder)
        (waiting, *_) = until(lambda: trying(cluster.processes()), "a task that waits")
        for process in cluster.freeze(cluster.worker_of(waiting)):
            kill(process)
    done.result(PATIENCE)
    assert counted(folder) == {1: UNIVERSE}


def write_events(place: Path) -> None:
    """Two files: 2,000 users who come, and 1,000 of them again with 1,000 others."""
    place.mkdir()
    for number, first in enumerate((1000, 2000)):
        pq.write_table(pa.table({"id": pa.array(range(first, first + 2000), pa.int64())}), place / f"{number}.parquet")


def test_another_driver_goes_on_where_one_was_killed(spark: Any, tmp_path: Path) -> None:
    folder = visits(tmp_path / "folder", shards=2)
    write_events(tmp_path / "events")
    before = (tmp_path / "folder" / "shard-00000.pp").stat().st_mtime_ns
    with held(tmp_path / "folder", shard=1):
        driver = subprocess.Popen(
            [sys.executable, str(HERE / "driver.py"), str(tmp_path)],
            env=os.environ | {"PYTHONPATH": f"{HERE.parents[1] / 'src'}:{HERE}"},
        )
        until(lambda: (tmp_path / "folder" / "shard-00000.pp").stat().st_mtime_ns > before, "a shard that is fed")
        for process in [driver.pid, *offspring(driver.pid)][:2]:  # Python, and the Java that it has started
            kill(process)
        driver.wait()
    assert counted(folder) != ONCE
    assert read_stream(spark, tmp_path).awaitTermination(PATIENCE)
    assert counted(folder) == ONCE

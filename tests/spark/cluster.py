"""A standalone master of Spark and two workers on this machine, started from the installed package."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sparks import QUICK_JAVA

from panprivacy.state import StateFile

_LOCK = r"\.shard-[0-9]+\.pp\.lock"
PATIENCE = 300.0  # seconds: this is how long a busy machine may take, and not how long anything takes


class Cluster:
    """Workers are hosts of their own, 127.0.0.1 and 127.0.0.2: Spark runs no two attempts of a task on one host."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._running: list[subprocess.Popen[bytes]] = []
        self.master = self._start("master.Master", "127.0.0.1", r"Starting Spark master at (spark://\S+)")
        self.workers = [self.start_worker(f"127.0.0.{host}") for host in (1, 2)]

    def start_worker(self, host: str) -> subprocess.Popen[bytes]:
        """Another worker, with one core."""
        self._start(
            "worker.Worker", host, None, "--cores", "1", "--memory", "600m", "--work-dir", str(self._place), self.master
        )
        return self._running[-1]

    def processes(self) -> list[int]:
        """What the workers have started."""
        return [process for worker in self.workers for process in offspring(worker.pid)]

    def worker_of(self, process: int) -> subprocess.Popen[bytes]:
        """The worker that has started a process."""
        (found,) = (worker for worker in self.workers if process in offspring(worker.pid))
        return found

    def freeze(self, worker: subprocess.Popen[bytes]) -> list[int]:
        """Kill a worker, stop what it has started where that stands, and start another in its place."""
        stopped = offspring(worker.pid)
        for process in stopped:
            kill(process, signal.SIGSTOP)
        kill(worker.pid)
        worker.wait()
        at = self.workers.index(worker)
        self.workers[at] = self.start_worker(f"127.0.0.{at + 1}")
        return stopped

    def _start(self, what: str, host: str, says: str | None, *more: str) -> str:
        """Start a process; wait until it says something, if it has to be known."""
        import pyspark

        home = Path(pyspark.__file__).parent
        log = self._place / f"{what}-{host}-{len(self._running)}.log"
        command = [
            home / "bin" / "spark-class",
            f"org.apache.spark.deploy.{what}",
            "--host",
            host,
            "--port",
            "0",
            "--webui-port",
            "0",
        ]
        self._place.mkdir(exist_ok=True)
        with log.open("wb") as file:
            self._running.append(
                subprocess.Popen(
                    [*map(str, command), *more],
                    stdout=file,
                    stderr=file,
                    start_new_session=True,
                    env=os.environ
                    | {
                        "SPARK_HOME": str(home),
                        "PYSPARK_PYTHON": sys.executable,
                        "SPARK_DAEMON_MEMORY": "200m",
                        "SPARK_DAEMON_JAVA_OPTS": QUICK_JAVA,
                        "SPARK_LOCAL_IP": host,
                    },
                )
            )
        if says is None:
            return ""
        return str(until(lambda: re.search(says, log.read_text(errors="replace")), f"{what} says {says}")[1])

    def stop(self) -> None:
        """End all that was started, and what those have started."""
        for process in self._running:
            for child in [*offspring(process.pid), process.pid]:
                kill(child)
            process.wait()


def until(ready: Callable[[], Any], what: str) -> Any:
    """Wait for something that is true sooner or later."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if found := ready():
            return found
        time.sleep(0.05)
    raise TimeoutError(f"waited in vain for {what}")


@contextmanager
def held(folder: Path, shard: int) -> Iterator[None]:
    """Hold the lock of a shard: whoever wants to change it waits."""
    with StateFile(folder / f"shard-{shard:05d}.pp").locked():
        yield


# --- processes --------------------------------------------------------------------------------------------------------


def kill(process: int, how: int = signal.SIGKILL) -> None:
    """Send a signal, if there still is that process."""
    try:
        os.kill(process, how)
    except ProcessLookupError:
        return


def offspring(process: int) -> list[int]:
    """The processes that one has started, and those that these have started."""
    children: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        number = int(status.parent.name)
        children.setdefault(parent_of(number), []).append(number)
    found, new = [], children.get(process, [])
    while new:
        found += new
        new = [child for parent in new for child in children.get(parent, [])]
    return found


def trying(among: list[int]) -> list[int]:
    """Which of these try to lock a shard: Python workers that open, for moments, the file of its lock."""
    workers = [process for process in among if "pyspark.daemon" in _read(process, "cmdline")]
    return [process for process in workers if any(_opens_a_lock(process) for _ in range(1000))]


def _opens_a_lock(process: int) -> bool:
    try:
        handles = os.listdir(f"/proc/{process}/fd")  # noqa: PTH208 - quick enough to see it
        return any(re.search(_LOCK, os.readlink(f"/proc/{process}/fd/{handle}")) for handle in handles)  # noqa: PTH115
    except OSError:
        return False


def parent_of(process: int) -> int:
    """Who has started a process."""
    fields = _read(process, "stat").rpartition(")")[2].split()
    return int(fields[1]) if fields else 0


def _read(process: int, what: str) -> str:
    try:
        return Path(f"/proc/{process}/{what}").read_text()
    except OSError:
        return ""

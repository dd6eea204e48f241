"""Time and peak memory of updates, releases, files and starts, beside an earlier revision of this repository.

    python benchmarks/against.py d1657fd            # the revision before scratch was wiped

Each revision runs in a process of its own; the rounds of both are interleaved, so that a slow spell of the machine
hits them alike. Compare the ratios, not the nanoseconds. Commands and starts are processes of their own, once a round.
"""

import argparse
import atexit
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
USERS, EVENTS, BATCH = 10**7, 4_000_000, 1_000


def calls() -> dict[str, tuple[int, Callable[[], object]]]:
    """What is timed: how many events, and the call that feeds them."""
    import numpy as np
    import polars as pl

    import panprivacy as pp

    ids = np.random.default_rng(1).integers(0, USERS, EVENTS)
    few, texts = ids[:BATCH].copy(), pl.Series([f"user {user % 200_000}" for user in ids[:500_000].tolist()])
    everyone, sampled = pp.Density(USERS, 1.0), pp.Density(USERS, 1.0, sample=USERS // 20)
    shard, far = pp.Density(USERS, 1.0, shard=(1, 4)), pp.Density(100 * USERS, 1.0)
    listed, distinct = pp.Density(pp.Users(np.arange(0, 2 * 10**6, 2)), 1.0), pp.DistinctCount(1.0)
    narrow, even, wide = ids.astype(np.int32), ids % 10**6 * 2, ids * 100
    edges, graph = np.stack([ids % 1500, 1500 + ids[::-1] % 1500], axis=1), pp.Density(pp.Edges(3000), 1.0)

    def each(est: Any) -> None:
        for _ in range(10_000):
            est.update(7)

    def many(est: Any) -> Callable[[], object]:
        return lambda: [est.update_many(few) for _ in range(100)]

    return {
        "Density, all users": (EVENTS, lambda: everyone.update_many(ids)),
        "Density, ids of 32 bits": (EVENTS, lambda: everyone.update_many(narrow)),
        "Density, 5 % sample": (EVENTS, lambda: sampled.update_many(ids)),
        "Density, a quarter as shard": (EVENTS, lambda: shard.update_many(ids)),
        "Density, 10^9 users": (EVENTS, lambda: far.update_many(wide)),
        "Density, listed integers": (EVENTS, lambda: listed.update_many(even)),
        "Density, edges": (EVENTS, lambda: graph.update_many(edges)),
        "DistinctCount, integers": (EVENTS, lambda: distinct.update_many(ids)),
        "DistinctCount, texts": (len(texts), lambda: distinct.update_many(texts)),
        "Density, batches of 1,000": (100 * BATCH, many(everyone)),
        "Density, 5 % sample, batches of 1,000": (100 * BATCH, many(sampled)),
        "DistinctCount, batches of 1,000": (100 * BATCH, many(distinct)),
        "Density, one by one": (10_000, lambda: each(everyone)),
        "constructor, a bit drawn": (USERS, lambda: pp.Density(USERS, 1.0)),
    }


def releases() -> dict[str, tuple[int, Callable[[], object]]]:
    """Releases, and a table of counters."""
    import panprivacy as pp

    plain, counts, distinct = (
        pp.Density(USERS // 10, 1.0, releases=10**5),
        pp.Counts(USERS // 10, 1.0, releases=10**5),
        pp.DistinctCount(1.0, releases=10**5),
    )
    return {
        "release, Density": (20, lambda: [plain.release() for _ in range(20)]),
        "release, Counts": (20, lambda: [counts.release() for _ in range(20)]),
        "release, DistinctCount": (20, lambda: [distinct.release() for _ in range(20)]),
        "constructor, Counts": (USERS // 10, lambda: pp.Counts(USERS // 10, 1.0)),
    }


def processes() -> dict[str, tuple[int, Callable[[], object]]]:
    """A command that counts a file, and starts of processes."""
    folder = Path(tempfile.mkdtemp(prefix="panprivacy-against-"))
    atexit.register(shutil.rmtree, folder)
    file, ids = folder / "visits.csv", range(0, 7 * 10**6, 7)
    file.write_text("user,place\n" + "".join(f"{user},north\n" for user in ids))

    def run(*words: str) -> Callable[[], object]:
        return lambda: subprocess.run([sys.executable, *words], check=True, capture_output=True, cwd=folder)

    command = ("-m", "panprivacy")
    counting = f"density {file} --column user --universe {USERS} --epsilon 1 --quiet".split()
    first = f"import panprivacy as pp; pp.Density({USERS}, 1.0).update(7)"
    return {
        "a CSV file of 10^6 rows": (10**6, run(*command, *counting)),
        "start, import": (1, run("-c", "import panprivacy")),
        "start, first update": (1, run("-c", first)),
        "start, --version": (1, run(*command, "--version")),
        "start, density --help": (1, run(*command, "density", "--help")),
    }


def work() -> None:
    """Time all calls once for every line that comes in; the peak of the memory comes with each answer."""
    import resource
    import time

    timed = calls() | releases() | processes()
    for _, call in timed.values():
        call()
    print("ready", flush=True)
    for _ in sys.stdin:
        seconds = {}
        for name, (events, call) in timed.items():
            start = time.perf_counter()
            call()
            seconds[name] = (time.perf_counter() - start) / events
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({"seconds": seconds, "peak": peak}), flush=True)


class Worker:
    """A process that runs one revision."""

    def __init__(self, source: Path) -> None:
        environment = os.environ | {"PYTHONPATH": str(source)}
        command = [sys.executable, __file__, "--work"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
        )
        self._read()

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def round(self) -> dict[str, Any]:
        """Time everything once."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._read())
        return answer

    def end(self) -> None:
        """Let the process go."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def compare(revision: str, rounds: int) -> None:
    """Print times of both revisions and their ratio."""
    from rich.console import Console
    from rich.progress import track
    from rich.table import Table

    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "then"
        subprocess.run(["git", "-C", ROOT, "worktree", "add", "--detach", "--quiet", tree, revision], check=True)
        try:
            workers = [Worker(tree / "src"), Worker(ROOT / "src")]
            answers: list[list[dict[str, Any]]] = [[], []]
            for number in track(range(rounds), description="timing", transient=True):
                for which in (0, 1) if number % 2 else (1, 0):
                    answers[which].append(workers[which].round())
            for worker in workers:
                worker.end()
        finally:
            subprocess.run(["git", "-C", ROOT, "worktree", "remove", "--force", tree], check=True)
    table = Table("", f"{revision}, ns each", "now", "ratio of the least", "of the medians")
    for name in answers[0][0]["seconds"]:
        then, now = ([answer["seconds"][name] for answer in one] for one in answers)
        medians = statistics.median(now) / statistics.median(then)
        table.add_row(
            name, f"{1e9 * min(then):,.2f}", f"{1e9 * min(now):,.2f}", f"{min(now) / min(then):.2f}", f"{medians:.2f}"
        )
    peaks = [one[-1]["peak"] for one in answers]
    table.add_row("peak memory, MiB", f"{peaks[0]:,.0f}", f"{peaks[1]:,.0f}", f"{peaks[1] / peaks[0]:.2f}", "")
    Console().print(table)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Time this revision beside an earlier one.")
    parser.add_argument("revision", nargs="?", default="d1657fd")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        work()
    else:
        compare(given.revision, given.rounds)

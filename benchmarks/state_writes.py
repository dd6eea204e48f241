"""How long it takes to write a state to its file, and what that costs a process that is fed at full speed.

    python benchmarks/state_writes.py                  # 10^4 to 10^8 users, and feeding with and without writes
    python benchmarks/state_writes.py --largest 9      # 10^9 users as well: 250 MB on disk while it runs

Files are written in a new folder of `--folder`, the present one by default: it has to be on the disk that is meant.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
from rich.console import Console
from rich.table import Table

import panprivacy as pp
from panprivacy.cli.output import Output
from panprivacy.cli.run import Run
from panprivacy.state import Snapshot, StateFile

_BATCH = 2**18


def milliseconds(call: object) -> float:
    """How long a call takes."""
    assert callable(call)
    start = time.perf_counter()
    call()
    return 1e3 * (time.perf_counter() - start)


def syncs(path: Path, rounds: int) -> tuple[float, float]:
    """Milliseconds that this disk takes to make 125 kB that were overwritten outlast a power cut: median and worst."""
    with path.open("wb+", buffering=0) as file:
        took = []
        for _ in range(rounds):
            file.seek(0)
            file.write(os.urandom(125_000))
            took.append(milliseconds(lambda: os.fdatasync(file.fileno())))
    path.unlink()
    return median(took), max(took)


def writes(users: int, path: Path, rounds: int) -> tuple[float, float, float, float]:
    """Milliseconds to create a file, to write it when everything changed (median, worst), and when little did."""
    est, generator = pp.Density(users, epsilon=1.0), np.random.default_rng(1)
    with StateFile(path).locked() as file:
        created = milliseconds(lambda: est.save(file))
        est.save(file)  # makes the journal
        full, little = [], []
        for _ in range(rounds):
            for _ in range(max(1, min(users, 2 * 10**7) // _BATCH)):
                est.update_many(generator.integers(0, users, _BATCH))
            full.append(milliseconds(lambda: est.save(file)))
            est.update_many(generator.integers(0, users, 10))
            little.append(milliseconds(lambda: est.save(file)))
    path.unlink()
    return created, median(full), max(full), median(little)


def feeding(users: int, path: Path, seconds: float, rounds: int) -> tuple[float, float, float, float, int]:
    """Events a second without and with a state file, the rounds interleaved; milliseconds a write, worst; writes."""
    generator = np.random.default_rng(1)
    ids = [generator.integers(0, users, _BATCH) for _ in range(8)]
    speeds: dict[bool, list[float]] = {False: [], True: []}
    took: list[float] = []
    with StateFile(path).locked() as file:
        timed = _Timed(file, took)
        for _ in range(rounds):
            for kept in (False, True):
                est = pp.Density(users, epsilon=1.0)
                run = Run(est, timed if kept else None, 0.95, Output(quiet=True))
                start, events = time.perf_counter(), 0
                while time.perf_counter() < start + seconds:
                    est.update_many(ids[events // _BATCH % len(ids)])
                    run.counted()
                    events += _BATCH
                speeds[kept].append(events / (time.perf_counter() - start))
    path.unlink()
    return median(speeds[False]), median(speeds[True]), median(took), max(took), len(took)


class _Timed(StateFile):
    """A state file that notes how long its writes take; the file itself is locked by another object."""

    def __init__(self, file: StateFile, took: list[float]) -> None:
        super().__init__(file.path)
        self._file, self._took = file, took

    def write(self, parts: Snapshot) -> None:
        self._took.append(milliseconds(lambda: self._file.write(parts)))


def main() -> None:
    """Print both tables."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--largest", type=int, default=8, help="powers of ten up to this one")
    arguments.add_argument("--rounds", type=int, default=20)
    arguments.add_argument("--seconds", type=float, default=2.0)
    arguments.add_argument("--folder", type=Path, default=Path())
    asked = arguments.parse_args()
    console = Console(width=100)
    with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
        path = Path(folder) / "flu.pp"
        usual, worst = syncs(path, 200)
        console.print(f"one sync of 125 kB on this disk: {usual:.2f} ms, at worst {worst:.2f}; a write makes two")
        table = Table("users", "created", "all changed", "worst", "ten users changed", title="milliseconds a write")
        for power in range(4, asked.largest + 1):
            found = writes(10**power, path, asked.rounds if power < 8 else 3)
            table.add_row(f"10^{power}", *(f"{value:.2f}" for value in found))
        console.print(table)
        table = Table(
            "users", "events/s without", "with a state", "speed kept", "ms a write", "worst", "writes", title="feeding"
        )
        for users in (10**5, 10**6, 10**7):
            without, kept, write, worst, count = feeding(users, path, asked.seconds, 5)
            share = f"{kept / without:.1%}"
            table.add_row(
                f"{users:,}", f"{without:,.0f}", f"{kept:,.0f}", share, f"{write:.2f}", f"{worst:.2f}", f"{count}"
            )
        console.print(table)


if __name__ == "__main__":
    main()

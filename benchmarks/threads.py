"""What all cores bring to `update_many`, what a short batch takes, and that no universe takes longer than a larger one.

    python benchmarks/threads.py                 # needs 4 GB of memory; some minutes
    python benchmarks/threads.py --rounds 3

Every row is the best of several rounds, and the rounds of one thread and of all are interleaved. The machine has to
have its cores to itself: two threads on a core that others use are no quicker than one.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import panprivacy as pp
from panprivacy.memory.threads import cores

USERS = 10**7
LIMIT, SHORT_LIMIT = 1.6, 30.0  # times the speed of one thread at 10^7 users; microseconds of a call of 1,000 ids


def best_of(rounds: int, calls: dict[Any, Callable[[], None]]) -> dict[Any, float]:
    """The least seconds of each call, the rounds interleaved; the first warms up and does not count."""
    best = dict.fromkeys(calls, float("inf"))
    for number in range(rounds + 1):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            if number:
                best[name] = min(best[name], time.perf_counter() - start)
    return best


def fed(est: Any, ids: Any, threads: int | None) -> Callable[[], None]:
    """A call that feeds a batch with so many threads."""
    return lambda: est.update_many(ids, threads=threads)


def of_all_cores(rounds: int, console: Console) -> None:
    """Print what one thread takes, and all of them."""
    random = np.random.default_rng(1)
    ids, far = (random.integers(0, users, 2 * USERS, dtype=np.uint64) for users in (USERS, 10 * USERS))
    contestants: dict[str, tuple[Any, Any]] = {
        "Density": (pp.Density(USERS, 1.0), ids),
        "Density, half as many events": (pp.Density(USERS, 1.0), ids[:USERS]),
        "Density, 5 % sample": (pp.Density(USERS, 1.0, sample=USERS // 20), ids),
        "Density, 10^8 users": (pp.Density(10 * USERS, 1.0), far),
        "Density, listed integers": (pp.Density(pp.Users(np.arange(USERS) * 7), 1.0), ids[: USERS // 2] * 7),
        "DistinctCount": (pp.DistinctCount(1.0), ids),
        "Counts": (pp.Counts(USERS, 1.0), ids),
        "Counts, 10^8 users": (pp.Counts(10 * USERS, 1.0), far),
    }
    table = Table("", "events", "one thread", f"{cores()} threads", "times as quick", "at least", title="ns an event")
    for name, (est, batch) in contestants.items():
        one, several = best_of(rounds, {n: fed(est, batch, n) for n in (1, None)}).values()
        limit = f"{LIMIT}" if name == "Density" else ""
        each = [f"{seconds / len(batch) * 1e9:.2f}" for seconds in (one, several)]
        table.add_row(name, f"{len(batch):,}", *each, f"{one / several:.2f}", limit)
    console.print(table)


def of_short_batches(rounds: int, console: Console) -> None:
    """Print what a call of 1,000 ids takes, with one thread and with as many as there are cores."""
    ids = np.random.default_rng(2).integers(0, USERS, 1000, dtype=np.uint64)
    table = Table("", "one thread", f"{cores()} threads", "at most", title="microseconds a call of 1,000 ids")
    for name, est in (("Density", pp.Density(USERS, 1.0)), ("Counts", pp.Counts(USERS, 1.0))):
        calls = {n: fed(est, ids, n) for n in (1, None)}
        one, several = best_of(1000 * rounds, calls).values()
        table.add_row(name, f"{one * 1e6:.1f}", f"{several * 1e6:.1f}", f"{SHORT_LIMIT:g}" if name == "Density" else "")
    console.print(table)


def of_sizes(rounds: int, console: Console) -> None:
    """Print what an event takes one thread in universes of all sizes."""
    table = Table("users", "ns an event", "of the next smaller", title="sizes, one thread, 5 million events")
    before = 0.0
    for users in (10**5, 10**6, 10**7, 3 * 10**7, 10**8, 3 * 10**8, 10**9):
        ids = np.random.default_rng(3).integers(0, users, USERS // 2, dtype=np.uint64)
        (seconds,) = best_of(rounds, {users: fed(pp.Density(users, 1.0), ids, 1)}).values()
        table.add_row(f"{users:,}", f"{seconds / len(ids) * 1e9:.2f}", f"{seconds / before:.2f}" if before else "")
        before = seconds
    console.print(table)


def main() -> None:
    """Read the options and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    for report in (of_all_cores, of_short_batches, of_sizes):
        report(options.rounds, Console())


if __name__ == "__main__":
    main()

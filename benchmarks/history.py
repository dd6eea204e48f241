"""Speed of every commit that was measured, in one file, so that a slower commit is seen.

    python benchmarks/history.py            # measure this commit, and add a line to benchmarks/history.jsonl
    python benchmarks/history.py --show     # every line; a time above 1.2 times the median of those before it is marked

Times are multiples of one NumPy sort that runs between them, so that lines of different machines compare. Measure on a
quiet machine.
"""

import argparse
import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

FILE = Path(__file__).with_name("history.jsonl")
SLOWER = 1.2
TIMED = ("Density, all users", "Density, 5 % sample", "DistinctCount, integers", "Density, batches of 1,000")


def measured(rounds: int) -> dict[str, float]:
    """The best time of each call, in sorts of a million numbers; the rounds of all are interleaved."""
    import numpy as np

    from against import calls

    numbers = np.random.default_rng(1).integers(0, 2**63, 10**6)
    timed: dict[str, Callable[[], object]] = {"sort": lambda: np.sort(numbers)}
    timed |= {name: call for name, (_, call) in calls().items() if name in TIMED}
    best = dict.fromkeys(timed, float("inf"))
    for _ in range(rounds):
        for name, call in timed.items():
            began = time.perf_counter()
            call()
            best[name] = min(best[name], time.perf_counter() - began)
    return {name: round(best[name] / best["sort"], 4) for name in TIMED}


def slower(lines: list[dict[str, Any]]) -> list[list[str]]:
    """Of each line the names that took longer than 1.2 times their median before it.

    >>> slower([{"times": {"a": 1.0}}, {"times": {"a": 1.1}}, {"times": {"a": 1.4}}])
    [[], [], ['a']]
    """
    found: list[list[str]] = []
    for place, line in enumerate(lines):
        slow = []
        for name, value in line["times"].items():
            past = [each["times"][name] for each in lines[:place] if name in each["times"]]
            slow += [name] if past and value > SLOWER * median(past) else []
        found.append(slow)
    return found


def main() -> None:
    """Measure and add a line, or show all lines."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--rounds", type=int, default=7)
    asked = parser.parse_args()
    if not asked.show:
        commit = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=True)
        line = {"commit": commit.stdout.strip(), "day": time.strftime("%Y-%m-%d"), "python": platform.python_version()}
        with FILE.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line | {"times": measured(asked.rounds)}) + "\n")
    lines = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()] if FILE.exists() else []
    marks = slower(lines)
    for line, marked in zip(lines, marks, strict=True):
        times = "; ".join(f"{name} {value:.2f}{' SLOWER' * (name in marked)}" for name, value in line["times"].items())
        print(f"{line['day']} {line['commit']}: {times}")
    if marks and marks[-1]:
        sys.exit(1)


if __name__ == "__main__":
    main()

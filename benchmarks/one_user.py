"""How much one user's rows change the answers about everybody else, and how many rows of others they refuse.

    python benchmarks/one_user.py

200,000 users at epsilon 60, where coins and noise hardly matter, so that what differs is what one user's rows did.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import panprivacy as pp
from panprivacy.ingest.batch import Refused
from panprivacy.ingest.bodies import Body, ContentType
from panprivacy.serve.config import settings_of
from panprivacy.serve.counter import Counter

USERS, ONE = 200_000, 0
OTHERS = np.arange(1, 120_001)


def main() -> None:
    """Print a line for each scenario."""
    print(f"{'scenario':44} {'rows of others refused':>22} {'answer without':>15} {'with':>8} {'change':>8}")
    for name, run in SCENARIOS.items():
        (_, without), (refused, beside) = run(False), run(True)
        print(f"{name:44} {refused:22,} {without:15.4f} {beside:8.4f} {abs(beside - without):8.4f}")


def of_two_days(make: Callable[[], Any]) -> Callable[[bool], tuple[int, float]]:
    """Two days of others; before them, perhaps, one event dated 2030. The answer is of the second day."""

    def run(beside: bool) -> tuple[int, float]:
        est, refused = make(), 0
        if beside:
            _refused(lambda: est.update(ONE, time="2030-01-01"))
        for day, ids in (("2026-01-05", OTHERS[:60_000]), ("2026-01-06", OTHERS[60_000:])):
            refused += len(ids) * _refused(partial(est.update_many, ids, time=day))
        _refused(lambda: est.advance("2026-01-07"))
        if isinstance(est, pp.Windows):
            return refused, est.closed[1].release.density
        return refused, est.released[1].active[-1]

    return run


def in_the_service(bad: str, **more: Any) -> Callable[[bool], tuple[int, float]]:
    """A body of 50,000 rows of others, and perhaps a row of one more user at its end."""

    def run(beside: bool) -> tuple[int, float]:
        plan = {"kind": "density", "universe": USERS, "epsilon": 60.0, "column": "user", "releases": 2} | more
        with tempfile.TemporaryDirectory() as folder:
            settings = settings_of({"service": {"anonymous": ["feed"]}, "counters": {"flu": plan}}, Path(folder))
            counter = Counter(settings.counters[0], Path(folder))
            counter.start()
            rows = [f"{user},2026-01-06,flu" for user in OTHERS[:50_000]] + [bad] * beside
            body = Body.copied("\n".join(["user,at,what", *rows]).encode(), ContentType.csv)
            refused = 50_000 * _refused(lambda: counter.take(body).result())
            release = counter.release().result()
            counter.close()
        return refused, (release["values"] or release["groups"][0]["values"])[0]["value"]

    return run


def in_a_pipe(bad: str) -> Callable[[bool], tuple[int, float]]:
    """50,000 rows of others through standard input, and perhaps a row of one more user before them."""

    def run(beside: bool) -> tuple[int, float]:
        today = f"{datetime.now(UTC):%Y-%m-%d}"
        rows = [bad] * beside + [f"{user},{today},flu" for user in OTHERS[:50_000]]
        options = ["-c", "user", "-n", str(USERS), "-e", "60", "--by", "what", "--categories", "flu", "--json", "-q"]
        series = ["--releases", "2", "--release-every", "1d", "--time", "at", "--start", f"{today}"]
        command = [sys.executable, "-m", "panprivacy", "density", "-", *options, *series]
        text = "\n".join(["user,at,what", *rows, ""])
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        return 50_000 * (done.returncode != 0), answers[0]["groups"][0]["density"] if answers else 0.0

    return run


def _refused(do: Callable[[], object]) -> bool:
    try:
        do()
    except (ValueError, Refused):
        return True
    return False


_DAILY = {"every": "1d", "start": "2026-01-05", "time": "at"}
SCENARIOS = {
    "ActiveUsers, one event dated 2030": of_two_days(
        lambda: pp.ActiveUsers(USERS, 60.0, span="2d", start="2026-01-05", key=bytes(16))
    ),
    "Windows, one event dated 2030": of_two_days(
        lambda: pp.Windows(lambda: pp.Density(USERS, 60.0), every="1d", start="2026-01-05")
    ),
    "pipe, one row dated 2030 before 50,000": in_a_pipe(f"{ONE},2030-01-01,flu"),
    "pipe, one late row before 50,000": in_a_pipe(f"{ONE},2025-01-01,flu"),
    "pipe, one unlisted category before 50,000": in_a_pipe(f"{ONE},2025-01-01,gout"),
    "service, one row dated 2030 in 50,000": in_the_service(f"{ONE},2030-01-01,flu", schedule=_DAILY),
    "service, one row without a time in 50,000": in_the_service(f"{ONE},soon,flu", schedule=_DAILY),
    "service, one unlisted category in 50,000": in_the_service(f"{ONE},2026-01-06,gout", categories=["flu"], by="what"),
}

if __name__ == "__main__":
    main()

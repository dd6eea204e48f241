"""Kill writers and a releaser of one state folder at random moments, and count what was lost.

    python benchmarks/folder_crashes.py --kills 1000

Four writers feed batches to one folder and say so when a batch is acknowledged; a releaser releases and shows. All are
killed (SIGKILL) at random moments and started again. The coins are certain ones, so that the bits are a plain list of
who came. In the end every acknowledged user must be there (0 lost), every release that was spent must have been shown,
or be found as the last one (0 spent unseen), none may have been shown with two values (0 double-spent), and the folder
must have opened every time (0 unreadable).
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import panprivacy as pp
from panprivacy.testing import CertainCoins

UNIVERSE, SHARDS, WRITERS, RELEASES = 20_000, 8, 4, 100_000


@dataclass
class Tally:
    """What was seen, and what went wrong."""

    kills: int = 0
    acknowledged: set[int] = field(default_factory=set)
    batches: int = 0
    lost: int = 0
    shown: dict[int, float] = field(default_factory=dict)
    double_spent: int = 0
    spent_unseen: int = 0
    unreadable: int = 0

    @property
    def clean(self) -> bool:
        """Whether nothing went wrong."""
        return not (self.lost or self.double_spent or self.spent_unseen or self.unreadable)

    def show(self, number: int, count: float) -> None:
        """Note a release that somebody has seen."""
        if self.shown.setdefault(number, count) != count:
            self.double_spent += 1


def write(url: str, seed: int, said: Any) -> None:
    """Feed random batches for ever, and say which were acknowledged."""
    draw = random.Random(seed)
    folder = pp.StateFolder(url, coins=CertainCoins())
    while True:
        batch = draw.sample(range(UNIVERSE), draw.randint(1, 40))
        folder.update_many(batch)
        said.send(batch)


def release(url: str, seed: int, said: Any) -> None:
    """Release for ever, and show what was released; first the last one, which a crash may have kept from being seen."""
    draw = random.Random(seed)
    folder = pp.StateFolder(url, coins=CertainCoins())
    if folder.last is not None:
        said.send((folder.last.number, folder.last.count))
    while True:
        made = folder.release()
        said.send((made.number, made.count))
        time.sleep(draw.uniform(0, 0.01))


def run(url: str, kills: int, seed: int = 1, progress: Callable[[int], None] | None = None) -> Tally:
    """Kill so many processes, and count."""
    draw, tally = random.Random(seed), Tally()
    pp.StateFolder.create(
        url, universe=UNIVERSE, epsilon=1.0, delta=1e-9, releases=RELEASES, shards=SHARDS, coins=CertainCoins()
    )
    context = get_context("fork")  # everything is loaded already: a new process is at work at once
    places: list[tuple[Any, Any, Any]] = []

    def start(work: Any) -> tuple[Any, Any, Any]:
        hears, says = context.Pipe(duplex=False)
        process = context.Process(target=_quietly, args=(work, url, draw.randrange(2**32), says), daemon=True)
        process.start()
        says.close()
        return process, hears, work

    def listen(place: tuple[Any, Any, Any]) -> None:
        _, hears, work = place
        try:
            while hears.poll():
                heard = hears.recv()
                if work is write:
                    tally.batches += 1
                    tally.acknowledged.update(heard)
                else:
                    tally.show(*heard)
        except (EOFError, OSError):
            pass

    for work in [write] * WRITERS + [release]:
        places.append(start(work))
    while tally.kills < kills:
        time.sleep(draw.expovariate(1 / 0.02))
        at = draw.randrange(len(places))
        for place in places:
            listen(place)
        process, _, work = places[at]
        if process.is_alive():
            os.kill(process.pid, signal.SIGKILL)
            tally.kills += 1
        process.join()
        if process.exitcode != -signal.SIGKILL:
            tally.unreadable += 1
        listen(places[at])
        places[at] = start(work)
        if progress:
            progress(tally.kills)
    for place in places:
        place[0].kill()
        place[0].join()
        listen(place)
    try:
        _judge(url, tally)
    except pp.PanPrivacyError:
        tally.unreadable += 1
    return tally


def _judge(url: str, tally: Tally) -> None:
    folder = pp.StateFolder(url, coins=CertainCoins())
    if folder.last is not None:
        tally.show(folder.last.number, folder.last.count)
    tally.spent_unseen = folder.budget.releases_made - len(tally.shown)
    table = folder._bits.gathered()
    there = set(np.flatnonzero(table.bits(0, table.size)).tolist())
    tally.lost = len(tally.acknowledged - there)


def _quietly(work: Any, *arguments: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    work(*arguments)


def main() -> None:
    """Print the counts; fail if anything was lost."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--kills", type=int, default=1000)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--url", help="where the folder is made; a temporary folder unless told")
    told = options.parse_args()

    def progress(kills: int) -> None:
        if sys.stderr.isatty() or kills % 100 == 0:
            print(f"\r{kills:,} killed", end="", file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory() as place:
        tally = run(told.url or str(Path(place) / "folder"), told.kills, told.seed, progress)
    print(file=sys.stderr)
    print(
        f"{tally.kills:,} processes killed, {tally.batches:,} batches acknowledged, {len(tally.shown):,} releases shown"
    )
    print(f"lost {tally.lost}, double-spent {tally.double_spent}, spent unseen {tally.spent_unseen}, ", end="")
    print(f"unreadable {tally.unreadable}")
    sys.exit(not tally.clean)


if __name__ == "__main__":
    main()

"""Kill writers and a releaser of one state folder at random moments, and count what was lost.

    python benchmarks/folder_crashes.py --kills 1000
    python benchmarks/folder_crashes.py --kills 1000 --counts
    python benchmarks/folder_crashes.py --kills 1000 --store             # also with --counts

Four writers feed batches to one folder and say so when a batch is acknowledged; a releaser releases and shows. All are
killed (SIGKILL) at random moments and started again. The coins are certain ones, so that the bits are a plain list of
who came. In the end every acknowledged user must be there (0 lost), every release that was spent must have been shown,
or be found as the last one (0 spent unseen), none may have been shown with two values (0 double-spent), and the folder
must have opened every time (0 unreadable).

With --counts the folder holds counters, and batches have the name of their writer and a number. A writer that is
started again goes on after the last batch that all shards have. A second process feeds the batches of the first writer,
and at times a writer feeds an old one. In the end every user must have been counted as often as it was in a batch: 0
lost, 0 counted twice.

With --store the folder is in an S3-compatible store behind a proxy (lying_store.py): every fifth write, and every
twentieth other request, is answered by 500, 409, 412, 503 or not at all, whether or not it was done.

After every hundred kills all processes are killed at once, the folder is checked, a line says what was found so far,
and new processes go on with the same folder. The first thing that is wrong ends the run.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import panprivacy as pp
from panprivacy.folder import LateBatch
from panprivacy.testing import CertainCoins

UNIVERSE, SHARDS, WRITERS, RELEASES, UP_TO = 20_000, 8, 4, 100_000, 256
GAVE_UP = 3  # the exit code of a process whose store does not answer
PAUSE, STORE_PAUSE = 0.02, 0.8
"""Seconds between kills, in the mean; a batch takes longer in a store."""
CHECKED = 100
"""Kills between two checks of the folder."""


@dataclass
class Tally:
    """What was seen, and what went wrong."""

    kills: int = 0
    acknowledged: set[Any] = field(default_factory=set)
    """Users who came, or batches."""
    batches: int = 0
    lost: int = 0
    counted_twice: int = 0
    shown: dict[int, float] = field(default_factory=dict)
    double_spent: int = 0
    spent_unseen: int = 0
    unreadable: int = 0
    gave_up: int = 0
    """Processes that ended since the store did not answer, however often they asked."""

    @property
    def clean(self) -> bool:
        """Whether nothing went wrong."""
        return not (self.lost or self.counted_twice or self.double_spent or self.spent_unseen or self.unreadable)

    def show(self, number: int, count: float) -> None:
        """Note a release that somebody has seen."""
        if self.shown.setdefault(number, count) != count:
            self.double_spent += 1


@dataclass(frozen=True)
class Numbered:
    """A writer whose batches have numbers, and are the same whoever feeds them."""

    name: str

    def batch(self, number: int) -> list[int]:
        """The users of a batch, some of them more than once."""
        draw = random.Random(f"{self.name} {number}")
        return draw.choices(range(UNIVERSE), k=draw.randint(1, 40))

    def __call__(self, url: str, seed: int, said: Any) -> None:
        """Go on after the last batch that is whole, and say which were acknowledged; sometimes feed an old one."""
        draw = random.Random(seed)
        folder = pp.StateFolder(url, coins=CertainCoins())
        number = self.next(folder)
        while True:
            try:
                folder.update_many(self.batch(number), batch=(self.name, number))
            except LateBatch:  # who feeds the same batches is ahead
                number = self.next(folder)
                continue
            said.send((self.name, number))
            if draw.random() < 0.05:
                late = draw.randint(0, number)
                with suppress(LateBatch):
                    folder.update_many(self.batch(late), batch=(self.name, late))
            number += 1

    def next(self, folder: pp.StateFolder) -> int:
        """The first batch that some shard may lack."""
        last = folder.last_batch(self.name)
        return 0 if last is None else last + 1


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
        said.send((folder.last.number, _value(folder.last)))
    while True:
        made = folder.release()
        said.send((made.number, _value(made)))
        time.sleep(draw.uniform(0, 0.01))


def run(
    url: str,
    kills: int,
    seed: int = 1,
    checked: Callable[[Tally], None] | None = None,
    *,
    counts: bool = False,
    pause: float = PAUSE,
) -> Tally:
    """Kill so many processes, and count; `checked` is told after every check of the folder."""
    crashes = Crashes(url, random.Random(seed), pause, counts=counts)
    plan: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-9, "releases": RELEASES}
    kind: dict[str, Any] = {"up_to": UP_TO, "only": "mean"} if counts else {}
    pp.StateFolder.create(url, universe=UNIVERSE, shards=SHARDS, coins=CertainCoins(), **plan, **kind)
    tally = crashes.tally
    while tally.kills < kills and tally.clean:
        crashes.kill_until(min(tally.kills + CHECKED, kills))
        try:
            _judge(url, tally, crashes.numbered if counts else None)
        except pp.PanPrivacyError as error:
            print(f"unreadable: {error}", file=sys.stderr)
            tally.unreadable += 1
        if checked:
            checked(tally)
    return tally


class Crashes:
    """Processes that feed a folder and release from it, and are killed and started again."""

    def __init__(self, url: str, draw: random.Random, pause: float, *, counts: bool) -> None:
        self.tally = Tally()
        self.numbered = [Numbered(f"writer {i}") for i in range(WRITERS)]
        self._url, self._draw, self._pause, self._counts = url, draw, pause, counts
        self._context = get_context("fork")  # everything is loaded already: a new process is at work at once

    def kill_until(self, kills: int) -> None:
        """Start all processes, kill one after the other, up to this number in all, and in the end all of them."""
        writers = [*self.numbered, self.numbered[0]] if self._counts else [write] * WRITERS
        places = [self._start(work) for work in [*writers, release]]
        tally = self.tally
        while tally.kills < kills and not tally.unreadable:  # else all may end by themselves, and none is killed
            time.sleep(self._draw.expovariate(1 / self._pause))
            at = self._draw.randrange(len(places))
            for place in places:
                self._listen(place)
            process, _, work = places[at]
            if process.is_alive():
                os.kill(process.pid, signal.SIGKILL)
                tally.kills += 1
            process.join()
            if process.exitcode == GAVE_UP:
                tally.gave_up += 1
            elif process.exitcode != -signal.SIGKILL:
                tally.unreadable += 1
            self._listen(places[at])
            places[at] = self._start(work)
        for place in places:
            place[0].kill()
            place[0].join()
            self._listen(place)

    def _start(self, work: Any) -> tuple[Any, Any, Any]:
        hears, says = self._context.Pipe(duplex=False)
        arguments = (work, self._url, self._draw.randrange(2**32), says)
        process = self._context.Process(target=_quietly, args=arguments, daemon=True)
        process.start()
        says.close()
        return process, hears, work

    def _listen(self, place: tuple[Any, Any, Any]) -> None:
        _, hears, work = place
        try:
            while hears.poll():
                heard = hears.recv()
                if work is release:
                    self.tally.show(*heard)
                else:
                    self.tally.batches += 1
                    self.tally.acknowledged.update([heard] if self._counts else heard)
        except (EOFError, OSError):
            pass


def _judge(url: str, tally: Tally, numbered: list[Numbered] | None) -> None:
    folder = pp.StateFolder(url, coins=CertainCoins())
    if folder.last is not None:
        tally.show(folder.last.number, _value(folder.last))
    tally.spent_unseen = folder.budget.releases_made - len(tally.shown)
    if numbered is None:
        table = folder._bits.gathered()
        there = set(np.flatnonzero(table.bits(0, table.size)).tolist())
        tally.lost = len(tally.acknowledged - there)
    else:
        _judge_counts(folder, tally, numbered)


def _judge_counts(folder: pp.StateFolder, tally: Tally, numbered: list[Numbered]) -> None:
    """Feed the batches again in the midst of which writers were killed, and compare all counters."""
    expected = np.zeros(UNIVERSE, dtype=np.int64)
    for writer in numbered:
        number = writer.next(folder)
        tally.lost += sum(name == writer.name and acknowledged >= number for name, acknowledged in tally.acknowledged)
        folder.update_many(writer.batch(number), batch=(writer.name, number))
        for each in range(number + 1):
            np.add.at(expected, writer.batch(each), 1)
    assert expected.max() < 2 * UP_TO, "counters that have gone round twice tell nothing"
    found = np.array([counter + UP_TO * bit for counter, bit in folder._bits.gathered().fields()])
    tally.lost += int((expected - found).clip(min=0).sum())
    tally.counted_twice = int((found - expected).clip(min=0).sum())


def _value(released: Any) -> float:
    return float(released.mean if hasattr(released, "mean") else released.count)


def _quietly(work: Any, *arguments: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        work(*arguments)
    except (pp.PanPrivacyError, FileNotFoundError):
        raise
    except Exception as error:
        if "://" not in arguments[0]:
            raise
        print(f"gave up: {type(error).__name__}", file=sys.stderr)
        sys.exit(GAVE_UP)


@contextmanager
def store_that_lies() -> Iterator[str]:
    """Where a folder can be made in a store behind a proxy, in a process of its own."""
    program = [sys.executable, str(Path(__file__).with_name("lying_store.py"))]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        known = {"ACCESS_KEY_ID": "someone", "SECRET_ACCESS_KEY": "secret", "DEFAULT_REGION": "us-east-1"}
        for name, value in (known | {"ENDPOINT_URL": server.stdout.readline().strip(), "MAX_ATTEMPTS": "1"}).items():
            os.environ[f"AWS_{name}"] = value
        try:
            import s3fs

            s3fs.S3FileSystem.retries = 1  # what the client does not try again, the folder does
            s3fs.S3FileSystem().mkdir("crashes")
            yield "s3://crashes/folder"
        finally:
            server.stdin.close()


@contextmanager
def files() -> Iterator[str]:
    """Where a folder can be made on this machine."""
    with tempfile.TemporaryDirectory() as place:
        yield str(Path(place) / "folder")


def main() -> None:
    """Print what every check found; fail if anything was lost."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--kills", type=int, default=1000)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--counts", action="store_true", help="counters, and batches that have names")
    options.add_argument("--store", action="store_true", help="in a store that answers some requests by errors")
    told = options.parse_args()

    def show(tally: Tally) -> None:
        twice = f"counted twice {tally.counted_twice}, " if told.counts else ""
        print(
            f"{tally.kills:,} processes killed, {tally.batches:,} batches acknowledged, {len(tally.shown):,} releases "
            f"shown: lost {tally.lost}, {twice}double-spent {tally.double_spent}, spent unseen {tally.spent_unseen}, "
            f"unreadable {tally.unreadable}, gave up {tally.gave_up}",
            flush=True,
        )

    pause = STORE_PAUSE if told.store else PAUSE
    with (store_that_lies if told.store else files)() as url:
        tally = run(url, told.kills, told.seed, show, counts=told.counts, pause=pause)
    sys.exit(not tally.clean)


if __name__ == "__main__":
    main()

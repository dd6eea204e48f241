"""Kill `panprivacy serve` under load at random moments, and count what was lost.

    python benchmarks/serve_crashes.py --kills 1000
    python benchmarks/serve_crashes.py --kills 1000 --trouble  # the disk fills and the clock jumps, at random

Senders insert and delete users over HTTP, and send a batch again until it is acknowledged; another one spends releases.
The service is killed (SIGKILL) at random moments and started again. Its coins are certain ones, so that the bits are a
plain list of who is there. In the end every bit must be what the last acknowledged batch of its user says (0 lost),
each release that was shown must be in the list of those that were published, with the value that was shown (0 spent
twice), the list must have as many as the ledger has booked (0 spent unseen), and the service must have started every
time. With --trouble, writes end half-way with "no space left" for a third of the time, and the wall clock is 400 days
ahead for a third of the time, also at starts; a second counter, released every day, must not have been released.
"""

import argparse
import errno
import json
import os
import random
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from http.client import HTTPConnection, HTTPException
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import panprivacy as pp
from panprivacy.ingest.bodies import Body, ContentType
from panprivacy.privacy import coins
from panprivacy.serve import config, counter, server
from panprivacy.serve.feeding import SteadyClock
from panprivacy.serve.service import Service
from panprivacy.testing import CertainCoins

UNIVERSE, SENDERS, RELEASES = 200_000, 4, 100_000
_STARTS = 60.0  # seconds within which the service must be there
_JUMP = 400 * 86_400 * 10**6  # microseconds


class Certain(CertainCoins):
    """Certain coins that say they are secure: the service saves nothing else."""

    secure = True


@dataclass
class Tally:
    """What was seen, and what went wrong."""

    kills: int = 0
    acknowledged: int = 0
    there: dict[int, bool] = field(default_factory=dict)
    """Of each user of an acknowledged batch, whether the last one inserted it."""
    shown: dict[int, float] = field(default_factory=dict)
    lost: int = 0
    spent_twice: int = 0
    spent_unseen: int = 0
    not_started: int = 0
    spent_by_clock: int = 0
    """Releases of the counter that is released every day; the run takes less."""

    @property
    def clean(self) -> bool:
        """Whether nothing went wrong."""
        return not (self.lost or self.spent_twice or self.spent_unseen or self.not_started or self.spent_by_clock)


class Trouble:
    """A disk that is full now and then, and a wall clock that is far ahead now and then."""

    def __init__(self, seed: int) -> None:
        self._draw, self._full = random.Random(seed), False
        self._write = os.pwrite
        self._set_clock()
        counter._CLOCK = SteadyClock(lambda: None, lambda: time.time_ns() // 1000 + self._ahead)

    def begin(self) -> None:
        """Fill the disk, and set the clock, now and then."""
        os.pwrite = self._pwrite
        os.posix_fallocate = self._allocate
        threading.Thread(target=self._go_on, daemon=True).start()

    def _set_clock(self) -> None:
        self._ahead = _JUMP if self._draw.random() < 1 / 3 else 0

    def _go_on(self) -> None:
        while True:
            time.sleep(self._draw.expovariate(1 / 0.03))
            self._full = self._draw.random() < 1 / 3
            self._set_clock()

    def _pwrite(self, handle: int, data: Any, at: int) -> int:
        if self._full:
            if len(data) > 1 and self._draw.random() < 1 / 2:
                return self._write(handle, memoryview(data)[: len(data) // 2], at)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self._write(handle, data, at)

    def _allocate(self, _handle: int, _start: int, _size: int) -> None:
        if self._full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def settings_in(folder: Path, port: int) -> config.Settings:
    """One counter, fed and released by anybody."""
    flu = {"kind": "density", "universe": UNIVERSE, "epsilon": 1.0, "delta": 1e-9, "releases": RELEASES}
    service = {"port": port, "folder": str(folder), "anonymous": ["feed", "read", "release"]}
    counters: dict[str, dict[str, Any]] = {"flu": flu | {"column": "user"}}
    counters["daily"] = counters["flu"] | {"schedule": {"every": "1d"}}
    return config.settings_of({"service": service, "counters": counters}, folder)


def _serve_when_asked(asked: Any, folder: Path, port: int, trouble: bool) -> None:
    """Have everything loaded, and fork a service whenever somebody asks: then it is at work at once."""
    coins.system = Certain()  # type: ignore[assignment]
    settings = settings_in(folder, port)
    with Service(settings_in(folder / "first", port)) as first:
        first.counter("flu").take(Body.copied(_lines([1]).encode(), ContentType.ndjson)).result()
        first.counter("flu").release().result()
    for number in count():
        if asked.recv() != "start":
            break
        child = os.fork()
        if not child:
            try:
                sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 - until the process is killed
                told = replace(settings, initialize=not number)
                server.run(told, None, partial(_tell_ready, asked, Trouble(number) if trouble else None))
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        asked.send("ended")


def _tell_ready(asked: Any, trouble: Trouble | None, _address: str) -> None:
    if trouble is not None:
        trouble.begin()
    asked.send(os.getpid())


class Sender:
    """Sends batches of its own users, each again and again until it is acknowledged."""

    def __init__(self, number: int, port: int, tally: Tally, over: threading.Event) -> None:
        self._draw = random.Random(number)
        self._users = range(number, UNIVERSE, SENDERS)
        self._port, self._tally, self._over = port, tally, over

    def run(self) -> None:
        """Send until it is over; the last batch as well is sent until it is acknowledged."""
        while not self._over.is_set():
            users, delete = self._draw.sample(self._users, self._draw.randint(1, 40)), self._draw.random() < 0.3
            path = f"/counters/flu/events?action={'delete' if delete else 'insert'}"
            if ask(self._port, path, _lines(users), self._over) is None:
                return
            self._tally.there.update(dict.fromkeys(users, not delete))
            self._tally.acknowledged += 1


def _lines(users: list[int]) -> str:
    return "".join(f'{{"user": {user}}}\n' for user in users)


def ask(port: int, path: str, body: str, over: threading.Event) -> Any:
    """Post until it is granted, and return the answer; None if it was over before."""
    begun = False
    while begun or not over.is_set():
        begun = True  # it may have been counted: whoever gave up now would not know
        connection = HTTPConnection("127.0.0.1", port, timeout=30)
        try:
            connection.request("POST", path, body, {"content-type": "application/x-ndjson"} if body else {})
            answer = connection.getresponse()
            said = answer.read()
            if answer.status in (201, 204):
                return json.loads(said or b"{}")
        except (OSError, HTTPException, ValueError):
            pass
        finally:
            connection.close()
        time.sleep(0.005)
    return None


def run(kills: int, seed: int = 1, progress: Callable[[int], None] | None = None, *, trouble: bool = False) -> Tally:
    """Kill a service so many times, and count."""
    draw, tally, over = random.Random(seed), Tally(), threading.Event()
    with tempfile.TemporaryDirectory(prefix="panprivacy-crashes-") as name:
        folder, port = Path(name), _free_port()
        asks, asked = get_context("fork").Pipe()
        keeper = get_context("fork").Process(target=_serve_when_asked, args=(asked, folder, port, trouble), daemon=True)
        keeper.start()
        senders = [Sender(i, port, tally, over) for i in range(SENDERS)]
        threads = [threading.Thread(target=sender.run) for sender in senders]
        threads.append(threading.Thread(target=_release, args=(port, tally, over)))
        for number in range(kills + 1):
            asks.send("start")
            process: Any = asks.recv() if asks.poll(_STARTS) else "ended"
            if process == "ended":
                tally.not_started += 1
                break
            if not number:
                for thread in threads:
                    thread.start()
            if number == kills:
                _end(process, threads, over)
            else:
                time.sleep(draw.expovariate(1 / 0.08))
                os.kill(process, signal.SIGKILL)
                tally.kills += 1
            asks.recv()
            if progress:
                progress(tally.kills)
        over.set()
        asks.send("over")
        keeper.join()
        asks.close()
        asked.close()
        _judge(folder, tally)
    return tally


def _end(process: int, threads: list[threading.Thread], over: threading.Event) -> None:
    """Let senders finish what they have begun, and end the service in order."""
    time.sleep(0.5)
    over.set()
    for thread in threads:
        thread.join()
    os.kill(process, signal.SIGTERM)


def _release(port: int, tally: Tally, over: threading.Event) -> None:
    while not over.is_set():
        made = ask(port, "/counters/flu/releases", "", over)
        if made is not None:
            number, value = made["id"], made["release"]["density"]
            tally.spent_twice += tally.shown.setdefault(number, value) != value
        time.sleep(0.02)


def _judge(folder: Path, tally: Tally) -> None:
    est: Any = pp.load(folder / "flu.pp")
    bits = est._table.bits(0, UNIVERSE)
    users = np.fromiter(tally.there, dtype=np.int64)
    tally.lost = int(np.count_nonzero(bits[users] != np.fromiter(tally.there.values(), dtype=np.bool_)))
    tally.lost += int(np.count_nonzero(bits)) - sum(tally.there.values()) if not tally.lost else 0
    lines = (folder / "flu.releases.ndjson").read_text().splitlines()
    published = {record["id"]: record["release"]["density"] for record in map(json.loads, lines)}
    tally.spent_twice += sum(published.get(number) != value for number, value in tally.shown.items())
    daily: Any = pp.load(folder / "daily.pp")
    tally.spent_by_clock = daily.budget.releases_made
    tally.spent_unseen = est.budget.releases_made - len(published)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def main() -> None:
    """Parse the command line, run, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--trouble", action="store_true", help="the disk fills and the clock jumps")
    given = parser.parse_args()

    def progress(done: int) -> None:
        if done % 50 == 0 and sys.stderr.isatty():
            print(f"{done} kills", file=sys.stderr)

    tally = run(given.kills, given.seed, progress, trouble=given.trouble)
    print(
        f"{tally.kills} kills, {tally.acknowledged:,} batches of {len(tally.there):,} users acknowledged, "
        f"{len(tally.shown):,} releases shown\n{tally.lost} bits lost, {tally.spent_twice} releases spent twice, "
        f"{tally.spent_unseen} spent unseen, {tally.not_started} starts failed, "
        f"{tally.spent_by_clock} spent by a clock that jumped"
    )
    sys.exit(not tally.clean)


if __name__ == "__main__":
    main()

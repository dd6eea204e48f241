"""Hostile clients of every kind at once, beside honest feeders: memory, `/live`, honest speed, and what was lost.

    python benchmarks/serve_hostile.py                            # 500 clients for two minutes
    python benchmarks/serve_hostile.py --clients 60 --seconds 10  # shorter

Some clients have no token: long heads, slow readers, idle connections, requests behind requests, wrong tokens. Others
have the token of a feeder: bodies that are announced, broken off, long, wide, or hard to parse. They run in a process
with the lowest priority, as machines of their own would not take the service's processors; with real-time priority
(`chrt -f 5 python ...`, for a machine that has other work) they get one level less than the service.

Honest feeders have another token, send short bodies, wait until each is acknowledged, and pause 50 ms; one that is
refused sends again. Their speed alone, for a sixth of the time before the others come, is what their speed meanwhile is
compared with; so is `/live`. A state is written for every acknowledgement: with TMPDIR on a disk that other programs
keep busy, their writes are part of both speeds. An acknowledged user whose bit is not set is lost: epsilon is so large
that a bit is almost surely what was written.
"""

import argparse
import asyncio
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import numpy as np

import panprivacy as pp
from panprivacy.serve.tokens import new_token, written_hash

MIB = 2**20
FEEDERS, PAUSE, ROWS, UNIVERSE = 4, 0.05, 100, 1_000_000
_HELD = 1.0  # seconds for which a hostile client leaves its connection open


def _post(token: str, content: str, body: bytes, length: int | None = None) -> bytes:
    head = f"POST /counters/flu/events HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n"
    size = len(body) if length is None else length
    return f"{head}content-type: {content}\r\ncontent-length: {size}\r\n\r\n".encode() + body


def hostile_requests(token: str) -> dict[str, bytes]:
    """What each kind of hostile client sends."""
    get, end = b"GET /%b HTTP/1.1\r\nhost: localhost\r\n", b"\r\n"
    blanks = b'{"user": "\\' + b" " * 80_000 + b'"}\n'
    return {
        "long head": get % b"" + b"x: " + b"a" * (2 * MIB),
        "many headers": get % b"" + b"x: y\r\n" * 100_000,
        "idle": b"",
        "half a head": get % b"live",
        "slow reader": get % b"static/plotly.min.js" + end,
        "behind one another": (get % b"openapi.json" + end) * 2000,
        "event stream": get % b"stream" + b"authorization: Bearer " + token.encode() + end + end,
        "wrong token": get % b"counters" + b"authorization: Bearer pp_wrong" + end + end,
        "not HTTP": b"\x16\x03\x01" + b"\xff" * 1000,
        "announced": _post(token, "text/csv", b"user\n", 8 * MIB),
        "broken off": _post(token, "text/csv", b"user\n" + b"1\n" * (3 * MIB), 8 * MIB),
        "long": _post(token, "text/csv", b"user\n" + b"1\n" * MIB),
        "open quote": _post(token, "text/csv", b'user\n"' + b"1\n" * (2 * MIB)),
        "blanks": _post(token, "application/x-ndjson", blanks * 50),
        "many columns": _post(token, "text/csv", b"user" + b",a" * MIB + b"\n1\n"),
        "deep": _post(token, "application/json", b"[" * MIB),
    }


async def _attack(port: int, data: bytes, made: list[int]) -> None:
    while True:
        made[0] += 1
        with suppress(OSError, TimeoutError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**10)
            try:
                async with asyncio.timeout(30):
                    writer.write(data)
                    await writer.drain()
                    await reader.read(1)
                await asyncio.sleep(_HELD)
            finally:
                writer.transport.abort()
        await asyncio.sleep(_HELD / 10)


async def _attack_with(port: int, clients: int, token: str) -> int:
    """Attack until SIGTERM; returns how many connections were made."""
    kinds, made, over = list(hostile_requests(token).values()), [0], asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
    tasks = [asyncio.create_task(_attack(port, kinds[number % len(kinds)], made)) for number in range(clients)]
    await over.wait()
    for task in tasks:
        task.cancel()
    return made[0]


@dataclass
class Tally:
    """What was seen, before the attack and during it."""

    limit: int
    peak: int = 0
    live: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))
    bodies: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))
    """How long each took that was acknowledged, what was refused before it included."""
    seconds: list[float] = field(default_factory=lambda: [0.0, 0.0])
    connections: int = 0
    """How many the hostile clients have made."""
    users: set[int] = field(default_factory=set)
    lost: int = 0

    @property
    def speed(self) -> float:
        """Bodies a second during the attack, of those before it."""
        before, during = (len(taken) / spent for taken, spent in zip(self.bodies, self.seconds, strict=True))
        return during / before

    @property
    def slower(self) -> float:
        """How many times as long `/live` takes during the attack: medians."""
        return statistics.median(self.live[1]) / statistics.median(self.live[0])


class _Watch:
    """Honest feeders, and a look at `/live` and at the memory, until it is over."""

    def __init__(self, port: int, process: int, token: str, tally: Tally) -> None:
        self._port, self._token, self._tally = port, token, tally
        self._statm = Path(f"/proc/{process}/statm")
        self._over = threading.Event()
        self.phase = 0

    @contextmanager
    def running(self) -> Iterator[None]:
        jobs: list[Callable[[], None]] = [self._look, self._measure_live]
        jobs += [lambda number=number: self._feed(number) for number in range(FEEDERS)]  # type: ignore[misc]
        threads = [threading.Thread(target=job) for job in jobs]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self.stop()
            for thread in threads:
                thread.join()

    def stop(self) -> None:
        """Measure no more."""
        self._over.set()

    def _look(self) -> None:
        while not self._over.wait(0.02):
            with suppress(OSError):
                self._tally.peak = max(self._tally.peak, int(self._statm.read_text().split()[1]) * 4096)

    def _measure_live(self) -> None:
        while not self._over.wait(0.05):
            phase, began = self.phase, time.perf_counter()
            if self._ask("GET", "/live", b"") == 200:
                self._tally.live[phase].append(time.perf_counter() - began)

    def _feed(self, number: int) -> None:
        users = np.random.default_rng(number)
        while not self._over.wait(PAUSE):
            chosen = users.integers(2, UNIVERSE, ROWS).tolist()
            body = "".join(f'{{"user": {user}}}\n' for user in chosen).encode()
            phase, began = self.phase, time.perf_counter()
            while (status := self._ask("POST", "/counters/flu/events", body)) != 204 and not self._over.is_set():
                time.sleep(0.05)
            if status == 204:
                self._tally.users.update(chosen)
                self._tally.bodies[phase].append(time.perf_counter() - began)

    def _ask(self, method: str, path: str, body: bytes) -> int | None:
        headers = {"authorization": f"Bearer {self._token}", "content-type": "application/x-ndjson"} if body else {}
        connection = HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            answer.read()
        except (OSError, HTTPException):
            return None
        else:
            return answer.status
        finally:
            connection.close()


def _settings(folder: Path, tokens: dict[str, str], limit: int | None) -> Path:
    roles = 'roles = ["feed", "read"]\n'
    said = "".join(f'[tokens.{name}]\nhash = "{written_hash(each)}"\n{roles}' for name, each in tokens.items())
    memory = "" if limit is None else f"memory = {limit}\n"
    limits = f'[limits]\nbody = "8 MiB"\nwaiting = "64 MiB"\nseconds = 5\n{memory}'
    counter = f'kind = "density"\nuniverse = {UNIVERSE}\nepsilon = 60.0\nreleases = 1\ncolumn = "user"\n'
    path = folder / "counters.toml"
    path.write_text(f"[service]\nport = 0\n{limits}{said}[counters.flu]\n{counter}")
    return path


def _started(file: Path) -> tuple[subprocess.Popen[str], int]:
    command = [sys.executable, "-m", "panprivacy", "serve", str(file), "--initialize"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    address = process.stdout.readline()
    return process, int(address.rstrip().rstrip("/").rpartition(":")[2])


def run(clients: int, seconds: float, limit: int = 640 * MIB, bodies: int = 1, nice: int = 19) -> Tally:
    """Attack a service for so long, and until honest feeders had this many bodies acknowledged meanwhile."""
    tally, tokens = Tally(limit), {"honest": new_token(), "careless": new_token()}
    with tempfile.TemporaryDirectory(prefix="panprivacy-hostile-") as name:
        process, port = _started(_settings(Path(name), tokens, limit))
        watch, command = _Watch(port, process.pid, tokens["honest"], tally), [sys.executable, __file__, "--attack"]
        try:
            with watch.running():
                _wait(tally, 0, max(seconds / 6, 1), bodies)
                watch.phase = 1
                command += [tokens["careless"], str(port), "--clients", str(clients), "--nice", str(nice)]
                attack = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
                try:
                    _wait(tally, 1, seconds, bodies)
                    watch.stop()
                finally:
                    attack.terminate()
                    tally.connections = int(attack.communicate()[0] or 0)
        finally:
            process.terminate()
            process.communicate()
        est: Any = pp.load(Path(name, "states", "flu.pp"))
        tally.lost = int(np.count_nonzero(~est._table.bits(0, UNIVERSE)[np.array(sorted(tally.users))]))
    return tally


def _come_last(nice: int) -> None:
    """Give this process the processors that the service leaves, also where both have real-time priority."""
    os.nice(nice)
    if os.sched_getscheduler(0) == os.SCHED_FIFO:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(os.sched_getparam(0).sched_priority - 1))


def _wait(tally: Tally, phase: int, seconds: float, bodies: int) -> None:
    began = time.perf_counter()
    while time.perf_counter() < began + seconds or min(len(tally.bodies[phase]) // bodies, len(tally.live[phase])) < 1:
        time.sleep(0.05)
    tally.seconds[phase] = time.perf_counter() - began


def main() -> None:
    """Parse the command line, run, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--limit", type=int, default=640, help="limits.memory in MiB")
    parser.add_argument("--nice", type=int, default=19, help="by how much hostile clients come after the service")
    parser.add_argument("--attack", nargs=2, metavar=("TOKEN", "PORT"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.attack:
        _come_last(given.nice)
        print(asyncio.run(_attack_with(int(given.attack[1]), given.clients, given.attack[0])))
        return
    tally = run(given.clients, given.seconds, given.limit * MIB, nice=given.nice)
    print(
        f"{given.clients} hostile clients of {len(hostile_requests(''))} kinds for {tally.seconds[1]:.0f} s, "
        f"{tally.connections:,} connections"
    )
    print(f"memory: at most {tally.peak / MIB:.0f} MiB, limits.memory is {tally.limit / MIB:.0f} MiB")
    for name, times in (("/live", tally.live), ("bodies", tally.bodies)):
        for when, found, spent in zip(("before", "during"), times, tally.seconds, strict=True):
            middle, slow = (1e3 * np.quantile(found, share) for share in (0.5, 0.99))
            print(f"{name:7}{when}: {len(found) / spent:6.1f} a second, median {middle:7.1f} ms, 99 % {slow:7.1f} ms")
    print(f"/live takes {tally.slower:.1f} times as long (20), feeders have {tally.speed:.2f} of their speed (0.5)")
    print(f"{len(tally.bodies[0]) + len(tally.bodies[1]):,} bodies acknowledged, {tally.lost} users lost")
    sys.exit(tally.peak >= tally.limit or tally.slower > 20 or tally.speed < 0.5 or tally.lost > 0)


if __name__ == "__main__":
    main()

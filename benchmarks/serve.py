"""How many ids a second `panprivacy serve` counts, each acknowledged when it is on disk; how it stands many readers.

    python benchmarks/serve.py                  # ids a second, by kind and size of bodies
    python benchmarks/serve.py --soak 300       # 2,000 readers of the event stream and 50 senders for five minutes
    python benchmarks/serve.py --against HEAD~1 # ids a second beside an earlier revision, in turns: compare the ratios

Service and senders share one machine, over the loopback interface. The service is started as the command starts itself,
hardened. Senders keep their connections, and send bodies that were made before.
"""

import argparse
import asyncio
import io
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

UNIVERSE = 10**7
ROOT = Path(__file__).resolve().parent.parent
_MIB = 2**20


@dataclass(frozen=True)
class Case:
    """Bodies of one kind and size, and how many senders send them at once."""

    name: str
    content: str
    rows: int
    senders: int
    wanted: float
    """Million ids a second."""


CASES = (
    Case("Arrow, 10^6 ids", "application/vnd.apache.arrow.stream", 10**6, 4, 20.0),
    Case("Arrow, 10^4 ids", "application/vnd.apache.arrow.stream", 10**4, 32, 3.0),
    Case("NDJSON, 10^5 ids", "application/x-ndjson", 10**5, 4, 2.0),
    Case("NDJSON, 10^4 ids", "application/x-ndjson", 10**4, 16, 2.0),
    Case("CSV, 10^5 ids", "text/csv", 10**5, 4, 0.0),
)

SHORT = Case("NDJSON, 10^2 ids", "application/x-ndjson", 10**2, 16, 0.0)
"""Where most of the time goes into requests, and little into ids."""


@contextmanager
def served(counters: int, universe: int, source: Path = ROOT / "src", options: str = "") -> Iterator[tuple[int, int]]:
    """A service with so many counters, of the code in a folder: its port, and the number of its process."""
    with tempfile.TemporaryDirectory(prefix="panprivacy-bench-") as folder:
        tables = "".join(
            f'[counters.c{i}]\nkind = "density"\nuniverse = {universe}\nepsilon = 1.0\nreleases = 1000\n'
            f'delta = 1e-9\ncolumn = "user"\n{options}'
            for i in range(counters)
        )
        file = Path(folder) / "counters.toml"
        file.write_text(f'[service]\nport = 0\nanonymous = ["feed", "read", "release", "admin"]\n{tables}')
        command = [sys.executable, "-c", "from panprivacy.cli import main; main()", "serve", str(file)]
        opener = source / "panprivacy" / "serve" / "service.py"
        if opener.exists() and b"check_history" in opener.read_bytes():  # earlier revisions know no such option
            command.append("--initialize")
        environment = os.environ | {"PYTHONPATH": str(source)}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
            try:
                assert process.stdout is not None
                found = re.search(r":([0-9]+)/", process.stdout.readline())
                assert found is not None, "the service did not start"
                yield int(found[1]), process.pid
            finally:
                process.send_signal(signal.SIGTERM)


def body_of(case: Case, draw: np.random.Generator, universe: int = UNIVERSE) -> bytes:
    """Random ids in one column."""
    frame, out = pl.DataFrame({"user": draw.integers(0, universe, case.rows)}), io.BytesIO()
    if "arrow" in case.content:
        frame.write_ipc_stream(out)
    elif "json" in case.content:
        frame.write_ndjson(out)
    else:
        frame.write_csv(out)
    return out.getvalue()


class Sender:
    """A connection that sends one body after the other."""

    def __init__(self, port: int, path: str, content: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {content}\r\ncontent-length: "

    def send(self, body: bytes) -> None:
        """Send a body, and wait until it is acknowledged."""
        self._socket.sendall(f"{self._head}{len(body)}\r\n\r\n".encode())
        self._socket.sendall(body)
        answer = self._socket.recv(4096)
        if b" 204 " not in answer[:20]:
            raise RuntimeError(answer.decode(errors="replace"))


def in_threads(work: Callable[[int], None], number: int) -> float:
    """Run work in this many threads at once; the seconds until all are done."""
    began = time.perf_counter()
    threads = [threading.Thread(target=work, args=(i,)) for i in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - began


def measured(case: Case, port: int, seconds: float) -> float:
    """Million ids a second."""
    draw = np.random.default_rng(1)
    bodies = [body_of(case, draw) for _ in range(4)]
    acknowledged = [0] * case.senders
    end = time.perf_counter() + seconds

    def send(i: int) -> None:
        sender = Sender(port, "/counters/c0/events", case.content)
        while time.perf_counter() < end:
            sender.send(bodies[(i + acknowledged[i]) % len(bodies)])
            acknowledged[i] += 1

    taken = in_threads(send, case.senders)
    return sum(acknowledged) * case.rows / taken / 1e6


def resident(process: int) -> float:
    """MiB that a process has in memory."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / _MIB


def worked(process: int) -> float:
    """Seconds that a process has had a processor."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rates(seconds: float) -> None:
    """Print the table of ids a second."""
    with served(1, UNIVERSE) as (port, process):
        for case in CASES:
            measured(case, port, 0.5)
            before, began = worked(process), time.perf_counter()
            rate = measured(case, port, seconds)
            ids = rate * (time.perf_counter() - began) * 1e6
            wanted = f"at least {case.wanted:g}M wanted" if case.wanted else ""
            each = f"{1e9 * (worked(process) - before) / ids:6.1f} ns of a processor each"
            print(f"{case.name:18} {case.senders:3} senders {rate:8.2f}M ids/s {each}   {wanted}", flush=True)


def compare(revision: str, rounds: int, seconds: float) -> None:
    """Print ids a second of an earlier revision and of this one, measured in turns, and the ratio of their medians."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "then"
        subprocess.run(["git", "-C", ROOT, "worktree", "add", "--detach", "--quiet", tree, revision], check=True)
        try:
            with served(1, UNIVERSE, tree / "src") as then, served(1, UNIVERSE) as now:
                for case in (*CASES, SHORT):
                    _compare(case, (then, now), rounds, seconds)
        finally:
            subprocess.run(["git", "-C", ROOT, "worktree", "remove", "--force", tree], check=True)


def _compare(case: Case, services: tuple[tuple[int, int], tuple[int, int]], rounds: int, seconds: float) -> None:
    """Print the ratios of one kind of body; that of processor time is steadier where others use the machine, too."""
    rates_: tuple[list[float], list[float]] = ([], [])
    times: tuple[list[float], list[float]] = ([], [])
    for port, _ in services:
        measured(case, port, 0.3)
    for number in range(rounds):
        for which in (0, 1) if number % 2 else (1, 0):
            port, process = services[which]
            before, began = worked(process), time.perf_counter()
            rates_[which].append(measured(case, port, seconds))
            ids = rates_[which][-1] * 1e6 * (time.perf_counter() - began)
            times[which].append(1e9 * (worked(process) - before) / ids)
    then, now = map(statistics.median, rates_)
    first, second = map(statistics.median, times)
    print(
        f"{case.name:18} {then:8.3f}M ids/s then, {now:8.3f}M now, {now / then:.3f} times as many;"
        f" {first:8.1f} ns of a processor each then, {second:8.1f} now, {second / first:.3f}",
        flush=True,
    )


async def _read(port: int, heard: list[int], i: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET /counters/c{i % 10}/stream HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
    try:
        while line := await reader.readline():
            heard[i] += line.startswith(b"event: release")
    finally:
        writer.close()


async def _soaked(port: int, process: int, seconds: float, readers: int, senders: int) -> None:
    case = Case("", "application/vnd.apache.arrow.stream", 1000, senders, 0.0)
    body = body_of(case, np.random.default_rng(1), 10**6)
    heard, errors, sent = [0] * readers, 0, 0
    waiting = [asyncio.create_task(_read(port, heard, i)) for i in range(readers)]
    await asyncio.sleep(5)
    end = time.perf_counter() + seconds

    async def send(i: int) -> None:
        nonlocal sent, errors
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        head = f"POST /counters/c{i % 10}/events HTTP/1.1\r\nhost: localhost\r\ncontent-type: {case.content}\r\n"
        while time.perf_counter() < end:
            writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
            answer = await reader.readuntil(b"\r\n\r\n")
            errors += b" 204 " not in answer[:20]
            sent += 1
            await asyncio.sleep(0.2)
        writer.close()

    async def release() -> int:
        nonlocal errors
        made = 0
        while time.perf_counter() < end - 2:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            path = f"/counters/c{made % 10}/releases"
            writer.write(f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n".encode())
            errors += b" 201 " not in (await reader.readuntil(b"\r\n\r\n"))[:20]
            writer.close()
            made += 1
            await asyncio.sleep(1)
        return made

    tasks = [asyncio.create_task(send(i)) for i in range(senders)]
    released = asyncio.create_task(release())
    while time.perf_counter() < end:
        await asyncio.sleep(min(seconds / 10, 30))
        print(f"  {seconds - (end - time.perf_counter()):6.0f} s  {resident(process):7.1f} MiB", flush=True)
    await asyncio.gather(*tasks)
    made = await released
    await asyncio.sleep(1)
    lost = sum(task.done() for task in waiting)
    for task in waiting:
        task.cancel()
    print(f"{sent:,} bodies of {senders} senders, {errors} errors; {readers:,} readers, {lost} lost; {made} releases, ")
    hearing = sum(len(range(i, readers, 10)) * len(range(i, made, 10)) for i in range(10))
    print(f"heard {sum(heard):,} times of {hearing:,}")


def soak(seconds: float, readers: int, senders: int) -> None:
    """Many readers that wait, and senders, for a while."""
    import resource

    resource.setrlimit(resource.RLIMIT_NOFILE, (readers + senders + 1000,) * 2)
    with served(10, 10**6) as (port, process):
        print(f"ten counters of 10^6, before anybody comes: {resident(process):.1f} MiB", flush=True)
        asyncio.run(_soaked(port, process, seconds, readers, senders))


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0, help="for each kind of body")
    parser.add_argument("--soak", type=float, metavar="SECONDS", help="readers and senders instead")
    parser.add_argument("--against", metavar="REVISION", help="beside an earlier revision instead")
    parser.add_argument("--rounds", type=int, default=9, help="for each revision and kind of body")
    parser.add_argument("--readers", type=int, default=2000)
    parser.add_argument("--senders", type=int, default=50)
    given = parser.parse_args()
    if given.soak:
        soak(given.soak, given.readers, given.senders)
    elif given.against:
        compare(given.against, given.rounds, given.seconds)
    else:
        rates(given.seconds)


if __name__ == "__main__":
    main()

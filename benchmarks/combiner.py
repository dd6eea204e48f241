"""How many marked slots a second `panprivacy serve` combines; and a thousand gatherers at once.

    python benchmarks/combiner.py                      # marked slots a second, by the size of a set
    python benchmarks/combiner.py --writers 1000       # a thousand connections, a set of each every second

Service and gatherers share one machine, over the loopback interface. Sets are packed before. A set is acknowledged
when a state that has it is on disk. The thousand gatherers have 10^6 events a second together, of 10^9 users, of whom
the counter samples 4.6 million: a gatherer's set is of those of its 1,000 events whose users are in the sample.
"""

import argparse
import asyncio
import resource
import statistics
import time
import urllib.request
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

import panprivacy as pp

serve: Any = import_module("serve")  # beside this file; a type checker would find the folder of tests
SLOTS = "application/vnd.panprivacy.slots"
EVENTS, USERS, SAMPLE = 10**6, 10**9, 4_600_000
"""Events a second of all gatherers, users there are, and how many of them the counter tracks."""


@dataclass(frozen=True)
class Case:
    """Sets with so many users, of so many that there are, and how many gatherers send them at once."""

    users: int
    universe: int
    senders: int
    together: int = 1
    """Sets in one request."""


CASES = (
    Case(5, 10**7, 64),  # what a set costs in which hardly anybody is: this many requests a second are the limit
    Case(10**3, 10**7, 64),
    Case(10**4, 10**7, 64),
    Case(10**4, 10**7, 64, together=10),
    Case(10**5, 10**7, 64),
    Case(10**6, 10**7, 8),
    Case(5 * 10**6, 10**7, 8),
)


def layout_of(port: int) -> bytes:
    """The layout of the counter, as a gatherer asks for it."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/counters/c0/layout") as answer:
        return bytes(answer.read())


def set_of(layout: bytes, users: int, universe: int, draw: np.random.Generator) -> tuple[bytes, int]:
    """A packed set of random users, and how many slots it marks."""
    with pp.gather(layout) as gathered:
        gathered.add(draw.integers(0, universe, users))
        packed = gathered.packed().tobytes()
    marked = np.frombuffer(packed, dtype=np.uint8)[64:]
    return packed, int(np.bitwise_count(marked).sum()) if packed[10] else len(marked) // 4


def body_of(case: Case, layout: bytes, draw: np.random.Generator) -> tuple[bytes, int]:
    """The body of a request, and how many slots it marks."""
    sets = [set_of(layout, case.users, case.universe, draw) for _ in range(case.together)]
    return b"".join(packed for packed, _ in sets), sum(slots for _, slots in sets)


def measured(case: Case, port: int, seconds: float) -> float:
    """Million marked slots a second."""
    draw, layout = np.random.default_rng(1), layout_of(port)
    sets = [body_of(case, layout, draw) for _ in range(4)]
    acknowledged, end = [0] * case.senders, time.perf_counter() + seconds

    def send(i: int) -> None:
        sender = serve.Sender(port, "/counters/c0/events", SLOTS)
        for body, slots in iter(lambda: sets[(i + acknowledged[i]) % len(sets)], None):
            if time.perf_counter() >= end:
                return
            sender.send(body)
            acknowledged[i] += slots

    taken: float = serve.in_threads(send, case.senders)
    return sum(acknowledged) / taken / 1e6


def rates(seconds: float) -> None:
    """Print the table of marked slots a second."""
    for case in CASES:
        with serve.served(1, case.universe) as (port, process):
            measured(case, port, 0.5)
            before, began = serve.worked(process), time.perf_counter()
            rate = measured(case, port, seconds)
            slots = rate * (time.perf_counter() - began) * 1e6
            each = f"{1e9 * (serve.worked(process) - before) / slots:6.2f} ns of a processor each"
            sets = f"{rate * 1e6 / case.users:7,.0f} sets/s"
            told = f"sets of {case.users:>9,} {case.together:3} a request {case.senders:3} senders"
            print(f"{told} {sets} {rate:8.2f}M slots/s {each}", flush=True)


async def _gathering(port: int, writers: int, seconds: float) -> tuple[list[float], float]:
    layout, draw = layout_of(port), np.random.default_rng(1)
    bodies = [set_of(layout, EVENTS // writers, USERS, draw)[0] for _ in range(16)]
    head = f"POST /counters/c0/events HTTP/1.1\r\nhost: localhost\r\ncontent-type: {SLOTS}\r\ncontent-length: "
    took: list[float] = []
    began = time.perf_counter()

    async def gatherer(i: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        due = began + i / writers  # they are not all at once
        while due < began + seconds:
            await asyncio.sleep(max(due - time.perf_counter(), 0))
            body = bodies[i % len(bodies)]
            sent = time.perf_counter()
            writer.write(f"{head}{len(body)}\r\n\r\n".encode() + body)
            answer = await reader.readuntil(b"\r\n\r\n")
            assert b" 204 " in answer[:20], answer
            took.append(time.perf_counter() - sent)
            due = max(due + 1, time.perf_counter())
        writer.close()

    await asyncio.gather(*(gatherer(i) for i in range(writers)))
    return took, time.perf_counter() - began


def many(writers: int, seconds: float) -> None:
    """Print how long gatherers wait that each send a set every second."""
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (min(writers + 1000, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),) * 2
    )
    options = f"sample = {SAMPLE}\n"
    with serve.served(1, USERS, options=options) as (port, process):
        before = serve.worked(process)
        took, lasted = asyncio.run(_gathering(port, writers, seconds))
        share = (serve.worked(process) - before) / lasted
        size = serve.resident(process)
    quantiles = statistics.quantiles(took, n=100)
    print(
        f"{writers:,} gatherers: {len(took) / lasted:,.0f} sets a second, each of {EVENTS // writers:,} events; ",
        end="",
    )
    print(
        f"acknowledged after {1e3 * quantiles[49]:.0f} ms (median), {1e3 * quantiles[98]:.0f} ms (99 of 100); ", end=""
    )
    print(f"{share:.0%} of a processor, {size:.0f} MiB")


def main() -> None:
    """Print one table or the other."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--seconds", type=float, default=5.0)
    options.add_argument("--writers", type=int, help="gatherers that each send a set every second")
    told = options.parse_args()
    if told.writers:
        many(told.writers, told.seconds)
    else:
        rates(told.seconds)


if __name__ == "__main__":
    main()

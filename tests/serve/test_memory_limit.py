"""`limits.memory`: hostile clients of several kinds at once, and the process stays below it."""

import socket
import threading
import time
from contextlib import ExitStack, closing, suppress
from http.client import HTTPConnection
from pathlib import Path

import pytest
from processes import ANYBODY, FLU_TABLE, ask, started

from panprivacy.serve.memory import MemoryLimit, ReadingShare, least_memory, resident

MIB = 2**20
HEAD = b"POST /counters/flu/events HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/csv\r\n"
HOSTILE = {
    "announced": HEAD + b"content-length: %d\r\n\r\nuser\n" % (8 * MIB),
    "broken off": HEAD + b"content-length: %d\r\n\r\nuser\n" % (8 * MIB) + b"1\n" * (3 * MIB),
    "blank rows": HEAD + b"content-length: %d\r\n\r\nuser\n" % (4 * MIB + 5) + b"1\n" * (2 * MIB),
    "open quote": HEAD + b'content-length: %d\r\n\r\nuser\n"' % (4 * MIB + 6) + b"1\n" * (2 * MIB),
    "head": b"GET / HTTP/1.1\r\n" + b"x: " + b"a" * MIB,
    "slow reader": b"GET /static/plotly.min.js HTTP/1.1\r\nhost: localhost\r\n\r\n",
}


@pytest.mark.skip(reason="fails since the last redesign: to be mended before it runs again")
def test_without_a_limit_nothing_is_refused_and_with_one_that_is_passed_all_is() -> None:
    assert not MemoryLimit(None).is_full
    assert MemoryLimit(resident()).is_full
    assert not MemoryLimit(4 * resident()).is_full
    assert least_memory(1, 2, 3) == 21


def test_bodies_are_read_at_once_while_they_are_short() -> None:
    share, order = ReadingShare(10), []

    def read(size: int) -> None:
        with share.reading(size):
            order.append(size)

    with share.reading(4):
        read(6)
        waiting = threading.Thread(target=read, args=(100,))
        waiting.start()
        waiting.join(0.1)
        assert order == [6]
    waiting.join(10)
    assert order == [6, 100]


@pytest.mark.slow
def test_hostile_clients_of_all_kinds_keep_the_process_below_its_limit(tmp_path: Path) -> None:
    path, limit = tmp_path / "counters.toml", 640 * MIB
    limits = f'[limits]\nbody = "8 MiB"\nwaiting = "64 MiB"\nseconds = 3\nmemory = {limit}\n'
    path.write_text(ANYBODY + limits + FLU_TABLE)
    with started(path) as (process, port), ExitStack() as stack:
        statm = Path(f"/proc/{process.pid}/statm")
        peak, over = 0, threading.Event()

        def attack(data: bytes) -> None:
            while not over.is_set():
                with suppress(OSError), socket.create_connection(("127.0.0.1", port), 2) as connection:
                    connection.sendall(data)
                    over.wait(0.5)

        for number in range(60):
            data = list(HOSTILE.values())[number % len(HOSTILE)]
            thread = threading.Thread(target=attack, args=(data,), daemon=True)
            thread.start()
            stack.callback(thread.join, 10)
        stack.callback(over.set)
        taken, end = 0, time.monotonic() + 15
        while time.monotonic() < end:
            peak = max(peak, int(statm.read_text().split()[1]) * 4096)
            with suppress(OSError), closing(HTTPConnection("127.0.0.1", port, timeout=5)) as connection:
                taken += ask(connection, "POST", "/counters/flu/events", b"[1, 2]")[0] == 204
        over.set()
    print(f"peak {peak / MIB:.0f} MiB of {limit / MIB:.0f}, {taken} honest bodies")
    assert peak < limit
    assert taken > 3

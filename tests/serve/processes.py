"""Services as processes of their own."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

ANYBODY = '[service]\nport = 0\nanonymous = ["feed", "read", "release", "admin"]\n'
FLU_TABLE = '[counters.flu]\nkind = "density"\nuniverse = 100000\nepsilon = 1.0\nreleases = 3\ncolumn = "user"\n'


@contextmanager
def started(*arguments: str | Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """`panprivacy serve`, and the port that it listens on."""
    command = [sys.executable, "-m", "panprivacy", "serve", *map(str, arguments), "--initialize"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            found = re.search(rb":([0-9]+)/", process.stdout.readline())
            if found is None:
                assert process.stderr is not None
                raise AssertionError(process.stderr.read().decode())
            yield process, int(found[1])
        finally:
            process.kill()


def ask(connection: HTTPConnection, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
    """One request."""
    connection.request(method, path, body, {"content-type": "application/json"} if body else {})
    answer = connection.getresponse()
    return answer.status, answer.read()


def begin(connection: HTTPConnection, body: bytes, length: int) -> None:
    """Begin to send events, and leave it at that."""
    connection.putrequest("POST", "/counters/flu/events")
    connection.putheader("content-type", "application/json")
    connection.putheader("content-length", str(length))
    connection.endheaders(body)

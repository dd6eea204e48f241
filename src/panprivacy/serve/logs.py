"""Structured logs: one line of JSON on standard error for each event of the service, never with an id.

Only names that this program gives itself are logged: counters, tokens, routes, types of problems. No address, query,
header or body of a request is logged, and no text of an exception, which could quote one.
"""

import json
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

COMPILING = "compiling, once: may take a minute"
_STANDARD_ERROR = 2  # the number that libraries of other languages write to
_MOST_BYTES = 4096  # read and dropped at a time
_MOST_SECONDS = 1.0  # to wait for the last bytes
_silent: set[str] = set()  # levels that are not logged


def log(event: str, *, level: str = "info", **fields: Any) -> None:
    """Write one line."""
    if level in _silent:
        return
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    line = json.dumps({"at": at, "level": level, "event": event} | fields)
    print(line, file=sys.stderr, flush=True)


@contextmanager
def warnings_only() -> Iterator[None]:
    """Log only warnings and errors, so that the address of the page stays visible on a terminal."""
    _silent.add("info")
    try:
        yield
    finally:
        _silent.clear()


@contextmanager
def libraries_unquoted() -> Iterator[None]:
    """Log that a library wrote something, and not its words: they could quote a request.

    This holds for Python's loggers, for uncaught exceptions, and for code that writes to standard error by itself, such
    as the runtime of Polars when it panics over a body: a pipe stands in its place, whose bytes are read and dropped.
    """
    handlers, logging.root.handlers = logging.root.handlers, [_Unquoted(logging.WARNING)]
    sys.excepthook = lambda kind, *_: log("failed", level="error", sort=kind.__name__)  # to the end of the process
    error, sys.stderr = sys.stderr, os.fdopen(os.dup(sys.stderr.fileno()), "w")
    before, (reading, writing) = os.dup(_STANDARD_ERROR), os.pipe()
    os.dup2(writing, _STANDARD_ERROR)
    os.close(writing)
    dropping = threading.Thread(target=_drop, args=(reading,), name="standard error", daemon=True)
    dropping.start()
    try:
        yield
    finally:
        os.dup2(before, _STANDARD_ERROR)  # which closes the other end of the pipe, so that the thread ends
        os.close(before)
        dropping.join(_MOST_SECONDS)
        sys.stderr.close()
        sys.stderr, logging.root.handlers = error, handlers


class _Unquoted(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        log("note of a library", level=record.levelname.lower(), library=record.name)


def _drop(reading: int) -> None:
    while os.read(reading, _MOST_BYTES):
        log("note of a library", level="warning", library="standard error")
    os.close(reading)


@contextmanager
def compiling_told(say: Callable[[str], None]) -> Iterator[None]:
    """Say it as soon as numba has to compile something inside the block, as it does on a first start.

    On a terminal, what loads the kernels shows it (`panprivacy.kernels`).
    """
    if sys.stderr.isatty():
        yield
        return
    from numba.core import event

    class Teller(event.Listener):
        told = False

        def on_start(self, _event: Any) -> None:
            if not self.told:
                self.told = True
                say(COMPILING)

        def on_end(self, _event: Any) -> None:
            pass

    with event.install_listener("numba:compile", Teller()):
        yield

"""Structured logs: one line of JSON on standard error for each event of the service, never with an id.

Only names that this program gives itself are logged: counters, tokens, routes, types of problems, and where in the code
an error was raised. No address, query, header or body of a request is logged, and no text of an exception, which could
quote one. A warning or an error that is repeated within a minute is written once, and then with how often it was.
"""

import json
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

COMPILING = "compiling, once: may take a minute"
_STANDARD_ERROR = 2  # the number that libraries of other languages write to
_MOST_BYTES = 4096  # read and dropped at a time
_MOST_SECONDS = 1.0  # to wait for the last bytes
_REPEATS = 60.0  # seconds in which a line is written once
_silent: set[str] = set()  # levels that are not logged


class RepeatedLines:
    """Keeps warnings and errors that are repeated within a minute from being written, and counts them.

    >>> lines = RepeatedLines(clock=iter([0, 1, 2, 90]).__next__)
    >>> [lines.pass_on("failed") for _ in range(4)]
    [[('failed', 0)], [], [], [('failed', 2), ('failed', 0)]]
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._seen: dict[str, tuple[float, int]] = {}

    def pass_on(self, line: str | None) -> list[tuple[str, int]]:
        """Lines to write now, each with how often it was repeated since; without a line, all that were."""
        with self._lock:
            now = self._clock()
            over = [each for each, (at, _) in self._seen.items() if line is None or now - at > _REPEATS]
            told = [(each, many) for each in over if (many := self._seen.pop(each)[1])]
            if line is None:
                return told
            if line in self._seen:
                at, many = self._seen[line]
                self._seen[line] = (at, many + 1)
                return told
            self._seen[line] = (now, 0)
            return [*told, (line, 0)]


_repeated: list[RepeatedLines] = []  # one, while a service runs


def log(event: str, *, level: str = "info", **fields: Any) -> None:
    """Write one line; while a service runs, a warning or an error that is repeated is counted instead."""
    if level in _silent:
        return
    line = json.dumps({"level": level, "event": event} | fields)
    lines = [(line, 0)] if level == "info" or not _repeated else _repeated[0].pass_on(line)
    _write(lines)


def _write(lines: list[tuple[str, int]]) -> None:
    at = json.dumps(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
    for line, many in lines:
        repeated = f', "repeated": {many}}}' if many else "}"
        print(f'{{"at": {at}, {line[1:-1]}{repeated}', file=sys.stderr, flush=True)


def cause_of(error: BaseException | None) -> dict[str, str]:
    """What may be told of an error: its type, and where it was raised. Its text could quote a request."""
    if error is None:
        return {}
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    place = {} if frame is None else {"place": f"{Path(frame.tb_frame.f_code.co_filename).stem}:{frame.tb_lineno}"}
    return {"sort": type(error).__name__} | place


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
    sys.excepthook = lambda _, error, *__: log("failed", level="error", **cause_of(error))  # to the end of the process
    _repeated.append(RepeatedLines())
    error, sys.stderr = sys.stderr, os.fdopen(os.dup(sys.stderr.fileno()), "w")
    before, (reading, writing) = os.dup(_STANDARD_ERROR), os.pipe()
    os.dup2(writing, _STANDARD_ERROR)
    os.close(writing)
    dropping = threading.Thread(target=_drop, args=(reading,), name="standard error", daemon=True)
    dropping.start()
    try:
        yield
    finally:
        _write(_repeated.pop().pass_on(None))
        os.dup2(before, _STANDARD_ERROR)  # which closes the other end of the pipe, so that the thread ends
        os.close(before)
        dropping.join(_MOST_SECONDS)
        sys.stderr.close()
        sys.stderr, logging.root.handlers = error, handlers


class _Unquoted(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        cause = cause_of(error) or {"place": f"{record.module}:{record.lineno}"}
        log("note of a library", level=record.levelname.lower(), library=record.name, **cause)


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

"""Structured logs: one line of JSON on standard error for each thing that happens, and never an id in it.

Only names that this program gives itself are logged: counters, tokens, routes, kinds of refusals. No address of a
request, no query, no header and no body is, and no text of an exception, which could quote one.
"""

import json
import logging
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_STANDARD_ERROR = 2  # by its number, as libraries of other languages write to it
_MOST_BYTES = 4096  # that are read, and forgotten, at a time
_MOST_SECONDS = 1.0  # to wait for the last of them


def log(event: str, *, level: str = "info", **fields: Any) -> None:
    """Say that something happened."""
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    line = json.dumps({"at": at, "level": level, "event": event} | fields)
    print(line, file=sys.stderr, flush=True)


@contextmanager
def libraries_unquoted() -> Iterator[None]:
    """Say that a library has something to say, and not what: it could quote a request.

    That goes for loggers of Python, for exceptions that nobody caught, and for what others write to standard error by
    themselves, such as the runtime of Polars when it panics over a body: there is a pipe in its place, which nobody
    reads but to forget it.
    """
    handlers, logging.root.handlers = logging.root.handlers, [_Unquoted(logging.WARNING)]
    sys.excepthook = lambda kind, *_: log("failed", level="error", sort=kind.__name__)  # to the end of the process
    error, sys.stderr = sys.stderr, os.fdopen(os.dup(sys.stderr.fileno()), "w")
    before, (reading, writing) = os.dup(_STANDARD_ERROR), os.pipe()
    os.dup2(writing, _STANDARD_ERROR)
    os.close(writing)
    forgetting = threading.Thread(target=_forget, args=(reading,), name="standard error", daemon=True)
    forgetting.start()
    try:
        yield
    finally:
        os.dup2(before, _STANDARD_ERROR)  # nobody has the other end of the pipe any more, and the thread ends
        os.close(before)
        forgetting.join(_MOST_SECONDS)
        sys.stderr.close()
        sys.stderr, logging.root.handlers = error, handlers


class _Unquoted(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        log("note of a library", level=record.levelname.lower(), library=record.name)


def _forget(reading: int) -> None:
    while os.read(reading, _MOST_BYTES):
        log("note of a library", level="warning", library="standard error")
    os.close(reading)

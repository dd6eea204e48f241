"""Structured logs: one line of JSON on standard error for each thing that happens, and never an id in it.

Only names that this program gives itself are logged: counters, tokens, routes, kinds of refusals. No address of a
request, no query, no header and no body is, and no text of an exception, which could quote one.
"""

import json
import sys
import time
from typing import Any


def log(event: str, *, level: str = "info", **fields: Any) -> None:
    """Say that something happened."""
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    line = json.dumps({"at": at, "level": level, "event": event} | fields)
    print(line, file=sys.stderr, flush=True)

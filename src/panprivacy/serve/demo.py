"""A demonstration: one counter of made-up visitors from four regions, with ten minutes of data before the start."""

import random
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from panprivacy.brokers.consumer import Take
from panprivacy.ingest.batch import Refused
from panprivacy.ingest.bodies import Body, ContentType
from panprivacy.periods import SECOND, as_datetime
from panprivacy.serve.config import Settings, settings_of
from panprivacy.serve.logs import warnings_only

_REGIONS = ("north", "south", "west", "east")
_REGION = 50_000  # users of a region
_EVERY = 10  # seconds of a period
_BEFORE = 60  # periods before the start
_EACH = 120  # visits in a second


@contextmanager
def demonstrated() -> Iterator[Settings]:
    """Settings of a service in a folder that is deleted at the end."""
    with tempfile.TemporaryDirectory(prefix="panprivacy-demo-") as name, warnings_only():
        folder = Path(name)
        rows = (f"{user},{_REGIONS[user // _REGION]}\n" for user in range(len(_REGIONS) * _REGION))
        (folder / "users.csv").write_text("user,region\n" + "".join(rows))
        start = (int(time.time()) // _EVERY - _BEFORE) * _EVERY
        counter = {
            "title": "Visitors of four regions (made up)",
            "kind": "density",
            "universe_file": "users.csv:user",
            "group": "region",
            "epsilon": 1.0,
            "delta": 1e-9,
            "releases": 600,
            "column": "user",
            "schedule": {"every": f"{_EVERY}s", "time": "at", "start": as_datetime(start * SECOND), "ahead": 1},
        }
        service = {"anonymous": ["feed", "read", "release", "admin"]}
        settings = settings_of({"service": service, "counters": {"demo": counter}}, folder)
        yield replace(settings, sources={"demo": MadeUpVisits(start)})


class MadeUpVisits:
    """A source of made-up visits: a period at a time for the past, and then a second's worth each second."""

    stopped: str | None = None
    trouble: str | None = None
    lag: int | None = None

    def __init__(self, start: int) -> None:
        self._second = start
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, take: Take) -> None:
        """Begin to send visits."""
        self._thread = threading.Thread(target=self._visit, args=(take,), name="demo", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _visit(self, take: Take) -> None:
        draw, second = random.Random(1), self._second
        while not self._over.wait(max(second - time.time(), 0)):
            many = _EVERY if second + _EVERY < time.time() else 1
            regions = draw.choices(range(len(_REGIONS)), (5, 3, 2, 1), k=_EACH * many)  # some have more visitors
            users = (region * _REGION + draw.randrange(_REGION) for region in regions)
            rows = "".join(f"{user},{second}\n" for user in users)
            try:
                take(Body.copied(f"user,at\n{rows}".encode(), ContentType.csv)).result()
            except Refused:
                if self._over.wait(1):
                    return
            second += many

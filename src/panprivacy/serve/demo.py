"""A service to look at: one counter, made-up visitors of four regions, ten minutes of them before the start."""

import random
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from panprivacy.periods import SECOND, as_datetime
from panprivacy.serve.bodies import Body, Form
from panprivacy.serve.config import CounterSettings, Settings, settings_of
from panprivacy.serve.logs import only_what_is_wrong
from panprivacy.serve.refusals import Refused
from panprivacy.serve.sources import KINDS, Take

_REGIONS = ("north", "south", "west", "east")
_USERS = 200_000
_EVERY = 10  # seconds of a period
_BEFORE = 60  # periods before the start
_EACH = 120  # visits in a second
KINDS["demo"] = f"{__name__}:made_up"


@contextmanager
def demonstrated() -> Iterator[Settings]:
    """Settings of a service in a folder that is gone when it ends."""
    with tempfile.TemporaryDirectory(prefix="panprivacy-demo-") as name, only_what_is_wrong():
        folder = Path(name)
        rows = (f"{user},{_REGIONS[user * len(_REGIONS) // _USERS]}\n" for user in range(_USERS))
        (folder / "users.csv").write_text("user,region\n" + "".join(rows))
        start = as_datetime((int(time.time()) // _EVERY - _BEFORE) * _EVERY * SECOND)
        counter = {
            "title": "Visitors of four regions (made up)",
            "kind": "density",
            "universe_file": "users.csv:user",
            "group": "region",
            "epsilon": 1.0,
            "delta": 1e-9,
            "releases": 600,
            "column": "user",
            "schedule": {"every": f"{_EVERY}s", "time": "at", "start": start, "ahead": 1},
            "source": {"kind": "demo"},
        }
        service = {"anonymous": ["feed", "read", "release", "admin"]}
        yield settings_of({"service": service, "counters": {"demo": counter}}, folder)


class MadeUp:
    """Visits that nobody made: a period at a time until now is reached, and then a second's worth a second."""

    stopped: str | None = None

    def __init__(self, start: int) -> None:
        self._second = start
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, take: Take) -> None:
        """Begin to visit."""
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
            rows = "".join(f"{self._visitor(draw)},{second}\n" for _ in range(_EACH * many))
            try:
                take(Body.copied(f"user,at\n{rows}".encode(), Form.csv)).result()
            except Refused:
                if self._over.wait(1):
                    return
            second += many

    @staticmethod
    def _visitor(draw: random.Random) -> int:
        """Whoever comes; from some regions more than from others."""
        region = draw.choices(range(len(_REGIONS)), (5, 3, 2, 1))[0]
        return region * _USERS // len(_REGIONS) + draw.randrange(_USERS // len(_REGIONS))


def made_up(counter: CounterSettings, _table: dict[str, Any]) -> MadeUp:
    """The source of the demonstration: visits from the start of its schedule on."""
    assert counter.schedule is not None
    assert counter.schedule.start is not None
    return MadeUp(counter.schedule.start // SECOND)

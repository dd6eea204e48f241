"""When a counter is released: at the end of each period, by the clock or by the times of its events.

The wall clock ends periods, unless `ahead` says that rows do: then a row of a later period ends the open one, if it is
at most `ahead` periods later, and not ahead of the wall clock.

Missed periods are not released later, and stay unspent. If several periods end while the service is down, there is one
release when it starts again: of the last of them, with the number that was missed before it. If rows end periods, and
there are none for some periods, there is one release: of the first of them, with the number that was missed after it.
(Days of a counter of kind `actives` are all released: each answer is about one day.)

The wall clock, as far as it can be trusted: a jump ahead must not end periods, which would spend releases.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from panprivacy.periods import RowPolicy, as_datetime
from panprivacy.serve.config import ScheduleSettings


@dataclass(frozen=True)
class Due:
    """A release that is due: of which period, and how many before it were missed."""

    period: int
    missed: int


class Schedule:
    """Periods, numbered from the start, of which some have been released."""

    def __init__(self, settings: ScheduleSettings, policy: RowPolicy, begun: int) -> None:
        self.column = settings.time
        self.by_clock = settings.by_clock
        self.policy = policy
        self.periods = settings.periods(begun)
        self.open = max(self.periods.number(begun), 0) if self.by_clock else 0
        """The period that is not released yet."""

    @property
    def ends(self) -> int:
        """When the open period ends."""
        return self.periods.start_of(self.open + 1)

    def described(self, due: Due) -> dict[str, Any]:
        """The period of a release, as it is published."""
        until = as_datetime(self.periods.start_of(due.period + 1), self.periods.zone).isoformat()
        return {"number": due.period, "until": until, "missed": due.missed}

    def note(self, period: dict[str, Any] | None) -> None:
        """Go on after a released period; where rows end periods, also after the periods without rows."""
        if period is not None:
            quiet = 0 if self.by_clock else int(period["missed"])
            self.open = max(self.open, int(period["number"]) + 1 + quiet)


_STEP = 60 * 10**6  # microseconds by which the wall clock may be set ahead at once
_PATIENCE = 600 * 10**6  # microseconds for which it must stay ahead before it is believed


def _wall() -> int:
    return time.time_ns() // 1000


def _elapsed() -> int:
    """Microseconds since some moment, suspended time included where the system counts it."""
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)) // 1000


class SteadyClock:
    """Microseconds since 1970 that never jump far ahead.

    A clock that no one can set runs beside the wall clock. If the wall clock gets ahead of it by more than a minute,
    time goes on by the other one, and `alarm` is called. If the wall clock is still ahead after ten minutes, it is
    believed: the computer was asleep, or its clock was wrong before. How far it may be ahead then, and at a start, is
    for a counter to say, which knows when it was released last.

    >>> wall, elapsed = iter([0, 10**9, 10**6]), iter([0, 10**6, 10**6])
    >>> clock = SteadyClock(lambda: print("jumped"), lambda: next(wall), lambda: next(elapsed))
    >>> [clock.now() for _ in range(3)]
    jumped
    [0, 1000000, 1000000]
    """

    def __init__(
        self, alarm: Callable[[], object], wall: Callable[[], int] = _wall, elapsed: Callable[[], int] = _elapsed
    ) -> None:
        self._alarm, self._wall, self._elapsed = alarm, wall, elapsed
        self._ahead: int | None = None  # by how much the wall clock is ahead of the other one
        self._jumped_at: int | None = None
        self._lock = threading.Lock()

    @property
    def has_jumped(self) -> bool:
        """Whether the wall clock is not believed now."""
        return self._jumped_at is not None

    def now(self) -> int:
        """The time."""
        with self._lock:
            elapsed = self._elapsed()
            ahead = self._wall() - elapsed
            if self._ahead is None or ahead - self._ahead <= _STEP:
                self._ahead, self._jumped_at = ahead, None
            elif self._jumped_at is None:
                self._jumped_at = elapsed
                self._alarm()
            elif elapsed - self._jumped_at >= _PATIENCE:
                self._ahead, self._jumped_at = ahead, None
            return elapsed + self._ahead

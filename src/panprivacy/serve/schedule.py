"""When a counter is released: at the end of each period, by the clock or by the times of its events.

The wall clock ends periods, unless `ahead` says that rows do: then a row of a later period ends the open one, if it is
at most so many periods ahead of it, and not ahead of the wall clock.

What is missed is not made up for. If several periods end while the service is down, there is one release when it goes
on, of the last of them, which says how many were missed before it; if periods go by without a row by whose time they
would end, there is one of the first of them, which says how many were missed after it. Those stay unspent. (Days of a
counter of kind `actives` are each released: what they say is about one day.)
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panprivacy.clock import RowPolicy
from panprivacy.periods import DAY, as_datetime
from panprivacy.serve.config.counters import ScheduleSettings


@dataclass(frozen=True)
class Due:
    """A release that is due: of which period, and how many before it were missed."""

    period: int
    missed: int


class Schedule:
    """Periods of one length, numbered from the start, of which some have been released."""

    def __init__(self, settings: ScheduleSettings, begun: int) -> None:
        self.column = settings.time
        self.by_clock = settings.by_clock
        self.policy = RowPolicy(settings.ahead, settings.late, settings.early)
        self._every = settings.every
        self._start = settings.start if settings.start is not None else begun - begun % min(settings.every, DAY)
        self.open = max(self.period_of(begun), 0) if self.by_clock else 0
        """The period that is not released yet."""

    def period_of(self, moment: int) -> int:
        """In which period a moment is."""
        return (moment - self._start) // self._every

    def periods_of(self, moments: NDArray[np.int64]) -> None:
        """Put the period of each moment in its place."""
        moments -= self._start
        moments //= self._every

    def start_of(self, period: int) -> int:
        """When a period starts, in microseconds since 1970."""
        return self._start + self._every * period

    def due_at(self, moment: int) -> Due | None:
        """What is due when it is this late, if anything is."""
        now = self.period_of(moment)
        return Due(now - 1, now - 1 - self.open) if now > self.open else None

    @property
    def ends(self) -> int:
        """When the open period ends."""
        return self.start_of(self.open + 1)

    def described(self, due: Due) -> dict[str, Any]:
        """What is published about the period of a release."""
        until = as_datetime(self.start_of(due.period + 1)).isoformat()
        return {"number": due.period, "until": until, "missed": due.missed}

    def note(self, period: dict[str, Any] | None) -> None:
        """Go on after a period that was released; by the times of events, after those that went by without a row."""
        if period is not None:
            quiet = 0 if self.by_clock else int(period["missed"])
            self.open = max(self.open, int(period["number"]) + 1 + quiet)

"""When a counter is released: at the end of each period, by the clock or by the times of its events.

The wall clock ends periods, unless `ahead` says that rows do: then a row of a later period ends the open one, if it is
at most `ahead` periods later, and not ahead of the wall clock.

Missed periods are not released later, and stay unspent. If several periods end while the service is down, there is one
release when it starts again: of the last of them, with the number that was missed before it. If rows end periods, and
there are none for some periods, there is one release: of the first of them, with the number that was missed after it.
(Days of a counter of kind `actives` are all released: each answer is about one day.)
"""

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

"""Days: when they start, which one is open, and which times are refused."""

import struct
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self

from panprivacy.checks import check_level
from panprivacy.clock import Untimely
from panprivacy.errors import EarlyEvent, LateEvent
from panprivacy.periods import DAY, as_datetime, length_of, told_length

MOST_DAYS = 1000
"""In a cycle: more make phases of hardly anybody."""

_MOST_AT_ONCE = 10_000  # days that `advance` may end; a time further ahead is a mistake
_SAVED = struct.Struct("<qqdQ?")


@dataclass(frozen=True)
class Calendar:
    """What is known of time, all of it public."""

    start: int
    """When the first day starts."""
    length: int
    """Of a day."""
    level: float
    """Of the intervals of releases at the end of a day."""
    day: int = 0
    """The day that is open, from 0."""
    booked: bool = False
    """Whether the release of that day is spent."""

    SIZE = _SAVED.size
    """Bytes that it is written in."""

    def day_of(self, moment: int) -> int:
        """The day that a moment is in."""
        return (moment - self.start) // self.length

    def day_to_go_to(self, moment: int) -> int:
        """The day to which `advance` goes, if it is not over, nor so far ahead that it must be a mistake."""
        day = self.day_of(moment)
        if day < self.day:
            raise self.refusal(Untimely(0, day, self.day, early=False))
        if day - self.day > _MOST_AT_ONCE:
            raise ValueError(f"this time would end {day - self.day:,} days at once; are times in seconds?")
        return day

    def refusal(self, untimely: Untimely) -> LateEvent | EarlyEvent:
        """What to say of an event that is late or early."""
        start = f"the day from {self.start_of(untimely.period):%Y-%m-%d %H:%M:%S} on"
        if not untimely.early:
            over = "is over" if untimely.period >= 0 else "is before the first one"
            return LateEvent(f"{start} {over}; nothing was changed")
        return EarlyEvent(
            f"{start} is {untimely.period - untimely.reached:,} days ahead; nothing was changed: advance() first, "
            "or say ahead= (are times in seconds?)"
        )

    def start_of(self, day: int) -> datetime:
        """When a day starts."""
        return as_datetime(self.start + self.length * day)

    @property
    def every(self) -> str:
        """The length of a day, for people."""
        return "24 hours" if self.length == DAY else told_length(self.length)

    @property
    def now(self) -> str:
        """When the open day started, for people."""
        return f"{self.start_of(self.day):%Y-%m-%d %H:%M:%S}".removesuffix(" 00:00:00")

    def to_bytes(self) -> bytes:
        """Write it, in a length that is always the same."""
        return _SAVED.pack(self.start, self.length, self.level, self.day, self.booked)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read what `to_bytes` wrote."""
        calendar = cls(*_SAVED.unpack(data))
        check_level(calendar.level)
        if calendar.length < 1:
            raise ValueError(f"a day cannot last {calendar.length} microseconds")
        calendar.start_of(calendar.day)
        return calendar


def days_of(span: str | float | timedelta, every: str | float | timedelta) -> tuple[int, int]:
    """The length of a day, and how many days make up the span.

    >>> days_of("4w", "1d")
    (86400000000, 28)
    """
    length = length_of(every)
    days, left = divmod(length_of(span), length)
    if left or not 1 <= days <= MOST_DAYS:
        raise ValueError(f"span is a whole number of days, from 1 to {MOST_DAYS:,}, each of {every}, got {span}")
    return length, days

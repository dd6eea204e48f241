"""What leaves of an `ActiveUsers` at the end of a day: who was active in the last 1, 2, 3, ... days."""

from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from panprivacy.display import Card, grid_of, html_of, line_of, measured, warning_of
from panprivacy.privacy.budget import and_delta

_DAY = timedelta(days=1)
_MONTHS = (30, 28)  # days of what is called a month, as far as they are known


@dataclass(frozen=True)
class ActivesRelease:
    """Shares of the universe that were active in the last k days, for each k, with their errors.

    What is called a day here is whatever `every` says. In the first cycle there are only as many shares as days so far.
    """

    active: tuple[float, ...]
    """``active[k-1]`` is the share that was active in the last k days. They rise with k, and are within [0, 1]."""
    active_stderr: tuple[float, ...]
    """Standard errors of the raw shares, sampling included; the others err no more."""
    active_interval: tuple[tuple[float, float], ...]
    """Confidence intervals, each around a raw share."""
    raw_active: tuple[float, ...]
    """The unbiased estimates before they were brought into order and into [0, 1]."""
    stickiness: float | None
    """Daily actives as a share of monthly ones; None without a month, nan if those may be nobody."""
    stickiness_stderr: float | None
    stickiness_interval: tuple[float, float] | None
    start: datetime
    """When the day of this release started."""
    end: datetime
    """When it ended."""
    level: float
    """Confidence level of the intervals."""
    universe: int
    """How many users the shares speak for."""
    number: int
    """Which day this is, from 1."""
    epsilon_spent: float
    """Worst-case loss in a cycle up to this release, one reading of the state included."""
    delta_spent: float
    """The probability, at most, with which more than that was lost; 0 without Gaussian noise."""
    secure: bool
    """False if the coins were not the operating system's: such a release protects nobody."""

    @property
    def daily(self) -> float | None:
        """The share active in the last 24 hours; None if that is no number of days, or too many."""
        return self._active_in(_DAY)

    @property
    def weekly(self) -> float | None:
        """The share active in the last 7 times 24 hours."""
        return self._active_in(7 * _DAY)

    @property
    def monthly(self) -> float | None:
        """The share active in the last 30 times 24 hours, or 28 times if there are no 30."""
        found = (self._active_in(days * _DAY) for days in _MONTHS)
        return next((share for share in found if share is not None), None)

    def _active_in(self, time: timedelta) -> float | None:
        days = days_in(time, self.end - self.start)
        return self.active[days - 1] if days is not None and days <= len(self.active) else None

    def to_dict(self) -> dict[str, Any]:
        """Everything in the release as plain numbers and text, for JSON."""
        named = {name: getattr(self, name) for name in ("daily", "weekly", "monthly")}
        times = {"start": self.start.isoformat(), "end": self.end.isoformat()}
        return asdict(self) | times | named

    def card(self) -> Card:
        """What is shown of it."""
        interval = f"{100 * self.level:g}% interval"
        length = self.end - self.start
        names = {days_in(_DAY, length): "daily", days_in(7 * _DAY, length): "weekly"}
        month = next((days_in(d * _DAY, length) for d in _MONTHS if self._active_in(d * _DAY) is not None), None)
        names |= {month: "monthly", len(self.active): names.get(len(self.active), f"last {len(self.active)}")}
        rows = [
            (name, measured(self.active[k - 1], self.active_stderr[k - 1], self.active_interval[k - 1], interval, 4))
            for k, name in sorted((k, name) for k, name in names.items() if k is not None and k <= len(self.active))
        ]
        if self.stickiness is not None and self.stickiness_interval is not None:
            bounds = self.stickiness_interval
            rows.append(("stickiness", measured(self.stickiness, self.stickiness_stderr, bounds, interval, 4)))
        spent = f"{self.epsilon_spent:.4g} spent in a cycle{and_delta(self.delta_spent)}"
        return Card(f"Day {self.number}", (*rows, ("epsilon", spent)), warning_of(self.secure))

    __str__ = line_of
    __rich__ = grid_of
    _repr_html_ = html_of


def days_in(time: timedelta, length: timedelta) -> int | None:
    """How many days of this length make up a time; None if no whole number does."""
    return None if time % length else time // length


def month_in(length: timedelta, days: int) -> int | None:
    """How many of so many days make up a month, if they do."""
    found = (days_in(each * _DAY, length) for each in _MONTHS)
    return next((month for month in found if month is not None and month <= days), None)

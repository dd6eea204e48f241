"""What leaves of an `ActiveUsers` at the end of a day: who was active in the last 1, 2, 3, ... days."""

from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from panprivacy.display import Card, finite, grid_of, html_of, line_of, measured, warning_of
from panprivacy.privacy.budget import and_delta
from panprivacy.release.period_pictures import draw_actives
from panprivacy.release.shares import Measured, as_columns

if TYPE_CHECKING:
    import polars as pl

_DAY = timedelta(days=1)
_MONTHS = (30, 28)  # days of what is called a month, as far as they are known


@dataclass(frozen=True)
class ActivesRelease:
    """Shares of the universe that were active in the last k days, for each k, with their errors.

    What is called active is a share of the universe, and what is called a count is a number of users. A day is as long
    as `every` says. In the first cycle there are only as many shares as days so far.
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
    def active_counts(self) -> tuple[float, ...]:
        """``active_counts[k-1]`` is the number of users that were active in the last k days."""
        return tuple(each.value for each in self._counts())

    @property
    def active_counts_stderr(self) -> tuple[float, ...]:
        """Standard errors of the counts."""
        return tuple(each.stderr for each in self._counts())

    @property
    def active_counts_interval(self) -> tuple[tuple[float, float], ...]:
        """Confidence intervals for the counts."""
        return tuple(each.interval for each in self._counts())

    @property
    def daily(self) -> float | None:
        """The share active in the last 24 hours; None if that is no number of days, or too many."""
        return self._value("daily")

    @property
    def weekly(self) -> float | None:
        """The share active in the last 7 times 24 hours."""
        return self._value("weekly")

    @property
    def monthly(self) -> float | None:
        """The share active in the last 30 times 24 hours, or 28 times if there are no 30."""
        return self._value("monthly")

    @property
    def daily_count(self) -> float | None:
        """The number of users active in the last 24 hours, often called DAU; `named` has its error, too."""
        return self._value("daily", self.universe)

    @property
    def weekly_count(self) -> float | None:
        """The number of users active in the last 7 times 24 hours, often called WAU."""
        return self._value("weekly", self.universe)

    @property
    def monthly_count(self) -> float | None:
        """The number of users active in the last 30 (or 28) times 24 hours, often called MAU."""
        return self._value("monthly", self.universe)

    def named(self) -> dict[str, Any]:
        """The shares and counts that go by a name, each with its error: ``daily``, ``daily_count_stderr`` and so on.

        What is not known yet, or is no number of days, is None.
        """
        found: dict[str, Any] = {}
        for name, days in self._days().items():
            share = self._last(days) if days is not None else None
            count = share.times(self.universe) if share is not None else None
            for called, each in ((name, share), (f"{name}_count", count)):
                numbers = each or Measured(0.0, 0.0, (0.0, 0.0))
                found |= {word: value if each else None for word, value in numbers.named(called).items()}
        return found

    def to_dict(self) -> dict[str, Any]:
        """Everything in the release as plain numbers and text, for JSON; None for what is not known."""
        times = {"start": self.start.isoformat(), "end": self.end.isoformat()}
        counts = ("active_counts", "active_counts_stderr", "active_counts_interval")
        fields = asdict(self) | times | self.named() | {name: getattr(self, name) for name in counts}
        known: dict[str, Any] = finite(fields)
        return known

    def to_polars(self) -> "pl.DataFrame":
        """A frame with a row for the last 1, 2, ... days, as shares and as counts."""
        import polars as pl

        days = range(1, len(self.active) + 1)
        shares = as_columns("active", [self._last(k) for k in days])
        when = {"start": [self.start] * len(days), "end": [self.end] * len(days), "days": list(days)}
        return pl.DataFrame(when | shares | as_columns("count", self._counts()))

    def plot(self, path: str | Path) -> None:
        """Draw this day in a file, .png, .svg or .pdf; `pp.ActiveUsers.plot` draws all of them. Needs Matplotlib."""
        draw_actives([self], path)

    def _counts(self) -> list[Measured]:
        return [self._last(k + 1).times(self.universe) for k in range(len(self.active))]

    def _last(self, days: int) -> Measured:
        k = days - 1
        return Measured(self.active[k], self.active_stderr[k], self.active_interval[k])

    def _value(self, name: str, times: int = 1) -> float | None:
        days = self._days()[name]
        return None if days is None else self.active[days - 1] * times

    def _days(self) -> dict[str, int | None]:
        """How many days each name stands for; None for what is not known, or no number of days."""
        length, known = self.end - self.start, len(self.active)
        days = {"daily": days_in(_DAY, length), "weekly": days_in(7 * _DAY, length)}
        within = {name: k if k is not None and k <= known else None for name, k in days.items()}
        return within | {"monthly": month_in(length, known)}

    def card(self) -> Card:
        """What is shown of it."""
        days = len(self.active)
        names = {k: name for name, k in self._days().items() if k is not None}
        names.setdefault(days, f"last {days}")
        rows = [row for k in sorted(names) for row in self._last(k).rows(names[k], self.universe, self.level)]
        if self.stickiness is not None and self.stickiness_interval is not None:
            bounds, interval = self.stickiness_interval, f"{100 * self.level:g}% interval"
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

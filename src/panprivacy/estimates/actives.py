"""Who was active in the last 1, 2, 3, ... days: the release of an `ActiveUsers` at the end of a day."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from panprivacy.display import Rows, Tabular
from panprivacy.errors import InvalidValue, PanPrivacyError
from panprivacy.estimates.errors import interval_within
from panprivacy.estimates.estimate import (
    NOT_ENOUGH,
    Estimate,
    Floats,
    Interval,
    Part,
    Series,
    column_lists,
    optional,
    series,
)
from panprivacy.estimates.release import AnyRelease, Cost
from panprivacy.estimates.smoothing import local_lines

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes

PLAUSIBLE = 0.05
"""A share of the users that may be active on a day: an error as large hides it."""

_DAY = timedelta(days=1)
_MONTHS = (30, 28)  # days that are called a month, the first that is known
_NAMES = ("daily", "weekly", "monthly")
_OF_A_NAME = tuple(f"{name}{part}" for name in _NAMES for part in ("", "_count"))


@dataclass(frozen=True, kw_only=True)
class ActivesRelease(AnyRelease):
    """Shares of the universe that were active in the last k days, for each k, with their errors.

    Shares are fractions of the universe, counts are numbers of users. A day is as long as `every` says. In the first
    cycle there are only as many shares as days so far.
    """

    universe: int
    """How many users the shares speak for."""
    start: datetime
    """When the day of this release started."""
    end: datetime
    """When it ended."""

    active: ClassVar[Part[Floats]]
    active_stderr: ClassVar[Part[Floats]]
    active_interval: ClassVar[Part[tuple[Interval, ...]]]
    raw_active: ClassVar[Part[Floats]]
    active, active_stderr, active_interval, raw_active = series("active")
    """``active[k-1]`` is the share that was active in the last k days.

    Each share is the raw one, which is unbiased, brought into [0, 1]. Other users tell each of them, so that a share
    may come out below the share of fewer days. `pp.ActiveUsers.smoothed` averages over days."""
    smoothed: ClassVar[Part[Floats]]
    smoothed_stderr: ClassVar[Part[Floats]]
    smoothed_interval: ClassVar[Part[tuple[Interval, ...]]]
    smoothed, smoothed_stderr, smoothed_interval = series("smoothed")[:3]
    """In the releases of an `ActivesSeries`: the same shares, averaged over days as far as the truth moves slowly.

    Standard errors are those of what is left of the noise, and of what averaging misses."""
    active_counts: ClassVar[Part[Floats]]
    active_counts_stderr: ClassVar[Part[Floats]]
    active_counts_interval: ClassVar[Part[tuple[Interval, ...]]]
    active_counts, active_counts_stderr, active_counts_interval = series("active_counts")[:3]
    """``active_counts[k-1]`` is the number of users that were active in the last k days."""

    @staticmethod
    def of_shares(
        active: Series, stickiness: Estimate | None, length: timedelta, universe: int
    ) -> dict[str, Estimate | Series]:
        """The estimates of a release: the shares, the stickiness, the shares that have a name, and all as counts."""
        shares = active.each()
        counts = [share.times(universe)._replace(raw=None) for share in shares]
        found: dict[str, Estimate | Series] = {"active": active}
        for name, days in named_days(length, len(shares)).items():
            found[name] = shares[days - 1]._replace(raw=None)
            found[f"{name}_count"] = counts[days - 1]
        return found | ({} if stickiness is None else {"stickiness": stickiness}) | {"active_counts": Series.of(counts)}

    @property
    def main_name(self) -> str:
        """The name of the share by which groups are compared: the daily share, or else the share of one day."""
        return "daily" if "daily" in self.estimates else "last 1"

    @property
    def main(self) -> Estimate:
        """The share by which groups are compared."""
        return self.singles().get("daily") or self.each_share()[0]

    def _more_cells(self) -> dict[str, str]:
        found = self.singles()
        return {name: found[name].short for name in _NAMES[1:] if name in found} | {"of": f"{self.universe:,}"}

    def _more_words(self) -> str:
        cells = self._more_cells()
        return "; " + ", ".join([*(f"{name} {cells[name]}" for name in _NAMES if name in cells), f"of {cells['of']}"])

    def why_missing(self, name: str) -> str:
        """Why there is no estimate of this name."""
        if name.startswith("smoothed"):
            return "one day is not smoothed: ActiveUsers.smoothed() has the releases of all days with smoothed shares"
        return super().why_missing(name)

    stickiness: ClassVar[Part[float | None]] = optional("stickiness")
    """The mean of the days' actives over the mean monthly actives, of the last cycle.

    None before there is a month, and where the monthly actives are known too little for a ratio."""
    stickiness_stderr: ClassVar[Part[float | None]] = Part("stickiness", "stderr", optional=True)
    """Standard error of the stickiness."""
    stickiness_interval: ClassVar[Part[Interval | None]] = Part("stickiness", "interval", optional=True)
    """Confidence interval for the stickiness."""
    daily: ClassVar[Part[float | None]]
    daily_count: ClassVar[Part[float | None]]
    daily, daily_count = optional("daily"), optional("daily_count")
    """The share and the number of users active in the last 24 hours, often called DAU.

    None if that is no number of days, or too many."""
    weekly: ClassVar[Part[float | None]]
    weekly_count: ClassVar[Part[float | None]]
    weekly, weekly_count = optional("weekly"), optional("weekly_count")
    """The share and the number of users active in the last 7 times 24 hours, often called WAU."""
    monthly: ClassVar[Part[float | None]]
    monthly_count: ClassVar[Part[float | None]]
    monthly, monthly_count = optional("monthly"), optional("monthly_count")
    """The share and the number of users active in the last 30 (or 28) times 24 hours, often called MAU."""

    def _is_noise(self) -> bool:
        return not self.active_stderr[0] <= max(self.active[0], PLAUSIBLE)  # it may be nan

    def to_dict(self) -> dict[str, Any]:
        """Everything in the release as plain numbers and text, for JSON; None for unknown values."""
        parts = (f"{name}{part}" for name in ("stickiness", *_OF_A_NAME) for part in ("", "_stderr", "_interval"))
        times = {"start": self.start.isoformat(), "end": self.end.isoformat()}
        return dict.fromkeys(parts) | super().to_dict() | times

    @classmethod
    def from_dict(cls, found: Mapping[str, Any], cost: Cost | None = None) -> Self:
        """The release that `to_dict` wrote."""
        times = {name: datetime.fromisoformat(found[name]) for name in ("start", "end")}
        return super().from_dict({**found, **times}, cost)

    def to_polars(self) -> "pl.DataFrame":
        """A frame with a row for the last 1, 2, ... days, as shares and as counts.

        With groups, each of them has such rows, and the last ones are of all users: their group is null.
        """
        import polars as pl

        if self.groups:
            return self._stacked()
        shares = self.each_share()
        days = range(1, len(shares) + 1)
        when = {"start": [self.start] * len(days), "end": [self.end] * len(days), "days": list(days)}
        counts = column_lists("count", [share.times(self.universe) for share in shares])
        smoothed = self.estimates.get("smoothed")
        lines = column_lists("smoothed", smoothed.each()) if isinstance(smoothed, Series) else {}
        return pl.DataFrame(when | column_lists("active", shares) | counts | lines)

    def _plot_one(self, path: str | Path | None, ax: "Axes | None") -> "Axes":
        from panprivacy.estimates.plots import draw_day

        return draw_day(self, path, ax)

    def each_share(self) -> list[Estimate]:
        """The shares who were active in the last 1, 2, ... days, each with its error."""
        active = self.estimates["active"]
        assert isinstance(active, Series)
        return active.each()

    def _title(self) -> str:
        return f"Day {self.number}"

    def _spent(self) -> str:
        return str(self.cost).replace("spent", "spent in a cycle")

    def _rows(self) -> Rows:
        shares, found, interval = self.each_share(), self.singles(), self.interval_name
        names = {days: name for name, days in named_days(self.end - self.start, len(shares)).items()}
        names.setdefault(len(shares), f"last {len(shares)}")
        rows: list[tuple[str, str]] = []
        for days in sorted(names):
            share = shares[days - 1]
            rows.append((names[days], share.shown(interval)))
            rows.append(
                (f"{names[days]} (users)", f"{share.times(self.universe).shown(interval)}, of {self.universe:,}")
            )
        if "monthly" in found and "daily" in found:
            sticky = found.get("stickiness")
            rows.append(("stickiness", sticky.shown(interval) if sticky else NOT_ENOUGH))
        return tuple(rows)


@dataclass(frozen=True)
class ActivesSeries(Tabular):
    """The releases of many days, each of which has shares that are smoothed over the days, beside its own.

    On each day other users tell who was active in the last k days, so for each k the days are independent looks at a
    truth that moves slowly: `panprivacy.estimates.smoothing` fits lines through them, and measures how far a line may
    reach. Where the truth moves fast, as daily actives do over a week, smoothed shares are those released. This is
    post-processing, which costs nothing of epsilon.
    """

    releases: tuple[ActivesRelease, ...]
    """The releases of the days, in order."""
    reaches: tuple[int, ...]
    """For each k, how many days to either side were averaged."""

    @classmethod
    def of(cls, releases: Sequence[ActivesRelease]) -> Self:
        """Smooth the releases of days of one estimator, in order."""
        numbers = [release.number for release in releases]
        if numbers != sorted(set(numbers)):
            raise InvalidValue("give the days of one estimator, each once, in order", code="days-order")
        groups = [cls.of(rows).releases for rows in zip(*(release.groups for release in releases), strict=True)]
        longest = max((len(release.active) for release in releases), default=0)
        lines = [_smoothed([each for each in releases if len(each.active) > k], k) for k in range(longest)]
        found: list[ActivesRelease] = []
        for i, release in enumerate(releases):
            shares = Series.of([line[release.number] for line, _ in lines[: len(release.active)]])
            rows = tuple(of_group[i] for of_group in groups)
            found.append(replace(release, estimates={**release.estimates, "smoothed": shares}, groups=rows))
        return cls(tuple(found), tuple(reach for _, reach in lines))

    def __repr__(self) -> str:
        days = f" until {self.releases[-1].end:%Y-%m-%d}" if self.releases else ""
        return f"<ActivesSeries of {len(self.releases)} releases{days}>"

    def to_polars(self) -> "pl.DataFrame":
        """A frame with a row for each day and each k of "the last k days"."""
        import polars as pl

        if not self.releases:
            raise PanPrivacyError("there is no frame before a day is over", code="nothing-released")
        return pl.concat([each.to_polars() for each in self.releases])

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain numbers and text, for JSON."""
        return {"reaches": list(self.reaches), "releases": [each.to_dict() for each in self.releases]}

    def plot(self, path: str | Path | None = None, *, ax: "Axes | None" = None) -> "Axes":
        """Draw smoothed shares over time, with those released as dots; with a path also into a file."""
        from panprivacy.estimates.timelines import draw_actives

        return draw_actives(self.releases, path, ax)


def _smoothed(releases: Sequence[ActivesRelease], k: int) -> tuple[dict[int, Estimate], int]:
    """The smoothed shares of the last k+1 days, by the number of the release, and how far lines reach."""
    from scipy.special import ndtri

    days = np.array([each.number for each in releases])
    raw, stderr = (np.array([getattr(each, name)[k] for each in releases]) for name in ("raw_active", "active_stderr"))
    line = local_lines(days, raw, stderr**2)
    arms = float(ndtri((1 + releases[0].level) / 2)) * line.stderr
    low, high = interval_within(line.value, arms, arms)
    columns = (each.tolist() for each in (days, np.clip(line.value, 0.0, 1.0), line.stderr, low, high))
    return {
        day: Estimate(value, error, (a, b)) for day, value, error, a, b in zip(*columns, strict=True)
    }, line.bandwidth


def named_days(length: timedelta, known: int) -> dict[str, int]:
    """How many days of this length ``daily``, ``weekly`` and ``monthly`` stand for, out of the `days` that are known.

    >>> named_days(timedelta(days=1), 28), named_days(timedelta(hours=12), 10)
    ({'daily': 1, 'weekly': 7, 'monthly': 28}, {'daily': 2})
    """
    times = {"daily": [_DAY], "weekly": [7 * _DAY], "monthly": [days * _DAY for days in _MONTHS]}
    found: dict[str, int] = {}
    for name, lengths in times.items():
        days = [time // length for time in lengths if not time % length and time // length <= known]
        if days:
            found[name] = days[0]
    return found

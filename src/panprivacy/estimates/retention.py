"""Who came back: the release of a `Retention`, and how two releases together tell who came in which period."""

from dataclasses import dataclass, field
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np

from panprivacy.display import Rows
from panprivacy.estimates.errors import ErrorModel, ErrorVariance, ratio_of, within
from panprivacy.estimates.estimate import (
    GUESS,
    NOTHING,
    Estimate,
    Floats,
    Interval,
    Part,
    Series,
    column_lists,
    numbers,
    series,
)
from panprivacy.estimates.release import AnyRelease
from panprivacy.estimates.smoothing import rising_curve

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes

Share: TypeAlias = Literal["cohort", "returned", "newcomers"]

PARTS = 16
"""One user in this many answers the other question: who came back, or who is new."""
MAIN_SHARE = (PARTS - 1) / PARTS
"""The share of the users that is asked what was asked for."""

_SHARES: tuple[Share, ...] = ("cohort", "returned", "newcomers")


@dataclass(frozen=True, kw_only=True)
class RetentionRelease(AnyRelease):
    """Estimates of who came in which of two periods, with their errors, that cost the stated part of the budget.

    All are shares of the universe, but for `rate`, which is a share of the cohort, and counts, which are numbers of
    users. Raw values are unbiased, and may be outside [0, 1].
    """

    universe: int
    """How many users the estimates speak for."""
    asked: Literal["returned", "newcomers"]
    """What nearly all users were asked, and what the curve is of; one user in sixteen was asked the other thing."""
    noise_stderr: float = field(default=nan, compare=False)  # nan is not equal to itself
    """Standard deviation of the noise of this release, as a share."""

    cohort: ClassVar[Part[float]]
    cohort_stderr: ClassVar[Part[float]]
    cohort_interval: ClassVar[Part[Interval]]
    raw_cohort: ClassVar[Part[float]]
    cohort, cohort_stderr, cohort_interval, raw_cohort = numbers("cohort")
    """The share that came in the first period."""
    returned: ClassVar[Part[float]]
    returned_stderr: ClassVar[Part[float]]
    returned_interval: ClassVar[Part[Interval]]
    raw_returned: ClassVar[Part[float]]
    returned, returned_stderr, returned_interval, raw_returned = numbers("returned")
    """The share that came in both periods."""
    newcomers: ClassVar[Part[float]]
    newcomers_stderr: ClassVar[Part[float]]
    newcomers_interval: ClassVar[Part[Interval]]
    raw_newcomers: ClassVar[Part[float]]
    newcomers, newcomers_stderr, newcomers_interval, raw_newcomers = numbers("newcomers")
    """The share that came in the second period only."""
    rate: ClassVar[Part[float]]
    rate_stderr: ClassVar[Part[float]]
    rate_interval: ClassVar[Part[Interval]]
    rate, rate_stderr, rate_interval = numbers("rate")[:3]
    """The share of the cohort that came back. If the cohort is less than four standard errors above zero, there is not
    enough data: it is nan, and its interval [0, 1]."""
    curve: ClassVar[Part[Floats]]
    curve_stderr: ClassVar[Part[Floats]]
    curve_interval: ClassVar[Part[tuple[Interval, ...]]]
    raw_curve: ClassVar[Part[Floats]]
    curve, curve_stderr, curve_interval, raw_curve = series("curve")
    """The share that was asked for, at each release of the second period so far.

    Each point is the raw one, which is unbiased, brought into [0, 1]; `smoothed_curve` never falls."""
    cohort_count: ClassVar[Part[float]] = numbers("cohort_count")[0]
    """The number of users that came in the first period; `count_of` has its error, too."""
    returned_count: ClassVar[Part[float]] = numbers("returned_count")[0]
    """The number of users that came in both periods."""
    newcomers_count: ClassVar[Part[float]] = numbers("newcomers_count")[0]
    """The number of users that came in the second period only."""

    @property
    def smoothed_curve(self) -> tuple[float, ...]:
        """The curve that never falls, nearest to the raw one, as `pp.monotone` fits it. It errs less."""
        raw = np.array(self.raw_curve)
        fitted = rising_curve(raw, np.ones(len(raw)), np.full(len(raw), self.noise_stderr))
        return tuple(np.clip(fitted, 0.0, 1.0).tolist())

    def count_of(self, name: Share) -> Estimate:
        """The number of users of a share, with its standard error and its interval."""
        return self.singles()[f"{name}_count"]

    def _is_noise(self) -> bool:
        return not self.returned_stderr <= GUESS  # it may be nan

    def to_polars(self) -> "pl.DataFrame":
        """A frame of the curve, with a row for each release of the second period, as shares and as counts.

        The cohort is the same in every row. The rate belongs to this release: null in the rows before it. With groups,
        each of them has such rows, and the last ones are of all users: their group is null.
        """
        import polars as pl

        if self.groups:
            return self._stacked()
        curve, found = self.estimates["curve"], self.singles()
        assert isinstance(curve, Series)
        points = curve.each()
        columns: dict[str, Any] = {"release": list(range(1, len(points) + 1))}
        counts = column_lists(f"{self.asked}_count", [point.times(self.universe) for point in points])
        cohort = column_lists("cohort", [found["cohort"]] * len(points))
        rate = found["rate"].columns("rate")
        rates = {name: [*[None] * (len(points) - 1), value] for name, value in rate.items()}
        return pl.DataFrame(columns | column_lists(self.asked, points) | counts | cohort | rates)

    def _plot_one(self, path: str | Path | None, ax: "Axes | None") -> "Axes":
        from panprivacy.estimates.timelines import draw_retention

        return draw_retention(self, path, ax)

    @property
    def main_name(self) -> str:
        """The name of the share by which groups are compared."""
        return self.asked

    def _more_cells(self) -> dict[str, str]:
        found = self.singles()
        return {name: found[name].short for name in ("cohort", "rate")} | {"of": f"{self.universe:,}"}

    def _more_words(self) -> str:
        return "; " + ", ".join(f"{name} {cell}" for name, cell in self._more_cells().items())

    def _rows(self) -> Rows:
        other, found, name = "newcomers" if self.asked == "returned" else "returned", self.singles(), self.interval_name
        rows: list[tuple[str, str]] = []
        for share in _SHARES:
            remark = ", of one user in 16" if share == other else ""
            rows.append((share, found[share].shown(name) + remark))
            rows.append((f"{share} (users)", f"{found[f'{share}_count'].shown(name)}, of {self.universe:,}"))
        rows.append(("rate", found["rate"].shown(name)))
        if len(self.curve) > 1:
            rows.append((f"{self.asked} by release", ", ".join(f"{share:.4f}" for share in self.curve)))
        return tuple(rows)


class Counts(NamedTuple):
    """Noisy numbers of ones in one release."""

    main: int
    """Of the users who are asked the main question."""
    control: int
    """Of the users who are asked the other one."""


class _Answer(NamedTuple):
    """A share as it was counted, and its error."""

    raw: float
    error: ErrorVariance


@dataclass(frozen=True)
class TwoPeriods:
    """A main group, asked who came back (or who is new), and a control group that is asked the other question.

    An event of the second period touches the bit of its user in either group, so those who came back and those who are
    new are together all who were touched. The errors need that share, and neither group alone tells it.
    """

    main: ErrorModel
    """The law of the main group, which also tells the cohort."""
    control: ErrorModel
    newcomers: bool
    """Whether the main group is asked who is new."""

    def estimates(self, first: Counts, later: list[Counts], level: float) -> dict[str, Estimate | Series]:
        """The estimates of a `RetentionRelease`, from the releases of the first period and the second."""
        if self.main.users and self.control.users:
            cohort, changes = self.main.estimate(first.main, level), [self._change(first, now) for now in later]
            curve = Series.of([asked.error.estimate(asked.raw, level) for asked, _, _ in changes])
            asked, other, touched = changes[-1]
            rate = self._rate(first, other if self.newcomers else asked, touched, level)
            returned, new = (each.error.estimate(each.raw, level) for each in (asked, other))
            returned, new = (new, returned) if self.newcomers else (returned, new)
        else:  # a group of a few users
            cohort = returned = new = NOTHING
            rate = NOTHING._replace(raw=None)
            curve = Series.of([NOTHING for _ in later])
        shares = {"cohort": cohort, "returned": returned, "newcomers": new}
        universe = self.main.population
        counts = {f"{name}_count": share.times(universe)._replace(raw=None) for name, share in shares.items()}
        return {**shares, "rate": rate, "curve": curve, **counts}

    def _change(self, first: Counts, now: Counts) -> tuple[_Answer, _Answer, float]:
        """What each group says, and the share of the users that was touched, by both.

        Those whom the main group tells are among the touched.
        """
        sign = 1 if self.newcomers else -1
        asked = sign * (now.main - first.main) / self.main.whole
        other = sign * (first.control - now.control) / self.control.whole
        touched = float(max(within(asked + other), within(asked)))
        of_asked = self.main.difference_variance(touched, within(asked))
        return (
            _Answer(asked, of_asked),
            _Answer(other, self.control.difference_variance(touched, within(other))),
            touched,
        )

    def _rate(self, first: Counts, returned: _Answer, touched: float, level: float) -> Estimate:
        """The share of the cohort that came back."""
        raw_cohort = self.main.density(first.main)
        cohort = within(raw_cohort)
        if self.newcomers:  # the two estimates are of different users, and have nothing in common
            both = ErrorVariance(0.0, 0.0, self.main.noise)
        else:
            both = self.main.difference_covariance(touched, min(within(returned.raw), cohort), cohort)
        return ratio_of(returned.raw, raw_cohort, (returned.error, self.main.variance_at(raw_cohort), both), level)

"""`ActiveUsers`: how many users were active in the last day, week and month, every day?"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import inf
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from panprivacy.checks import check_delta, check_epsilon, check_level
from panprivacy.display import Rows, Tabular, format_bytes
from panprivacy.errors import InvalidValue, PanPrivacyError
from panprivacy.estimates import Cost, ErrorModel, Estimate, Series
from panprivacy.estimates.actives import ActivesRelease, ActivesSeries, named_days
from panprivacy.estimates.errors import ErrorVariance, mean_of, ratio_of
from panprivacy.estimates.estimate import NOTHING
from panprivacy.estimates.timelines import draw_actives
from panprivacy.estimators.known import PartedEstimator
from panprivacy.estimators.windows import TimedUpdates
from panprivacy.memory.intrinsics import wipe_stack
from panprivacy.memory.scratch import Scratch
from panprivacy.memory.threads import CHUNK
from panprivacy.periods import MOST_DAYS, Periods, days_of, moment_of, told_time, zone_of
from panprivacy.privacy import coins as coin_sources
from panprivacy.privacy import composition
from panprivacy.privacy.budget import Published, Split, and_delta
from panprivacy.privacy.coins import Coins
from panprivacy.privacy.splitting import best_split
from panprivacy.registry import Traits
from panprivacy.slots import UserSample
from panprivacy.slots.choosing import grouped, table_size
from panprivacy.slots.parts import (
    PartOfGroup,
    PermutedParts,
    choose_parts,
    phase_reset_on,
    phases_by_age,
    phases_of_age,
)
from panprivacy.universe import Universe, universe_of
from panprivacy.universe.groups import Label

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes

_UNKNOWN = -(2**63)  # stands for the count of a day that was not released: no noise is so far out


@dataclass(frozen=True)
class Days(Periods):
    """The days of an `ActiveUsers`, and which one is open. All of it is public."""

    level: float = 0.95
    """Confidence level of the release at the end of a day."""
    open: int = 0
    """The day that is open, from 0."""
    booked: bool = False
    """Whether the release of that day is spent."""


Phase: TypeAlias = UserSample | PartOfGroup
"""The users of a phase, or its users in one group."""


def errors_of(phases: Sequence[Phase], split: Split, times: int = 1) -> ErrorModel:
    """The law of the errors of the share of these phases, in a sum of `times` noisy counts."""
    bits, users = sum(phase.size for phase in phases), sum(phase.users for phase in phases)
    return ErrorModel(split.pair, bits, users, phases[0].universe, split.noise, times)


class DayCounts(NamedTuple):
    """The noisy counts released at the end of a day, and the earlier days' counts that the stickiness needs."""

    day: int
    """The number of the day, from 0."""
    ages: list[int]
    """The ones of the phases that tell of the last 1, 2, ... days."""
    daily: list[int]
    """For the last L days, day d at place d % L: the count that told of the last 24 hours."""
    monthly: list[int]
    """The same for the last month."""

    @classmethod
    def of(cls, published: Published, days: int) -> list[Self]:
        """Read what `noisy` wrote, for each group, or once for all users."""
        day, *rest = published.noisy
        each = (rest[i : i + 3 * days] for i in range(0, len(rest), 3 * days))
        return [cls(day, of[: min(day + 1, days)], of[days : 2 * days], of[2 * days :]) for of in each]

    @classmethod
    def together(cls, groups: Sequence[Self]) -> Self:
        """The counts of all groups together."""
        sums = (
            [_UNKNOWN if _UNKNOWN in counts else sum(counts) for counts in zip(*lists, strict=True)]
            for lists in zip(*(group[1:] for group in groups), strict=True)
        )
        return cls(groups[0].day, *sums)

    @classmethod
    def following(cls, before: Self | None, day: int, ages: Sequence[int], length: timedelta, days: int) -> Self:
        """The counts of a day, which follow an earlier day's."""
        names = named_days(length, len(ages))
        past = []
        for name in ("daily", "monthly"):
            counts = list(getattr(before, name)) if before else [_UNKNOWN] * days
            for missed in range(max(before.day + 1 if before else 0, day - days + 1), day):
                counts[missed % days] = _UNKNOWN
            counts[day % days] = ages[names[name] - 1] if name in names else _UNKNOWN
            past.append(counts)
        return cls(day, list(ages), *past)

    def noisy(self) -> tuple[int, ...]:
        """All but the day, in a length that is always the same."""
        padding = [0] * (len(self.daily) - len(self.ages))
        return (*self.ages, *padding, *self.daily, *self.monthly)


def shares_of(counts: DayCounts, phases: Sequence[Phase], split: Split, level: float, times: int = 1) -> Series:
    """The shares that were active in the last 1, 2, ... days at the end of a day."""
    laws = (_law(counts.day, age, phases, split, times) for age in range(1, len(counts.ages) + 1))
    found = zip(laws, counts.ages, strict=True)
    return Series.of([law.estimate(count, level) if law.users else NOTHING for law, count in found])


def stickiness_of(
    counts: DayCounts, phases: Sequence[Phase], split: Split, *, level: float, length: timedelta, times: int = 1
) -> Estimate | None:
    """The mean of the days' actives over the mean monthly actives, of the last L days; None if these say too little.

    On each day other users tell, so that errors of days are independent. A phase that told of a day tells of the month
    after it, too: that makes the ratio err less, and is left out.
    """
    days, names = len(phases), named_days(length, len(counts.ages))
    if "daily" not in names or "monthly" not in names or not all(phase.users for phase in phases):
        return None
    means = []
    for name, past in (("daily", counts.daily), ("monthly", counts.monthly)):
        known = [day for day in range(max(counts.day - days + 1, 0), counts.day + 1) if past[day % days] != _UNKNOWN]
        if not known:  # the last release of a state of an earlier version
            return None
        means.append(mean_of([(_law(day, names[name], phases, split, times), past[day % days]) for day in known]))
    (daily, of_daily), (monthly, of_monthly) = means
    ratio = ratio_of(daily, monthly, (of_daily, of_monthly, ErrorVariance(0.0, 0.0, split.noise)), level)
    return ratio if ratio.tells else None


def _law(day: int, age: int, phases: Sequence[Phase], split: Split, times: int) -> ErrorModel:
    """The law of the errors of the share that was active in the last `age` days, at the end of a day."""
    return errors_of([phases[i] for i in phases_of_age(day, age, len(phases))], split, times)


class ActiveUsers(TimedUpdates[ActivesRelease], Tabular, PartedEstimator[ActivesRelease]):
    r"""Estimate every day how many users were active in the last 1, 2, ..., L days, pan-privately, with one bit a user.

    A key deals the users to L phases. At the start of each day the bits of one phase are drawn anew with probability
    p0, in turn; an appearance redraws the user's bit with ``p1 = 1 - p0``. So on any day the phase that was reset k-1
    days ago knows which of its users were active in the last k days, and it is a random sample of all users. A day ends
    with a release of the number of ones in each phase, plus exact noise: users are in one phase each.

    From one reset of a user's bit to the next, a *cycle* of L days, L releases see it. An intruder who reads the whole
    state once, at any moment, and sees all releases of a cycle, learns at most `epsilon` about what a user did in it. A
    user who is active in w cycles loses at most ``w * epsilon``; if the state is read once in all, the other cycles
    give away their releases only. `loss` states both. The number of days is not limited.

    Parameters
    ----------
    universe
        The users there could be, as in `pp.Density`.
    epsilon
        The budget of a cycle.
    span, every
        The longest time that is asked about, and the length of a day: ``"28d"``, ``"12h"``, a `timedelta`, or seconds.
    start
        When the first day starts.
    tz
        The time zone, such as ``"Europe/Berlin"``: days are days there, of 23 or 25 hours when clocks change, and times
        without a zone are of it. UTC if left out.
    level
        Confidence level of the intervals.
    delta
        A probability with which more than epsilon may be lost in a cycle, for Gaussian noise, as in `pp.Density`.
        Used in cycles of about 20 days or more, where it errs less.
    sample, memory
        Track a random sample of this many users, or as many as fit in this memory, instead of all.
    groups
        The group of each user, as in `pp.Density`: each release has every group, at no extra epsilon. Where a phase has
        no user of a group, the share that it would tell is nan.
    key
        16 bytes that decide who is in which phase; drawn if left out.
    coins
        The source of randomness; anything but the default makes the estimator insecure, and it says so.

    Examples
    --------
    >>> import panprivacy as pp
    >>> users = pp.ActiveUsers(universe=200_000, epsilon=4.0, span="7d", start="2026-01-05")
    >>> users.update_many(range(40_000), time="2026-01-05")
    >>> users.update_many(range(20_000, 80_000), time="2026-01-06T12:00")
    >>> (tuesday,) = users.advance("2026-01-07")
    >>> [round(share, 1) for share in tuesday.active]
    [0.3, 0.4]
    >>> monday = users.released[0]
    >>> round(monday.daily, 1), monday.weekly, round(users.loss(cycles=3), 6)
    (0.2, None, 12.0)

    Notes
    -----
    A day ends when `advance` or an event tells that it is over. An event ends at most the open day: one that is dated
    further ahead is refused (`pp.EarlyEvent`), as is one of a day that is over (`pp.LateEvent`). Each verb takes
    `ahead`, `late` and `early` for another policy, row by row. Let a clock call `advance`, and feed with ``ahead=0``:
    then no event ends a day, and no user's events affect the events of others. Days without events are released like
    any other. Each share comes from one phase, of m/L users, and their errors are independent: a share may come out
    below the share of fewer days. `smoothed` averages over days where the truth moves slowly. If only one window
    matters, `pp.Windows` of `pp.Density` errs less: it asks all users.
    """

    KIND: ClassVar[int] = 6
    TRAITS: ClassVar[Traits] = Traits(
        "actives",
        ("span", "every", "start", "tz", "delta", "sample", "memory"),
        small={"start": 0, "span": "2d"},
        example={"start": "2026-01-05", "span": "7d"},
        own_periods=True,
        unit="days",
    )
    PERIOD: ClassVar[str] = "day"
    MORE = Struct("<qqdQ?")
    NOT_MERGED: ClassVar[str] = "an ActiveUsers cannot be merged: its keyed phases are no parts of another's"
    NOT_REDRAWN: ClassVar[str] = "an ActiveUsers plans no announced readings: a cycle later, all bits are new anyway"
    _periods: Days

    def __init__(
        self,
        universe: int | Universe,
        epsilon: float,
        *,
        start: Any,
        span: str | float | timedelta = "28d",
        every: str | float | timedelta = "1d",
        tz: str | None = None,
        level: float = 0.95,
        delta: float | None = None,
        sample: int | None = None,
        memory: str | int | None = None,
        groups: Any = None,
        key: bytes | None = None,
        coins: Coins | None = None,
    ) -> None:
        source = coin_sources.given(coins)
        users, ranges = grouped(universe_of(universe), groups)
        if start is None:
            raise InvalidValue("when does the first day start? Give start, such as 2026-01-05", code="start-missing")
        length, days = days_of(span, every)
        self._periods = Days(moment_of(start, tz), length, 0, zone_of(tz).name, check_level(level))
        size = table_size(users.size, sample, memory)
        delta = check_delta(delta)
        phases = [(i, i + 1) for i in range(days)]
        named = f"phases, one for each day of {span}"
        slots = choose_parts(users.size, size, days, key, source, runs=phases, named=named, groups=ranges)
        answers = days * (len(ranges.labels) if ranges else 1)
        split = best_split(check_epsilon(epsilon), max(slots.size // answers, 1), days, 0, delta)
        self._start(users, slots, split, source)

    def _prepare(self) -> None:
        self._phases = [self._slots.part(i) for i in range(self.days)]
        self._ended: list[ActivesRelease] = []
        last = self._ledger.published
        if last is not None and len(last.noisy) == 1 + self.days:  # a state without the counts of the days before
            self._ledger.published = last._replace(noisy=(*last.noisy, *[_UNKNOWN] * (2 * self.days)))

    # --- days ---------------------------------------------------------------------------------------------------

    def release(self, level: float = 0.95) -> ActivesRelease:
        """End the day that is open, whatever the clock says, and return its release."""
        level = check_level(level)
        with self._lock:
            self._check_in_use()
            before = len(self._ended)
            self._end_day(level)
            if len(self._ended) == before:
                raise PanPrivacyError(
                    "the release of this day was broken off, and is spent; the day is over now",
                    code="release-interrupted",
                )
            return self._ended[-1]

    @property
    def released(self) -> tuple[ActivesRelease, ...]:
        """The releases of all days that ended since this object was made, or loaded."""
        return tuple(self._ended)

    def smoothed(self) -> ActivesSeries:
        """The releases in `released` with shares that are averaged over days, where the truth moves slowly.

        >>> import panprivacy as pp
        >>> users = pp.ActiveUsers(universe=100_000, epsilon=2.0, span="7d", start="2026-01-05")
        >>> for day in range(30):
        ...     users.update_many(range(20_000))
        ...     released = users.release()
        >>> last = users.smoothed().releases[-1]
        >>> round(last.smoothed[6], 1), last.smoothed_stderr[6] < last.active_stderr[6]
        (0.2, True)
        """
        return ActivesSeries.of(self._ended)

    def to_polars(self) -> "pl.DataFrame":
        """The releases in `released` as one frame, with a row for each day and each k of "the last k days"."""
        import polars as pl

        if not self._ended:
            raise PanPrivacyError("there is no frame before a day is over", code="nothing-released")
        return pl.concat([each.to_polars() for each in self._ended])

    def to_dict(self) -> dict[str, Any]:
        """The releases in `released` as plain numbers and text, for JSON."""
        return {"releases": [each.to_dict() for each in self._ended]}

    def plot(self, path: str | Path | None = None, *, ax: "Axes | None" = None) -> "Axes":
        """Draw the releases in `released` over time, and return Matplotlib's axes; with a path also into a file."""
        return draw_actives(self._ended, path, ax)

    @property
    def days(self) -> int:
        """How many days a cycle has: the most that are asked about."""
        return self._slots.parts

    @property
    def start(self) -> datetime:
        """When the first day started."""
        return self._periods.bounds(0)[0]

    @property
    def periods(self) -> Days:
        """The days, and which of them is open."""
        return self._periods

    @property
    def day(self) -> datetime:
        """When the day started that is open."""
        return self._periods.bounds(self._periods.open)[0]

    @property
    def every(self) -> timedelta:
        """How long a day lasts."""
        return timedelta(microseconds=self._periods.length)

    @property
    def _open_period(self) -> int:
        return self._periods.open

    def _go_to(self, period: int) -> None:
        self._check_in_use()
        while self._periods.open < period:
            self._end_day(self._periods.level)

    def _end_day(self, level: float) -> None:
        """Release the open day, and start the next one; if this is interrupted, the next call goes on from there.

        A release is booked before it is drawn. One that is interrupted in between is spent, and not made again.
        """
        days = self._periods
        if not days.booked:
            self._periods = replace(days, booked=True)
            # A phase that is reset leaves its releases behind: no user's cycle has more of them than days.
            self._ledger.releases = min(self._ledger.releases + 1, self.days)
            before = self._ledger.published
            past = [None] * self._answers if before is None else DayCounts.of(before, self.days)
            ages = np.array_split(self._noisy_counts(), self._answers)
            counts = (
                DayCounts.following(earlier, days.open, now.tolist(), self.every, self.days)
                for earlier, now in zip(past, ages, strict=True)
            )
            noisy = (days.open, *(count for each in counts for count in each.noisy()))
            self._ended.append(self._interpret(self._ledger.publish(noisy, level)))
        self._reset(phase_reset_on(days.open + 1, self.days))
        self._periods = replace(days, open=days.open + 1, booked=False)

    def _reset(self, phase: int) -> None:
        """Draw the bits of one phase anew, as if none of its users had ever appeared."""
        part = self._phases[phase]
        with Scratch() as scratch:
            for start in range(part.first, part.first + part.size, CHUNK):
                slots = np.arange(start, min(start + CHUNK, part.first + part.size), dtype=np.uint64)
                self._table.redraw(slots, self._ledger.pair.absent, self._coins, scratch)
        wipe_stack()

    # --- what leaves --------------------------------------------------------------------------------------------

    def _counts(self, scratch: Scratch) -> NDArray[np.int64]:
        """The ones of each age, of each group: phases that were reset on the same day are one count."""
        ones = scratch.empty("ones", self._answers * self.days, np.int64).reshape(self._answers, self.days)
        if self._slots.groups is None:
            self._table.count_ones(np.array([*(part.first for part in self._phases), self._slots.size]), ones[0])
        else:
            self._slots.count_groups(self._table, ones)
        ages = phases_by_age(self._periods.open, self.days)
        counts: NDArray[np.int64] = scratch.empty("counts", self._answers * len(ages), np.int64)
        counts.fill(0)
        by_group = counts.reshape(self._answers, len(ages))
        for age, same in enumerate(ages):
            for phase in same:
                by_group[:, age] += ones[:, phase]
        return counts

    def _counts_released(self) -> int:
        # The day; and for each group the counts of every age, and the daily and monthly ones of a cycle.
        return 1 + 3 * self.days * self._answers

    def _interpret(self, published: Published) -> ActivesRelease:
        by_group = DayCounts.of(published, self.days)
        day = by_group[0].day
        cost = self._cost_of(published._replace(number=min(day + 1, self.days)))
        cost = replace(cost, number=day + 1, epsilon_remaining=None)  # each cycle has a budget of its own
        rows = tuple(self._row(by_group[i], cost, i, label) for i, label in enumerate(self.groups))
        return replace(self._row(DayCounts.together(by_group), cost), groups=rows)

    def _phases_of(self, number: int | None) -> Sequence[Phase]:
        return [self._slots.part_of(number, phase) for phase in range(self.days)] if self.groups else self._phases

    def _row(
        self, counts: DayCounts, cost: Cost, number: int | None = None, group: Label | None = None
    ) -> ActivesRelease:
        """What the counts of a group, or of all users, say."""
        split, phases, times = self.split, self._phases_of(number), self._answers if number is None else 1
        start, end = self._periods.bounds(counts.day)
        shares = shares_of(counts, phases, split, cost.level, times)
        sticky = stickiness_of(counts, phases, split, level=cost.level, length=self.every, times=times)
        universe = phases[0].universe
        return ActivesRelease(
            estimates=ActivesRelease.of_shares(shares, sticky, self.every, universe),
            cost=cost,
            universe=universe,
            start=start,
            end=end,
            group=group,
            users=None if group is None else sum(phase.users for phase in phases),
        )

    # --- what it costs ------------------------------------------------------------------------------------------

    def loss(self, cycles: int = 1, *, readings: int | None = None) -> float:
        """The largest loss of a user who is active in this number of cycles, except with probability `delta_of`.

        A cycle of a user lasts from one reset of the user's bit to the next. The state may be read once in every cycle;
        `readings` limits the number of cycles in which it is read.
        """
        return composition.loss(self._ledger.split, cycles, readings)

    def delta_of(self, cycles: int = 1, *, readings: int | None = None) -> float:
        """The probability, at most, that such a user loses more than `loss`: `delta` for each cycle that is read."""
        return composition.delta(self._ledger.split, cycles, readings)

    @property
    def unread_loss(self) -> float:
        """The loss of a cycle by its releases alone, without a reading."""
        return composition.unread_loss(self._ledger.split)

    def stderr_at(self, share: float, group: Label | None = None) -> float:
        """The standard error of a share of active users, of all or of one group, in any but the first cycle."""
        number = None if group is None else self._slots.group_number(group)
        times = self._answers if group is None else 1
        laws = [errors_of([phase], self.split, times) for phase in self._phases_of(number)]
        return max(float(law.stderr(share)) if law.users else inf for law in laws)

    @property
    def releases_left(self) -> None:
        """None: days are released for ever."""
        return None

    def expected_errors(self) -> dict[str, float | None]:
        """The standard error of a share, if half of the users are active."""
        return {"active_stderr": self.stderr_at(0.5)}

    def _described(self) -> str:
        return (
            f"<{type(self).__name__} of {self._tracked()}, the last 1 to {self.days} days of {self._periods.every}, "
            f"now {told_time(self.day)}; epsilon {self.epsilon:g}{and_delta(self.delta)} in a cycle{self._unsafe()}>"
        )

    def _rows(self) -> Rows:
        return (
            ("universe", self._universe.describe()),
            ("tracked", f"{self.users:,} users in {format_bytes(self.memory)}, in {self.days} phases"),
            ("now", f"day {self._periods.open + 1:,}, from {told_time(self.day)} on, of {self._periods.every}"),
            *((name, text + " in a cycle" * (name == "total")) for name, text in self.budget.card().rows),
            ("error", f"± {self.stderr_at(0.5):.4f} (standard error of a half)"),
        )

    # --- bytes --------------------------------------------------------------------------------------------------

    def _more(self) -> tuple[Any, ...]:
        days = self._periods
        return days.zone, days.start, days.length, days.level, days.open, days.booked

    def _keep_more(self, slots: PermutedParts, zone: str, *saved: Any) -> bool:
        start, length, level, *now = saved
        if length < 1:
            raise InvalidValue(f"a day cannot last {length} microseconds", code="day-length")
        self._periods = Days(start, length, 0, zone_of(zone).name, check_level(level), *now)
        self._periods.bounds(self._periods.open)  # which refuses days beyond all times
        return slots.parts <= min(MOST_DAYS, slots.size)

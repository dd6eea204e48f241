"""`ActiveUsers`: how many users were active in the last day, week and month, every day?"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from panprivacy.actives.calendar import MOST_DAYS, Calendar, days_of
from panprivacy.actives.shares import shares_of, spread_of
from panprivacy.checks import check_delta, check_epsilon, check_level
from panprivacy.clock import RowPolicy, Untimely, rows_of
from panprivacy.density import _table_size
from panprivacy.display import Rows
from panprivacy.errors import CannotMerge, PanPrivacyError
from panprivacy.estimator import Estimator
from panprivacy.memory import Scratch
from panprivacy.periods import moment_of, moments_of
from panprivacy.privacy import coins as coin_sources
from panprivacy.privacy import composition
from panprivacy.privacy.budget import and_delta, budget_of
from panprivacy.privacy.coins import CHUNK, Coins
from panprivacy.privacy.ledger import Ledger, Published
from panprivacy.privacy.splitting import best_split
from panprivacy.privacy.stack import wipe_stack
from panprivacy.release.actives import ActivesRelease
from panprivacy.release.ordered import rising
from panprivacy.release.period_pictures import draw_actives
from panprivacy.sizes import format_bytes
from panprivacy.slots.dealt import Dealt, deal
from panprivacy.slots.phased import phase_reset_on, phases_by_age
from panprivacy.slots.saved import universe_bytes, universe_from
from panprivacy.state import Sealed
from panprivacy.table import Table
from panprivacy.universe import Ids, Universe, ungrouped, universe_of
from panprivacy.universe.rows import chosen_rows, number_of_rows, plain_rows

if TYPE_CHECKING:
    import polars as pl


class ActiveUsers(Estimator[ActivesRelease]):
    r"""Estimate every day how many users were active in the last 1, 2, ..., L days, pan-privately, with one bit a user.

    A key deals the users to L phases. At the start of each day the bits of one phase are drawn anew with probability
    p0, in turn; an appearance redraws the user's bit with ``p1 = 1 - p0``. So on any day the phase that was reset k-1
    days ago knows which of its users were active in the last k days, and it is a random sample of all users. A day ends
    with a release of the number of ones in each phase, plus exact noise: users are in one phase each.

    From one reset of a user's bit to the next, a *cycle* of L days, L releases see it. Whoever reads the whole state
    once, at any moment, and sees all releases of a cycle, learns at most `epsilon` about what a user did in it. One who
    is active in w cycles loses at most ``w * epsilon``; if the state is read once in all, the other cycles give away
    their releases only. `loss` states both. The number of days is not limited.

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
    level
        Confidence level of the intervals.
    delta
        A probability with which more than epsilon may be lost in a cycle, for Gaussian noise, as in `pp.Density`.
        Used in cycles of about 20 days or more, where it errs less.
    sample, memory
        Track a random sample of this many users, or as many as fit in this memory, instead of all.
    key
        16 bytes that decide who is in which phase; drawn if left out.
    coins
        The source of randomness; anything but the default makes the estimator insecure, and it says so.

    Examples
    --------
    >>> import panprivacy as pp
    >>> users = pp.ActiveUsers(universe=200_000, epsilon=4.0, span="7d", start="2026-01-05")
    >>> users.update_many(range(40_000), "2026-01-05")
    >>> users.update_many(range(20_000, 80_000), "2026-01-06T12:00")
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
    then no event ends a day, and nobody's events decide over those of others. Days on which nothing happened are
    released like any other. Each share comes from one phase, of m/L users; their
    errors are independent, and since shares rise with k they are brought into order. Where only one window matters,
    `pp.Windows` of `pp.Density` errs less: it asks everybody.
    """

    KIND = 6
    _slots: Dealt
    _table: Table

    def __init__(
        self,
        universe: int | Universe,
        epsilon: float,
        *,
        start: Any,
        span: str | float | timedelta = "28d",
        every: str | float | timedelta = "1d",
        level: float = 0.95,
        delta: float | None = None,
        sample: int | None = None,
        memory: str | int | None = None,
        key: bytes | None = None,
        coins: Coins | None = None,
    ) -> None:
        source = coins or coin_sources.system
        users = ungrouped(universe_of(universe), "an ActiveUsers")
        if start is None:
            raise ValueError("when does the first day start? Give start, such as 2026-01-05")
        length, days = days_of(span, every)
        calendar = Calendar(moment_of(start), length, check_level(level))
        size = _table_size(users.size, None if sample is None else index(sample), memory)
        delta = None if delta is None else check_delta(delta)
        phases = [(i, i + 1) for i in range(days)]
        slots = deal(users.size, size, days, key, source, groups=phases, named=f"phases, one for each day of {span}")
        split = best_split(check_epsilon(epsilon), slots.size // days, days, 0, delta)
        table = self.TABLE.drawn(slots.size, split.pair, source)
        self._calendar = calendar
        self._assemble(users, slots, Ledger(split), table, source)

    def _assemble(self, universe: Universe, slots: Any, ledger: Ledger, table: Any, coins: Coins) -> None:
        super()._assemble(universe, slots, ledger, table, coins)
        self._phases = [slots.part(i) for i in range(slots.parts)]
        self._released: list[ActivesRelease] = []

    @classmethod
    def _merged(cls, parts: Sequence[Self], *, overlapping: bool) -> Self:  # noqa: ARG003
        raise CannotMerge("an ActiveUsers cannot be merged: its keyed phases are no parts of another's")

    # --- events -------------------------------------------------------------------------------------------------

    def update(
        self, user: Any, time: Any = None, *, ahead: int = 1, late: str = "refuse", early: str = "refuse"
    ) -> None:
        """Note that a user appeared at a time; without one, on the day that is open. Options as in `update_many`."""
        with self._lock:
            if time is not None:
                day = self._day_of_row(time, RowPolicy(ahead, late, early))
                if day is None:
                    return
                self._universe.index(user)  # refused before a day ends, which cannot be taken back
                self._end_days_before(day)
            super().update(user)

    def update_many(
        self,
        ids: Ids,
        times: Any = None,
        *,
        ahead: int = 1,
        late: str = "refuse",
        early: str = "refuse",
        threads: int | None = None,
    ) -> None:
        """Note that these users appeared: on the day that is open, all at one time, or each at its own.

        A batch with times of its own is taken day by day, in order of time. A batch with an id outside the universe,
        or with a time that cannot be, is refused whole, before any day ends; an iterator, which has one time, is taken
        in chunks, after the days before that time have ended.

        Parameters
        ----------
        ahead
            By how many days a row may move the clock; a row that is dated further ahead is early. With 0 only `advance`
            and `release` end days.
        late
            What becomes of a row of a day that is over: ``"refuse"`` refuses the batch before anything changes,
            ``"skip"`` leaves that row out, ``"count"`` counts it on the open day.
        early
            What becomes of an early row: ``"refuse"`` or ``"skip"``.
        """
        policy = RowPolicy(ahead, late, early)
        if times is None:
            super().update_many(ids, threads=threads)
            return
        if isinstance(times, str) or not hasattr(times, "__len__"):
            with self._lock:
                day = self._day_of_row(times, policy)
                if day is None:
                    return
                self._check_before_a_day_ends(ids, day)
                self._end_days_before(day)
                super().update_many(ids, threads=threads)
            return
        ids = plain_rows(ids, self._universe)
        with Scratch() as scratch, self._lock:
            self._table.in_use()
            days = scratch.own(moments_of(times))
            days -= self._calendar.start
            days //= self._calendar.length
            if len(days) != number_of_rows(ids):
                raise ValueError(f"there are {number_of_rows(ids)} ids and {len(days)} times")
            try:
                different = policy.place_all(days, self._calendar.day, scratch)
            except Untimely as untimely:
                raise self._calendar.refusal(untimely) from None
            if different:
                self._check_before_a_day_ends(ids, different[-1])
            for day in different:
                self._end_days_before(day)
                wanted = rows_of(days, day, scratch)
                some = ids if bool(wanted.all()) else chosen_rows(ids, wanted, scratch)
                super().update_many(some, threads=threads)

    def _day_of_row(self, time: Any, policy: RowPolicy) -> int | None:
        """The day that a row counts on; None if it is left out."""
        try:
            return policy.place(self._calendar.day_of(moment_of(time)), self._calendar.day)
        except Untimely as untimely:
            raise self._calendar.refusal(untimely) from None

    def _check_before_a_day_ends(self, ids: Any, day: int) -> None:
        """Refuse bad ids before days up to this one are released: that cannot be taken back."""
        if day > self._calendar.day:
            self.check_many(ids)

    # --- days ---------------------------------------------------------------------------------------------------

    def advance(self, time: Any) -> list[ActivesRelease]:
        """End every day that is over at this time, and return the releases that were made just now."""
        with self._lock:
            self._table.in_use()
            before = len(self._released)
            self._end_days_before(self._calendar.day_to_go_to(moment_of(time)))
            return self._released[before:]

    def release(self, level: float = 0.95) -> ActivesRelease:
        """End the day that is open, whatever the clock says, and return its release."""
        level = check_level(level)
        with self._lock:
            self._table.in_use()
            before = len(self._released)
            self._end_day(level)
            if len(self._released) == before:
                raise PanPrivacyError("the release of this day was broken off, and is spent; the day is over now")
            return self._released[-1]

    @property
    def released(self) -> tuple[ActivesRelease, ...]:
        """The releases of all days that ended since this object was made, or loaded."""
        return tuple(self._released)

    def to_polars(self) -> "pl.DataFrame":
        """What is in `released` as one frame, with a row for each day and each k of "the last k days"."""
        import polars as pl

        if not self._released:
            raise PanPrivacyError("there is no frame before a day is over")
        return pl.concat([each.to_polars() for each in self._released])

    def plot(self, path: str | Path) -> None:
        """Draw what is in `released` over time in a file: .png, .svg or .pdf. Needs Matplotlib."""
        draw_actives(self._released, path)

    @property
    def days(self) -> int:
        """How many days a cycle has: the most that are asked about."""
        return self._slots.parts

    @property
    def start(self) -> datetime:
        """When the first day started."""
        return self._calendar.start_of(0)

    @property
    def day(self) -> datetime:
        """When the day started that is open."""
        return self._calendar.start_of(self._calendar.day)

    @property
    def every(self) -> timedelta:
        """How long a day lasts."""
        return timedelta(microseconds=self._calendar.length)

    def _end_days_before(self, day: int) -> None:
        while self._calendar.day < day:
            self._end_day(self._calendar.level)

    def _end_day(self, level: float) -> None:
        """Release the open day, and start the next one; if somebody breaks off, the next call goes on from there.

        A release is booked before it is drawn. One that is broken off in between is spent, and not made again.
        """
        calendar = self._calendar
        if not calendar.booked:
            self._calendar = replace(calendar, booked=True)
            # A phase that is reset leaves its releases behind: no user's cycle has more of them than days.
            self._ledger.releases = min(self._ledger.releases + 1, self.days)
            noisy = self._noisy_counts()
            padding = [0] * (self.days - len(noisy))
            published = self._ledger.publish((calendar.day, *noisy, *padding), level)
            self._released.append(self._interpret(published))
        self._reset(phase_reset_on(calendar.day + 1, self.days))
        self._calendar = replace(calendar, day=calendar.day + 1, booked=False)

    def _reset(self, phase: int) -> None:
        """Draw the bits of one phase anew, as if none of its users had ever appeared."""
        part = self._phases[phase]
        with Scratch() as scratch:
            for start in range(part.first, part.first + part.size, CHUNK):
                slots = np.arange(start, min(start + CHUNK, part.first + part.size), dtype=np.uint64)
                self._table.redraw(slots, self._ledger.pair.absent, self._coins, scratch)
        wipe_stack()

    def rerandomize(self) -> None:
        """Refuse: no announced readings are planned."""
        raise PanPrivacyError("an ActiveUsers plans no announced readings: a cycle later, all bits are new anyway")

    # --- what leaves --------------------------------------------------------------------------------------------

    def _counts(self, scratch: Scratch) -> NDArray[np.int64]:
        """The ones of each age: phases that were reset on the same day are one count."""
        ones = scratch.empty("ones", self.days, np.int64)
        self._table.count_ones(np.array([*(part.first for part in self._phases), self._slots.size]), ones)
        ages = phases_by_age(self._calendar.day, self.days)
        counts: NDArray[np.int64] = scratch.empty("counts", len(ages), np.int64)
        counts.fill(0)
        for age, same in enumerate(ages):
            for phase in same:
                counts[age : age + 1] += ones[phase : phase + 1]
        return counts

    def _counts_released(self) -> int:
        return 1 + self.days  # the day that it is of, and the counts of every age

    def _interpret(self, published: Published) -> ActivesRelease:
        day, *noisy = published.noisy
        calendar, level = self._calendar, published.level
        shares = shares_of(noisy, day, self._phases, self._ledger.split)
        sticky = shares.stickiness(self.every, level)
        budget = budget_of(self._ledger.split, min(day + 1, self.days), 0)
        return ActivesRelease(
            active=rising(shares.raw, [stderr**2 for stderr in shares.stderrs]),
            active_stderr=shares.stderrs,
            active_interval=shares.intervals(level),
            raw_active=shares.raw,
            stickiness=None if sticky is None else sticky.value,
            stickiness_stderr=None if sticky is None else sticky.stderr,
            stickiness_interval=None if sticky is None else sticky.interval,
            start=calendar.start_of(day),
            end=calendar.start_of(day + 1),
            level=level,
            universe=self._slots.universe,
            number=day + 1,
            epsilon_spent=budget.spent,
            delta_spent=budget.delta_spent,
            secure=self.secure,
        )

    # --- what it costs ------------------------------------------------------------------------------------------

    def loss(self, cycles: int = 1, *, readings: int | None = None) -> float:
        """What a user who is active in so many cycles loses at most, but for a probability of `delta_of`.

        A cycle of a user lasts from one reset of the user's bit to the next. The state may be read once in every cycle;
        with `readings`, in so many of them only.
        """
        return composition.loss(self._ledger.split, cycles, readings)

    def delta_of(self, cycles: int = 1, *, readings: int | None = None) -> float:
        """With which probability, at most, such a user loses more than `loss`: `delta` for each cycle that is read."""
        return composition.delta(self._ledger.split, cycles, readings)

    @property
    def unread_loss(self) -> float:
        """What a cycle gives away by its releases alone."""
        return composition.unread_loss(self._ledger.split)

    @property
    def users(self) -> int:
        """How many users own a bit."""
        return self._slots.users

    def stderr_at(self, share: float) -> float:
        """The standard error of a share of active users, in any but the first cycle."""
        return max(spread_of([phase], self._ledger.split).stderr(share) for phase in self._phases)

    def _described(self) -> str:
        tracked = "all" if self.users == self._universe.size else f"{self.users:,}"
        return (
            f"<{type(self).__name__} of {self._universe.describe()}, {tracked} tracked in {format_bytes(self.memory)}, "
            f"the last 1 to {self.days} days of {self._calendar.every}, now {self._calendar.now}; "
            f"epsilon {self.epsilon:g}{and_delta(self.delta)} in a cycle"
            f"{'' if self.secure else '; NOT SECURE: seeded coins'}>"
        )

    def _rows(self) -> Rows:
        return (
            ("universe", self._universe.describe()),
            ("tracked", f"{self.users:,} users in {format_bytes(self.memory)}, in {self.days} phases"),
            ("now", f"day {self._calendar.day + 1:,}, from {self._calendar.now} on, of {self._calendar.every}"),
            *((name, text + " in a cycle" * (name == "total")) for name, text in self.budget.card().rows),
            ("error", f"± {self.stderr_at(0.5):.4f} (standard error of a half)"),
        )

    # --- bytes --------------------------------------------------------------------------------------------------

    def _parameters(self) -> bytes:
        return universe_bytes(self._universe) + self._slots.to_bytes() + self._calendar.to_bytes()

    @classmethod
    def _from_parameters(cls, parameters: bytes, universe: Any) -> tuple[Universe, Dealt]:
        Calendar.from_bytes(parameters[-Calendar.SIZE :])
        known, rest = universe_from(parameters[: -Calendar.SIZE], universe)
        slots, rest = Dealt.from_bytes(rest, known.size)
        if rest or slots.parts > min(MOST_DAYS, slots.size):
            raise ValueError(f"{slots.parts} phases are not possible")
        return known, slots

    @classmethod
    def from_sealed(cls, parts: Sealed, universe: Any = None) -> Self:
        """Make an estimator of the parts of a saved state; their words become its table."""
        est = super().from_sealed(parts, universe)
        est._calendar = Calendar.from_bytes(parts.parameters[-Calendar.SIZE :])
        return est

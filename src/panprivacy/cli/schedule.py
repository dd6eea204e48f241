"""Feeds the events of files, a pipe or a broker, and releases: at the end, after each period of a series, or daily."""

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from time import time
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from panprivacy.cli.calendar import START, Calendar, column_of_times, in_order_of_time
from panprivacy.cli.notes import note_epsilon, note_noise
from panprivacy.cli.options import SeriesOptions
from panprivacy.cli.output import CannotShow, Meter, cause_of
from panprivacy.cli.published import AT, UNTIL, Dated, Published
from panprivacy.cli.run import Run
from panprivacy.display import counted
from panprivacy.errors import BudgetExhausted, InvalidValue, PanPrivacyError
from panprivacy.estimators.base import Estimator
from panprivacy.ingest import BadInput, Batch, Columns, Format, Layout, Live, SignalTimer, expand, read
from panprivacy.ingest.feed import BatchFeeder, chosen_rows
from panprivacy.memory.scratch import Scratch
from panprivacy.periods import CALENDAR, SECOND, as_datetime, length_of, moment_of, told_length, wall_clock
from panprivacy.planning.search import rounded_up

if TYPE_CHECKING:
    from panprivacy.estimators.actives import ActiveUsers

_NONE_LEFT = "no planned release is left"
_LOOK = 1.0  # seconds between two looks at the clock while nothing comes
_CYCLES = 13  # of 28 days, a year

T = TypeVar("T")


@dataclass(frozen=True)
class Events(ABC):
    """Where events come from, which of their columns are counted, and which rows are left out."""

    columns: Columns
    skip_missing: bool
    skip_outside: bool
    skip_unlisted: bool
    live: ClassVar[bool] = True
    """Whether events arrive while they are counted, from a pipe or a broker; the first batch may be one row."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the source, for people."""

    @abstractmethod
    def feed(self, schedule: "Schedule") -> None:
        """Have all events counted, until they end, and save them on the way."""

    def feed_to(self, est: Estimator[Any]) -> BatchFeeder:
        skips = {name: getattr(self, name) for name in ("skip_missing", "skip_outside", "skip_unlisted")}
        return BatchFeeder(est, self.columns, **skips, live=self.live)


@dataclass(frozen=True)
class Files(Events):
    """Files, and how they are read."""

    files: Sequence[str]
    format: Format | None
    layout: Layout
    live = False
    name = "files"

    def feed(self, schedule: "Schedule") -> None:
        run, files = schedule.run, expand(self.files)
        with schedule.in_order() as take, Meter(files, run.output) as meter:
            for batch in read(files, self.columns, format_=self.format, layout=self.layout):
                take(batch)
                meter.advance(batch)
                del batch  # before the next one is waited for
                if run.est.REPEATABLE:  # else files are kept whole or not at all: part of them cannot be fed again
                    run.counted()


@dataclass(frozen=True)
class Pipe(Events):
    """Standard input, and how it is read."""

    format: Format | None
    layout: Layout
    name = "standard input"

    def feed(self, schedule: "Schedule") -> None:
        run, timer = schedule.run, schedule.timer
        assert timer is not None
        live = Live(sys.stdin.fileno(), self.columns, self.format, self.layout, timer)
        with Meter([], run.output) as meter:
            for batch in live.batches():
                if batch is not None:
                    schedule.take(batch)
                    meter.advance(batch)
                    run.counted(live=True)
                elif timer.rings():
                    schedule.ring()
                else:
                    run.write_if_due()
                timer.wake_at = run.due


@dataclass
class Schedule(ABC):
    """Feeds events to the estimator of a run, and releases when that is due."""

    run: Run
    anew: bool = field(default=False, kw_only=True)
    """Whether each period of a series is counted anew."""
    final: bool = field(init=False, default=False)
    """Whether there is a release at the end."""
    published: Published = field(init=False)
    source: Events = field(init=False)
    feeder: BatchFeeder = field(init=False)
    """Counts the rows of a batch."""
    timer: SignalTimer | None = field(init=False, default=None)
    """Rings for a release, where events arrive while they are counted."""

    def feed(self, source: Events, final: bool | None) -> None:
        """Count all events, release on the way, and at the end if `final` says so; None is the default of the input."""
        run, deletions = self.run, source.columns.action is not None
        self.published = Published(run.output, run.picture, deletions=deletions, anew=self.anew)
        self.source = source
        self.final = self._begin(final)
        self.count(source)
        self._finish()
        note_epsilon(run.est, run.output)

    def count(self, source: Events) -> None:
        """Count events, and save them as they are counted; after a bad row, save the batches before it, and say so."""
        run = self.run
        self.source, self.feeder = source, source.feed_to(run.est)
        try:
            if source.live:
                seconds, told = self._timing()
                with SignalTimer(seconds) as self.timer:
                    run.output.note(f"reading {source.name}; {told}, and Ctrl-C ends the input")
                    source.feed(self)
            else:
                source.feed(self)
        except BadInput as error:
            if run.kept is None or not run.used:
                raise
            run.write_what_is_left()
            raise PanPrivacyError(
                f"{cause_of(error)}; the batches before it are counted, and saved in {run.kept.path}: {self._go_on}",
                code="bad-row",
            ) from None

    def whole(self, call: Callable[[], T]) -> T:
        """Make a call; if Ctrl-C breaks it off, and only ends the input, make it once more. A release is made once."""
        return call() if self.timer is None else self.timer.undisturbed(call)

    def take(self, batch: Batch) -> None:
        self.whole(partial(self.feeder.take, batch))

    def in_order(self) -> AbstractContextManager[Callable[[Batch], None]]:
        """What takes the batches of files: in order of time, if rows may come late."""
        return nullcontext(self.take)

    @property
    def _go_on(self) -> str:
        """What to feed next after a bad row."""
        if self.run.est.REPEATABLE:
            return "mend the row and feed it all again, counting a row twice does no harm"
        return "feed what comes after them, since a row that is fed again counts again"

    @abstractmethod
    def _timing(self) -> tuple[float | None, str]:
        """After how many seconds `ring` is called without a signal, if it is; and when what arrives is released."""

    @abstractmethod
    def _begin(self, final: bool | None) -> bool:
        """Refuse what cannot be, before anything is read; whether there is a release at the end."""

    @abstractmethod
    def ring(self) -> None:
        """A signal came, or some seconds are over."""

    @abstractmethod
    def _finish(self) -> None:
        """All events are counted: release if that is asked for, or save."""


@dataclass
class AtTheEnd(Schedule):
    """One release when the events end. A pipe also has one for each SIGUSR1, or whenever `every` is over."""

    every: str | None = None

    def _begin(self, final: bool | None) -> bool:
        run, live = self.run, self.source.live
        if self.every in CALENDAR:
            raise InvalidValue(
                f"--release-every {self.every}: periods of the calendar go by --time NAME", code="which-time"
            )
        if self.every is not None and not live:
            raise InvalidValue(
                "--release-every goes by the clock of standard input (-), or by --time COLUMN of events",
                code="which-time",
            )
        if final is False and run.kept is None:
            raise InvalidValue("--no-release needs a --state FILE to keep the counts", code="which-state")
        final = final if final is not None else run.kept is None or live
        run.check_left(needed=final and not live)  # now, not after an hour of reading
        if run.picture is not None and not final and not live:
            run.draw(run.est.last)  # of a state that is there; else there will be nothing to draw
        if self.every is not None and run.left <= final:
            run.output.note("no release is planned but the one at the end; --releases K plans for more")
        return final

    def _timing(self) -> tuple[float | None, str]:
        seconds = None if self.every is None else length_of(self.every) / SECOND
        return seconds, f"kill -USR1 {os.getpid()} spends a release"

    def ring(self) -> None:
        """Release, unless the last planned release is for the end."""
        left = self.run.left
        if left > self.final:
            self.release(dated=True)
        else:
            self.run.output.note("the last planned release is kept for the end of input" if left else _NONE_LEFT)

    def _finish(self) -> None:
        """Release or save; of a series by the clock, show the curve."""
        run, live = self.run, self.source.live
        if self.final and (not live or run.left):
            self.release(dated=live)
            if run.kept is None and run.left:
                run.output.note(f"{counted(run.left, 'more planned release')}, and no --state FILE to make them from")
        elif run.kept is not None:
            run.save()
        if self.every is not None:
            self.published.close(run.est)

    def release(self, *, dated: bool = False) -> None:
        """Spend one planned release, show it, with its time if it is dated, and draw it."""
        run = self.run
        try:
            released = run.spend()
        except BudgetExhausted:
            if not dated:
                raise
            run.output.note(_NONE_LEFT)  # a pipe goes on if another process has made the last one at this moment
            return
        try:
            if dated:
                row = Dated(AT, int(time()) * SECOND, released)
                if self.every is not None:
                    self.published.rows.append(row)
                run.show(row)
            else:
                run.output.answer(released)
        except CannotShow as error:
            path = run.kept and run.kept.path
            lost = f"is spent and saved; panprivacy show {path} has it" if path else "is spent, and lost"
            raise CannotShow(f"{error}; the release {lost}") from None
        if self.every is None:  # a series is drawn, and called noise, once
            if run.picture is not None:
                run.draw(released)
            note_noise([released], run.output)


@dataclass
class PeriodSchedule(Schedule):
    """Ends each period when it is over, by the wall clock or by the times of rows.

    Rows of files come in order of periods, and in any order within one. The times of a batch are checked before
    anything of it is counted: on account of a batch with a time that is wrong, nothing is released. Of a pipe or a
    broker the wall clock ends periods, unless `ahead` says that rows do.
    """

    calendar: Calendar
    lateness: str | None = None
    """How late a row of a file may be."""

    @abstractmethod
    def _end_before(self, period: int) -> None:
        """End all periods before this one, and show their releases."""

    @abstractmethod
    def _check_clock(self) -> None:
        """Refuse to begin with periods that are long over by the clock."""

    def _begin(self, final: bool | None) -> bool:
        final = final if final is not None else self.run.kept is None
        self.run.check_left(needed=final)  # now, not after an hour of reading
        if self.calendar.by_clock:
            self._check_clock()
        return final

    def count(self, source: Events) -> None:
        """As `Schedule.count`, with the column of times."""
        super().count(replace(source, columns=replace(source.columns, time=self.calendar.column)))

    def in_order(self) -> AbstractContextManager[Callable[[Batch], None]]:
        if self.lateness is None:
            return super().in_order()
        return in_order_of_time(self.take, self.calendar, self.lateness)

    def _timing(self) -> tuple[float | None, str]:
        calendar = self.calendar
        if calendar.by_clock:
            return _LOOK, f"{calendar.unit}s end by the clock ({calendar.zone})"
        return None, f"{calendar.unit}s end by the times of the events"

    def ring(self) -> None:
        """End the periods that are over by the clock."""
        if self.calendar.by_clock:
            self._end_before(self.calendar.passed + self.calendar.over)
        else:
            self.run.output.note(f"SIGUSR1 spends nothing here: {self._timing()[1]}")

    def take(self, batch: Batch) -> None:
        """Check the times and ids of a batch, and feed it period by period."""
        calendar, run = self.calendar, self.run
        if calendar.by_clock:
            self.ring()
        if calendar.column is None:
            super().take(batch)
            return
        with Scratch() as scratch:
            moments, started = self.whole(partial(calendar.moments, batch, scratch)), calendar.start is not None
            if not len(moments):
                return
            cut = calendar.cut(batch, moments, scratch)
            self.whole(partial(self.feeder.check, batch))  # before anything is released on account of its first rows
            if not started and calendar.start is not None:
                first = calendar.shown(calendar.start)
                run.output.note(
                    f"periods are {calendar.fixed}; the first one shown starts on {first}, which shows when the first "
                    f"event came; --start {first.replace(' ', 'T')} says it beforehand"
                )
            run.forewarn()
            for period, rows in cut:
                self._end_before(period)
                super().take(chosen_rows(batch, rows, scratch))


@dataclass
class Series(PeriodSchedule):
    """One release at the end of each period, as long as planned releases are left; all count from the beginning on.

    Or each period is counted `anew`: it has a new estimator, which is released and wiped when the period is over.
    """

    def _check_clock(self) -> None:
        if self.calendar.over > 1:
            raise InvalidValue(
                f"{self.calendar.over:,} periods are over by the clock and not released. If rows of the past are to "
                "end periods, say --ahead 1; else give a later --start, or spend releases first (panprivacy release)",
                code="periods-over",
            )

    def _end_before(self, period: int) -> None:
        while self.calendar.passed < period:
            self._end(over=True)

    def _end(self, *, over: bool) -> None:
        """Release the open period, whether it is over or not, and open the next."""
        run, calendar = self.run, self.calendar
        if self.anew:
            released = run.est.release(run.level)
            run.est.end("its period is over")
            assert run.new is not None
            run.est = run.new()
            self.feeder = self.source.feed_to(run.est)
        else:
            released = run.spend()
        row = Dated(UNTIL, calendar.due, released, over=over, zone=calendar.zone)
        calendar.passed += 1
        self.published.rows.append(row)
        run.show(row)
        if over and not run.left:
            run.output.note(
                "all planned releases are made: later events are counted and will never be released; "
                "a new state with --releases K plans for more"
            )

    def _finish(self) -> None:
        """Release the open period or save it; show the curve, or what all periods lose."""
        run = self.run
        if self.final and run.left:
            self._end(over=False)
        elif run.kept is not None:
            run.save()
        self.published.close(run.est)
        if self.anew:
            run.output.note(f"loss per user: at most {run.est.epsilon:g} in each period in which the user appears")


@dataclass
class Days(PeriodSchedule):
    """Ends the days of an `ActiveUsers`, saves what that spent, and shows what was released, in this order."""

    def __post_init__(self) -> None:
        est: Any = self.run.est
        self.est: ActiveUsers = est

    def _check_clock(self) -> None:
        calendar = self.calendar
        if calendar.column is not None and self.est.last is None and calendar.over:
            raise InvalidValue(
                f"the first day, from {calendar.shown(calendar.opened)} on, is over by the clock. If rows of the past "
                "are to end days, say --ahead 1; else give a later --start",
                code="days-over",
            )

    def _end_before(self, period: int) -> None:
        """End all days before this one. What they spent is on disk before it is shown."""
        if self.calendar.passed < period:
            self._show(self.est.advance(as_datetime(self.calendar.start_of(period))))

    def _show(self, released: Sequence[Any]) -> None:
        self.run.write()
        self.calendar.passed = self.est.periods.open
        for each in released:
            row = Dated(UNTIL, moment_of(each.end), each, zone=self.calendar.zone)
            self.published.rows.append(row)
            self.run.output.answer(row)

    def _finish(self) -> None:
        """End the open day or save it, and say what a cycle loses."""
        run, est, calendar = self.run, self.est, self.calendar
        if self.final:
            self._show([est.release(run.level)])
        elif run.kept is not None:
            run.write()
            run.output.note(f"{run.kept.path}: saved; the day from {calendar.shown(calendar.opened)} on is not over")
        self.published.close(est)
        cycle = f"a cycle of {told_length(est.days * est.periods.length)} in which the state is read once"
        loss = f"loss per user: at most {rounded_up(est.loss()):g} in {cycle}"
        if est.delta:  # cycles do not just add up: they are one law
            several = rounded_up(est.loss(_CYCLES, readings=1))
            loss += (
                f", with a failure probability of at most {est.delta:g}; at most {several:g} in {_CYCLES} cycles if it "
                "is read in one of them, with the same failure probability"
            )
        else:
            loss += f"; at most {rounded_up(est.unread_loss):g} in each cycle without a reading"
        run.output.note(loss)

    def count(self, source: Events) -> None:
        """As `Schedule.count`; also say what is saved if the reader of the answers has gone."""
        try:
            super().count(source)
        except BrokenPipeError:
            if self.run.kept is not None:
                self.run.output.note(f"the reader of the answers has gone; what they show is saved: {self._go_on}")
            raise

    @property
    def _go_on(self) -> str:
        opened = self.calendar.shown(self.calendar.opened)
        return (
            f"days before {opened} are released; feed events from then on; events of that day may be fed again, "
            "which does no harm"
        )


def _days_of(run: Run, options: SeriesOptions, *, live: bool) -> Days:
    """The days of an `ActiveUsers`, by a column of times, or by the clock alone."""
    periods: Any = run.est.periods  # type: ignore[attr-defined]
    calendar = Calendar(
        None if options.time is None else column_of_times(options.time),
        periods,
        periods.every,
        passed=periods.open,
        tz=periods.zone,
        policy=options.policy(live=live, in_own_period=True),
        now=wall_clock if live else None,
        unit="day",
    )
    return Days(run, calendar, options.lateness)


def schedule_of(run: Run, source: Events, options: SeriesOptions) -> Schedule:
    """The schedule that the options ask for: one answer, a series by the clock or by the times of rows, or days."""
    time, every, start, live = options.time, options.release_every, options.start, source.live
    if options.anew:
        if time is None or every is None or run.kept is not None or live:
            raise InvalidValue(
                "--anew counts files, by --time NAME and --release-every week, and keeps no --state", code="anew-alone"
            )
        policy = options.policy(live=False, in_own_period=True)
        calendar = Calendar.parsed(time, every, start, tz=options.tz, policy=policy)
        return Series(run, calendar, options.lateness, anew=True)
    options.check_given()
    if run.est.TRAITS.unit == "days":
        return _days_of(run, options, live=live)
    if time is None:
        return AtTheEnd(run, every)
    if every is None:
        raise InvalidValue("--time goes with --release-every, such as 7d", code="which-period")
    calendar = Calendar.parsed(
        time,
        every,
        start,
        passed=run.est.budget.releases_made,
        planned=run.est.budget.releases,
        tz=options.tz,
        policy=options.policy(live=live, in_own_period=run.est.TRAITS.own_periods),
        now=wall_clock if live else None,
    )
    if start is None and run.kept is not None and run.kept.exists:
        raise InvalidValue(
            f"{run.kept.path} is there already: say when its first period started, {START}", code="which-start"
        )
    if start is None and live:
        raise InvalidValue(
            f"when does the first period start? No row of a pipe decides that: say {START}", code="which-start"
        )
    return Series(run, calendar, options.lateness)

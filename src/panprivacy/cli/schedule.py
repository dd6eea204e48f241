"""When a command releases while it feeds events: at the end, after each period of a series, or every day."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from time import time
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from panprivacy.cli.calendar import START, Calendar, column_of_times
from panprivacy.cli.notes import note_epsilon, note_noise
from panprivacy.cli.options import SeriesOptions, TimeOptions
from panprivacy.cli.output import CannotShow, cause_of
from panprivacy.cli.published import AT, UNTIL, Audited, Dated, Published
from panprivacy.cli.run import Run
from panprivacy.cli.sources import Counting, Events, Files, Listened, in_order_of_time
from panprivacy.display import counted
from panprivacy.errors import BudgetExhausted, InvalidValue, PanPrivacyError
from panprivacy.ingest import BadInput, Batch, Columns, SignalTimer
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


class Whole(Protocol):
    """Makes a call; if Ctrl-C breaks it off, and only ends the input, makes it once more."""

    def __call__(self, call: Callable[[], T]) -> T: ...


def once(call: Callable[[], T]) -> T:
    """Make a call that Ctrl-C may break off, as it does where files are read."""
    return call()


@dataclass
class Schedule(ABC):
    """Feeds events to the estimator of a run, and releases when that is due."""

    run: Run
    live: bool = field(init=False, default=False)
    """Whether events arrive one after the other, as they do from a pipe."""
    published: Published = field(init=False)
    source: Events = field(init=False)
    feeder: BatchFeeder = field(init=False)
    """Counts the rows of a batch."""

    def feed(self, source: Events, final: bool | None) -> None:
        """Count all events, release on the way, and at the end if `final` says so; None is the default of the input."""
        self.published = Published(self.run.output, self.run.picture, deletions=source.columns.action is not None)
        self.live = not isinstance(source, Files)
        final = self._begin(final)
        self.count(source)
        self._finish(final)
        note_epsilon(self.run.est, self.run.output)

    def count(self, source: Events) -> None:
        """Count events, and save them as they are counted."""
        self.source, columns = source, replace(source.columns, time=self._column)
        self.feeder = source.feed_to(self.run.est, columns)
        with self._keeping():
            if isinstance(source, Files):
                with self._in_order(partial(self.take, whole=once)) as take:
                    source.read(columns, self.run.keeper, self.run.output, take)
            else:
                self._listen(source, columns)

    def _listen(self, source: Listened, columns: Columns) -> None:
        """Count events as they arrive. A batch that is broken off is counted once more, and a release is not."""
        with SignalTimer(self._seconds) as timer:
            self.run.output.note(f"reading {source.name}; {self._told}, and Ctrl-C ends the input")
            take = partial(self.take, whole=timer.undisturbed)
            source.listen(Counting(columns, self.run.keeper, self.run.output, timer, take, self._ring))

    @contextmanager
    def _keeping(self) -> Iterator[None]:
        """After a bad row, save the batches before it, and say so."""
        run = self.run
        try:
            yield
        except BadInput as error:
            if run.kept is None or not run.keeper.used:
                raise
            run.keeper.write_what_is_left()
            raise PanPrivacyError(
                f"{cause_of(error)}; the batches before it are counted, and saved in {run.kept.path}: {self._go_on}",
                code="bad-row",
            ) from None

    @property
    def _go_on(self) -> str:
        """What to feed next after a bad row."""
        if self.run.est.REPEATABLE:
            return "mend the row and feed it all again, counting a row twice does no harm"
        return "feed what comes after them, since a row that is fed again counts again"

    @property
    def _column(self) -> str | None:
        """The column of times that is read."""
        return None

    def _in_order(self, take: Callable[[Batch], None]) -> Any:
        """Give batches of files on, in order of time if they may come late."""
        return nullcontext(take)

    @property
    @abstractmethod
    def _seconds(self) -> float | None:
        """After how many seconds `_ring` is called again, if it is called without a signal."""

    @property
    @abstractmethod
    def _told(self) -> str:
        """When releases are made of what arrives."""

    @abstractmethod
    def _begin(self, final: bool | None) -> bool:
        """Refuse what cannot be, before anything is read; whether there is a release at the end."""

    @abstractmethod
    def take(self, batch: Batch, whole: Whole) -> None:
        """Count a batch. A release is made once, so `whole` is for everything else."""

    @abstractmethod
    def _ring(self) -> None:
        """A signal came, or some seconds are over."""

    @abstractmethod
    def _finish(self, final: bool) -> None:
        """All events are counted: release if that is asked for, or save."""


@dataclass
class AtTheEnd(Schedule):
    """One release when the events end. A pipe also has one for each SIGUSR1, or whenever `every` is over."""

    every: str | None = None
    final: bool = field(init=False, default=False)

    def _begin(self, final: bool | None) -> bool:
        run = self.run
        if self.every in CALENDAR:
            raise InvalidValue(
                f"--release-every {self.every}: periods of the calendar go by --time NAME", code="which-time"
            )
        if self.every is not None and not self.live:
            raise InvalidValue(
                "--release-every goes by the clock of standard input (-), or by --time COLUMN of events",
                code="which-time",
            )
        if final is False and run.kept is None:
            raise InvalidValue("--no-release needs a --state FILE to keep the counts", code="which-state")
        self.final = final if final is not None else run.kept is None or self.live
        run.check_left(needed=self.final and not self.live)  # now, not after an hour of reading
        if run.picture is not None and not self.final and not self.live:
            run.draw(run.est.last)  # of a state that is there; else there will be nothing to draw
        if self.every is not None and run.left <= self.final:
            run.output.note("no release is planned but the one at the end; --releases K plans for more")
        return self.final

    @property
    def _seconds(self) -> float | None:
        """The length of a period."""
        return None if self.every is None else length_of(self.every) / SECOND

    @property
    def _told(self) -> str:
        """How a signal asks for a release."""
        return f"kill -USR1 {os.getpid()} spends a release"

    def take(self, batch: Batch, whole: Whole) -> None:
        """Count a batch."""
        whole(partial(self.feeder.take, batch))

    def _ring(self) -> None:
        """Release, unless the last planned release is for the end."""
        left = self.run.left
        if left > self.final:
            self._release_dated()
        else:
            self.run.output.note("the last planned release is kept for the end of input" if left else _NONE_LEFT)

    def _finish(self, final: bool) -> None:
        """Release or save; of a series by the clock, show the curve."""
        run = self.run
        if final and (not self.live or run.left):
            if self.live:
                self._release_dated()
            else:
                self.release()
            if run.kept is None and run.left:
                run.output.note(f"{counted(run.left, 'more planned release')}, and no --state FILE to make them from")
        elif run.kept is not None:
            run.save()
        if self.every is not None:
            self.published.close(run.est)

    def release(self) -> None:
        """Spend one planned release, show it and draw it."""
        self._show(self.run.spend(), None)

    def _release_dated(self) -> None:
        """Release from a pipe, which goes on if another process has made the last release at this moment."""
        try:
            released = self.run.spend()
        except BudgetExhausted:
            self.run.output.note(_NONE_LEFT)
            return
        row = Dated(AT, int(time()) * SECOND, released)
        if self.every is not None:
            self.published.rows.append(row)
        self._show(released, row)

    def _show(self, released: Any, row: Dated | None) -> None:
        run = self.run
        try:
            if row is None:
                run.output.answer(released)
            else:
                run.show(row)
        except CannotShow as error:
            path = run.kept and run.kept.path
            lost = f"is spent and saved; panprivacy show {path} has it" if path else "is spent, and lost"
            raise CannotShow(f"{error}; the release {lost}") from None
        if self.every is None:  # a series is drawn, and called noise, once
            if run.picture is not None:
                run.draw(released)
            note_noise(released, run.output)


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

    def _begin(self, final: bool | None) -> bool:
        final = final if final is not None else self.run.kept is None
        self.run.check_left(needed=final)  # now, not after an hour of reading
        if self.calendar.by_clock:
            self._check_clock()
        return final

    @abstractmethod
    def _check_clock(self) -> None:
        """Refuse to begin with periods that are long over by the clock."""

    @property
    def _column(self) -> str | None:
        """The column of times."""
        return self.calendar.column

    def _in_order(self, take: Callable[[Batch], None]) -> Any:
        """Give batches of files on in order of time."""
        if self.lateness is None:
            return super()._in_order(take)
        return in_order_of_time(take, self.calendar, self.lateness)

    @property
    def _seconds(self) -> float | None:
        """How often to look at the clock."""
        return _LOOK if self.calendar.by_clock else None

    @property
    def _told(self) -> str:
        """What ends periods."""
        by = f"the clock ({self.calendar.zone})" if self.calendar.by_clock else "the times of the events"
        return f"{self.calendar.unit}s end by {by}"

    def _ring(self) -> None:
        """End the periods that are over by the clock."""
        if self.calendar.by_clock:
            self._end_before(self.calendar.passed + self.calendar.over)
        else:
            self.run.output.note(f"SIGUSR1 spends nothing here: {self._told}")

    def take(self, batch: Batch, whole: Whole) -> None:
        """Check the times and ids of a batch, and feed it period by period."""
        calendar = self.calendar
        if calendar.by_clock:
            self._ring()
        if calendar.column is None:
            whole(partial(self.feeder.take, batch))
            return
        with Scratch() as scratch:
            moments, started = whole(partial(calendar.moments, batch, scratch)), calendar.start is not None
            if not len(moments):
                return
            cut = calendar.cut(batch, moments, scratch)
            whole(partial(self.feeder.check, batch))  # before anything is released on account of its first rows
            if not started and calendar.start is not None:
                self._note_start(calendar.start)
            self.run.forewarn()
            for period, rows in cut:
                self._end_before(period)
                whole(partial(self.feeder.take, chosen_rows(batch, rows, scratch)))

    def _note_start(self, start: int) -> None:
        first = self.calendar.shown(start)
        self.run.output.note(
            f"periods are {self.calendar.fixed}; the first one shown starts on {first}, which shows when the first "
            f"event came; --start {first.replace(' ', 'T')} says it beforehand"
        )

    def publish(self, released: Any, *, over: bool | None = None) -> None:
        """Show the release of the open period, and open the next."""
        row = Dated(UNTIL, self.calendar.due, released, over=over, zone=self.calendar.zone)
        self.calendar.passed += 1
        self.published.rows.append(row)
        self.run.show(row)


@dataclass
class Series(PeriodSchedule):
    """One release at the end of each period, as long as planned releases are left; all count from the beginning on."""

    def _check_clock(self) -> None:
        if self.calendar.over > 1:
            raise InvalidValue(
                f"{self.calendar.over:,} periods are over by the clock and not released. If rows of the past are to "
                "end periods, say --ahead 1; else give a later --start, or spend releases first (panprivacy release)",
                code="periods-over",
            )

    def _end_before(self, period: int) -> None:
        """Release all periods before this one, as far as that is planned."""
        while self.calendar.passed < period:
            self.publish(self.run.spend(), over=True)
            if not self.run.left:
                self.run.output.note(
                    "all planned releases are made: later events are counted and will never be released; "
                    "a new state with --releases K plans for more"
                )

    def _finish(self, final: bool) -> None:
        """Release the open period or save it; show the curve and the audit."""
        run = self.run
        if final and run.left:
            self.publish(run.spend(), over=False)
        elif run.kept is not None:
            run.save()
        self.published.close(run.est, Audited(run.est))


@dataclass
class Windows(PeriodSchedule):
    """A new estimator for each period, which is released and wiped when its period is over."""

    def _begin(self, final: bool | None) -> bool:
        self.published.anew = True
        return final is not False

    def _check_clock(self) -> None:
        """Files have no clock."""

    def _end_before(self, period: int) -> None:
        """Release all periods before this one."""
        while self.calendar.passed < period:
            self._end(over=True)

    def _end(self, *, over: bool) -> None:
        run = self.run
        released = run.est.release(run.level)
        run.est.end("its period is over")
        assert run.new is not None
        run.est = run.new()
        self.feeder = self.source.feed_to(run.est, replace(self.source.columns, time=self._column))
        self.publish(released, over=over)

    def _finish(self, final: bool) -> None:
        """Release the open period, and say what all of them lose."""
        if final:
            self._end(over=False)
        self.published.close(self.run.est)
        self.run.output.note(
            f"loss per user: at most {self.run.est.epsilon:g} in each period in which the user appears"
        )


@dataclass
class Days(PeriodSchedule):
    """Ends the days of an `ActiveUsers`, saves what that spent, and shows what was released, in this order."""

    def __post_init__(self) -> None:
        est: Any = self.run.est
        self.est: ActiveUsers = est

    @classmethod
    def of(cls, run: Run, times: TimeOptions, column: str | None, *, live: bool) -> Self:
        """The days of an `ActiveUsers`, by a column of times, or by the clock alone."""
        est: Any = run.est
        calendar = Calendar(
            None if column is None else column_of_times(column),
            est.periods,
            est.periods.every,
            passed=est.periods.open,
            tz=est.periods.zone,
            policy=times.policy(live=live, in_own_period=True),
            now=wall_clock if live else None,
            unit="day",
        )
        return cls(run, calendar, times.lateness)

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
        self.run.keeper.write()
        self.calendar.passed = self.est.periods.open
        for each in released:
            row = Dated(UNTIL, moment_of(each.end), each, zone=self.calendar.zone)
            self.published.rows.append(row)
            self.run.output.answer(row)

    def _finish(self, final: bool) -> None:
        """End the open day or save it, and say what a cycle loses."""
        run, calendar = self.run, self.calendar
        if final:
            self._show([self.est.release(run.level)])
        elif run.kept is not None:
            run.keeper.write()
            run.output.note(f"{run.kept.path}: saved; the day from {calendar.shown(calendar.opened)} on is not over")
        self.published.close(self.est)
        self._note_loss()

    @contextmanager
    def _keeping(self) -> Iterator[None]:
        """As `Schedule._keeping`; also if the reader of the answers has gone."""
        try:
            with super()._keeping():
                yield
        except BrokenPipeError:
            if self.run.kept is not None:
                self.run.output.note(f"the reader of the answers has gone; what they show is saved: {self._go_on}")
            raise

    @property
    def _go_on(self) -> str:
        """Which events to feed next: earlier days are released."""
        opened = self.calendar.shown(self.calendar.opened)
        return (
            f"days before {opened} are released; feed events from then on; events of that day may be fed again, "
            "which does no harm"
        )

    def _note_loss(self) -> None:
        est = self.est
        cycle = f"a cycle of {told_length(est.days * est.periods.length)} in which the state is read once"
        first = f"loss per user: at most {rounded_up(est.loss()):g} in {cycle}"
        if est.delta:  # cycles do not just add up: they are one law
            several = rounded_up(est.loss(_CYCLES, readings=1))
            self.run.output.note(
                f"{first}, with a failure probability of at most {est.delta:g}; at most {several:g} in {_CYCLES} "
                "cycles if it is read in one of them, with the same failure probability"
            )
        else:
            self.run.output.note(f"{first}; at most {rounded_up(est.unread_loss):g} in each cycle without a reading")


def schedule_of(run: Run, source: Events, options: SeriesOptions) -> Schedule:
    """The schedule that the options ask for: one answer, or a series by the clock or by the times of rows."""
    time, every, live = options.time, options.release_every, not isinstance(source, Files)
    if options.anew:
        if time is None or every is None or run.kept is not None or not isinstance(source, Files):
            raise InvalidValue(
                "--anew counts files, by --time NAME and --release-every week, and keeps no --state", code="anew-alone"
            )
        policy = options.policy(live=False, in_own_period=True)
        calendar = Calendar.parsed(time, every, options.start, tz=options.tz, policy=policy)
        return Windows(run, calendar, options.lateness)
    options.check_given(time)
    if time is None:
        return AtTheEnd(run, every)
    if every is None:
        raise InvalidValue("--time goes with --release-every, such as 7d", code="which-period")
    calendar = Calendar.parsed(
        time,
        every,
        options.start,
        passed=run.est.budget.releases_made,
        planned=run.est.budget.releases,
        tz=options.tz,
        policy=options.policy(live=live, in_own_period=run.est.TRAITS.own_periods),
        now=wall_clock if live else None,
    )
    _check_start(run, calendar, live=live)
    return Series(run, calendar, options.lateness)


def _check_start(run: Run, calendar: Calendar, *, live: bool) -> None:
    """Ask for the start of the first period where the first row must not decide it."""
    if calendar.start is not None:
        return
    if run.kept is not None and run.kept.exists:
        raise InvalidValue(
            f"{run.kept.path} is there already: say when its first period started, {START}", code="which-start"
        )
    if live:
        raise InvalidValue(
            f"when does the first period start? No row of a pipe decides that: say {START}", code="which-start"
        )

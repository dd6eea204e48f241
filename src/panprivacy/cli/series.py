"""`--release-every 7d --time COLUMN`: a series of releases, one whenever a period of the events' own time is over."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from panprivacy.cli.notes import note_epsilon, note_noise_of_series
from panprivacy.cli.options import FileOptions, SeriesOptions
from panprivacy.cli.published import UNTIL, Audited, Dated, Published
from panprivacy.cli.run import Run
from panprivacy.cli.sources import Counting, Events, Files, Listened, in_order_of_time
from panprivacy.errors import InvalidValue
from panprivacy.estimates.plots import draw_windows
from panprivacy.estimators.base import Estimator
from panprivacy.ingest import STDIN, Batch, Columns, Kind, SignalTimer, expand, is_pipe, read, size_of
from panprivacy.ingest.feed import WRITTEN, BatchFeeder, bad_row, chosen_rows, moments_of_rows
from panprivacy.memory.scratch import Scratch
from panprivacy.periods import (
    END_OF_TIME,
    NO_TIME,
    PeriodRows,
    Periods,
    RowPolicy,
    Untimely,
    as_datetime,
    length_of,
    moments_in,
    told_time,
    wall_clock,
    zone_of,
)

MOST_DRAWN = 8
"""Groups that a picture of a series has room for, a panel each."""
START = "--start 2026-01-05"
"""How the start of the first period is said."""
_OF_FILES = RowPolicy()
_LOOK = 1.0  # seconds between two looks at the clock while nothing comes
_LITTLE = 2**26  # bytes of files that are read in a moment, only to name a number of periods
_EVER = 2**40  # more periods than there are

T = TypeVar("T")


class Whole(Protocol):
    """Makes a call, and makes it once more if Ctrl-C breaks it off where that only ends the input."""

    def __call__(self, call: Callable[[], T]) -> T: ...


def once(call: Callable[[], T]) -> T:
    """Make a call that Ctrl-C may break off, as it does where files are read."""
    return call()


def column_of_times(option: str) -> str:
    """The column that `--time` names; an error for the start of the first period behind it, which is `--start`."""
    import polars as pl

    name, at, start = option.rpartition("@")
    if at and moments_in(pl.Series([start]))[0] is not None:
        raise InvalidValue(f"--time {option}: say --time {name} --start {start}", code="start-option")
    return option


def parsed_moment(option: str, text: str, tz: str | None = None) -> int:
    """The moment that an option names."""
    import polars as pl

    moment: int | None = moments_in(pl.Series([text]), tz)[0]
    if moment is None:
        raise InvalidValue(f"{option}: {text!r} is not a time; {WRITTEN}", code="time-spelling")
    return moment


class Calendar:
    """Periods of one length, numbered from 0, of which each is released when it is over, as long as that is planned.

    Times depend on people as ids do, so what is made of them is scratch. `now` is the wall clock, in microseconds since
    1970, of a pipe or a broker; files have none.
    """

    def __init__(
        self,
        column: str,
        every: str,
        start: int | None,
        *,
        passed: int,
        planned: int,
        tz: str | None = None,
        policy: RowPolicy = _OF_FILES,
        now: Callable[[], int] | None = None,
    ) -> None:
        self.column = column
        self.policy = policy
        self._now = now
        self.passed = passed
        """How many periods have been released. A state that has released before goes on where it was."""
        self._passed_before = passed
        self._planned = planned  # all that comes after the last planned release is one period that never ends
        self._every = every
        self.zone = zone_of(tz).name
        """The time zone whose days these are, and of times without a zone."""
        length_of(every)  # which refuses what is no period
        self._grid = None if start is None else Periods.starting(start, every, tz)

    @classmethod
    def parsed(cls, column: str, every: str, start: str | None, *, tz: str | None = None, **more: Any) -> Self:
        """Read the options ``--time``, ``--release-every``, ``--start`` and ``--tz``."""
        moment = None if start is None else parsed_moment("--start", start, tz)
        return cls(column_of_times(column), every, moment, tz=tz, **more)

    @property
    def start(self) -> int | None:
        """When the first period starts; None if that is not given, and no event has come yet."""
        return None if self._grid is None else self._grid.start

    @property
    def due(self) -> int:
        """When the period ends that is not over yet."""
        due = self._periods.start_of(self.passed + 1)
        if due >= END_OF_TIME:
            raise InvalidValue(
                f"a period of {self._every} from {self.shown(self._periods.start_of(self.passed))} on ends after 9999",
                code="period-range",
            )
        return due

    def shown(self, moment: int) -> str:
        """A moment on the clocks of the time zone, for people."""
        return told_time(as_datetime(moment, self.zone))

    @property
    def by_clock(self) -> bool:
        """Whether the wall clock ends periods, and rows never do."""
        return self._now is not None and self.policy.ahead == 0

    @property
    def over(self) -> int:
        """How many periods are over by the wall clock, and not released yet."""
        assert self._now is not None
        return min(self._periods.number(self._now()), self._planned) - self.passed

    def moments(self, batch: Batch, scratch: Scratch) -> NDArray[np.int64]:
        """The times of a batch, or which row has none."""
        return moments_of_rows(batch, self.column, scratch, NO_TIME if self.policy.early == "skip" else None, self.zone)

    def cut(self, batch: Batch, moments: NDArray[np.int64], scratch: Scratch) -> PeriodRows:
        """The period that each row of a batch counts in, or which row is wrong; the moments are overwritten.

        Rows of a file come in order of periods where late and early ones are refused. Elsewhere the rows of a batch
        have no order.
        """
        if self._grid is None:
            self._grid = Periods.around(int(moments[0]), self._every, self.zone)
        times = scratch.own(moments.copy())
        now = None if self._now is None else self._now()
        in_order = now is None and self.policy.late == self.policy.early == "refuse"
        try:
            return self._grid.cut(
                moments, self.passed, self.policy, scratch, now=now, endless=self._planned, in_order=in_order
            )
        except Untimely as row:
            time = f"{self.column} {self.shown(int(times[row.row]))}"
            raise bad_row(batch, row.row, self._wrong(time, row.period, row.reached)) from None

    def _wrong(self, time: str, period: int, open_: int) -> str:
        """What is wrong with a time of one period, when another is open."""
        shown, start_of = self.shown, self._periods.start_of
        opened, sort = shown(start_of(open_)), f"sort by {self.column}"
        if self._passed_before and period < self._passed_before:
            until = shown(start_of(self._passed_before))
            return f"{time} is before {until}, until which this state has released; feed later events only"
        if period < 0:
            first = shown(start_of(0))
            return f"{time} is before {first}, when the first period starts; {sort}, or give an earlier --start"
        if period < open_:
            return f"{time} comes after a row of the period from {opened} on; {sort}"
        ahead = f"{period - open_:,} periods after the one from {opened} on, which is open by then"
        return f"{time} is {ahead}; mend the time, or, if nothing came in between, say --ahead {period - open_}"

    @property
    def _periods(self) -> Periods:
        if self._grid is None:
            raise InvalidValue(
                f"there are no events, so the start of a period is not known: say {START}", code="which-start"
            )
        return self._grid


def plan_series(
    plan: dict[str, Any], series: Any, files: Sequence[str] = (), reading: FileOptions | None = None
) -> dict[str, Any]:
    """The plan of a new state, or an error if `--release-every` leaves open how many periods share the budget.

    A state plans for one release if the command does not say more, and the first period would spend all of epsilon.
    """
    every, time = series.release_every, getattr(series, "time", None)
    of_files = bool(files) and list(files) != [STDIN]  # files have no clock to go by
    if every is not None and plan["releases"] is None and not series.anew and (time is not None or not of_files):
        length_of(every)
        found = _periods_found(series, files, reading) if of_files and time and reading else ""
        raise InvalidValue(
            f"how many periods? Say --releases K, of which one is spent after each{found}", code="which-releases"
        )
    return plan


def _periods_found(series: Any, given: Sequence[str], reading: FileOptions) -> str:
    """How many periods there are in the files, if that is found out in a moment."""
    files = expand(given)
    if any(map(is_pipe, files)) or sum(map(size_of, files)) > _LITTLE:
        return ""
    every, policy = series.release_every, RowPolicy(ahead=_EVER)
    calendar = Calendar.parsed(series.time, every, series.start, passed=0, planned=_EVER, tz=series.tz, policy=policy)
    columns = Columns((), Kind.integers, time=calendar.column)
    last = -1
    with Scratch() as scratch:
        for batch in read(files, columns, format_=reading.format, layout=reading.layout):
            moments = calendar.moments(batch, scratch)
            if len(moments):
                last = max(last, calendar.cut(batch, moments, scratch).periods[-1])
    if last < 0 or calendar.start is None:
        return ""
    return f"; from {calendar.shown(calendar.start)} on, these files have {last + 1:,} of {every}"


def feed_series(
    run: Run, source: Events, options: SeriesOptions, new: Callable[[], Estimator[Any]] | None = None
) -> None:
    """Feed events and show what was asked for: one answer, or a series, by the clock or by the times of rows.

    `new` makes another estimator, where each period may have one of its own.
    """
    if options.anew:
        feed_windows(run, source, options, new)
        return
    time, every, final = options.time, options.release_every, options.release
    if run.picture is not None and every is not None:
        _check_picture(run.est)
    published = Published(run.output, run.picture, deletions=source.columns.action is not None)
    options.check_given(time)
    if time is None:
        if every is not None and isinstance(source, Files):
            raise InvalidValue(
                "--release-every goes by the clock of standard input (-), or by --time COLUMN of events",
                code="which-time",
            )
        run.feed(source, every, final, published if every is not None else None)
        return
    if every is None:
        raise InvalidValue("--time goes with --release-every, such as 7d", code="which-period")
    budget, live = run.est.budget, not isinstance(source, Files)
    calendar = Calendar.parsed(
        time,
        every,
        options.start,
        passed=budget.releases_made,
        planned=budget.releases,
        tz=options.tz,
        policy=options.policy(live=live, in_own_period=run.est.TRAITS.own_periods),
        now=wall_clock if live else None,
    )
    if run.kept is not None and run.kept.exists and calendar.start is None:
        raise InvalidValue(
            f"{run.kept.path} is there already: say when its first period started, {START}", code="which-start"
        )
    if live and calendar.start is None:
        raise InvalidValue(
            f"when does the first period start? No row of a pipe decides that: say {START}", code="which-start"
        )
    Series(run, calendar, published, options.lateness).feed(source, final)


def feed_windows(run: Run, source: Events, options: SeriesOptions, new: Callable[[], Estimator[Any]] | None) -> None:
    """Count anew in each period, with an estimator of its own, which is released and wiped when its period is over."""
    time, every = options.time, options.release_every
    if time is None or every is None or run.kept is not None or new is None or not isinstance(source, Files):
        raise InvalidValue(
            "--anew counts files, by --time NAME and --release-every week, and keeps no --state", code="anew-alone"
        )
    policy = options.policy(live=False, in_own_period=True)
    calendar = Calendar.parsed(time, every, options.start, passed=0, planned=_EVER, tz=options.tz, policy=policy)
    columns = replace(source.columns, time=calendar.column)
    rows: list[Dated] = []
    open_ = [run.est]

    def release(*, over: bool = True) -> None:
        row = Dated(UNTIL, calendar.due, open_[0].release(run.level), over=over, zone=calendar.zone)
        open_[0].end("its period is over")
        open_[0] = new()
        calendar.passed += 1
        rows.append(row)
        run.show(row)

    def take(batch: Batch) -> None:
        with Scratch() as scratch:
            cut = calendar.cut(batch, calendar.moments(batch, scratch), scratch)
            source.feed_to(open_[0], columns).check(batch)
            for period, some in cut:
                while calendar.passed < period:
                    release()
                source.feed_to(open_[0], columns).take(chosen_rows(batch, some, scratch))

    run.forewarn()
    with in_order_of_time(take, calendar.column, options.lateness, calendar.zone) as each:
        source.read(columns, run.keeper, run.output, each)
    if options.release is not False:
        release(over=False)
    if run.picture is not None and rows:
        draw_windows([(row.time, row.release) for row in rows], run.picture)
    note_noise_of_series([row.release for row in rows], run.output)
    run.output.note(f"loss per user: at most {open_[0].epsilon:g} in each period in which the user appears")
    note_epsilon(open_[0], run.output)


def _check_picture(est: Any) -> None:
    """Refuse a picture of a series that has no room for all groups, before anything is read or spent."""
    if len(getattr(est, "groups", ())) > MOST_DRAWN:
        raise InvalidValue(
            f"a series of {len(est.groups):,} groups is not drawn, since there is room for {MOST_DRAWN}: leave --plot "
            "out, and draw what --json prints",
            code="too-many-groups",
        )


@dataclass
class Series:
    """Feeds events to an estimator and releases at the end of each period, as long as planned releases are left.

    Rows of files come in order of periods, and in any order within one. The times of a batch are checked before
    anything of it is counted: on account of a batch with a time that is wrong, nothing is released. Of a pipe or a
    broker the wall clock ends periods, unless `ahead` says that rows do.
    """

    run: Run
    calendar: Calendar
    published: Published
    lateness: str | None = None
    """How late a row of a file may be."""

    def feed(self, source: Events, final: bool | None) -> None:
        """Count everything, release on the way, and at the end if that is wanted and planned for."""
        final = final if final is not None else self.run.kept is None
        if final:
            self.run.check_left()  # now, not after an hour of reading
        self.run.note_exhausted()
        columns = replace(source.columns, time=self.calendar.column)
        feed = source.feed_to(self.run.est, columns)
        with self.run.keeping_what_was_counted():
            if isinstance(source, Files):
                self._read(source, columns, feed)
            else:
                self._listen(source, columns, feed)
        if final and self.run.left:
            self._release(over=False)
        elif self.run.kept is not None:
            self.run.save(self.run.kept)
        self.published.close(self.run.est, Audited(self.run.est))
        note_epsilon(self.run.est, self.run.output)

    def _read(self, source: Files, columns: Columns, feed: BatchFeeder) -> None:
        take, calendar = partial(self._take, feed=feed, whole=once), self.calendar
        with in_order_of_time(take, calendar.column, self.lateness, calendar.zone) as each:
            source.read(columns, self.run.keeper, self.run.output, each)

    def _listen(self, source: Listened, columns: Columns, feed: BatchFeeder) -> None:
        note, by_clock = self.run.output.note, self.calendar.by_clock
        going_by = f"the clock ({self.calendar.zone})" if by_clock else "the times of the events"
        if by_clock and self.calendar.over > 1:
            raise InvalidValue(
                f"{self.calendar.over:,} periods are over by the clock and not released. If rows of the past are to "
                "end periods, say --ahead 1; else give a later --start, or spend releases first (panprivacy release)",
                code="periods-over",
            )
        note(f"reading {source.name}; releases go by {going_by}, and Ctrl-C ends the input")
        refused = f"SIGUSR1 spends nothing here: releases go by {going_by}"
        with SignalTimer(_LOOK if by_clock else None) as bell:
            take = partial(self._take, feed=feed, whole=bell.undisturbed)
            ring = self._release_what_is_over if by_clock else partial(note, refused)
            source.listen(Counting(columns, self.run.keeper, self.run.output, bell, take, ring))

    def _take(self, batch: Batch, feed: BatchFeeder, whole: Whole) -> None:
        """Check the times and ids of a batch, and feed it. A release is made once, so `whole` is for the rest."""
        with Scratch() as scratch:
            moments, started = whole(partial(self.calendar.moments, batch, scratch)), self.calendar.start is not None
            if not len(moments):
                return
            if self.calendar.by_clock:
                self._release_what_is_over()
            cut = self.calendar.cut(batch, moments, scratch)
            whole(partial(feed.check, batch))  # before anything is released on account of its first rows
            if not started:
                self._note_start()
            for period, rows in cut:
                self._release_before(period)
                whole(partial(feed.take, chosen_rows(batch, rows, scratch)))

    def _release_before(self, period: int) -> None:
        """Release all periods before this one, as far as that is planned."""
        while self.calendar.passed < period:
            self._release()
            if not self.run.left:
                self.run.output.note(
                    "all planned releases are made: later events are counted and will never be released; "
                    "a new state with --releases K plans for more"
                )

    def _release_what_is_over(self) -> None:
        self._release_before(self.calendar.passed + self.calendar.over)

    def _note_start(self) -> None:
        assert self.calendar.start is not None
        self.run.output.note(
            f"the first period starts on {self.calendar.shown(self.calendar.start)}, which shows when the first event "
            f"came; {START} says it beforehand"
        )

    def _release(self, *, over: bool = True) -> None:
        due = self.calendar.due
        row = Dated(UNTIL, due, self.run.spend(), over=over, zone=self.calendar.zone)
        self.calendar.passed += 1
        self.published.rows.append(row)
        self.run.show(row)

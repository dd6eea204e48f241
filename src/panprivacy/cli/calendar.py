"""The periods of a series: when they end, and which rows of a batch count in which of them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from panprivacy.cli.options import FileOptions, SeriesOptions
from panprivacy.errors import InvalidValue
from panprivacy.ingest import Batch, Columns, Kind, expand, is_pipe, read, size_of
from panprivacy.ingest.feed import WRITTEN, bad_row, moments_of_rows
from panprivacy.memory.scratch import Scratch
from panprivacy.periods import (
    CALENDAR,
    DAY,
    END_OF_TIME,
    NO_TIME,
    SKIPPED,
    PeriodRows,
    Periods,
    RowPolicy,
    Untimely,
    as_datetime,
    length_of,
    moments_in,
    told_time,
    zone_of,
)

START = "--start 2026-01-05"
"""How the start of the first period is said."""
_FIXED = "counted from Monday, 1970-01-05, on"
_OF_FILES = RowPolicy()
_LITTLE = 2**26  # bytes of files that are read in a moment, only to name a number of periods
_EVER = 2**40  # more periods than there are


def column_of_times(option: str) -> str:
    """The column that `--time` names; an error for the start of the first period behind it, which is `--start`."""
    import polars as pl

    name, at, start = option.rpartition("@")
    if at and moments_in(pl.Series([start]))[0] is not None:
        raise InvalidValue(f"--time {option}: say --time {name} --start {start}", code="start-option")
    return option


def parsed_start(text: str, tz: str | None = None) -> int:
    import polars as pl

    moment: int | None = moments_in(pl.Series([text]), tz)[0]
    if moment is None:
        raise InvalidValue(f"--start: {text!r} is not a time; {WRITTEN}", code="time-spelling")
    return moment


@dataclass
class Calendar:
    """The periods of a series, numbered from 0: when they end, and which rows of a batch count in which of them.

    Times depend on people as ids do, so everything computed from them is scratch. `now` is the wall clock of a pipe or
    a broker, in microseconds since 1970; files have none. All rows after the last planned period count in one period
    that never ends.

    Without a start the bounds of periods are fixed (`Periods.of`). The first row that has a time decides with which
    of these periods a series begins, and nothing else.
    """

    column: str | None
    """The column of times; None if the clock alone says when an event came."""
    periods: Periods
    every: str
    _: KW_ONLY
    passed: int = 0
    """The open period: all before it were released. A state that has released before goes on where it was."""
    planned: int = _EVER
    tz: str | None = None
    policy: RowPolicy = _OF_FILES
    now: Callable[[], int] | None = None
    unit: str = "period"
    """The word for a period: a day of `actives` may last an hour."""
    first: int | None = 0
    """The first period; None until the first row decides it."""

    def __post_init__(self) -> None:
        self.zone = zone_of(self.tz).name
        """The time zone of the periods, and of times without a zone."""
        self._passed_before = self.passed

    @classmethod
    def parsed(cls, column: str, every: str, start: str | None, *, tz: str | None = None, **more: Any) -> Self:
        """Read the options ``--time``, ``--release-every``, ``--start`` and ``--tz``."""
        length_of(every)  # which refuses anything but a period
        column = column_of_times(column)
        if start is None:
            return cls(column, Periods.of(every, tz=tz), every, tz=tz, first=None, **more)
        return cls(column, Periods.of(every, as_datetime(parsed_start(start, tz)), tz), every, tz=tz, **more)

    @property
    def start(self) -> int | None:
        """When the first period starts; None if that is not given, and no event has come yet."""
        return None if self.first is None else self.periods.start_of(self.first)

    @property
    def fixed(self) -> str:
        """The bounds of periods without a start, for people."""
        return f"by the calendar, each a {self.every}" if self.every in CALENDAR else f"{self.every} each, {_FIXED}"

    @property
    def opened(self) -> int:
        return self.start_of(self.passed)

    @property
    def due(self) -> int:
        due = self.start_of(self.passed + 1)
        if due >= END_OF_TIME:
            raise InvalidValue(
                f"a period of {self.every} from {self.shown(self.opened)} on ends after 9999", code="period-range"
            )
        return due

    def start_of(self, period: int) -> int:
        if self.first is None:
            raise InvalidValue(
                f"there are no events, so the start of a period is not known: say {START}", code="which-start"
            )
        return self.periods.start_of(period)

    def shown(self, moment: int) -> str:
        """A moment on the clocks of the time zone, for people."""
        return told_time(as_datetime(moment, self.zone))

    @property
    def by_clock(self) -> bool:
        """Whether the wall clock ends periods, and rows never do."""
        return self.now is not None and (self.policy.ahead == 0 or self.column is None)

    @property
    def over(self) -> int:
        """Periods that are over by the wall clock, and not released yet."""
        assert self.now is not None
        return min(self.periods.number(self.now()), self.planned) - self.passed

    def moments(self, batch: Batch, scratch: Scratch) -> NDArray[np.int64]:
        """The times of a batch, or which row has none."""
        assert self.column is not None
        return moments_of_rows(batch, self.column, scratch, NO_TIME if self.policy.early == "skip" else None, self.zone)

    def reached(self, batch: Batch, moments: NDArray[np.int64], patience: int, scratch: Scratch) -> int:
        """The latest of these moments, but for rows that are early: these move no clock.

        The moments are of rows that wait, and then of the rows of a batch. The batch is refused if the policy refuses
        early rows, and one of them stays early even if a row between it and the others still comes, late by `patience`.
        """
        latest = int(moments.max())
        open_ = self.periods.number(int(moments.min())) if self.first is None else self.passed
        endless = self.planned if self.first is not None else self.planned + open_
        numbers = scratch.own(moments.copy())
        each = replace(self.policy, late="skip", early="skip")
        counted = self.periods.cut(numbers, open_, each, scratch, endless=endless).last
        last = open_ if counted is None else counted
        hopeless = last != endless and latest - patience >= self.periods.start_of(last + self.policy.ahead + 1)
        if hopeless and self.policy.early == "refuse":
            row, time = int(moments[-len(batch.rows) :].argmax()), f"{self.column} {self.shown(latest)}"
            raise bad_row(batch, row, self._wrong(time, self.periods.number(latest), last, None))
        return int(moments.max(where=scratch.own(numbers != SKIPPED), initial=self.periods.start_of(open_)))

    def cut(self, batch: Batch, moments: NDArray[np.int64], scratch: Scratch) -> PeriodRows:
        """The period that each row of a batch counts in, or which row is wrong; the moments are overwritten.

        Rows of a file come in order of periods where late and early ones are refused. Elsewhere the rows of a batch
        have no order.
        """
        if self.first is None:  # the first row that has a time decides it; without one, a later batch does
            timed = scratch.own(moments != NO_TIME)
            if timed.any():
                self.passed = self.first = self.periods.number(int(moments[timed.argmax()]))
                self.planned += self.first
        times = scratch.own(moments.copy())
        now = None if self.now is None else self.now()
        in_order = now is None and self.policy.late == self.policy.early == "refuse"
        try:
            return self.periods.cut(
                moments, self.passed, self.policy, scratch, now=now, endless=self.planned, in_order=in_order
            )
        except Untimely as row:
            time = f"{self.column} {self.shown(int(times[row.row]))}"
            # What is after the row in time, as far as it is known here: rows of the batch, and the open period.
            latest = max(int(times[: row.row].max(initial=0)), self.start_of(row.reached))
            late = None if now is not None else latest - int(times[row.row])
            raise bad_row(batch, row.row, self._wrong(time, row.period, row.reached, late)) from None

    def _wrong(self, time: str, period: int, open_: int, late: int | None) -> str:
        """The error of a row whose period is not the open one; `late` is how late a row of a file came, at least."""
        shown, start_of, unit = self.shown, self.periods.start_of, self.unit
        opened, sort = shown(start_of(open_)), f"sort by {self.column}"
        if self._passed_before and period < self._passed_before:
            until = shown(start_of(self._passed_before))
            return f"{time} is before {until}, until which this state has released; feed later events only"
        if self.first is not None and period < self.first:
            first = shown(start_of(self.first))
            return f"{time} is before {first}, when the first {unit} starts; {sort}, or give an earlier --start"
        if period < open_:
            waits = "" if late is None else f", or say --lateness {-(-late // DAY)}d, or more if other rows are later"
            return f"{time} comes after a row of the {unit} from {opened} on; {sort}{waits}"
        ahead = f"{period - open_:,} {unit}s after the one from {opened} on, which is open by then"
        mend = "mend the time" if late is None else f"mend the time, {sort}"
        return f"{time} is {ahead}; {mend}, or, if nothing came in between, say --ahead {period - open_}"


@contextmanager
def in_order_of_time(
    take: Callable[[Batch], None], calendar: Calendar, lateness: str
) -> Iterator[Callable[[Batch], None]]:
    """Give rows of files on in order of time, if none is later than `lateness`: until then, rows wait in memory.

    A row without a time refuses its batch or is left out, as the calendar's policy says; the others wait all the same.
    """
    import polars as pl

    waiting: list[Batch] = []
    patience, moment = length_of(lateness), "\0moment"  # a name that no column of a file has

    def give(batch: Batch, until: int) -> None:
        rows = batch.rows.filter(pl.col(moment) < until).sort(moment, maintain_order=True).drop(moment)
        if len(rows):
            take(replace(batch, file=f"{batch.file}, in order of time", rows=rows, before=0))

    def wait(batch: Batch) -> None:
        assert calendar.column is not None
        moments = moments_in(batch.rows[calendar.column], calendar.zone)
        with Scratch() as scratch:
            if moments.null_count():
                calendar.moments(batch, scratch)  # which says which row has no time, unless such rows are left out
            timed = batch.rows.with_columns(moments.alias(moment)).drop_nulls(moment)
            rows = pl.concat([*(each.rows for each in waiting), timed])
            if not len(rows):
                return
            waited = scratch.own(rows[moment].to_numpy().copy())
            until = calendar.reached(replace(batch, rows=timed), waited, patience, scratch) - patience
        give(replace(batch, rows=rows), until)
        waiting[:] = [replace(batch, rows=rows.filter(pl.col(moment) >= until))]

    yield wait
    for batch in waiting:
        give(batch, END_OF_TIME)


def check_periods_planned(
    releases: int | None, series: SeriesOptions, files: Sequence[str], reading: FileOptions
) -> None:
    """Refuse `--release-every` for a new state without `--releases`, and say how many periods there are in files.

    A state plans for one release if the command does not say more, and the first period would spend all of epsilon.
    `files` are empty if a pipe or a broker is read, which have a clock to go by.
    """
    every, time = series.release_every, series.time
    if every is None or releases is not None or series.anew or (files and time is None):
        return
    length_of(every)
    found, given = "", expand(files) if files else []
    if time is not None and given and not any(map(is_pipe, given)) and sum(map(size_of, given)) <= _LITTLE:
        calendar = Calendar.parsed(time, every, series.start, tz=series.tz, policy=RowPolicy(ahead=_EVER))
        columns = Columns((), Kind.integers, time=calendar.column)
        ends = []
        with Scratch() as scratch:
            for batch in read(given, columns, format_=reading.format, layout=reading.layout):
                moments = calendar.moments(batch, scratch)
                if len(moments):
                    ends.append(calendar.cut(batch, moments, scratch).periods[-1] + 1)
        if ends and calendar.start is not None:
            many = f"{max(ends) - calendar.passed:,} of {every}"
            found = f"; from {calendar.shown(calendar.start)} on, these files have {many}"
    raise InvalidValue(
        f"how many periods? Say --releases K, of which one is spent after each{found}", code="which-releases"
    )

"""`--release-every 7d --time COLUMN`: a series of releases, one whenever a period of the events' own time is over."""

import time as clock
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from panprivacy.cli.calendar import START, Calendar
from panprivacy.cli.chart import Audited
from panprivacy.cli.groups import check_series_picture
from panprivacy.cli.published import UNTIL, Dated, Published, shown
from panprivacy.cli.rows import TimeOptions
from panprivacy.cli.run import Run
from panprivacy.cli.source import Events, Files, Listened
from panprivacy.cli.timed import Whole, once
from panprivacy.clock import rows_of
from panprivacy.events import Batch, Bell, Columns
from panprivacy.feeding import Feed
from panprivacy.memory import Scratch
from panprivacy.retention import Retention

_NOTHING_SAID = TimeOptions()
_LOOK = 1.0  # seconds between two looks at the clock while nothing comes


def feed_series(
    run: Run,
    source: Events,
    final: bool | None,
    *,
    time: str | None,
    every: str | None,
    picture: str | None,
    rows: TimeOptions = _NOTHING_SAID,
) -> None:
    """Feed events and show what was asked for: one answer, or a series, by the clock or by ``--time NAME[@START]``."""
    if picture is not None:
        if every is None:
            raise ValueError("--plot draws a series of releases: say --release-every 7d, and for files --time NAME")
        check_series_picture(run.est, picture)
    published = Published(run.speaker, picture, deletions=source.columns.action is not None)
    if time is None:
        if rows.given:
            raise ValueError(f"{' and '.join(rows.given)}: about the times of rows; say --time NAME")
        run.feed(source, every, final, published if every is not None else None)
        return
    if every is None:
        raise ValueError("--time goes with --release-every, such as 7d")
    budget, live = run.est.budget, not isinstance(source, Files)
    calendar = Calendar.parsed(
        time,
        every,
        passed=budget.releases_made,
        planned=budget.releases,
        policy=rows.policy(live=live, in_own_period=isinstance(run.est, Retention)),
        now=_now if live else None,
    )
    if run.kept is not None and run.kept.exists and calendar.start is None:
        raise ValueError(f"{run.kept.path} is there already: say when its first period started, --time {START}")
    if live and calendar.start is None:
        raise ValueError(f"when does the first period start? No row of a pipe decides that: say --time {START}")
    Series(run, calendar, published).feed(source, final)


def _now() -> int:
    """The wall clock, in microseconds since 1970."""
    return clock.time_ns() // 1000


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
                source.read(columns, self.run.keeper, self.run.speaker, lambda batch: self._take(batch, feed, once))
            else:
                self._listen(source, columns, feed)
        if final and self.run.left:
            self._release(over=False)
        elif self.run.kept is not None:
            self.run.save(self.run.kept)
        self.published.close(self.run.est, Audited(self.run.est))
        self.run.note_epsilon()

    def _listen(self, source: Listened, columns: Columns, feed: Feed) -> None:
        note, by_clock = self.run.speaker.note, self.calendar.by_clock
        going_by = "the clock (UTC)" if by_clock else "the times of the events"
        if by_clock and self.calendar.over > 1:
            raise ValueError(
                f"{self.calendar.over:,} periods are over by the clock and not released. If rows of the past are to "
                "end periods, say --ahead 1; else give a later start, or spend releases first (panprivacy release)"
            )
        note(f"reading {source.name}; releases go by {going_by}, and Ctrl-C ends the input")
        refused = f"SIGUSR1 spends nothing here: releases go by {going_by}"
        with Bell(_LOOK if by_clock else None) as bell:
            source.listen(
                columns,
                self.run.keeper,
                self.run.speaker,
                bell,
                take=lambda batch: self._take(batch, feed, bell.undisturbed),
                ring=self._release_what_is_over if by_clock else lambda: note(refused),
            )

    def _take(self, batch: Batch, feed: Feed, whole: Whole) -> None:
        """Check the times and ids of a batch, and feed it. A release is made once, so `whole` is for the rest."""
        with Scratch() as scratch:
            moments, started = whole(partial(self.calendar.moments, batch, scratch)), self.calendar.start is not None
            if not len(moments):
                return
            if self.calendar.by_clock:
                self._release_what_is_over()
            periods, counted = self.calendar.periods(batch, moments, scratch)
            whole(partial(feed.check, batch))  # before anything is released on account of its first rows
            if not started:
                self._note_start()
            for period in counted:
                self._release_before(period)
                rows = rows_of(periods, period, scratch)
                some = batch if rows.all() else replace(batch, rows=batch.rows[scratch.own(np.flatnonzero(rows))])
                whole(partial(feed.take, some))

    def _release_before(self, period: int) -> None:
        """Release all periods before this one, as far as that is planned."""
        while self.calendar.passed < period:
            self._release()
            if not self.run.left:
                self.run.speaker.note(
                    "all planned releases are made: later events are counted and will never be released; "
                    "a new state with --releases K plans for more"
                )

    def _release_what_is_over(self) -> None:
        self._release_before(self.calendar.passed + self.calendar.over)

    def _note_start(self) -> None:
        assert self.calendar.start is not None
        self.run.speaker.note(
            f"the first period starts on {shown(self.calendar.start)}, which shows when the first event came; "
            f"--time {START} says it beforehand"
        )

    def _release(self, *, over: bool = True) -> None:
        due = self.calendar.due
        row = Dated(UNTIL, due, self.run.spend(), over=over)
        self.calendar.passed += 1
        self.published.rows.append(row)
        self.run.speaker.answer(row)

"""Feeds events to an `ActiveUsers` day by day: by a column of times, or by the clock."""

import sys
import time
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from panprivacy.actives import ActiveUsers
from panprivacy.cli.progress import Meter
from panprivacy.cli.run import Run, Source
from panprivacy.cli.series import Dated
from panprivacy.cli.timed import bad_row, moments_of_rows, shown, some_rows
from panprivacy.events import Batch, Bell, Live, expand, read
from panprivacy.feeding import Feed
from panprivacy.periods import DAY, SECOND, as_datetime, moment_of
from panprivacy.release.actives import ActivesRelease

_MOST_QUIET = 400  # days without a row; more of them are a wrong time


@dataclass
class Days:
    """Ends days as time goes on, saves what that spent, and shows what was released, in this order."""

    run: Run
    est: ActiveUsers
    released: list[ActivesRelease] = field(default_factory=list)

    def feed(self, source: Source, column: str | None, *, end: bool) -> None:
        """Count everything, and end the days that are over; also the last one, if that is wanted."""
        if source.live and column is not None:
            raise ValueError("from a pipe, days go by the clock: leave --time out")
        if not source.live and column is None:
            raise ValueError("which column holds the times? Say --time NAME")
        with self.run.keeping_what_was_counted():
            if column is None:
                self._feed_live(source)
            else:
                self._feed_files(source, column)
        if end:
            self._show([self.est.release(self.run.level)])
        elif self.run.kept is not None:
            self.run.keeper.write()
            self.run.speaker.note(f"{self.run.kept.path}: saved; the day from {shown(self._open)} on is not over")
        self._note_loss()
        self.run.note_epsilon()

    def _feed_files(self, source: Source, column: str) -> None:
        columns = replace(source.columns, time=column)
        feed = source.feed_to(self.est, columns)
        files = expand(source.files)
        with Meter(files, self.run.speaker) as meter:
            for batch in read(files, columns, format_=source.format, layout=source.layout):
                self._take(batch, feed, column)
                meter.advance(batch)
                self.run.keeper.counted()

    def _take(self, batch: Batch, feed: Feed, column: str) -> None:
        """Feed a batch in pieces, cut where a day ends; its times are checked before anything of it is counted."""
        moments = moments_of_rows(batch, column)
        if not len(moments):
            return
        days = (moments - self._open) // self._length  # from the open one on
        reached = np.maximum.accumulate(np.concatenate([[0], days[:-1]]))
        wrong = np.flatnonzero((days < reached) | (days - reached > _MOST_QUIET))
        if len(wrong):
            row = int(wrong[0])
            raise bad_row(batch, row, self._wrong(column, int(moments[row]), int(reached[row])))
        feed.check(batch)
        first = self._open
        for day in np.unique(days):
            self._advance(first + int(day) * self._length)
            start, end = (int(np.searchsorted(days, day, side=side)) for side in ("left", "right"))
            feed.take(some_rows(batch, start, end))

    def _wrong(self, column: str, moment: int, reached: int) -> str:
        opened = shown(self._open + reached * self._length)
        if moment < self._open + reached * self._length:
            return (
                f"{column} {shown(moment)} is before the day from {opened} on, which is open by then; sort by {column}"
            )
        return f"{column} {shown(moment)} is more than {_MOST_QUIET} days after {opened}; mend the time"

    def _feed_live(self, source: Source) -> None:
        """Count what comes on the day that it comes on."""
        feed = source.feed_to(self.est)
        with Bell() as bell, Meter([], self.run.speaker) as meter:
            self.run.speaker.note("reading standard input; days end by the clock (UTC), Ctrl-C ends the input")
            live = Live(sys.stdin.fileno(), source.columns, source.format, source.layout, bell)
            for batch in live.batches():
                self._advance(time.time_ns() // 1000)
                if batch is not None:
                    bell.undisturbed(partial(feed.take, batch))
                    meter.advance(batch)
                    self.run.keeper.counted()
                elif bell.rings():
                    self.run.speaker.note("days end by the clock, and are released then")
                else:
                    self.run.keeper.write_if_due()
                over = time.monotonic() + (self._open + self._length - time.time_ns() // 1000) / SECOND
                bell.wake_at = min(over, self.run.keeper.due or over)

    def _advance(self, moment: int) -> None:
        """End the days that are over at a moment. What they spent is on disk before anybody can show it."""
        if moment >= self._open + self._length:
            self._show(self.est.advance(as_datetime(moment)))

    def _show(self, released: list[ActivesRelease]) -> None:
        self.run.keeper.write()
        self.released += released
        for each in released:
            self.run.speaker.answer(Dated(moment_of(each.end), each))

    def _note_loss(self) -> None:
        days = self.est.days
        self.run.speaker.note(
            f"in a cycle of {days} days nobody loses more than {self.est.loss():.6g}; in each further one, "
            f"{self.est.unread_loss:.4g} more if the state is not read in it"
        )

    @property
    def _open(self) -> int:
        return moment_of(self.est.day)

    @property
    def _length(self) -> int:
        return self.est.every // type(self.est.every)(microseconds=1)

    @staticmethod
    def last_midnight() -> int:
        """The midnight before now, UTC."""
        return time.time_ns() // 1000 // DAY * DAY

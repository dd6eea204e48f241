"""Feeds events to an `ActiveUsers` day by day: by a column of times, or by the clock."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from panprivacy.actives import ActiveUsers
from panprivacy.cli.noisy import note_noise_of_series
from panprivacy.cli.published import UNTIL, Dated, shown
from panprivacy.cli.run import Run
from panprivacy.cli.source import Events, Files, Listened
from panprivacy.cli.timed import Whole, bad_row, moments_of_rows, once, some_rows
from panprivacy.errors import PanPrivacyError
from panprivacy.events import BadInput, Batch, Bell
from panprivacy.feeding import Feed
from panprivacy.memory import Scratch
from panprivacy.periods import DAY, as_datetime, moment_of
from panprivacy.release.actives import ActivesRelease

_MOST_QUIET = 400  # days without a row; more of them are a wrong time
_LOOK = 1.0  # seconds between two looks at the clock while nothing comes


@dataclass
class Days:
    """Ends days as time goes on, saves what that spent, and shows what was released, in this order."""

    run: Run
    est: ActiveUsers
    released: list[ActivesRelease] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._first = self._open  # events of days before it cannot come any more, in whatever order the files are
        self._begun = self.est.last is not None

    def feed(self, source: Events, column: str | None, *, end: bool) -> None:
        """Count everything, and end the days that are over; also the last one, if that is wanted."""
        with self._saying_what_is_released():
            if column is None:
                assert not isinstance(source, Files), "the clock is that of a pipe"
                self._feed_by_the_clock(source)
            else:
                self._feed_by_their_times(source, column)
        if end:
            self._show([self.est.release(self.run.level)])
        elif self.run.kept is not None:
            self.run.keeper.write()
            self.run.speaker.note(f"{self.run.kept.path}: saved; the day from {shown(self._open)} on is not over")
        note_noise_of_series(self.released, self.run.speaker)
        self._note_loss()
        self.run.note_epsilon()

    @contextmanager
    def _saying_what_is_released(self) -> Iterator[None]:
        """If it breaks off, save what is counted, and say which events to feed next: earlier days are released."""
        try:
            yield
        except BadInput as error:
            if self.run.kept is None or not self.run.keeper.used:
                raise
            self.run.keeper.write_what_is_left()
            raise PanPrivacyError(f"{error}; what comes before it is counted and saved: {self._go_on}") from None
        except BrokenPipeError:
            if self.run.kept is not None:
                self.run.speaker.note(f"whoever read the answers has gone; what they show is saved: {self._go_on}")
            raise

    @property
    def _go_on(self) -> str:
        again = "those of that day may be fed again, which does no harm"
        return f"days before {shown(self._open)} are released; feed events from then on, {again}"

    def _feed_by_their_times(self, source: Events, column: str) -> None:
        columns = replace(source.columns, time=column)
        feed, run = source.feed_to(self.est, columns), self.run
        if isinstance(source, Files):
            source.read(columns, run.keeper, run.speaker, lambda batch: self._take(batch, feed, column, once))
            return
        note = run.speaker.note
        note("reading standard input; days go by the times of the events, and Ctrl-C ends the input")
        with Bell() as bell:
            source.listen(
                columns,
                run.keeper,
                run.speaker,
                bell,
                take=lambda batch: self._take(batch, feed, column, bell.undisturbed),
                ring=lambda: note("SIGUSR1 spends nothing here: days go by the times of the events"),
            )

    def _take(self, batch: Batch, feed: Feed, column: str, whole: Whole) -> None:
        """Feed a batch in pieces, cut where a day ends; its times are checked before anything of it is counted.

        A release is made once, so `whole`, which makes a call again that Ctrl-C breaks off, is for the rest.
        """
        with Scratch() as scratch:
            moments = whole(partial(moments_of_rows, batch, column, scratch))
            if not len(moments):
                return
            days = scratch.own(moments - self._open)
            days //= self._length  # from the open one on
            self._check(batch, column, moments, days, scratch)
            whole(partial(feed.check, batch))
            self.run.forewarn()
            first, at = self._open, 0
            while at < len(days):
                self._advance(first + int(days[at]) * self._length)
                end = int(np.searchsorted(days, days[at], side="right"))
                whole(partial(feed.take, some_rows(batch, at, end)))
                at = end

    def _check(
        self, batch: Batch, column: str, moments: NDArray[np.int64], days: NDArray[np.int64], scratch: Scratch
    ) -> None:
        """Refuse a batch with a time before the day that is open by then, or too far after it."""
        reached: NDArray[np.int64] = scratch.empty("reached", len(days), np.int64)
        reached[0], reached[1:] = 0, days[:-1]
        np.maximum.accumulate(reached, out=reached)
        wrong = scratch.own(days < reached)
        reached += _MOST_QUIET
        wrong |= scratch.own(days > reached)
        if wrong.any():
            row = int(wrong.argmax())
            raise bad_row(batch, row, self._wrong(column, int(moments[row]), int(reached[row]) - _MOST_QUIET))

    def _wrong(self, column: str, moment: int, reached: int) -> str:
        opened = shown(self._open + reached * self._length)
        if moment < self._first:
            return f"{column} {shown(moment)} is before {shown(self._first)}, {self._why_first}"
        if moment < self._open + reached * self._length:
            return (
                f"{column} {shown(moment)} is before the day from {opened} on, which is open by then; sort by {column}"
            )
        return f"{column} {shown(moment)} is more than {_MOST_QUIET} days after {opened}; mend the time"

    @property
    def _why_first(self) -> str:
        if self._begun:
            return "until which this state has released; feed later events only"
        return "when the first day starts; give an earlier --start"

    def _feed_by_the_clock(self, source: Listened) -> None:
        """Count what comes on the day that it comes on."""
        feed, note = source.feed_to(self.est), self.run.speaker.note
        note("reading standard input; days end by the clock (UTC), and Ctrl-C ends the input")
        with Bell(_LOOK) as bell:

            def take(batch: Batch) -> None:
                self._advance(time.time_ns() // 1000)
                bell.undisturbed(partial(feed.take, batch))  # counting a batch twice is counting it once

            source.listen(
                source.columns,
                self.run.keeper,
                self.run.speaker,
                bell,
                take=take,
                ring=lambda: self._advance(time.time_ns() // 1000),
            )

    def _advance(self, moment: int) -> None:
        """End the days that are over at a moment. What they spent is on disk before anybody can show it."""
        if moment >= self._open + self._length:
            self._show(self.est.advance(as_datetime(moment)))

    def _show(self, released: list[ActivesRelease]) -> None:
        self.run.keeper.write()
        self.released += released
        for each in released:
            self.run.speaker.answer(Dated(UNTIL, moment_of(each.end), each))

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

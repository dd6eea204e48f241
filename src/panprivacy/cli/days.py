"""Feeds events to an `ActiveUsers` day by day: by a column of times, or by the clock."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from panprivacy.cli.notes import note_epsilon, note_noise_of_series
from panprivacy.cli.output import cause_of
from panprivacy.cli.published import UNTIL, Dated
from panprivacy.cli.run import Run
from panprivacy.cli.series import Whole, once
from panprivacy.cli.sources import Counting, Events, Files, Listened, in_order_of_time
from panprivacy.errors import InvalidValue, PanPrivacyError
from panprivacy.estimates.actives import ActivesRelease
from panprivacy.estimates.plots import draw_actives
from panprivacy.estimators.actives import ActiveUsers
from panprivacy.ingest import BadInput, Batch, SignalTimer
from panprivacy.ingest.feed import BatchFeeder, bad_row, chosen_rows, moments_of_rows
from panprivacy.memory.scratch import Scratch
from panprivacy.periods import (
    NO_TIME,
    PeriodRows,
    RowPolicy,
    Untimely,
    as_datetime,
    moment_of,
    told_length,
    told_time,
    wall_clock,
)
from panprivacy.planning.search import rounded_up

_CYCLES = 13  # of 28 days, a year
_LOOK = 1.0  # seconds between two looks at the clock while nothing comes


@dataclass
class Days:
    """Ends days as time goes on, saves what that spent, and shows what was released, in this order."""

    run: Run
    est: ActiveUsers
    policy: RowPolicy
    """What becomes of rows that are late or early."""
    lateness: str | None = None
    """How late a row of a file may be."""
    released: list[ActivesRelease] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._first = self._open  # events of days before it cannot come any more, in whatever order the files are
        self._begun = self.est.last is not None

    def feed(self, source: Events, column: str | None, *, end: bool) -> None:
        """Count everything, and end the days that are over; also the last one, if that is wanted."""
        with self._saying_what_is_released():
            if column is None:
                assert not isinstance(source, Files), "only a pipe has a clock"
                self._feed_by_the_clock(source)
            else:
                self._feed_by_their_times(source, column)
        if end:
            self._show([self.est.release(self.run.level)])
        elif self.run.kept is not None:
            self.run.keeper.write()
            self.run.output.note(f"{self.run.kept.path}: saved; the day from {self._shown(self._open)} on is not over")
        note_noise_of_series(self.released, self.run.output)
        if self.run.picture is not None:
            self._draw(self.run.picture)
        self._note_loss()
        note_epsilon(self.est, self.run.output)

    @contextmanager
    def _saying_what_is_released(self) -> Iterator[None]:
        """If it breaks off, save what is counted, and say which events to feed next: earlier days are released."""
        try:
            yield
        except BadInput as error:
            if self.run.kept is None or not self.run.keeper.used:
                raise
            self.run.keeper.write_what_is_left()
            raise PanPrivacyError(
                f"{cause_of(error)}; what comes before it is counted and saved: {self._go_on}", code="bad-row"
            ) from None
        except BrokenPipeError:
            if self.run.kept is not None:
                self.run.output.note(f"the reader of the answers has gone; what they show is saved: {self._go_on}")
            raise

    @property
    def _go_on(self) -> str:
        again = "those of that day may be fed again, which does no harm"
        return f"days before {self._shown(self._open)} are released; feed events from then on, {again}"

    def _feed_by_their_times(self, source: Events, column: str) -> None:
        columns = replace(source.columns, time=column)
        feed, run = source.feed_to(self.est, columns), self.run
        if isinstance(source, Files):
            take = partial(self._take, feed=feed, column=column, whole=once, live=False)
            with in_order_of_time(take, column, self.lateness, self._zone) as each:
                source.read(columns, run.keeper, run.output, each)
            return
        by_clock, note = self.policy.ahead == 0, run.output.note
        if by_clock and not self._begun and wall_clock() >= self._due:
            raise InvalidValue(
                f"the first day, from {self._shown(self._open)} on, is over by the clock. If rows of the past are to "
                "end days, say --ahead 1; else give a later --start",
                code="days-over",
            )
        going_by = f"the clock ({self._zone})" if by_clock else "the times of the events"
        note(f"reading standard input; days go by {going_by}, and Ctrl-C ends the input")
        refused = f"SIGUSR1 spends nothing here: days go by {going_by}"
        with SignalTimer(_LOOK if by_clock else None) as bell:
            take = partial(self._take, feed=feed, column=column, whole=bell.undisturbed, live=True)
            ring = (lambda: self._advance(wall_clock())) if by_clock else (lambda: note(refused))
            source.listen(Counting(columns, run.keeper, run.output, bell, take, ring))

    def _take(self, batch: Batch, feed: BatchFeeder, column: str, whole: Whole, live: bool) -> None:
        """Feed a batch day by day; its times are checked before anything of it is counted.

        A release is made once, so `whole`, which makes a call again that Ctrl-C breaks off, is for the rest.
        """
        if live and self.policy.ahead == 0:
            self._advance(wall_clock())
        with Scratch() as scratch:
            without = NO_TIME if self.policy.early == "skip" else None
            moments = whole(partial(moments_of_rows, batch, column, scratch, without, self._zone))
            if not len(moments):
                return
            cut = self._cut(batch, column, moments, scratch, live=live)
            whole(partial(feed.check, batch))
            self.run.forewarn()
            for day, rows in cut:
                self._advance(self.est.periods.start_of(day))
                whole(partial(feed.take, chosen_rows(batch, rows, scratch)))

    def _cut(
        self, batch: Batch, column: str, moments: NDArray[np.int64], scratch: Scratch, *, live: bool
    ) -> PeriodRows:
        """The day that each row counts on, or which row is wrong; the moments are overwritten."""
        times, policy = scratch.own(moments.copy()), self.policy
        in_order = policy.late == policy.early == "refuse" and not (live and policy.ahead == 0)
        try:
            now, days = wall_clock() if live else None, self.est.periods
            return days.cut(moments, days.open, policy, scratch, now=now, in_order=in_order)
        except Untimely as row:
            raise bad_row(batch, row.row, self._wrong(column, int(times[row.row]), row.reached)) from None

    def _wrong(self, column: str, moment: int, reached: int) -> str:
        start = self.est.periods.start_of(reached)
        time, opened = f"{column} {self._shown(moment)}", self._shown(start)
        if moment < self._first:
            return f"{time} is before {self._shown(self._first)}, {self._why_first}"
        if moment < start:
            return f"{time} is before the day from {opened} on, which is open by then; sort by {column}"
        days = self.est.periods.number(moment) - reached
        return (
            f"{time} is {days:,} days after {opened}, the day that is open by then; mend the time, or, if nothing came "
            f"in between, say --ahead {days}"
        )

    @property
    def _why_first(self) -> str:
        if self._begun:
            return "until which this state has released; feed later events only"
        return "when the first day starts; give an earlier --start"

    def _feed_by_the_clock(self, source: Listened) -> None:
        """Count what comes on the day that it comes on."""
        feed, note = source.feed_to(self.est), self.run.output.note
        note(f"reading standard input; days end by the clock ({self._zone}), and Ctrl-C ends the input")
        with SignalTimer(_LOOK) as bell:

            def take(batch: Batch) -> None:
                self._advance(wall_clock())
                bell.undisturbed(partial(feed.take, batch))  # counting a batch twice is counting it once

            ring = lambda: self._advance(wall_clock())  # noqa: E731
            source.listen(Counting(source.columns, self.run.keeper, self.run.output, bell, take, ring))

    def _advance(self, moment: int) -> None:
        """End the days that are over at a moment. What they spent is on disk before it is shown."""
        if moment >= self._due:
            self._show(self.est.advance(as_datetime(moment)))

    def _show(self, released: list[ActivesRelease]) -> None:
        self.run.keeper.write()
        self.released += released
        for each in released:
            self.run.output.answer(Dated(UNTIL, moment_of(each.end), each, zone=self._zone))

    def _draw(self, picture: str) -> None:
        if self.released:
            draw_actives(self.released, picture)
        else:
            self.run.output.note(f"no day was over, so {picture} is not drawn")

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

    @property
    def _open(self) -> int:
        return self.est.periods.start_of(self.est.periods.open)

    @property
    def _due(self) -> int:
        """When the open day ends."""
        return self.est.periods.start_of(self.est.periods.open + 1)

    @property
    def _zone(self) -> str:
        return self.est.periods.zone

    def _shown(self, moment: int) -> str:
        return told_time(as_datetime(moment, self._zone))

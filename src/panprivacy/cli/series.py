"""`--release-every 7d --time COLUMN`: a series of releases, one whenever a period of the events' own time is over."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panprivacy.cli.chart import Audited, draw
from panprivacy.cli.plainly import as_fields
from panprivacy.cli.progress import Meter
from panprivacy.cli.run import Run, Source
from panprivacy.cli.timed import bad_row, moments_of_rows, parsed_moment, shown, some_rows
from panprivacy.drawing import check_picture
from panprivacy.events import Batch, expand, read
from panprivacy.feeding import Feed
from panprivacy.periods import DAY, END_OF_TIME, as_datetime, length_of

_START = "NAME@2026-01-05"


class Dated(dict[str, Any]):
    """A release with the moment until which it counts: its fields, as JSON has them, and a line for people."""

    def __init__(self, until: int, release: Any) -> None:
        super().__init__({"until": as_datetime(until).isoformat()} | as_fields(release))
        self.until = until
        self.release = release

    def __str__(self) -> str:
        return f"until {shown(self.until)}: {self.release}"

    __rich__ = __str__


@dataclass
class Series:
    """Feeds files to an estimator and releases at the end of each period, as long as planned releases are left.

    Events come in order of periods, and in any order within one. The times of a batch are checked before anything of
    it is counted: on account of a batch with a time that is wrong, nothing is released.
    """

    run: Run
    column: str
    every: str
    start: int | None
    """When the first period starts; if nobody says, at the first event."""
    picture: str | None
    released: list[Dated] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._length = length_of(self.every)
        # A state that has released before goes on where it was: one release for each period since the start.
        self._passed = self._passed_before = self.run.est.budget.releases_made
        kept = self.run.kept
        if kept is not None and kept.exists and self.start is None:
            raise ValueError(f"{kept.path} is there already: say when its first period started, --time {_START}")

    def feed(self, source: Source, final: bool | None) -> None:
        """Count everything, release on the way, and at the end if that is wanted and planned for."""
        if source.live:
            raise ValueError("from a pipe, --release-every goes by the clock: leave --time out")
        final = final if final is not None else self.run.kept is None
        if final:
            self.run.check_left()  # now, not after an hour of reading
        self.run.note_exhausted()
        columns = replace(source.columns, time=self.column)
        feed = source.feed_to(self.run.est, columns)
        files = expand(source.files)
        with self.run.keeping_what_was_counted(), Meter(files, self.run.speaker) as meter:
            for batch in read(files, columns, format_=source.format, layout=source.layout):
                self._take(batch, feed)
                meter.advance(batch)
                self.run.keeper.counted()
        if final and self.run.left:
            self._release()
        elif self.run.kept is not None:
            self.run.save(self.run.kept)
        audited = Audited(self.run.est)
        self.run.speaker.close(audited)
        self.run.note_epsilon()
        if self.picture is not None and self.released:
            draw(self.released, self.picture, str(audited))

    def _take(self, batch: Batch, feed: Feed) -> None:
        """Feed a batch in pieces, cut where a period ends."""
        moments, started = moments_of_rows(batch, self.column), self.start is not None
        if not len(moments):
            return
        if self.start is None:
            self.start = _round(int(moments[0]), self._length)
        # All that comes after the last planned release is one period that never ends.
        periods = np.minimum((moments - self.start) // self._length, self._planned)
        self._check(batch, moments, periods)
        feed.check(batch)  # before anything is released on account of its first rows
        if not started:
            self.run.speaker.note(
                f"the first period starts on {shown(self.start)}, which shows when the first event came; "
                f"--time {_START} says it beforehand"
            )
        at = 0
        while self._passed < periods[-1]:
            end = int(np.searchsorted(periods, self._passed, side="right"))
            feed.take(some_rows(batch, at, end))
            self._release()
            at = end
            if not self.run.left:
                self.run.speaker.note(
                    "all planned releases are made: later events are counted and will never be released; "
                    "a new state with --releases K plans for more"
                )
        feed.take(some_rows(batch, at, len(moments)))

    def _check(self, batch: Batch, moments: NDArray[np.int64], periods: NDArray[np.int64]) -> None:
        """Refuse a batch with a time before the period that is open by then, or too far after it."""
        open_ = np.maximum.accumulate(np.concatenate([[self._passed], periods[:-1]]))
        late = periods < open_
        ahead = (periods == self._planned) & (self._planned - open_ > 1)
        wrong = np.flatnonzero(late | ahead)
        if len(wrong):
            row = int(wrong[0])
            time = f"{self.column} {shown(int(moments[row]))}"
            raise bad_row(batch, row, self._wrong(time, int(periods[row]), int(open_[row])))

    def _wrong(self, time: str, period: int, open_: int) -> str:
        """What is wrong with a time of one period, when another is open."""
        opened, sort = shown(self._start_of(open_)), f"sort by {self.column}"
        if self._passed_before and period < self._passed_before:
            until = shown(self._start_of(self._passed_before))
            return f"{time} is before {until}, until which this state has released; feed later events only"
        if period < 0:
            first = shown(self._start_of(0))
            return f"{time} is before {first}, when the first period starts; {sort}, or give an earlier start"
        if period < open_:
            return f"{time} comes after a row of the period from {opened} on; {sort}"
        return (
            f"{time} is so long after the period from {opened} on that it would spend all {period - open_} releases "
            "left; mend the time, plan more --releases, or spend some first (panprivacy release)"
        )

    @property
    def _due(self) -> int:
        """When the period ends that is not over yet."""
        due = self._start_of(self._passed + 1)
        if due >= END_OF_TIME:
            raise ValueError(f"a period of {self.every} from {shown(self._start_of(self._passed))} on ends after 9999")
        return due

    def _start_of(self, period: int) -> int:
        if self.start is None:
            raise ValueError(f"there are no events, so nobody knows when a period starts: say --time {_START}")
        return self.start + self._length * period

    @property
    def _planned(self) -> int:
        """How many periods will have been released when no release is left."""
        return self._passed + self.run.left

    def _release(self) -> None:
        due = self._due
        dated = Dated(due, self.run.spend())
        self._passed += 1
        self.released.append(dated)
        self.run.speaker.answer(dated)


def series_of(run: Run, time: str | None, every: str | None, picture: str | None) -> Series | None:
    """The series that was asked for, if one was: ``--time NAME`` or ``--time NAME@START``."""
    if time is None:
        if picture is not None:
            raise ValueError("--plot draws a series of releases: say --time NAME and --release-every 7d")
        return None
    if every is None:
        raise ValueError("--time goes with --release-every, such as 7d")
    if picture is not None:
        check_picture(picture)
    name, at, start = time.rpartition("@")
    return Series(run, name if at else time, every, parsed_moment(f"--time {time}", start) if at else None, picture)


def _round(moment: int, length: int) -> int:
    """The midnight before, or for periods shorter than a day a multiple of them."""
    return moment - moment % min(length, DAY)

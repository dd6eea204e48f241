"""`--release-every 7d --time COLUMN`: a series of releases, one whenever a period of the events' own time is over."""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from panprivacy.cli.chart import Audited, check_picture, draw
from panprivacy.cli.plainly import as_fields
from panprivacy.cli.progress import Meter
from panprivacy.cli.run import Run, Source
from panprivacy.events import BadInput, Batch, Feed, expand, read
from panprivacy.periods import DAY, as_datetime, length_of, moment_of, moments_of

if TYPE_CHECKING:
    import polars as pl

_START = "NAME@2026-01-05"


class Dated(dict[str, Any]):
    """A release with the moment until which it counts: its fields, as JSON has them, and a line for people."""

    def __init__(self, until: int, release: Any) -> None:
        super().__init__({"until": as_datetime(until).isoformat()} | as_fields(release))
        self.until = until
        self.release = release

    def __str__(self) -> str:
        return f"until {_shown(self.until)}: {self.release}"

    __rich__ = __str__


@dataclass
class Series:
    """Feeds files to an estimator and releases at the end of each period, as long as planned releases are left.

    An event that comes late, in a file that is not in order of time, is counted with those it comes with.
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
        self._passed = self.run.est.budget.releases_made
        if self._passed and self.start is None:
            raise ValueError(f"this state has released before: say when its first period started, --time {_START}")

    def feed(self, source: Source, final: bool | None) -> None:
        """Count everything, release on the way, and at the end if that is wanted and planned for."""
        if source.live:
            raise ValueError("from a pipe, --release-every goes by the clock: leave --time out")
        final = final if final is not None else self.run.kept is None
        if final:
            self.run.check_left()  # now, not after an hour of reading
        columns = replace(source.columns, time=self.column)
        feed = Feed(self.run.est, columns, skip_missing=source.skip_missing)
        files = expand(source.files)
        with Meter(files, shown=self.run.speaker.shows_progress) as meter:
            for batch in read(files, columns, kind=source.format, layout=source.layout):
                self._take(batch, feed)
                meter.advance(batch)
        if final and self.run.left:
            self._release()
        elif self.run.kept is not None:
            self.run.save(self.run.kept)
        audited = Audited(self.run.est)
        self.run.speaker.answer(audited)
        if self.picture is not None and self.released:
            draw(self.released, self.picture, str(audited))

    def _take(self, batch: Batch, feed: Feed) -> None:
        """Feed a batch in pieces, cut where a period ends."""
        moments, at = moments_in(batch, self.column), 0
        if self.start is None and len(moments):
            self.start = _round(int(moments[0]), self._length)
            self.run.speaker.note(
                f"the first period starts on {_shown(self.start)}, which shows when the first event came; "
                f"--time {_START} says it beforehand"
            )
        while True:
            end = self._end_of_period(moments, at)
            feed.take(replace(batch, rows=batch.rows[at:end], before=batch.before + at))
            if end is None:
                return
            self._release()
            at = end
            if not self.run.left:
                self.run.speaker.note("no planned release is left: later events are counted, and not released")

    def _end_of_period(self, moments: NDArray[np.int64], at: int) -> int | None:
        """The first row that is beyond this period, from one row on; None if there is none that matters."""
        if not self.run.left or not len(moments):
            return None
        over = np.flatnonzero(moments[at:] >= self._due)
        return at + int(over[0]) if len(over) else None

    @property
    def _due(self) -> int:
        """When the period ends that is not over yet."""
        if self.start is None:
            raise ValueError(f"there are no events, so nobody knows when a period starts: say --time {_START}")
        return self.start + self._length * (self._passed + 1)

    def _release(self) -> None:
        dated = Dated(self._due, self.run.spend())
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
    try:
        first = moment_of(start) if at else None
    except ValueError:
        raise ValueError(f"--time {time}: {start!r} is not a time; write it like {_START}") from None
    return Series(run, name if at else time, every, first, picture)


def moments_in(batch: Batch, column: str) -> NDArray[np.int64]:
    """The times of a batch, or an error that names the first row that has none."""
    times = batch.rows[column]
    try:
        return moments_of(_parsed(times))
    except (TypeError, ValueError):
        row = next(i for i in range(len(times)) if not _is_time(times[i : i + 1]))
        cause = f"{column} {times[row]!r} is not a time; write it like 2026-01-31, 2026-01-31T12:00, or in seconds"
        raise BadInput(batch.file, cause, batch.before + row + 1) from None


def _is_time(one: "pl.Series") -> bool:
    try:
        moments_of(_parsed(one))
    except (TypeError, ValueError):
        return False
    return True


def _parsed(times: "pl.Series") -> "pl.Series":
    """Text as numbers or dates, where all of it is; the rest is for `moments_of` to read or to refuse."""
    import polars as pl

    if times.dtype != pl.String or times.null_count():
        return times
    seconds = times.cast(pl.Float64, strict=False)
    if not seconds.null_count():
        return seconds
    try:
        dates = times.str.to_datetime(time_unit="us", strict=False)
    except pl.exceptions.PolarsError:
        return times
    return times if dates.null_count() else dates


def _round(moment: int, length: int) -> int:
    """The midnight before, or for periods shorter than a day a multiple of them."""
    return moment - moment % min(length, DAY)


def _shown(moment: int) -> str:
    return f"{as_datetime(moment):%Y-%m-%d %H:%M:%S}".removesuffix(" 00:00:00")

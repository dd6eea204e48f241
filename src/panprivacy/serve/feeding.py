"""From a body to the bits: it is read, checked whole, cut where a period ends, and fed to the estimator.

A counter is released at the end of each period, by the clock or by the times of its events. The wall clock ends
periods, unless `ahead` says that rows do: then a row of a later period ends the open one, if it is at most `ahead`
periods later, and not ahead of the wall clock. The clock is believed as far as it can be trusted: a jump ahead must not
end periods, which would spend releases.

Missed periods are not released later, and stay unspent. If several periods end while the service is down, there is one
release when it starts again: of the last of them, with the number that was missed before it. If rows end periods, and
there are none for some periods, there is one release: of the first of them, with the number that was missed after it.
(Days of a counter of kind `actives` are all released: each answer is about one day.)
"""

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from panprivacy.errors import CorruptState, OutsideUniverse, PanPrivacyError
from panprivacy.folder.batches import OtherLayout
from panprivacy.ingest import BadInput, Batch
from panprivacy.ingest.batch import ProblemType, Refused
from panprivacy.ingest.bodies import Body, ContentType, plain_ids, refusal, rows_of_body
from panprivacy.ingest.feed import BatchFeeder, chosen_rows, moments_of_rows
from panprivacy.memory.scratch import Scratch
from panprivacy.periods import NO_TIME, PeriodRows, RowPolicy, Untimely, as_datetime
from panprivacy.serve.config import CounterSettings, ScheduleSettings
from panprivacy.serve.worker import KeptEstimator
from panprivacy.universe.columns import Chunks


class Schedule:
    """Periods, numbered from the start, of which some have been released."""

    def __init__(self, settings: ScheduleSettings, policy: RowPolicy, begun: int) -> None:
        self.by_clock = settings.by_clock
        self.policy = policy
        self.periods = settings.periods(begun)
        self.open = max(self.periods.number(begun), 0) if self.by_clock else 0
        """The period that is not released yet."""

    @property
    def ends(self) -> int:
        """When the open period ends."""
        return self.periods.start_of(self.open + 1)

    def described(self, period: int, missed: int) -> dict[str, Any]:
        """The period of a release, as it is published, and how many before it were missed."""
        until = as_datetime(self.periods.start_of(period + 1), self.periods.zone).isoformat()
        return {"number": period, "until": until, "missed": missed}

    def note(self, period: dict[str, Any] | None) -> None:
        """Go on after a released period; where rows end periods, also after the periods without rows."""
        if period is not None:
            quiet = 0 if self.by_clock else int(period["missed"])
            self.open = max(self.open, int(period["number"]) + 1 + quiet)


_STEP = 60 * 10**6  # microseconds by which the wall clock may be set ahead at once
_PATIENCE = 600 * 10**6  # microseconds for which it must stay ahead before it is believed
_RUNS_ON = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # suspended time included, where the system counts it


class SteadyClock:
    """Microseconds since 1970 that never jump far ahead.

    A clock that no one can set runs beside the wall clock. If the wall clock gets ahead of it by more than a minute,
    time goes on by the other one, and `alarm` is called. If the wall clock is still ahead after ten minutes, it is
    believed: the computer was asleep, or its clock was wrong before. How far it may be ahead then, and at a start, is
    for a counter to say, which knows when it was released last.

    >>> wall, elapsed = iter([0, 10**9, 10**6]), iter([0, 10**6, 10**6])
    >>> clock = SteadyClock(lambda: print("jumped"), lambda: next(wall), lambda: next(elapsed))
    >>> [clock.now() for _ in range(3)]
    jumped
    [0, 1000000, 1000000]
    """

    def __init__(
        self,
        alarm: Callable[[], object],
        wall: Callable[[], int] = lambda: time.time_ns() // 1000,
        elapsed: Callable[[], int] = lambda: time.clock_gettime_ns(_RUNS_ON) // 1000,
    ) -> None:
        self._alarm, self._wall, self._elapsed = alarm, wall, elapsed
        self._ahead: int | None = None  # by how much the wall clock is ahead of the other one
        self._jumped_at: int | None = None
        self._lock = threading.Lock()

    @property
    def has_jumped(self) -> bool:
        """Whether the wall clock is not believed now."""
        return self._jumped_at is not None

    def now(self) -> int:
        """The time."""
        with self._lock:
            elapsed = self._elapsed()
            ahead = self._wall() - elapsed
            if self._ahead is None or ahead - self._ahead <= _STEP:
                self._ahead, self._jumped_at = ahead, None
            elif self._jumped_at is None:
                self._jumped_at = elapsed
                self._alarm()
            elif elapsed - self._jumped_at >= _PATIENCE:
                self._ahead, self._jumped_at = ahead, None
            return elapsed + self._ahead


_DELETED = "\0deleted"  # a column that no body has: it marks all rows as deletions


class BodyFeeder:
    """Feeds bodies to an estimator, without the rows that its settings leave out: late, early, in no listed category.

    Their number is told nowhere. A body with a row that is bad in another way is not counted at all.

    `release_until` is called with the period of a row that is later than the open one: it makes all due releases before
    the row is counted. A body that a crash cuts in between is sent again, and its rows of periods that are released by
    then are late. Where late rows are refused, such a body could never be sent again, so a body of several periods is
    refused at once. (A broker hands over what it has: there `late` should be `count` or `skip`.)
    """

    def __init__(
        self,
        settings: CounterSettings,
        schedule: Schedule | None,
        kept: KeptEstimator,
        release_until: Callable[[int], None],
        now: Callable[[], int],
    ) -> None:
        self._columns = settings.columns
        self._skip = {
            "skip_missing": settings.table.skip_missing,
            "skip_outside": settings.table.skip_outside,
            "skip_unlisted": settings.table.unlisted == "skip",
            "live": True,
        }
        self._schedule = schedule if settings.columns.time is not None else None
        self._one_period = settings.source is None
        self._kept, self._release_until, self._now = kept, release_until, now

    def take(self, body: Body, pause: Callable[[], None] = lambda: None) -> int:
        """Count a body; returns how many rows it had. `pause` is called now and then before any row is counted."""
        if body.content_type is ContentType.slots:
            return self._feed_slots(body)
        rows = self._feed_plain(body)
        return rows if rows is not None else self._feed_rows(body, pause)

    def _feed_slots(self, body: Body) -> int:
        """Unite a packed set of slots with others; the next write has them. It counts as one row."""
        est = self._kept.est
        if self._columns.time is not None or not est.TRAITS.in_folder:
            why = "its rows have times" if est.TRAITS.in_folder else "an event of one period is none of another"
            raise Refused(ProblemType.content_type, f"this counter takes rows, and no slots: {why}")
        if body.delete and not est.TRAITS.removes:
            raise Refused(ProblemType.no_deletions)
        self._kept.changed = True
        try:
            self._kept.combiner.take(body.octets, est, remove=body.delete)
        except OtherLayout:
            raise Refused(ProblemType.layout) from None
        except CorruptState as error:
            raise Refused(ProblemType.unreadable, str(error)) from None
        return 1

    def _feed_plain(self, body: Body) -> int | None:
        """Count a body of plain integers where it lies; None if it is not plain, or a row is wrong."""
        if self._skip["skip_outside"]:
            return None
        with Scratch() as scratch:
            pieces = plain_ids(body, self._columns, scratch)
            if pieces is None:
                return None
            ids: Any = Chunks([*pieces])
            est = self._kept.combined()
            self._kept.changed = True
            try:
                (est.remove_many if body.delete else est.update_many)(ids)
            except OutsideUniverse:
                return None  # nothing was changed; `_feed_rows` says which row it is
            except PanPrivacyError:
                raise Refused(ProblemType.no_deletions if body.delete else ProblemType.not_now) from None
            return sum(len(piece) for piece in pieces)

    def _feed_rows(self, body: Body, pause: Callable[[], None]) -> int:
        columns, batch, skip = self._columns, rows_of_body(body, self._columns, pause=pause), self._skip
        if body.delete:  # the sender asks for all rows, and is told if that is not possible
            import polars as pl

            columns, skip = replace(columns, action=_DELETED), skip | {"skip_unlisted": False}
            batch = replace(batch, rows=batch.rows.with_columns(pl.lit("delete").alias(_DELETED)))
        try:
            self._feed(batch, lambda: BatchFeeder(self._kept.combined(), columns, **skip))
        except BadInput as error:
            raise refusal(error, columns) from None
        except Refused:
            raise
        except PanPrivacyError:
            raise Refused(ProblemType.no_deletions if columns.action else ProblemType.not_now) from None
        return len(batch.rows)

    def _feed(self, batch: Batch, feed: Callable[[], BatchFeeder]) -> None:
        if self._schedule is None:
            self._kept.changed = True
            feed().take(batch)
            return
        feed().check(batch)
        with Scratch() as scratch:
            cut = self._cut(batch, self._schedule, scratch)
            self._kept.changed = True  # also if no row counts: otherwise a write would tell that one did
            for period, rows in cut:
                if period > self._schedule.open:
                    self._release_until(period)
                self._kept.changed = True
                feed().take(chosen_rows(batch, rows, scratch))

    def _cut(self, batch: Batch, schedule: Schedule, scratch: Scratch) -> PeriodRows:
        """The period that each row counts in, or a refusal of the body."""
        assert self._columns.time is not None
        without = NO_TIME if schedule.policy.early == "skip" else None
        moments = moments_of_rows(batch, self._columns.time, scratch, without, schedule.periods.zone)
        try:
            cut = schedule.periods.cut(moments, schedule.open, schedule.policy, scratch, now=self._now())
        except Untimely as row:
            what = "has not begun, or is too far ahead" if row.early else "is released"
            raise Refused(ProblemType.untimely, f"a row is of a period that {what}", row=row.row + 1) from None
        if schedule.policy.late == "refuse" and self._one_period and len(cut.periods) > 1:
            another = int(scratch.own(cut.numbers != cut.numbers[0]).argmax())
            raise Refused(ProblemType.untimely, "rows are of several periods: send a body for each", row=another + 1)
        return cut

"""From a body to the bits: read, checked whole, cut where a period ends, and fed."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panprivacy.clock import NO_TIME, Untimely, rows_of
from panprivacy.errors import OutsideUniverse, PanPrivacyError
from panprivacy.events import BadInput, Batch
from panprivacy.events.times import moments_of_rows
from panprivacy.feeding import Feed
from panprivacy.memory import Scratch
from panprivacy.periods import SECOND
from panprivacy.serve.bodies import Body
from panprivacy.serve.config import CounterSettings
from panprivacy.serve.faults import refusal
from panprivacy.serve.kinds import fed
from panprivacy.serve.plain import plain_ids
from panprivacy.serve.refusals import Refused, Why
from panprivacy.serve.rows import batch_of
from panprivacy.serve.schedule import Schedule
from panprivacy.universe.batches import Cut

_DELETED = "\0deleted"  # a column that no body has: it says of all rows that they take users back
_AHEAD = 60 * SECOND  # how far a sender's clock may be ahead of this one


class Counting:
    """Feeds bodies to an estimator, but for rows that its settings leave out: late, early, in no listed category.

    Nobody is told how many these are. A body with a row that is bad in another way is not counted at all.

    `passed` is called with the number of a period when a row of a later one comes: it releases what is due. A body that
    a crash cuts in between is sent again; its rows of periods that are released by then are late ones. Where late rows
    are refused, such a body could never be sent again, so one of several periods is refused from the first. (A broker
    hands over what it has: there `late` is better `count` or `skip`.)
    """

    def __init__(
        self,
        settings: CounterSettings,
        schedule: Schedule | None,
        passed: Callable[[int], None],
        changed: Callable[[], None],
        now: Callable[[], int],
    ) -> None:
        self._columns = settings.columns
        self._skip = {
            "skip_missing": settings.skip_missing,
            "skip_outside": settings.skip_outside,
            "skip_unlisted": settings.unlisted == "skip",
            "live": True,
        }
        self._schedule = schedule if settings.columns.time is not None else None
        self._one_period = settings.source is None
        self._passed, self._changed, self._now = passed, changed, now

    def take(self, body: Body, est: Callable[[], Any]) -> int:
        """Count a body; returns how many rows it had."""
        rows = self._taken_plainly(body, est)
        return rows if rows is not None else self._taken(body, est)

    def _taken_plainly(self, body: Body, est: Callable[[], Any]) -> int | None:
        """Count a body of nothing but integers where it lies; None if it is another, or a row of it is wrong."""
        if self._skip["skip_outside"]:
            return None
        with Scratch() as scratch:
            pieces = plain_ids(body, self._columns, scratch)
            if pieces is None:
                return None
            ids: Any = Cut([*pieces])
            feeds = fed(est())
            self._changed()
            try:
                (feeds.remove_many if body.delete else feeds.update_many)(ids)
            except OutsideUniverse:
                return None  # nothing was changed; the other way says which row it is
            except PanPrivacyError:
                raise Refused(Why.no_deletions if body.delete else Why.not_now) from None
            return sum(len(piece) for piece in pieces)

    def _taken(self, body: Body, est: Callable[[], Any]) -> int:
        columns, batch, skip = self._columns, batch_of(body, self._columns), self._skip
        if body.delete:  # its sender asks for all of it, and hears if that cannot be
            columns, batch = replace(columns, action=_DELETED), _deleting(batch)
            skip = skip | {"skip_unlisted": False}
        try:
            self._feed(batch, lambda: Feed(fed(est()), columns, **skip))
        except BadInput as error:
            raise refusal(error, columns) from None
        except PanPrivacyError as error:
            if isinstance(error, Refused):
                raise
            raise Refused(Why.no_deletions if columns.action else Why.not_now) from None
        return len(batch.rows)

    def _feed(self, batch: Batch, feed: Callable[[], Feed]) -> None:
        if self._schedule is None:
            self._changed()
            feed().take(batch)
            return
        feed().check(batch)
        with Scratch() as scratch:
            periods = self._moments(batch, self._schedule, scratch)
            placed = self._placed(periods, self._schedule, scratch)
            self._changed()  # also if no row counts: else a write would tell that one did
            for period in placed:
                if period > self._schedule.open:
                    self._passed(period)
                rows = scratch.own(np.flatnonzero(rows_of(periods, period, scratch)))
                self._changed()
                feed().take(replace(batch, rows=batch.rows[rows]))

    def _moments(self, batch: Batch, schedule: Schedule, scratch: Scratch) -> NDArray[np.int64]:
        """The period of each row; where the wall clock ends periods, none that has begun is after the open one."""
        assert schedule.column is not None
        without = NO_TIME if schedule.policy.early == "skip" else None
        moments = moments_of_rows(batch, schedule.column, scratch, without)
        begun = scratch.own(moments <= self._now() + _AHEAD) if schedule.by_clock else None
        schedule.periods_of(moments)
        if begun is not None:  # a clock of a sender is a little ahead, or a release is still to be made
            np.minimum(moments, schedule.open, out=moments, where=begun)
        return moments

    def _placed(self, periods: NDArray[np.int64], schedule: Schedule, scratch: Scratch) -> list[int]:
        """The periods that rows count in, in order; `periods` has afterwards in which one each row counts."""
        latest = None if schedule.by_clock else schedule.period_of(self._now() + _AHEAD)
        before = periods[0] if len(periods) else 0
        try:
            placed = schedule.policy.place_all(periods, schedule.open, scratch, latest=latest)
        except Untimely as row:
            what = "has not begun, or is too far ahead" if row.early else "is released"
            raise Refused(Why.untimely, f"a row is of a period that {what}", row=row.row + 1) from None
        if schedule.policy.late == "refuse" and self._one_period and len(placed) > 1:
            other = scratch.own(periods != before)
            row_of_another = int(other.argmax()) + 1
            raise Refused(Why.untimely, "rows are of several periods: send a body for each", row=row_of_another)
        return placed


def _deleting(batch: Batch) -> Batch:
    import polars as pl

    return replace(batch, rows=batch.rows.with_columns(pl.lit("delete").alias(_DELETED)))

"""From a body to the bits: read, checked whole, cut where a period ends, and fed."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panprivacy.errors import OutsideUniverse, PanPrivacyError
from panprivacy.events import BadInput, Batch
from panprivacy.events.times import moments_of_rows
from panprivacy.feeding import Feed
from panprivacy.memory import Scratch
from panprivacy.periods import SECOND
from panprivacy.serve.bodies import Body
from panprivacy.serve.config import CounterSettings
from panprivacy.serve.kinds import fed
from panprivacy.serve.plain import plain_ids
from panprivacy.serve.refusals import Refused, Why
from panprivacy.serve.rows import batch_of, refusal
from panprivacy.serve.schedule import Schedule
from panprivacy.universe.batches import Cut

_DELETED = "\0deleted"  # a column that no body has: it says of all rows that they take users back
_LEFT_OUT = -1  # the period of a row that counts in none
_AHEAD = 60 * SECOND  # how far a sender's clock may be ahead of this one


class Counting:
    """Feeds bodies to an estimator, whole or not at all.

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
    ) -> None:
        self._columns = settings.columns
        self._skip = {"skip_missing": settings.skip_missing, "skip_outside": settings.skip_outside, "live": True}
        self._schedule = schedule if settings.columns.time is not None else None
        self._one_period = settings.source is None
        self._passed, self._changed = passed, changed

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
        columns, batch = self._columns, batch_of(body, self._columns)
        if body.delete:
            columns, batch = replace(columns, action=_DELETED), _deleting(batch)
        try:
            self._feed(batch, lambda: Feed(fed(est()), columns, **self._skip))
        except BadInput as error:
            raise refusal(error) from None
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
            periods = self._periods(batch, self._schedule, scratch)
            for period in scratch.own(np.unique(periods)).tolist():
                if period == _LEFT_OUT:
                    continue
                if period > self._schedule.open:
                    self._passed(period)
                rows = scratch.own(np.flatnonzero(scratch.own(periods == period)))
                self._changed()
                feed().take(replace(batch, rows=batch.rows[rows]))

    def _periods(self, batch: Batch, schedule: Schedule, scratch: Scratch) -> NDArray[np.int64]:
        """The period that each row counts in, if it does."""
        assert schedule.column is not None
        moments = moments_of_rows(batch, schedule.column, scratch)
        ahead = scratch.own(moments > time.time_ns() // 1000 + _AHEAD)
        if ahead.any():
            raise Refused(Why.untimely, "a time is in the future, by the clock of the service", row=_first(ahead))
        periods = moments
        schedule.periods_of(periods)
        late = scratch.own(periods < schedule.open)
        if schedule.late == "refuse" and late.any():
            raise Refused(Why.untimely, "a row is of a period that is released", row=_first(late))
        if schedule.late == "refuse" and self._one_period and len(periods):
            other = scratch.own(periods != periods[0])
            if other.any():
                raise Refused(Why.untimely, "rows are of several periods: send a body for each", row=_first(other))
        periods[late] = schedule.open if schedule.late == "count" else _LEFT_OUT
        return periods


def _first(flags: NDArray[np.bool_]) -> int:
    return int(flags.argmax()) + 1


def _deleting(batch: Batch) -> Batch:
    import polars as pl

    return replace(batch, rows=batch.rows.with_columns(pl.lit("delete").alias(_DELETED)))

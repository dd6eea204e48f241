"""From a body to the bits: it is read, checked whole, cut where a period ends, and fed to the estimator."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from panprivacy.errors import CorruptState, OutsideUniverse, PanPrivacyError
from panprivacy.folder.batches import Combiner, OtherLayout
from panprivacy.ingest import BadInput, Batch
from panprivacy.ingest.bodies import Body, ContentType, plain_ids, refusal, rows_of_body
from panprivacy.ingest.feed import BatchFeeder, chosen_rows, moments_of_rows
from panprivacy.ingest.problems import ProblemType, Refused
from panprivacy.memory.scratch import Scratch
from panprivacy.periods import NO_TIME, PeriodRows, Untimely
from panprivacy.serve.config import CounterSettings
from panprivacy.serve.schedule import Schedule
from panprivacy.universe.columns import Chunks

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
        release_until: Callable[[int], None],
        changed: Callable[[], None],
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
        self._release_until, self._changed, self._now = release_until, changed, now
        self._takes_slots = settings.columns.time is None
        self.combiner = Combiner()
        """Holds sets of slots until the next write."""

    def take(self, body: Body, est: Callable[[], Any], pause: Callable[[], None] = lambda: None) -> int:
        """Count a body; returns how many rows it had. `pause` is called now and then before any row is counted."""
        if body.content_type is ContentType.slots:
            return self._feed_slots(body, est())

        def combined() -> Any:
            found = est()
            if self.combiner.waits:
                self.combiner.redraw(found)  # what came first counts first
            return found

        rows = self._feed_plain(body, combined)
        return rows if rows is not None else self._feed_rows(body, combined, pause)

    def _feed_slots(self, body: Body, est: Any) -> int:
        """Unite a packed set of slots with others; the next write has them. It counts as one row."""
        if not (self._takes_slots and est.TRAITS.in_folder):
            why = "its rows have times" if est.TRAITS.in_folder else "an event of one period is none of another"
            raise Refused(ProblemType.content_type, f"this counter takes rows, and no slots: {why}")
        if body.delete and not est.TRAITS.removes:
            raise Refused(ProblemType.no_deletions)
        self._changed()
        try:
            self.combiner.take(body.octets, est, remove=body.delete)
        except OtherLayout:
            raise Refused(ProblemType.layout) from None
        except CorruptState as error:
            raise Refused(ProblemType.unreadable, str(error)) from None
        return 1

    def _feed_plain(self, body: Body, est: Callable[[], Any]) -> int | None:
        """Count a body of plain integers where it lies; None if it is not plain, or a row is wrong."""
        if self._skip["skip_outside"]:
            return None
        with Scratch() as scratch:
            pieces = plain_ids(body, self._columns, scratch)
            if pieces is None:
                return None
            ids: Any = Chunks([*pieces])
            feeds = est()
            self._changed()
            try:
                (feeds.remove_many if body.delete else feeds.update_many)(ids)
            except OutsideUniverse:
                return None  # nothing was changed; `_feed_rows` says which row it is
            except PanPrivacyError:
                raise Refused(ProblemType.no_deletions if body.delete else ProblemType.not_now) from None
            return sum(len(piece) for piece in pieces)

    def _feed_rows(self, body: Body, est: Callable[[], Any], pause: Callable[[], None]) -> int:
        columns, batch, skip = self._columns, rows_of_body(body, self._columns, pause=pause), self._skip
        if body.delete:  # the sender asks for all rows, and is told if that is not possible
            columns, batch = replace(columns, action=_DELETED), _deleting(batch)
            skip = skip | {"skip_unlisted": False}
        try:
            self._feed(batch, lambda: BatchFeeder(est(), columns, **skip))
        except BadInput as error:
            raise refusal(error, columns) from None
        except PanPrivacyError as error:
            if isinstance(error, Refused):
                raise
            raise Refused(ProblemType.no_deletions if columns.action else ProblemType.not_now) from None
        return len(batch.rows)

    def _feed(self, batch: Batch, feed: Callable[[], BatchFeeder]) -> None:
        if self._schedule is None:
            self._changed()
            feed().take(batch)
            return
        feed().check(batch)
        with Scratch() as scratch:
            cut = self._cut(batch, self._schedule, scratch)
            self._changed()  # also if no row counts: otherwise a write would tell that one did
            for period, rows in cut:
                if period > self._schedule.open:
                    self._release_until(period)
                self._changed()
                feed().take(chosen_rows(batch, rows, scratch))

    def _cut(self, batch: Batch, schedule: Schedule, scratch: Scratch) -> PeriodRows:
        """The period that each row counts in, or a refusal of the body."""
        assert schedule.column is not None
        without = NO_TIME if schedule.policy.early == "skip" else None
        moments = moments_of_rows(batch, schedule.column, scratch, without, schedule.periods.zone)
        try:
            cut = schedule.periods.cut(moments, schedule.open, schedule.policy, scratch, now=self._now())
        except Untimely as row:
            what = "has not begun, or is too far ahead" if row.early else "is released"
            raise Refused(ProblemType.untimely, f"a row is of a period that {what}", row=row.row + 1) from None
        if schedule.policy.late == "refuse" and self._one_period and len(cut.periods) > 1:
            another = int(scratch.own(cut.numbers != cut.numbers[0]).argmax())
            raise Refused(ProblemType.untimely, "rows are of several periods: send a body for each", row=another + 1)
        return cut


def _deleting(batch: Batch) -> Batch:
    import polars as pl

    return replace(batch, rows=batch.rows.with_columns(pl.lit("delete").alias(_DELETED)))

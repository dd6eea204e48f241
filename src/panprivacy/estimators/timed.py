"""The verbs of `Windows` and `ActiveUsers`, whose events have a time."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

from panprivacy.errors import InvalidType, InvalidValue
from panprivacy.memory import ownership
from panprivacy.memory.scratch import Scratch
from panprivacy.periods import Periods, RowPolicy, as_datetime, moment_of, moments_of
from panprivacy.universe import Edges, Ids
from panprivacy.universe.columns import (
    chosen_rows,
    is_frame,
    is_stream,
    named_columns,
    names_of,
    number_of_rows,
    plain_rows,
)
from panprivacy.universe.strangers import StrangerFilter


class TimedUpdates(ownership.Locked, ABC):
    """Counts each event in the period of its time. An event of a later period may end the open one."""

    PERIOD: ClassVar[str]
    """What errors call a period."""

    _periods: Periods

    @property
    @abstractmethod
    def _open_period(self) -> int:
        """The number of the period that is open."""

    @abstractmethod
    def _go_to(self, period: int) -> None:
        """End all periods before this one."""

    def _target(self) -> Any:
        """The estimator that counts the events of the open period: by default the next base class."""
        return super()

    def update(
        self,
        user: Any,
        category: Any = None,
        *,
        time: Any = None,
        ahead: int = 1,
        late: str = "refuse",
        early: str = "refuse",
    ) -> None:
        """Note that a user appeared at a time; without one, in the open period. Options as in `update_many`."""
        policy = RowPolicy(ahead, late, early)
        with self._lock:
            if self._enter(time, policy, lambda: self._target().check_many([user], category)):
                self._target().update(user, category)

    def update_many(
        self,
        ids: Ids,
        categories: Any = None,
        *,
        time: Any = None,
        column: str | tuple[str, str] | None = None,
        ahead: int = 1,
        late: str = "refuse",
        early: str = "refuse",
        skip_outside: bool = False,
        threads: int | None = None,
    ) -> None:
        """Note that these users appeared: all at one time, or each at its own; without a time, in the open period.

        The batch is taken period by period, in order of time. A batch with an id outside the universe, or with a time
        that cannot be, is refused whole, before any period ends. An iterator has one time. It is taken in chunks, after
        the periods before that time have ended.

        Parameters
        ----------
        time
            One time, or a column of times as long as `ids`: dates, `datetime`, ISO 8601, or seconds since 1970. Times
            without a zone are of the zone `tz` of the estimator.
        column
            The name of the column of ids in a frame, an Arrow table or reader, or a DuckDB relation; then `categories`,
            if it is text, names a column of it, and so does `time`, unless it is a time: ``time="2026-01-05"`` is the
            time of all rows. What comes in batches is counted batch by batch.
        ahead
            By how many periods a row may move the clock; a row that is dated further ahead is early. With 0 no row ends
            a period.
        late
            What happens to a row of a period that is over: ``"refuse"`` refuses the batch before anything changes,
            ``"skip"`` leaves that row out, ``"count"`` counts it in the open period.
        early
            What happens to an early row: ``"refuse"`` or ``"skip"``.
        skip_outside
            Leave out rows whose user is not in the universe, with their times: see `Density.update_many`.
        """
        policy = RowPolicy(ahead, late, early)
        if column is None:
            self._take(ids, categories, time, policy, skip_outside=skip_outside, threads=threads)
        else:
            pairs, time = isinstance(self._target().universe, Edges), self._named_or_constant(ids, time)
            for named in named_columns(ids, column, categories, time, pairs=pairs):
                self._take(*named, policy, skip_outside=skip_outside, threads=threads)

    def _named_or_constant(self, frame: Any, time: Any) -> Any:
        """A text beside `column=`: the name of a column, or the time of all rows, as a datetime.

        A column that is called as a time is written leaves open which of the two is meant, and is refused.
        """
        if not isinstance(time, str) or not (is_frame(frame) or is_stream(frame)):
            return time
        names = names_of(frame)
        try:
            moment = as_datetime(moment_of(time, self._periods.zone))
        except (InvalidValue, InvalidType):
            if time in names:
                return time
            listed = ", ".join(map(repr, names[:20])) + (", ..." if len(names) > 20 else "")
            raise InvalidValue(
                f"time={time!r} is neither a column nor a time; the columns are {listed}, and a time is written "
                "2026-01-31 or 2026-01-31T12:00",
                code="no-such-column",
            ) from None
        if time in names:
            raise InvalidValue(
                f"time={time!r} is a column of this frame and a time, too: rename the column, or give the time of all "
                "rows as a datetime",
                code="time-or-column",
            )
        return moment

    def _take(
        self, ids: Any, categories: Any, time: Any, policy: RowPolicy, *, skip_outside: bool, threads: int | None
    ) -> None:
        if isinstance(time, str) or not hasattr(time, "__len__"):
            with self._lock:
                options = {"skip_outside": skip_outside}
                if self._enter(time, policy, lambda: self._target().check_many(ids, categories, **options)):
                    self._target().update_many(ids, categories, threads=threads, **options)
            return
        with Scratch() as scratch, self._lock:
            universe = self._target().universe
            ids = plain_rows(ids, pairs=isinstance(universe, Edges))
            moments = scratch.own(moments_of(time, self._periods.zone))
            if len(moments) != number_of_rows(ids):
                raise InvalidValue(f"there are {number_of_rows(ids)} ids and {len(moments)} times", code="times-length")
            if skip_outside:
                known = StrangerFilter(universe).mask(universe, ids, scratch)
                ids, categories = _chosen(ids, categories, known, scratch)
                moments = scratch.own(moments[known])
            with self._periods.refusals(self.PERIOD):
                cut = self._periods.cut(moments, self._open_period, policy, scratch)
            if cut.last is not None and cut.last > self._open_period:
                self._target().check_many(ids, categories)  # now: a period that has ended stays ended
            for period, rows in cut:
                self._go_to(period)
                some, of = (ids, categories) if rows is None else _chosen(ids, categories, rows, scratch)
                self._target().update_many(some, of, threads=threads)

    def _enter(self, time: Any, policy: RowPolicy, check: Callable[[], None]) -> bool:
        """Go to the period of an event; False if the event is left out."""
        if time is None:
            return True
        with self._periods.refusals(self.PERIOD):
            period = policy.place(self._periods.number(moment_of(time, self._periods.zone)), self._open_period)
        if period is None:
            return False
        if period > self._open_period:
            check()  # now: a period that has ended stays ended
        self._go_to(period)
        return True


def _chosen(ids: Any, categories: Any, rows: Any, scratch: Scratch) -> tuple[Any, Any]:
    """Some rows of a batch; one category may stand for all rows."""
    of = categories
    if hasattr(categories, "__len__") and not isinstance(categories, str | bytes):
        column = plain_rows(categories)
        if number_of_rows(column) != len(rows):
            raise InvalidValue(
                f"each event has one user and one category: got {len(rows):,} users and {number_of_rows(column):,} "
                "categories",
                code="categories-length",
            )
        of = chosen_rows(column, rows, scratch)
    return chosen_rows(ids, rows, scratch), of

"""`Windows`: a new estimator for every week, or whatever the window is; and the verbs of events that have a time."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from panprivacy.checks import check_level
from panprivacy.display import Card, Tabular, grid_of, html_of, line_of
from panprivacy.errors import (
    BudgetExhausted,
    EarlyEvent,
    InvalidType,
    InvalidValue,
    LateEvent,
    NotPrivate,
    PanPrivacyError,
)
from panprivacy.estimates.timelines import draw_windows
from panprivacy.estimators.base import Estimator
from panprivacy.memory import ownership
from panprivacy.memory.scratch import Scratch
from panprivacy.periods import (
    PeriodRows,
    Periods,
    RowPolicy,
    Untimely,
    as_datetime,
    moment_of,
    moments_of,
    told_time,
    wall_clock,
)
from panprivacy.privacy import composition
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

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes


E = TypeVar("E")
"""What there is of a period that is over."""

_MOST_AT_ONCE = 10_000  # periods that `advance` may end; a time further ahead is a mistake


class TimedUpdates(ownership.Locked, ABC, Generic[E]):
    """Counts each event in the period of its time. An event of a later period may end the open one."""

    PERIOD: ClassVar[str]
    """What errors call a period."""

    _periods: Periods
    _ended: list[E]  # in order

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
            if self._enter(time, policy, [user], category):
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

        A text that is both, the name of a column and a time, is refused.
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
                if self._enter(time, policy, ids, categories, skip_outside):
                    self._target().update_many(ids, categories, threads=threads, skip_outside=skip_outside)
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
            cut = self._cut(moments, policy, scratch)
            if cut.last is not None and cut.last > self._open_period:
                self._target().check_many(ids, categories)  # now: a period that has ended stays ended
            for period, rows in cut:
                self._go_to(period)
                some, of = (ids, categories) if rows is None else _chosen(ids, categories, rows, scratch)
                self._target().update_many(some, of, threads=threads)

    def _enter(self, time: Any, policy: RowPolicy, ids: Any, categories: Any, skip_outside: bool = False) -> bool:
        """Go to the period of events of one time; False if they are left out."""
        if time is None:
            return True
        with Scratch() as scratch:
            moments = scratch.own(moments_of([time], self._periods.zone))
            if self._periods.number(moments.item()) == self._open_period:  # nearly always
                return True
            period = self._cut(moments, policy, scratch).last
        if period is None:
            return False
        if period > self._open_period:
            # Now: a period that has ended stays ended.
            self._target().check_many(ids, categories, skip_outside=skip_outside)
        self._go_to(period)
        return True

    def _cut(self, moments: NDArray[np.int64], policy: RowPolicy, scratch: Scratch) -> PeriodRows:
        try:
            return self._periods.cut(moments, self._open_period, policy, scratch)
        except Untimely as row:
            raise self._refusal(row) from None

    def _refusal(self, row: Untimely) -> LateEvent | EarlyEvent:
        start = as_datetime(self._periods.start_of(row.period), self._periods.zone)
        period = f"the {self.PERIOD} from {start:%Y-%m-%d %H:%M:%S} on"
        if not row.early:
            over = "is over" if row.period >= 0 else "is before the first one"
            return LateEvent(f"{period} {over}; nothing was changed")
        return EarlyEvent(
            f"{period} is {row.period - row.reached:,} {self.PERIOD}s ahead; nothing was changed: advance() first, "
            "or say ahead= (are times in seconds?)"
        )

    def advance(self, time: Any) -> list[E]:
        """End every period that is over at this time, and return what was released just now."""
        with self._lock:
            open_, before = self._open_period, len(self._ended)
            number = self._periods.number(moment_of(time, self._periods.zone))
            if number < open_:
                raise self._refusal(Untimely(0, number, open_, early=False))
            if number - open_ > _MOST_AT_ONCE:
                raise InvalidValue(
                    f"this time would end {number - open_:,} {self.PERIOD}s at once; are times in seconds?",
                    code="time-far-ahead",
                )
            self._go_to(number)
            return self._ended[before:]


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


R = TypeVar("R", bound=Any)
"""What a release of the estimators is."""

_MOST_SHOWN = 8  # closed windows that a display has room for


@dataclass(frozen=True)
class Window(Tabular, Generic[R]):
    """One window that is over: its start, its end and its release."""

    start: datetime
    end: datetime
    release: R

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain numbers and text, for JSON."""
        return {"start": self.start.isoformat(), "end": self.end.isoformat(), **self.release.to_dict()}

    def to_polars(self) -> "pl.DataFrame":
        """The frame of its release, with the start and the end of the window in every row."""
        import polars as pl

        frame: pl.DataFrame = self.release.to_polars()
        return frame.select(
            pl.lit(self.start).alias("start"), pl.lit(self.end).alias("end"), pl.exclude("start", "end")
        )

    def plot(self, path: str | Path | None = None, *, ax: "Axes | None" = None) -> "Axes":
        """Draw its release, and return Matplotlib's axes; with a path also into a file."""
        drawn: Axes = self.release.plot(path, ax=ax)
        return drawn

    def card(self) -> Card:
        """The display of a window."""
        rows = (("from", told_time(self.start)), ("until", told_time(self.end)), ("released", str(self.release)))
        return Card("Window", rows)

    __str__ = line_of
    __rich__ = grid_of
    _repr_html_ = html_of


class Windows(TimedUpdates[Window[R]], Tabular, Generic[R]):
    r"""Count users anew in every window of time: one estimator for each, released and erased when its window ends.

    A user is protected by `epsilon` in each window. One who appears in w of them loses at most ``w * epsilon`` in all,
    even if the state is read once in *every* window; if it is read once in all, the other windows give away their
    releases only. `loss` states both, and `delta` the probability that goes with either, if there is one. In the terms
    of Kellaris, Papadopoulos, Xiao and Papadias (2014) this is w-event privacy of ``w * epsilon`` for every w, at the
    level of users within each window.

    Parameters
    ----------
    make
        Builds the estimator of one window: ``lambda: pp.Density(universe=1000, epsilon=0.1)``.
    every
        The length of a window: ``"7d"``, ``"12h"``, a `timedelta`, or seconds. Or one of the calendar: ``"day"``,
        ``"week"`` (from Monday on), ``"month"``, ``"quarter"``, ``"year"``.
    start
        When the first window starts; of the calendar, a time in it. Without it, windows start at multiples of their
        length from a Monday midnight, and the first one contains the present moment, by the clock of the machine.
    tz
        The time zone, such as ``"Europe/Berlin"``: days begin at its midnight, and times without a zone are of it. UTC
        if left out.
    level
        Confidence level of the intervals.

    Examples
    --------
    >>> import panprivacy as pp
    >>> weeks = pp.Windows(lambda: pp.Density(universe=100_000, epsilon=1.0), every="7d", start="2026-01-05")
    >>> weeks.update_many(range(30_000), time="2026-01-06")
    >>> weeks.update_many(range(10_000), time="2026-01-14")
    >>> [f"{week.start:%d %b}: {week.release.density:.1f}" for week in weeks.advance("2026-01-20")]
    ['12 Jan: 0.1']
    >>> [f"{week.start:%d %b}: {week.release.density:.1f}" for week in weeks.closed]
    ['05 Jan: 0.3', '12 Jan: 0.1']
    >>> round(weeks.loss(windows=2), 6)
    2.0

    Notes
    -----
    A window closes when `advance` or an event tells that it is over. An event closes at most the open window: one that
    is dated further ahead is refused (`EarlyEvent`), as is one of a closed window (`LateEvent`). Each verb takes
    `ahead`, `late` and `early` for another policy, row by row. Let a clock call `advance`, and feed with ``ahead=0``:
    then no event closes a window, and no user's events affect the events of others. Windows without events are released
    like any other. Threads may feed and advance at the same time.
    """

    PERIOD: ClassVar[str] = "window"

    def __init__(
        self,
        make: Callable[[], Estimator[R]],
        every: str | float | timedelta | None = None,
        *,
        start: Any = None,
        tz: str | None = None,
        level: float = 0.95,
    ) -> None:
        _check_maker(make)
        if every is None:
            raise InvalidValue('how long is a window? Give every, such as "7d"', code="every-missing")
        self._make = make
        self._periods = Periods.of(every, start, tz)
        self._level = check_level(level)
        self._now = 0 if start is not None else self._periods.number(wall_clock())
        self._ended: list[Window[R]] = []
        ownership.give_lock(self, rank=0)
        self._open = make()
        _check_fits(self._open)

    @property
    def _open_period(self) -> int:
        return self._now

    def _target(self) -> Any:
        return self._open

    # --- what leaves --------------------------------------------------------------------------------------------

    @property
    def closed(self) -> tuple[Window[R], ...]:
        """All windows that are over."""
        return tuple(self._ended)

    def to_polars(self) -> "pl.DataFrame":
        """The windows in `closed` as one frame, with a row for each window, or for each of its groups."""
        import polars as pl

        if not self._ended:
            raise PanPrivacyError("before a window is over, there is nothing of it to show", code="no-windows")
        return pl.concat([each.to_polars() for each in self._ended], how="vertical_relaxed")

    def to_dict(self) -> dict[str, Any]:
        """The windows in `closed` as plain numbers and text, for JSON."""
        return {"windows": [each.to_dict() for each in self._ended]}

    def plot(self, path: str | Path | None = None, *, ax: "Axes | None" = None) -> "Axes":
        """Draw the windows in `closed` over time, and return Matplotlib's axes; with a path also into a file."""
        dated: list[tuple[datetime, Any]] = [(each.end, each.release) for each in self._ended]
        return draw_windows(dated, path, ax)

    @property
    def open(self) -> Estimator[R]:
        """The estimator of the window that is not over yet."""
        return self._open

    def loss(self, windows: int = 1, *, readings: int | None = None) -> float:
        """The largest loss of a user who appears in this number of windows, except with probability at most `delta`.

        The state may be read once in every window; `readings` limits the number of windows in which it is read.
        """
        return composition.loss(self._open._ledger.split, windows, readings)

    def delta(self, windows: int = 1, *, readings: int | None = None) -> float:
        """The probability, at most, that such a user loses more than `loss`: the delta of each window that is read.

        >>> import panprivacy as pp
        >>> days = pp.Windows(lambda: pp.Density(1000, epsilon=1.0, releases=90, delta=1e-9), every="1d")
        >>> days.delta(), round(days.delta(windows=7), 12), days.delta(windows=7, readings=1)
        (1e-09, 7e-09, 1e-09)
        """
        return composition.delta(self._open._ledger.split, windows, readings)

    @property
    def unread_loss(self) -> float:
        """The loss of a window by its releases alone, without a reading."""
        return composition.unread_loss(self._open._ledger.split)

    __copy__: Callable[[Any], NoReturn] = ownership.refuse_copy

    # --- what it says of itself ---------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return f"<Windows of {self._periods.every}, {len(self._ended):,} closed; the open one: {self._open!r}>"

    def card(self) -> Card:
        """The display: the last windows that are over, and the open one."""
        shown = self._ended[-_MOST_SHOWN:]
        rows = (
            ("length", self._periods.every),
            (
                "closed",
                f"{len(self._ended):,}" + (f", the last {len(shown)}:" if len(shown) < len(self._ended) else ""),
            ),
            *((f"from {told_time(window.start)}", str(window.release)) for window in shown),
            ("open", repr(self._open)),
        )
        return Card("Windows", rows)

    __rich__ = grid_of
    _repr_html_ = html_of

    # --- windows ------------------------------------------------------------------------------------------------

    def _go_to(self, window: int) -> None:
        """Close all windows before this one; whatever fails, no window is half closed."""
        while self._now < window:
            following = self._make()  # first: if it fails, the window that is over stays open
            # `loss` states what several windows of one plan lose.
            if self._open._ledger.split != following._ledger.split:
                raise NotPrivate(
                    "the estimator of the next window has another budget or another number of users than the open one, "
                    "so that the loss of several windows would be stated wrongly; begin new Windows with it",
                    code="windows-differ",
                )
            release = self._last_release()
            self._ended.append(Window(*self._periods.bounds(self._now), release))
            over, self._open = self._open, following
            self._now += 1
            over.end("the window of this estimator is over, and its bits are wiped; feed the windows")

    def _last_release(self) -> R:
        """Release the open window, or take its last release if closing was interrupted after that."""
        try:
            return self._open.release(self._level)
        except BudgetExhausted:
            if self._open.last is None:
                raise
            return self._open.last


def _check_maker(make: Any) -> None:
    """Refuse what cannot be called without arguments: an estimator, or its class."""
    try:
        signature(make).bind()
    except TypeError:
        given = f"the class {make.__name__}" if isinstance(make, type) else f"a {type(make).__name__}"
        raise InvalidType(
            "Windows takes a function without arguments that makes the estimator of a window, such as "
            f"lambda: pp.Density(1000, epsilon=0.1), not {given}",
            code="window-maker",
        ) from None
    except ValueError:  # a function of C, whose arguments Python does not know
        pass


def _check_fits(est: Any) -> None:
    """Refuse an estimator that cannot be released and wiped at the end of a window, or that has days of its own."""
    kind = type(est).__name__
    for verb, done in (("release", "released"), ("end", "wiped")):
        if not hasattr(est, verb):
            raise InvalidType(
                f"the estimator of a window is {done} when its window ends, and a {kind} has no {verb}()",
                code="not-for-windows",
            )
    if hasattr(est, "advance") or hasattr(est, "close"):
        own = "days and cycles" if hasattr(est, "advance") else "two periods"
        raise InvalidType(
            f"{kind} has {own} of its own, which windows do not count: feed it without windows",
            code="not-for-windows",
        )

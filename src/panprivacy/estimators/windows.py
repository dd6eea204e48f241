"""`Windows`: a new estimator for every week, or whatever the window is."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, TypeVar

from panprivacy.checks import check_level
from panprivacy.display import Card, Tabular, grid_of, html_of, line_of
from panprivacy.errors import BudgetExhausted, InvalidType, InvalidValue, NotPrivate, PanPrivacyError
from panprivacy.estimates.timelines import draw_windows
from panprivacy.estimators.base import Estimator
from panprivacy.estimators.timed import TimedUpdates
from panprivacy.memory import ownership
from panprivacy.periods import Periods, moment_of, told_time, wall_clock
from panprivacy.privacy import composition

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes

R = TypeVar("R")
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
        release: Any = self.release
        return {"start": self.start.isoformat(), "end": self.end.isoformat(), **release.to_dict()}

    def to_polars(self) -> "pl.DataFrame":
        """The frame of its release, with the start and the end of the window in every row."""
        import polars as pl

        release: Any = self.release
        frame: pl.DataFrame = release.to_polars()
        return frame.select(
            pl.lit(self.start).alias("start"), pl.lit(self.end).alias("end"), pl.exclude("start", "end")
        )

    def plot(self, path: str | Path | None = None, *, ax: "Axes | None" = None) -> "Axes":
        """Draw its release, and return Matplotlib's axes; with a path also into a file."""
        release: Any = self.release
        drawn: Axes = release.plot(path, ax=ax)
        return drawn

    def card(self) -> Card:
        """The display of a window."""
        rows = (("from", told_time(self.start)), ("until", told_time(self.end)), ("released", str(self.release)))
        return Card("Window", rows)

    __str__ = line_of
    __rich__ = grid_of
    _repr_html_ = html_of


class Windows(TimedUpdates, Tabular, Generic[R]):
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
        self._periods = Periods.fixed(every, tz) if start is None else Periods.of(every, start, tz)
        self._level = check_level(level)
        self._now = 0 if start is not None else self._periods.number(wall_clock())
        self._closed: list[Window[R]] = []
        ownership.give_lock(self, rank=0)
        self._open = make()
        _check_fits(self._open)

    @property
    def _open_period(self) -> int:
        return self._now

    def _target(self) -> Any:
        return self._open

    # --- what leaves --------------------------------------------------------------------------------------------

    def advance(self, time: Any) -> list[Window[R]]:
        """Close every window that is over at this time, and return those that were closed just now."""
        moment = moment_of(time, self._periods.zone)
        with self._lock:
            before = len(self._closed)
            self._go_to(self._periods.to_advance_to(moment, self._now, self.PERIOD))
            return self._closed[before:]

    @property
    def closed(self) -> tuple[Window[R], ...]:
        """All windows that are over."""
        return tuple(self._closed)

    def to_polars(self) -> "pl.DataFrame":
        """The windows in `closed` as one frame, with a row for each window, or for each of its groups."""
        import polars as pl

        if not self._closed:
            raise PanPrivacyError("before a window is over, there is nothing of it to show", code="no-windows")
        return pl.concat([each.to_polars() for each in self._closed], how="vertical_relaxed")

    def to_dict(self) -> dict[str, Any]:
        """The windows in `closed` as plain numbers and text, for JSON."""
        return {"windows": [each.to_dict() for each in self._closed]}

    def plot(self, path: str | Path | None = None, *, ax: "Axes | None" = None) -> "Axes":
        """Draw the windows in `closed` over time, and return Matplotlib's axes; with a path also into a file."""
        releases: list[Any] = [each.release for each in self._closed]
        dated = [(each.end, release) for each, release in zip(self._closed, releases, strict=True)]
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
        return f"<Windows of {self._every()}, {len(self._closed):,} closed; the open one: {self._open!r}>"

    def card(self) -> Card:
        """The display: the last windows that are over, and the open one."""
        shown = self._closed[-_MOST_SHOWN:]
        rows = (
            ("length", self._every()),
            (
                "closed",
                f"{len(self._closed):,}" + (f", the last {len(shown)}:" if len(shown) < len(self._closed) else ""),
            ),
            *((f"from {told_time(window.start)}", str(window.release)) for window in shown),
            ("open", repr(self._open)),
        )
        return Card("Windows", rows)

    __rich__ = grid_of
    _repr_html_ = html_of

    def _every(self) -> str:
        return self._periods.every

    # --- windows ------------------------------------------------------------------------------------------------

    def _go_to(self, window: int) -> None:
        """Close all windows before this one; whatever fails, no window is half closed."""
        while self._now < window:
            following = self._make()  # first: if it fails, the window that is over stays open
            _check_same_plan(self._open, following)
            release = self._last_release()
            self._closed.append(Window(*self._periods.bounds(self._now), release))
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


def _check_same_plan(before: Any, following: Any) -> None:
    """Refuse a window of another budget: `loss` states what several windows of one plan lose."""
    if before._ledger.split != following._ledger.split:
        raise NotPrivate(
            "the estimator of the next window has another budget or another number of users than the open one, so that "
            "the loss of several windows would be stated wrongly; begin new Windows with it",
            code="windows-differ",
        )


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
    if not hasattr(est, "release"):
        raise InvalidType(f"windows are released when they end, and a {kind} has no release()", code="not-for-windows")
    if not hasattr(est, "end"):
        raise InvalidType(
            f"the estimator of a window is wiped when its window ends, and a {kind} has no end()",
            code="not-for-windows",
        )
    if hasattr(est, "advance") or hasattr(est, "close"):
        own = "days and cycles" if hasattr(est, "advance") else "two periods"
        raise InvalidType(
            f"{kind} has {own} of its own, which windows do not count: feed it without windows",
            code="not-for-windows",
        )

"""`Windows`: a new estimator for every week, or whatever the window is."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from panprivacy import lifetime
from panprivacy.checks import check_level
from panprivacy.display import Card, grid_of, html_of, line_of
from panprivacy.errors import BudgetExhausted, LateEvent
from panprivacy.estimator import Estimator
from panprivacy.memory import Scratch
from panprivacy.periods import DAY, as_datetime, length_of, moment_of, moments_of, told_length
from panprivacy.privacy import composition
from panprivacy.release.windowed import draw_windows, frame_of_windows
from panprivacy.universe import Ids
from panprivacy.universe.rows import chosen_rows, number_of_rows, plain_rows

if TYPE_CHECKING:
    import polars as pl

R = TypeVar("R")
"""What a release of the estimators is."""

_FIRST_MONDAY = 4 * DAY  # 5 January 1970: weeks start on Mondays, days at midnight
_MOST_SHOWN = 8  # closed windows that a display has room for
_MOST_AT_ONCE = 10_000  # windows that one event may close; a time further ahead is a mistake


@dataclass(frozen=True)
class Window(Generic[R]):
    """One window that is over: from when, until when, and what was released of it."""

    start: datetime
    end: datetime
    release: R

    def card(self) -> Card:
        """What is shown of it."""
        rows = (("from", _moment(self.start)), ("until", _moment(self.end)), ("released", str(self.release)))
        return Card("Window", rows)

    __str__ = line_of
    __rich__ = grid_of
    _repr_html_ = html_of


class Windows(Generic[R]):
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
        The length of a window: ``"7d"``, ``"12h"``, a `timedelta`, or seconds.
    start
        When the first window starts. Without it, windows start at multiples of their length from a Monday midnight, and
        the first one is that of the first event, whose time it thereby shows.
    level
        Confidence level of the intervals.

    Examples
    --------
    >>> import panprivacy as pp
    >>> weeks = pp.Windows(lambda: pp.Density(universe=100_000, epsilon=1.0), every="7d", start="2026-01-05")
    >>> weeks.update_many(range(30_000), "2026-01-06")
    >>> weeks.update_many(range(10_000), "2026-01-14")
    >>> [f"{week.start:%d %b}: {week.release.density:.1f}" for week in weeks.advance("2026-01-20")]
    ['12 Jan: 0.1']
    >>> [f"{week.start:%d %b}: {week.release.density:.1f}" for week in weeks.closed]
    ['05 Jan: 0.3', '12 Jan: 0.1']
    >>> round(weeks.loss(windows=2), 6)
    2.0

    Notes
    -----
    A window closes when an event or `advance` tells that it is over. Let a clock call `advance`: if events alone close
    windows, the moment of a release shows when the next event came. Windows in which nothing happened are released
    like any other. An event of a closed window is refused (`LateEvent`). Threads may feed and advance at the same time.
    """

    _lock: Any

    def __init__(
        self,
        make: Callable[[], Estimator[R]],
        every: str | float | timedelta,
        *,
        start: Any = None,
        level: float = 0.95,
    ) -> None:
        self._make = make
        self._length = length_of(every)
        self._level = check_level(level)
        self._first = _FIRST_MONDAY if start is None else moment_of(start)
        self._now: int | None = None if start is None else 0
        self._closed: list[Window[R]] = []
        lifetime.give_lock(self, rank=0)
        self._open = make()
        if not hasattr(self._open, "release"):
            raise TypeError(f"windows are released when they end, and a {type(self._open).__name__} has no release()")

    # --- events -------------------------------------------------------------------------------------------------

    def update(self, user: Any, time: Any) -> None:
        """Note that a user appeared at a time."""
        moment = moment_of(time)
        with self._lock:
            window = self._window_of(moment)
            self._check_before_a_window_closes([user], window)
            self._go_to(window)
            self._open.update(user)

    def update_many(self, ids: Ids, times: Any, *, threads: int | None = None) -> None:
        """Note that these users appeared: all at one time, or each at its own.

        The batch is taken window by window, in order of time. A batch with an id outside the universe, or with a time
        that cannot be, is refused whole, before any window closes; an iterator, which has one time, is taken in chunks,
        after the windows before that time have closed.
        """
        ids = plain_rows(ids, getattr(self._open, "universe", None))
        if isinstance(times, str) or not hasattr(times, "__len__"):
            moment = moment_of(times)
            with self._lock:
                window = self._window_of(moment)
                self._check_before_a_window_closes(ids, window)
                self._go_to(window)
                self._open.update_many(ids, threads=threads)
            return
        with Scratch() as scratch:
            numbers = scratch.own(moments_of(times))
            numbers -= self._first
            numbers //= self._length
            if len(numbers) != number_of_rows(ids):
                raise ValueError(f"there are {number_of_rows(ids)} ids and {len(numbers)} times")
            with self._lock:
                self._take(ids, numbers, threads)

    def _take(self, ids: Any, numbers: NDArray[np.int64], threads: int | None) -> None:
        """Feed each window its part of a batch, whose rows belong to windows of these numbers."""
        windows = np.unique(numbers)
        if len(windows):
            self._check(int(windows[0]))
            self._check_ahead(int(windows[-1]), after=int(windows[0]))
            self._check_before_a_window_closes(ids, int(windows[-1]))
        for window in windows:
            self._go_to(int(window))
            with Scratch() as scratch:
                wanted = scratch.own(numbers == window)
                some = ids if len(windows) == 1 else chosen_rows(ids, wanted, scratch)
                self._open.update_many(some, threads=threads)

    def _check_before_a_window_closes(self, ids: Any, window: int) -> None:
        """Refuse bad ids before windows up to this one are released: that cannot be taken back."""
        if self._now is None or window > self._now:
            self._open.check_many(ids)

    # --- what leaves --------------------------------------------------------------------------------------------

    def advance(self, time: Any) -> list[Window[R]]:
        """Close every window that is over at this time, and return those that were closed just now."""
        moment = moment_of(time)
        with self._lock:
            before = len(self._closed)
            self._go_to(self._window_of(moment))
            return self._closed[before:]

    @property
    def closed(self) -> tuple[Window[R], ...]:
        """All windows that are over."""
        return tuple(self._closed)

    def to_polars(self) -> "pl.DataFrame":
        """What is in `closed` as one frame, with a row for each window, or for each of its groups."""
        return frame_of_windows([(each.start, each.end, each.release) for each in self._closed])

    def plot(self, path: str | Path) -> None:
        """Draw what is in `closed` over time in a file: .png, .svg or .pdf. Needs Matplotlib."""
        draw_windows([(each.start, each.end, each.release) for each in self._closed], path)

    @property
    def open(self) -> Estimator[R]:
        """The estimator of the window that is not over yet."""
        return self._open

    def loss(self, windows: int = 1, *, readings: int | None = None) -> float:
        """What a user who appears in so many windows loses at most, but for a probability of `delta`.

        The state may be read once in every window; with `readings`, in so many of them only.
        """
        return composition.loss(self._open._ledger.split, windows, readings)

    def delta(self, windows: int = 1, *, readings: int | None = None) -> float:
        """With which probability, at most, such a user loses more than `loss`: the delta of each window that is read.

        >>> import panprivacy as pp
        >>> days = pp.Windows(lambda: pp.Density(1000, epsilon=1.0, releases=90, delta=1e-9), every="1d")
        >>> days.delta(), round(days.delta(windows=7), 12), days.delta(windows=7, readings=1)
        (1e-09, 7e-09, 1e-09)
        """
        return composition.delta(self._open._ledger.split, windows, readings)

    @property
    def unread_loss(self) -> float:
        """What a window gives away by its releases alone."""
        return composition.unread_loss(self._open._ledger.split)

    # --- what it says of itself ---------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return f"<Windows of {self._every()}, {len(self._closed):,} closed; the open one: {self._open!r}>"

    def card(self) -> Card:
        """What is shown of it: the last windows that are over, and the open one."""
        shown = self._closed[-_MOST_SHOWN:]
        rows = (
            ("length", self._every()),
            (
                "closed",
                f"{len(self._closed):,}" + (f", the last {len(shown)}:" if len(shown) < len(self._closed) else ""),
            ),
            *((f"from {_moment(window.start)}", str(window.release)) for window in shown),
            ("open", repr(self._open)),
        )
        return Card("Windows", rows)

    __rich__ = grid_of
    _repr_html_ = html_of

    def _every(self) -> str:
        return told_length(self._length)

    # --- windows ------------------------------------------------------------------------------------------------

    def _window_of(self, moment: int) -> int:
        window = (moment - self._first) // self._length
        self._check(window)
        self._check_ahead(window)
        return window

    def _check(self, window: int) -> None:
        if window < (self._now if self._now is not None else window):
            start = as_datetime(self._first + self._length * window)
            raise LateEvent(f"the window from {start:%Y-%m-%d %H:%M:%S} on is closed; nothing was changed")

    def _check_ahead(self, window: int, after: int | None = None) -> None:
        now = self._now if self._now is not None else after
        if now is not None and window - now > _MOST_AT_ONCE:
            raise ValueError(f"this time would close {window - now:,} windows at once; are times in seconds?")

    def _go_to(self, window: int) -> None:
        """Close all windows before this one; whatever fails, no window is half closed."""
        if self._now is None:
            self._now = window
        while self._now < window:
            following = self._make()  # first: if it fails, the window that is over stays open
            release = self._last_release()
            start = self._first + self._length * self._now
            self._closed.append(Window(as_datetime(start), as_datetime(start + self._length), release))
            over, self._open = self._open, following
            self._now += 1
            over.end("the window of this estimator is over, and its bits are wiped; feed the windows")

    def _last_release(self) -> R:
        """Release the open window, or take the one that was made if its closing was interrupted after that."""
        try:
            return self._open.release(self._level)
        except BudgetExhausted:
            if self._open.last is None:
                raise
            return self._open.last


def _moment(time: datetime) -> str:
    """A time without its midnight.

    >>> _moment(datetime(2026, 1, 5)), _moment(datetime(2026, 1, 5, 12))
    ('2026-01-05', '2026-01-05 12:00:00')
    """
    return f"{time:%Y-%m-%d %H:%M:%S}".removesuffix(" 00:00:00")

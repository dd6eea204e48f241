"""From one window to the next: whatever goes wrong, and whoever else is at it."""

import sys
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from datetime import UTC, datetime, timedelta
from threading import Thread
from time import sleep
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import panprivacy as pp
from panprivacy.errors import LateEvent
from panprivacy.estimates import Release
from panprivacy.estimators.windows import Windows

USERS = 20_000
MONDAY = datetime(2026, 1, 5, tzinfo=UTC)


def densities(windows: Windows[Release]) -> list[float]:
    return [round(window.release.density, 1) for window in windows.closed]


def weeks() -> Windows[Release]:
    return Windows(lambda: pp.Density(USERS, 4.0), "7d", start=MONDAY)


class Unreliable:
    """Makes estimators, and fails when it is told to."""

    def __init__(self, **options: Any) -> None:
        self.fails, self.options, self.made = False, options, 0

    def __call__(self) -> pp.Density:
        if self.fails:
            raise OSError("no room for another window")
        self.made += 1
        return pp.Density(USERS, 4.0, **self.options)


@pytest.mark.parametrize("feed", [True, False], ids=["an event", "a clock"])
def test_a_window_that_cannot_be_followed_stays_open_and_the_next_call_goes_on(feed: bool) -> None:
    make = Unreliable()
    windows = Windows(make, "7d", start=MONDAY)
    windows.update_many(range(10_000), time=MONDAY)
    first, before = windows.open, windows.open.to_bytes()
    make.fails = True
    later = MONDAY + timedelta(days=8)
    with pytest.raises(OSError, match="no room"):
        windows.update_many(range(4000), time=later) if feed else windows.advance(later)
    assert windows.open is first
    assert windows.open.to_bytes() == before, "no bit of the late batch is in the window before it"
    assert windows.closed == ()

    windows.update_many(range(10_000, 12_000), time=MONDAY + timedelta(days=6))  # it still is open
    make.fails = False
    windows.update_many(range(4000), time=later)
    windows.advance(MONDAY + timedelta(days=14))
    assert densities(windows) == [0.6, 0.2]


def test_a_release_that_fails_leaves_the_window_open_and_unspent(monkeypatch: pytest.MonkeyPatch) -> None:
    windows = weeks()
    windows.update_many(range(10_000), time=MONDAY)
    first, before = windows.open, windows.open.to_bytes()

    def failing(*_: object) -> Release:
        raise MemoryError

    monkeypatch.setattr(first, "release", failing)
    with pytest.raises(MemoryError):
        windows.advance(MONDAY + timedelta(days=7))
    assert windows.open is first
    assert windows.open.to_bytes() == before
    assert windows.closed == ()
    monkeypatch.undo()
    windows.advance(MONDAY + timedelta(days=7))
    assert densities(windows) == [0.5]


def test_a_release_that_was_made_before_its_closing_broke_off_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The budget of the window is spent by then: the release is taken from the ledger."""
    windows = weeks()
    windows.update_many(range(10_000), time=MONDAY)
    release = windows.open.release

    def broken_off(level: float) -> Release:
        release(level)
        raise KeyboardInterrupt

    monkeypatch.setattr(windows.open, "release", broken_off)
    with pytest.raises(KeyboardInterrupt):
        windows.advance(MONDAY + timedelta(days=7))
    monkeypatch.undo()
    made = windows.open.last
    windows.advance(MONDAY + timedelta(days=7))
    assert [window.release for window in windows.closed] == [made]


def test_of_several_windows_those_before_the_one_that_failed_are_closed() -> None:
    make = Unreliable()
    windows = Windows(make, "7d", start=MONDAY)
    windows.update_many(range(10_000), time=MONDAY)
    make_once = windows._make

    def twice() -> pp.Density:
        make.fails = make.made >= 3
        return make_once()  # type: ignore[return-value]

    windows._make = twice
    with pytest.raises(OSError, match="no room"):
        windows.advance(MONDAY + timedelta(days=28))
    assert densities(windows) == [0.5, 0.0]
    windows._make = make_once
    make.fails = False
    windows.advance(MONDAY + timedelta(days=28))
    assert densities(windows) == [0.5, 0.0, 0.0, 0.0]


# --- threads ------------------------------------------------------------------------------------------------------


class Counted:
    """An estimator that counts its events in clear, and notes those that come when it is over."""

    late = 0
    pause = 0.0
    """Seconds for which others are let in, where nothing keeps them out."""
    _ledger = SimpleNamespace(split=None)

    def __init__(self) -> None:
        self.events, self.over, self.last = 0, False, None

    def check_many(self, ids: Any, categories: Any = None, **_: Any) -> None:
        """Find nothing wrong with these ids."""

    def update(self, user: object, category: Any = None) -> None:  # noqa: ARG002
        self.update_many([user])

    def update_many(self, ids: Any, categories: Any = None, **_: Any) -> None:  # noqa: ARG002
        if self.over:
            Counted.late += len(ids)
        events = self.events
        sleep(self.pause)
        self.events = events + len(ids)

    def release(self, level: float) -> int:  # noqa: ARG002
        sleep(0)
        return self.events

    def end(self, why: str) -> None:  # noqa: ARG002
        self.over = True


def fed_by_threads(windows: Windows[Any], seed: int) -> int:
    """Feed in three threads while a fourth one is the clock; how many events were taken."""
    clock, taken = [0.0], []

    def feeding(number: int) -> None:
        rng = np.random.default_rng([seed, number])
        for _ in range(300):
            ids = rng.integers(0, 100, rng.integers(1, 4))
            with suppress(LateEvent):
                if rng.random() < 0.5:
                    windows.update_many(ids, time=clock[0])
                    taken.append(len(ids))
                else:
                    windows.update(ids[0], time=clock[0])
                    taken.append(1)

    def ticking() -> None:
        for tick in range(1, 200):
            clock[0] = float(tick)
            with suppress(LateEvent):  # of the planted bug: a window too many was closed
                windows.advance(clock[0])
            sleep(0)

    threads = [Thread(target=feeding, args=(number,)) for number in range(3)] + [Thread(target=ticking)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    windows.advance(1000.0)
    return sum(taken)


@pytest.fixture
def _eager_threads() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.slow
@pytest.mark.usefixtures("_eager_threads")
@pytest.mark.parametrize("seed", range(3))
def test_threads_that_feed_while_a_clock_advances_lose_no_event(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counted, "late", 0)
    windows: Windows[Any] = Windows(Counted, "1s", start=0)  # type: ignore[arg-type]
    taken = fed_by_threads(windows, seed)
    assert sum(window.release for window in windows.closed) == taken > 100
    assert Counted.late == 0


@pytest.mark.slow
@pytest.mark.usefixtures("_eager_threads")
def test_without_a_lock_events_would_be_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug."""
    monkeypatch.setattr(Counted, "late", 0)
    monkeypatch.setattr(Counted, "pause", 0.001)  # whoever counts sleeps, so that others do count meanwhile
    windows: Windows[Any] = Windows(Counted, "1s", start=0)  # type: ignore[arg-type]
    windows._lock = nullcontext()
    taken = fed_by_threads(windows, seed=0)
    assert Counted.late or sum(window.release for window in windows.closed) != taken

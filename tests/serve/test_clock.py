"""A wall clock that jumps ahead ends no period before it has stayed there."""

from pathlib import Path

import pytest
from service_for_tests import FLU, settings_for

from panprivacy.serve import counter
from panprivacy.serve.schedule import SteadyClock
from panprivacy.serve.service import Service

SECOND, DAY = 10**6, 86_400 * 10**6


class Clocks:
    def __init__(self) -> None:
        self.wall, self.elapsed, self.alarms = 400 * DAY, 0, 0
        self.steady = SteadyClock(self.alarm, lambda: self.wall, lambda: self.elapsed)

    def alarm(self) -> None:
        self.alarms += 1

    def go(self, seconds: float, ahead: int = 0) -> int:
        self.elapsed += int(seconds * SECOND)
        self.wall += int(seconds * SECOND) + ahead
        return self.steady.now()


def test_time_goes_on_while_the_wall_clock_is_ahead_and_after_it_is_back() -> None:
    clocks = Clocks()
    begun = clocks.go(0)
    assert clocks.go(1, 400 * DAY) == begun + SECOND
    assert clocks.go(1) == begun + 2 * SECOND
    assert clocks.steady.has_jumped
    assert clocks.go(1, -400 * DAY) == begun + 3 * SECOND
    assert not clocks.steady.has_jumped
    assert clocks.alarms == 1


def test_a_clock_that_stays_ahead_is_believed_after_ten_minutes() -> None:
    clocks = Clocks()
    begun = clocks.go(0)
    clocks.go(1, DAY)
    assert clocks.go(590) == begun + 591 * SECOND
    assert clocks.go(10) == begun + 601 * SECOND + DAY
    assert not clocks.steady.has_jumped


def test_a_clock_may_be_set_by_less_than_a_minute_and_may_go_back() -> None:
    clocks = Clocks()
    begun = clocks.go(0)
    assert clocks.go(1, 50 * SECOND) == begun + 51 * SECOND
    assert clocks.go(1, -3600 * SECOND) == begun + (52 - 3600) * SECOND
    assert clocks.alarms == 0


def test_a_jump_of_400_days_spends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = Clocks()
    monkeypatch.setattr(counter, "_CLOCK", clocks.steady)
    daily = FLU | {"releases": 100, "schedule": {"every": "1d", "start": "1971-01-01"}}
    actives = {"kind": "actives", "universe": 100, "epsilon": 1.0, "span": "28d", "column": "user"}
    actives["schedule"] = {"every": "1d", "start": "1971-01-01"}
    with Service(settings_for(tmp_path, flu=daily, actives=actives)) as service:
        for name in ("flu", "actives"):
            one = service.counter(name)
            made = len(one.release_log)
            clocks.go(1, 400 * DAY)
            one._tick()
            assert one.trouble
            assert len(one.release_log) == made
            clocks.go(1, -400 * DAY)
            one._tick()
            assert not one.trouble
            assert len(one.release_log) == made

"""A wall clock that jumps ahead ends no period before it has stayed there."""

from dataclasses import replace
from pathlib import Path

import pytest
from service_for_tests import FLU, settings_for

from panprivacy.ingest.bodies import Body, ContentType
from panprivacy.serve import counter
from panprivacy.serve.feeding import SteadyClock
from panprivacy.serve.server import check_all
from panprivacy.serve.service import Service
from panprivacy.testing import refused

SECOND, DAY = 10**6, 86_400 * 10**6
DAILY = FLU | {"releases": 100, "schedule": {"every": "1d", "start": "1971-01-01"}}
ACTIVES = {"kind": "actives", "universe": 100, "epsilon": 1.0, "span": "28d", "column": "user"} | {
    "schedule": {"every": "1d", "start": "1971-01-01"}
}


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
    with Service(settings_for(tmp_path, flu=DAILY, actives=ACTIVES)) as service:
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


def body() -> Body:
    return Body.copied(b"[1]", ContentType.json)


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    clocks = Clocks()
    monkeypatch.setattr(counter, "_CLOCK", clocks.steady)
    return clocks


def restarted(clocks: Clocks, monkeypatch: pytest.MonkeyPatch, days: float) -> None:
    """Stop the machine, and start it when its wall clock is so many days later."""
    clocks.wall, clocks.elapsed = clocks.wall + int(days * DAY), 0
    clocks.steady = SteadyClock(clocks.alarm, lambda: clocks.wall, lambda: clocks.elapsed)
    monkeypatch.setattr(counter, "_CLOCK", clocks.steady)


def released(service: Service) -> dict[str, int]:
    """How many releases there are after a look at the clock."""
    for one in service.counters.values():
        one.worker.submit(lambda: None).result(20)
    return {name: len(one.release_log) for name, one in service.counters.items()}


def test_a_service_that_starts_while_the_clock_is_ahead_counts_and_spends_nothing_until_it_is_back(
    tmp_path: Path, clocks: Clocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_for(tmp_path, flu=DAILY, actives=ACTIVES, plain=FLU)
    with Service(settings):
        pass
    restarted(clocks, monkeypatch, 400)
    with Service(settings) as service:
        assert released(service) == {"flu": 0, "actives": 0, "plain": 0}
        service.counter("plain").take(body()).result(20)
        for name in ("flu", "actives"):
            with refused("clock"):
                service.counter(name).take(body())
            assert service.states["counters"][name].state == "failing"
            assert service.counter(name)._due() == 30
        with refused("clock"):
            service.counter("flu").release()
    with refused("invalid-settings", "accept-clock"):
        check_all(settings)
    with Service(settings) as service:
        clocks.go(1, -400 * DAY)
        assert released(service) == {"flu": 0, "actives": 0, "plain": 0}
        service.counter("flu").take(body()).result(20)
        assert all(state.is_ready for state in service.states["counters"].values())


def test_a_clock_that_stays_400_days_ahead_spends_nothing(tmp_path: Path, clocks: Clocks) -> None:
    with Service(settings_for(tmp_path, flu=DAILY, actives=ACTIVES)) as service:
        assert released(service) == {"flu": 0, "actives": 0}
        clocks.go(1, 400 * DAY)
        assert released(service) == {"flu": 0, "actives": 0}
        clocks.go(700)
        assert released(service) == {"flu": 0, "actives": 0}
        assert not clocks.steady.has_jumped
        assert service.states["counters"]["actives"].state == "failing"


@pytest.mark.slow
@pytest.mark.parametrize(("days", "accepted"), [(7, False), (12, True)])
def test_a_service_that_was_stopped_goes_on_if_it_was_a_week_or_its_operator_says_so(
    tmp_path: Path, clocks: Clocks, monkeypatch: pytest.MonkeyPatch, days: int, accepted: bool
) -> None:
    settings = settings_for(tmp_path, flu=DAILY, actives=ACTIVES)
    with Service(settings):
        pass
    restarted(clocks, monkeypatch, days)
    with Service(replace(settings, accept_clock=accepted)) as service:
        assert released(service) == {"flu": 1, "actives": days}
        service.counter("flu").take(body()).result(20)
    restarted(clocks, monkeypatch, 1)
    with Service(settings) as service:
        assert released(service) == {"flu": 2, "actives": days + 1}


def test_a_service_that_runs_for_months_is_not_taken_for_one_that_was_stopped(
    tmp_path: Path, clocks: Clocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_for(tmp_path, flu=DAILY | {"releases": 2})
    with Service(settings) as service:
        for _ in range(15):
            clocks.go(86_400)
            service.counter("flu").take(body()).result(20)
        assert len(service.counter("flu").release_log) == 2
    restarted(clocks, monkeypatch, 1)
    with Service(settings) as service:  # none is left to spend
        service.counter("flu").take(body()).result(20)

"""Releases by the clock and by the times of events: once a period, never more than planned; what is missed is said."""

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from service_for_tests import FLU, settings_for

from panprivacy.ingest.batch import Refused
from panprivacy.ingest.bodies import Body, ContentType
from panprivacy.periods import DAY, RowPolicy, moment_of
from panprivacy.serve import counter as counters
from panprivacy.serve.config import ScheduleSettings
from panprivacy.serve.feeding import Schedule
from panprivacy.serve.service import Service
from panprivacy.state.file import StateFile

BY_CLOCK: dict[str, Any] = {"every": "1d", "start": "2026-01-05", "time": "at"}
DAILY = BY_CLOCK | {"ahead": 14}
START = moment_of("2026-01-05")
EACH_DAY = ScheduleSettings.model_validate({"every": "1d", "start": "2026-01-05"})


def csv(*rows: tuple[int, str]) -> Body:
    return Body.copied(("user,at\n" + "".join(f"{user},{at}\n" for user, at in rows)).encode(), ContentType.csv)


def published(service: Service) -> list[tuple[int, int]]:
    return [(each["period"]["number"], each["period"]["missed"]) for each in service.counter("flu").release_log.records]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A wall clock that tests move."""
    clock = SimpleNamespace(now=START)
    monkeypatch.setattr(counters, "_now", lambda: clock.now)
    return clock


@pytest.fixture
def watched_clock(clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A clock that counters look at often, also while nothing comes."""
    monkeypatch.setattr(counters, "_LOOK", 0.02)
    return clock


def test_periods_are_numbered_from_the_start() -> None:
    schedule = Schedule(EACH_DAY, RowPolicy(0, "count", "skip"), begun=START + DAY // 2)
    assert [schedule.periods.number(START + moment) for moment in (DAY - 1, DAY, 4 * DAY)] == [0, 1, 4]
    schedule.note({"number": 3})
    assert (schedule.open, schedule.ends) == (4, START + 5 * DAY)


def test_a_period_before_the_counter_was_made_is_not_missed() -> None:
    assert Schedule(EACH_DAY, RowPolicy(0, "count", "skip"), begun=START + 10 * DAY).open == 10


@pytest.mark.slow
def test_the_clock_releases_and_a_downtime_is_one_release_that_says_what_was_missed(
    tmp_path: Path, watched_clock: SimpleNamespace
) -> None:
    settings = settings_for(tmp_path, flu=FLU | {"schedule": {"every": "1d", "start": "2026-01-05"}})
    with Service(settings) as service:
        assert service.counter("flu").status["next"] == "2026-01-06T00:00:00+00:00"
        watched_clock.now += DAY
        _wait_for(service, 1)
        assert published(service) == [(0, 0)]
    watched_clock.now += 5 * DAY
    with Service(settings) as service:
        _wait_for(service, 2)
        assert published(service) == [(0, 0), (5, 4)]
        watched_clock.now += DAY
        _wait_for(service, 3)
        assert service.counter("flu").status["next"] is None, "all three planned releases are made"
        watched_clock.now += DAY
        time.sleep(0.2)
        assert published(service) == [(0, 0), (5, 4), (6, 0)]


def test_the_clock_releases_while_bodies_never_stop_coming(tmp_path: Path, clock: SimpleNamespace) -> None:
    """A body that comes after the end of a period is not in the release of that period."""
    plan = FLU | {"epsilon": 60.0, "releases": 2, "universe": 100, "schedule": {"every": "1d", "start": "2026-01-05"}}
    with Service(settings_for(tmp_path, flu=plan)) as service:
        counter = service.counter("flu")
        counter.take(csv(*((user, "") for user in range(50)))).result()
        clock.now += DAY
        counter.take(csv(*((user, "") for user in range(100)))).result()
        assert published(service) == [(0, 0)], "the thread was never without a body"
        assert counter.release_log.records[0]["release"]["density"] == pytest.approx(0.5, abs=0.02)


def _wait_for(service: Service, releases: int) -> None:
    end = time.monotonic() + 60
    while len(service.counter("flu").release_log.records) < releases:
        assert time.monotonic() < end, f"release {releases} was not made"
        time.sleep(0.01)


def test_a_row_of_a_later_period_releases_the_one_before_it(tmp_path: Path) -> None:
    with Service(settings_for(tmp_path, flu=FLU | {"schedule": DAILY})) as service:
        take = service.counter("flu").take
        take(csv((1, "2026-01-05"), (2, "2026-01-05T23:59"))).result()
        assert published(service) == []
        take(csv((4, "2026-01-07"), (3, "2026-01-06"), (5, "2026-01-07"))).result()
        assert published(service) == [(0, 0), (1, 0)]
        take(csv((6, "2026-01-20"))).result()
        assert published(service) == [(0, 0), (1, 0), (2, 12)], "periods without a row are missed, not spent"
        take(csv((7, "2026-01-30"))).result()
        assert len(published(service)) == 3, "no more than planned"


def test_a_restart_goes_on_in_the_period_that_is_open(tmp_path: Path) -> None:
    settings = settings_for(tmp_path, flu=FLU | {"schedule": DAILY})
    with Service(settings) as service:
        service.counter("flu").take(csv((1, "2026-01-05"), (2, "2026-01-19"))).result()
    with Service(settings) as service:
        service.counter("flu").take(csv((3, "2026-01-20"))).result()
        assert published(service) == [(0, 13), (14, 0)]


@pytest.mark.parametrize("late", ["count", "skip", "refuse"])
def test_a_late_row_counts_now_or_nowhere_or_is_refused(late: str, tmp_path: Path) -> None:
    plan = FLU | {"epsilon": 60.0, "releases": 2, "universe": 100, "schedule": DAILY | {"late": late}}
    with Service(settings_for(tmp_path, flu=plan)) as service:
        counter = service.counter("flu")
        counter.take(csv((1, "2026-01-06"))).result()
        rows = csv(*((user, "2026-01-05") for user in range(50)), (60, "2026-01-06"))
        if late == "refuse":
            with pytest.raises(Refused) as caught:
                counter.take(rows).result()
            assert caught.value.code == "untimely"
            assert caught.value.row == 1
        else:
            counter.take(rows).result()
        share = counter.release().result()["release"]["density"]
    assert share == pytest.approx({"count": 0.51, "skip": 0.02, "refuse": 0.01}[late], abs=0.015)


def test_a_body_of_which_no_row_counts_is_written_as_any_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the time of the file would tell whether one row of it counted."""
    written: list[StateFile] = []
    write = StateFile.write

    def noted(self: StateFile, parts: Any) -> None:
        written.append(self)
        write(self, parts)

    monkeypatch.setattr(StateFile, "write", noted)
    plan = FLU | {"schedule": DAILY | {"late": "skip"}}
    with Service(settings_for(tmp_path, flu=plan)) as service:
        counter = service.counter("flu")
        counter.take(csv((1, "2026-01-06"))).result()
        for rows in (((2, "2026-01-06"),), ((3, "2026-01-05"), (4, "2226-01-05"))):
            before = len(written)
            counter.take(csv(*rows)).result()
            assert len(written) == before + 1


def test_where_early_rows_are_refused_a_time_in_the_future_and_none_at_all_are(tmp_path: Path) -> None:
    with Service(settings_for(tmp_path, flu=FLU | {"schedule": DAILY | {"early": "refuse"}})) as service:
        for at in ("2226-01-05", "yesterday"):
            with pytest.raises(Refused) as caught:
                service.counter("flu").take(csv((1, "2026-01-05"), (1, at))).result()
            assert (caught.value.type.name, caught.value.row) == ("untimely", 2)
        assert published(service) == []


def test_a_body_that_is_sent_again_after_a_crash_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first period is released by then: its rows of that period are late, and were counted before."""
    rows = ((1, "2026-01-05"), (2, "2026-01-06"))
    settings = settings_for(tmp_path, flu=FLU | {"schedule": DAILY})
    with Service(settings) as service:
        service.counter("flu").take(csv(rows[0])).result()
        with monkeypatch.context() as crashing:
            crashing.setattr("panprivacy.serve.feeding.BatchFeeder.take", _crash)
            with pytest.raises(Refused):
                service.counter("flu").take(csv(*rows)).result()
    with Service(settings) as service:
        service.counter("flu").take(csv(*rows)).result()
        assert published(service) == [(0, 0)]


def test_where_late_rows_are_refused_a_body_is_of_one_period(tmp_path: Path) -> None:
    """Cut by a crash it could not be sent again, and its rows of the later period would be lost."""
    with Service(settings_for(tmp_path, flu=FLU | {"schedule": DAILY | {"late": "refuse"}})) as service:
        with pytest.raises(Refused) as caught:
            service.counter("flu").take(csv((1, "2026-01-05"), (2, "2026-01-06"))).result()
        assert caught.value.code == "untimely"
        assert (caught.value.type.name, caught.value.row) == ("untimely", 2)
        assert published(service) == []
        for row in ((1, "2026-01-05"), (2, "2026-01-06")):
            service.counter("flu").take(csv(row)).result()
        assert published(service) == [(0, 0)]


def _crash(*_: Any) -> None:
    raise RuntimeError


def test_every_day_of_actives_is_released(tmp_path: Path) -> None:
    plan = {"kind": "actives", "universe": 1000, "epsilon": 1.0, "column": "user", "span": "3d", "schedule": DAILY}
    with Service(settings_for(tmp_path, flu=plan)) as service:
        service.counter("flu").take(csv((1, "2026-01-05"), (2, "2026-01-10"))).result()
        assert published(service) == [(day, 0) for day in range(5)]
    with Service(settings_for(tmp_path, flu=plan)) as service:
        service.counter("flu").take(csv((1, "2026-01-11"))).result()
        assert published(service)[-1] == (5, 0)


def test_the_wall_clock_ends_periods_and_rows_do_not_unless_the_file_says_so(
    tmp_path: Path, watched_clock: SimpleNamespace
) -> None:
    plan = FLU | {"epsilon": 60.0, "universe": 100, "schedule": BY_CLOCK}
    with Service(settings_for(tmp_path, flu=plan)) as service:
        counter = service.counter("flu")
        counter.take(csv((1, "2026-01-05"), (2, "2030-01-01"), (3, "soon"), (4, "2025-01-01"))).result()
        assert published(service) == []
        watched_clock.now += DAY
        _wait_for(service, 1)
        assert published(service) == [(0, 0)]
        late_counts = counter.release_log.records[0]["release"]["density"]
        watched_clock.now -= 1  # a clock of a sender is a little ahead: its rows count in the open period
        counter.take(csv(*((user, "2026-01-06") for user in range(50)))).result()
        watched_clock.now += 1 + DAY
        _wait_for(service, 2)
        assert counter.release_log.records[1]["release"]["density"] == pytest.approx(0.5, abs=0.03)
    assert late_counts == pytest.approx(0.02, abs=0.005), "the early one and the one without a time are left out"


def test_one_row_of_a_replay_ends_no_more_periods_than_the_file_says(tmp_path: Path) -> None:
    with Service(settings_for(tmp_path, flu=FLU | {"schedule": BY_CLOCK | {"ahead": 1}})) as service:
        take = service.counter("flu").take
        take(csv((1, "2026-01-05"), (2, "2026-01-08"), (3, "2226-01-01"))).result()
        assert published(service) == []
        take(csv((4, "2026-01-06"))).result()
        assert published(service) == [(0, 0)]

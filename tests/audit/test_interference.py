"""Adding one user's rows changes nothing for others: not the clock, not a refusal, not a release, not a length."""

import json
import re
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from math import isinf
from pathlib import Path
from typing import Any

import fsspec
import polars as pl
import pytest
from dated import DatedRows

import panprivacy as pp
from benchmark_modules import benchmark
from panprivacy import audit
from panprivacy.audit import interference as audited
from panprivacy.audit.interference import ADDITIONS, START, TIMED, USERS, Row, Seen, Step, Subject, Tick
from panprivacy.cli.calendar import Calendar, in_order_of_time
from panprivacy.cli.output import Output
from panprivacy.cli.published import Published
from panprivacy.cli.run import Run
from panprivacy.cli.schedule import Days, Schedule, Series
from panprivacy.folder.shards import BatchId
from panprivacy.ingest import Batch, Columns, Kind
from panprivacy.ingest.batch import Refused
from panprivacy.ingest.bodies import Body, ContentType, rows_of_body
from panprivacy.ingest.feed import BatchFeeder
from panprivacy.periods import DAY, Periods, RowPolicy, moment_of
from panprivacy.serve import counter as counters
from panprivacy.serve.config import settings_of
from panprivacy.serve.counter import Counter

EVERYTHING = tuple(name for name in ADDITIONS if name != "a deletion")
LIVE = RowPolicy(ahead=0, late="count", early="skip")
COLUMNS = Columns(("user",), Kind.integers, None, "at", "what")


def found(subject: Subject) -> list[str]:
    return [str(each) for each in audited.interference(subject)]


def additions_found(subject: Subject) -> set[str]:
    return {each.addition for each in audited.interference(subject, once=True)}


@pytest.mark.slow
@pytest.mark.parametrize(
    "subject",
    [
        pytest.param(subject, marks=[pytest.mark.slow] if "Folder" in subject.name else [], id=subject.name)
        for subject in audited.subjects()
    ],
)
def test_nobody_decides_over_others_in_python(subject: Subject) -> None:
    assert found(subject) == []


@pytest.mark.slow
@pytest.mark.parametrize("make", [audited.windows, audited.actives])
def test_an_unbounded_clock_is_found(make: Callable[..., Any]) -> None:
    """The planted bug: one event dated 2030 ends all days until then, and the rows of others are late."""
    planted = Subject("planted", make(ahead=10**6, late="skip", early="skip"), TIMED, mixed=False)
    assert additions_found(planted) == {"a row dated 2030", "a row of every day"}


@pytest.mark.slow
@pytest.mark.parametrize("make", [audited.windows, audited.actives])
def test_rows_that_may_end_a_period_end_it_one_by_one(make: Callable[..., Any]) -> None:
    """So a bounded step is not enough: what is exempt by default is exempt for a reason."""
    assert additions_found(Subject("by rows", make(late="skip", early="skip"), TIMED)) == {"a row of every day"}


@pytest.mark.slow
def test_a_refusal_of_the_whole_batch_is_found() -> None:
    refusing = Subject("planted", audited.windows(ahead=0), TIMED)
    assert additions_found(refusing) == {*TIMED}


def test_a_length_that_depends_on_a_row_is_found() -> None:
    """The planted bug: the state is as long as who came."""
    run = audited.subjects_of(pp.Density)[0].run

    def longer(steps: Sequence[Step]) -> Seen:
        rows = sum(len(step) for step in steps if not isinstance(step, Tick))
        return Seen(run(steps).refused, lengths=(("state", rows),))

    assert found(Subject("planted", longer, TIMED[:1]))


# --- rows as they are read ------------------------------------------------------------------------------------------


def counted_with_actions(steps: Sequence[Step]) -> Seen:
    """Counts with a column of actions, in which each row comes three times."""

    def batch(rows: Sequence[Row]) -> Batch:
        return Batch("f", pl.DataFrame({"user": [r.user for r in rows], "do": [r.action for r in rows]}), 0, 0)

    columns = Columns(("user",), Kind.integers, "do")
    return _fed_by(columns, lambda rows: batch([row for row in rows for _ in range(3)]), 6, steps)


def read_from_lines(steps: Sequence[Step]) -> Seen:
    """NDJSON with ids in an inner object, but for the one user's, which are under a key with a dot."""

    def batch(rows: Sequence[Row]) -> Batch:
        lines = (json.dumps({"user": {"id": row.user}} if row.user else {"user.id": 0}) for row in rows)
        return rows_of_body(Body.copied("\n".join(lines).encode(), ContentType.ndjson), columns)

    columns = Columns(("user.id",), Kind.integers)
    return _fed_by(columns, batch, 2, steps)


def _fed_by(columns: Columns, batch: Callable[[Sequence[Row]], Batch], least: int, steps: Sequence[Step]) -> Seen:
    """How many users have come at least `least` times: each of the others comes in two or three of the steps."""
    coins = audited.Recording()
    est = pp.Counts(USERS, 60.0, up_to=least, only="mean", coins=coins)
    feeder = BatchFeeder(est, columns, skip_missing=True, live=True)
    for step in steps:
        if not isinstance(step, Tick):
            feeder.take(batch(step))
    est.release()
    return Seen(tuple(False for _ in steps), tuple(coins.released))


@pytest.mark.slow
def test_nobody_decides_over_others_by_how_a_row_is_written() -> None:
    assert counted_with_actions(audited.OTHERS).counts == read_from_lines(audited.OTHERS).counts == (USERS - 1,)
    assert found(Subject("actions", counted_with_actions, ("a row of the first day", "a deletion"))) == []
    assert found(Subject("lines", read_from_lines, ("a row of the first day",))) == []


def objects_of_counters(steps: Sequence[Step]) -> Seen:
    """`panprivacy counts - --state memory://... --action do`: the names of objects tell how often they were written."""
    store, columns = fsspec.filesystem("memory"), Columns(("user",), Kind.integers, "do")
    folder = pp.StateFolder.create("memory://one-user", universe=USERS, epsilon=60.0, shards=2, up_to=4)
    with folder.pending() as pending:
        feeder = BatchFeeder(pending.estimator, columns, live=True)
        for number, step in enumerate(steps):
            if not isinstance(step, Tick):
                rows = pl.DataFrame({"user": [row.user for row in step], "do": [row.action for row in step]})
                feeder.take(Batch("f", rows, 0, 0))
            else:
                pending.expect()
                pending.write(BatchId("pipe", number))
    found = store.find("/one-user", detail=True).values()
    lengths = tuple(sorted((re.sub(r"\.[0-9a-f]{32}", "", each["name"]), each["size"]) for each in found))
    store.rm("/one-user", recursive=True)
    return Seen(tuple(False for _ in steps), lengths=lengths)


@pytest.mark.slow
def test_nobody_decides_how_often_objects_of_a_store_are_written() -> None:
    assert len(objects_of_counters(audited.OTHERS).lengths) == 4
    assert found(Subject("objects", objects_of_counters, ("a row of the first day", "a deletion"))) == []


# --- pipes ----------------------------------------------------------------------------------------------------------


def frame_of(rows: Sequence[Row]) -> Batch:
    """A batch as a reader of text hands it on."""
    times = [row.time.isoformat() if row.time else "soon" for row in rows]
    columns = {"user": [row.user for row in rows], "at": times, "what": [row.category for row in rows]}
    return Batch("a pipe", pl.DataFrame(columns, schema={"user": pl.Int64, "at": pl.String, "what": pl.String}), 0, 0)


class Pipe:
    """The wall clock of a pipe, which ends with its first refusal."""

    def __init__(self) -> None:
        self.now = moment_of(START)
        self.broken = False

    def steps(self, steps: Sequence[Step], take: Callable[[Batch], None]) -> tuple[bool, ...]:
        return tuple(self._refused(step, take) for step in steps)

    def _refused(self, step: Step, take: Callable[[Batch], None]) -> bool:
        if isinstance(step, Tick):
            self.now = moment_of(step.time) + DAY // 100
            return self.broken
        try:
            if not self.broken:
                take(frame_of(step))
        except ValueError:
            self.broken = True
        return self.broken


DAYS = Periods.of("1d", START)


def fed(schedule: Schedule, feeder: BatchFeeder) -> Callable[[Batch], None]:
    """What takes the batches of a pipe."""
    schedule.feeder, schedule.published = feeder, Published(schedule.run.output)
    return schedule.take


def series(policy: RowPolicy = LIVE, *, clock: bool = True, skip_unlisted: bool = True) -> Callable[[Any], Seen]:
    """`panprivacy density - --time at --start START --release-every 1d --by what`."""

    def run(steps: Sequence[Step]) -> Seen:
        coins, pipe = audited.Recording(), Pipe()
        est = pp.Density(USERS, 60.0, releases=3, categories=audited.CATEGORIES, coins=coins)
        speaker = Output(as_json=True, quiet=True)
        now = (lambda: pipe.now) if clock else None
        calendar = Calendar("at", DAYS, "1d", planned=3, policy=policy, now=now)
        schedule = Series(Run(est, None, 0.95, speaker), calendar)
        refused = pipe.steps(steps, fed(schedule, BatchFeeder(est, COLUMNS, skip_unlisted=skip_unlisted, live=True)))
        return Seen(refused, tuple(coins.released), ended=calendar.passed)

    return run


@pytest.mark.slow
def test_nobody_decides_over_others_in_a_pipe() -> None:
    assert found(Subject("pipe", series(), EVERYTHING)) == []


@pytest.mark.slow
def test_an_unbounded_clock_in_a_pipe_is_found() -> None:
    planted = RowPolicy(ahead=10**6, late="count", early="skip")
    assert "a row dated 2030" in additions_found(Subject("planted", series(planted, clock=False), EVERYTHING))


@pytest.mark.slow
def test_a_refusal_of_a_pipe_is_found() -> None:
    """The planted bugs: one late row, or one in an unlisted category, refuses all rows beside it and after it."""
    strict = RowPolicy(ahead=0)
    assert {"a late row", "a row dated 2030"} <= additions_found(Subject("planted", series(strict), EVERYTHING))
    unlisted = additions_found(Subject("planted", series(skip_unlisted=False), EVERYTHING))
    assert unlisted == {"a row in an unlisted category", "a row without a category"}


def late_files(steps: Sequence[Step]) -> Seen:
    """`panprivacy density FILES --time at --start START --release-every 1d --lateness 1d --late skip --early skip`."""
    coins, pipe = audited.Recording(), Pipe()
    est = pp.Density(USERS, 60.0, releases=3, coins=coins)
    calendar = Calendar("at", DAYS, "1d", planned=3, policy=RowPolicy(ahead=1, late="skip", early="skip"))
    schedule = Series(Run(est, None, 0.95, Output(as_json=True, quiet=True)), calendar)
    feeder = BatchFeeder(est, Columns(("user",), Kind.integers, None, "at"), live=True)
    with in_order_of_time(fed(schedule, feeder), calendar, "1d") as take:
        refused = pipe.steps(steps, take)
    return Seen(refused, tuple(coins.released), ended=calendar.passed)


@pytest.mark.slow
def test_nobody_decides_over_others_who_wait_for_late_rows() -> None:
    additions = ("a row of the first day", "a row dated 2030", "a late row", "a row without a time")
    assert late_files(audited.OTHERS).counts
    assert found(Subject("files", late_files, additions)) == []


def actives_of_a_pipe(policy: RowPolicy) -> Callable[[Any], Seen]:
    """`panprivacy actives - --time at`."""

    def run(steps: Sequence[Step]) -> Seen:
        coins, pipe = audited.Recording(), Pipe()
        est = pp.ActiveUsers(USERS, 1.0, span="2d", start=START, key=bytes(16), coins=coins)
        calendar = Calendar("at", est.periods, "1d", policy=policy, now=lambda: pipe.now, unit="day")
        schedule = Days(Run(est, None, 0.95, Output(as_json=True, quiet=True)), calendar)
        feeder = BatchFeeder(est, Columns(("user",), Kind.integers, None, "at"), live=True)
        refused = pipe.steps(steps, fed(schedule, feeder))
        return Seen(refused, tuple(coins.released), str(est.day))

    return run


@pytest.mark.slow
def test_nobody_decides_over_others_in_a_pipe_of_actives() -> None:
    live = RowPolicy(ahead=0, late="skip", early="skip")
    assert found(Subject("actives", actives_of_a_pipe(live), (*TIMED, "a row without a time"))) == []
    stepping = RowPolicy(ahead=1, late="skip", early="skip")
    assert additions_found(Subject("by rows", actives_of_a_pipe(stepping), TIMED)) <= {"a row of every day"}


# --- the service ----------------------------------------------------------------------------------------------------


def service(folder: Path, monkeypatch: pytest.MonkeyPatch, **more: Any) -> Callable[[Any], Seen]:
    """A counter whose rows have times and a category; a body of one's own that is refused is nobody else's."""
    runs = 0

    def run(steps: Sequence[Step]) -> Seen:
        nonlocal runs
        runs += 1
        now: datetime = START
        monkeypatch.setattr(counters, "_now", lambda: moment_of(now))
        monkeypatch.setattr(counters, "_LOOK", 0.005)
        counter = Counter(_settings(folder, f"flu{runs}", **more), folder)
        counter.start()
        refused = []
        for step in steps:
            if isinstance(step, Tick):
                now = step.time
                _wait_for(counter, int(step.day))
                refused.append(False)
            else:
                refused.append(_is_refused(counter, step))
        released = [round(each["groups"][0]["values"][0]["value"] * USERS) for each in counter.release_log.records]
        numbers = repr([each["period"]["number"] for each in counter.release_log.records])
        counter.close()
        lengths = (("state", (folder / f"flu{runs}.pp").stat().st_size),)
        return Seen(tuple(refused), tuple(released), numbers, lengths=lengths)

    return run


def _settings(folder: Path, name: str, **more: Any) -> Any:
    schedule = {"every": "1d", "start": "2026-01-05", "time": "at"} | more.pop("schedule", {})
    kinds = {"categories": ["flu"], "by": "what", "schedule": schedule}
    plan = {"kind": "density", "universe": USERS, "epsilon": 60.0, "releases": 3, "column": "user"} | kinds | more
    return settings_of({"service": {"anonymous": ["feed"]}, "counters": {name: plan}}, folder).counters[0]


def _is_refused(counter: Counter, rows: Sequence[Row]) -> bool:
    of_others = [row._replace(category="flu") if row.user else row for row in rows]  # one category: no key decides
    body = frame_of(of_others).rows.write_csv().encode()
    try:
        counter.take(Body.copied(body, ContentType.csv)).result()
    except Refused:
        return True
    return False


def _wait_for(counter: Counter, releases: int) -> None:
    end = time.monotonic() + 30
    while len(counter.release_log.records) < releases and time.monotonic() < end:
        time.sleep(0.002)


@pytest.mark.slow
def test_nobody_decides_over_others_in_the_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(Subject("service", service(tmp_path, monkeypatch), EVERYTHING)) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "addition"),
    [
        ({"unlisted": "refuse"}, "a row in an unlisted category"),
        ({"schedule": {"late": "refuse"}}, "a late row"),
        ({"schedule": {"early": "refuse"}}, "a row dated 2030"),
    ],
    ids=str,
)
def test_a_refusal_of_a_body_is_found(
    more: dict[str, Any], addition: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert additions_found(Subject("planted", service(tmp_path, monkeypatch, **more), (addition,))) == {addition}


# --- the exact auditor ----------------------------------------------------------------------------------------------


def dated(**policy: Any) -> Callable[[Any], DatedRows]:
    return lambda coins: DatedRows(
        pp.ActiveUsers(2, 1.0, span="2d", start=START, key=bytes([3] * 16), coins=coins), **policy
    )


@pytest.mark.slow
def test_the_exact_auditor_sees_no_more_with_the_clock_and_the_refusals_in_view() -> None:
    rows = dated(ahead=0, late="skip", early="skip")
    result = audit.exact(rows, 2, 2, releases=2, verbs=DatedRows.VERBS)
    assert result.holds
    assert result.worst_loss == pytest.approx(result.claimed, abs=1e-14)


@pytest.mark.slow
@pytest.mark.parametrize("policy", [{"late": "refuse", "early": "skip"}, {"late": "skip", "early": "refuse"}], ids=str)
def test_the_exact_auditor_finds_a_refusal_that_can_be_seen(policy: dict[str, Any]) -> None:
    result = audit.exact(dated(ahead=0, **policy), 2, 2, releases=1, verbs=DatedRows.VERBS)
    assert not result.holds
    assert isinf(result.worst_loss)


@pytest.mark.slow
def test_the_exact_auditor_finds_a_row_that_moves_the_clock() -> None:
    """A row that ends days makes releases, and an event that draws noise is refused by the auditor."""
    with pytest.raises(NotImplementedError, match="noise was drawn"):
        audit.exact(dated(ahead=1457, late="skip", early="skip"), 2, 1, releases=1, verbs=DatedRows.VERBS)


# --- the benchmark --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ActiveUsers, one event dated 2030", "Windows, one event dated 2030"])
def test_the_benchmark_finds_that_one_user_changes_nothing(name: str) -> None:
    run = benchmark("one_user").SCENARIOS[name]
    (_, without), (refused, beside) = run(False), run(True)
    assert refused == 0
    assert beside == pytest.approx(without, abs=0.01)

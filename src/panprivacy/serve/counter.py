"""One counter of the service: its state on disk, its thread, its schedule, and its releases."""

import json
from collections import Counter as Tally
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from panprivacy.errors import BudgetExhausted, PanPrivacyError
from panprivacy.ingest.batch import ProblemType, Refused
from panprivacy.ingest.bodies import Body
from panprivacy.periods import SECOND, as_datetime, length_of
from panprivacy.serve.config import CounterSettings
from panprivacy.serve.feeding import BodyFeeder, Schedule, SteadyClock
from panprivacy.serve.logs import log
from panprivacy.serve.memory import ReadingShare
from panprivacy.serve.records import PinnedSettings, Record, ReleaseLog, record_of
from panprivacy.serve.worker import KeptEstimator, Worker
from panprivacy.settings import InvalidSettings
from panprivacy.state import StateFile, StateFileError

_JUMPED = "the clock has jumped ahead: periods end by the old time for ten minutes"
_CLOCK = SteadyClock(partial(log, _JUMPED, level="error"))
_STOPPED = (
    "its last period is over for longer than service.longest_stop: set the clock, or start once with --accept-clock"
)
_LOOK = 30.0  # seconds after which the clock is read again: it may have been set
_AGAIN = 1.0  # seconds until a release is tried again that the disk did not take
_MIND = 0.02  # seconds by which a wait may end too early
_OLDER = (
    "counters.{name}: its state {state} lacks releases that are published: it is an older copy, or another counter's, "
    "and would spend them again; put the right one back, or give the counter another name"
)


class Counter:
    """Counts bodies, releases by schedule or on request, and keeps it all in files of one folder.

    One thread does all that changes the state, in order; methods may be called from any thread.
    """

    def __init__(
        self,
        settings: CounterSettings,
        folder: Path,
        reading: ReadingShare | None = None,
        *,
        initialize: bool = False,
        longest_stop: int | None = None,
        count_events: bool = False,
    ) -> None:
        """Open its files, or make them; `initialize` says that lost ones are known to be lost.

        While the open period is over for longer than `longest_stop`, by the clock, the counter neither counts nor
        releases.
        """
        self.settings = settings
        self._reading = reading or ReadingShare(2**62)
        self.name = settings.name
        self.events: Tally[str] | None = Tally() if count_events else None
        """How many rows and batches came; None, unless they are to be counted."""
        self._longest_stop = longest_stop
        self._stuck = False  # whether the disk keeps a release from being published
        self._owed: Record | None = None  # a release that was spent for a request, and published after its refusal
        state = StateFile(folder / f"{self.name}.pp")
        self._kept = KeptEstimator(state, settings.universe)  # first: it locks all these files
        try:
            self._open(folder, state, initialize=initialize)
        except BaseException:
            self._kept.close()
            raise

    def _open(self, folder: Path, state: StateFile, *, initialize: bool) -> None:
        settings = self.settings
        if initialize and not state.exists:
            _set_aside(self.name, folder)
        self._pinned = PinnedSettings.of(folder / f"{self.name}.json")
        self.release_log = ReleaseLog(folder / f"{self.name}.releases.ndjson")
        self._pinned.check(state.path, settings.pinned, len(self.release_log))
        if self._pinned.check_list(self.name, len(self.release_log), accept=initialize):
            log("its list of releases goes on without those that are lost", level="warning", counter=self.name)
        if not state.exists:
            log("a new counter, with its whole budget", counter=self.name)
            self._pinned.write(promise=settings.pinned, begun=_now())
        self._kept.open(settings.make)
        if not self._pinned.made:
            self._pinned.write(made=True)
        _check_spent(self.name, state.path, self._kept.est, self.release_log)
        self._schedule = _schedule_of(settings, self._pinned, self.release_log)
        self._by_clock = self._schedule if self._schedule is not None and self._schedule.by_clock else None
        clock = lambda: _now()  # noqa: E731, PLW0108 - tests set the clock
        self._feeder = BodyFeeder(settings, self._schedule, self._kept, self._release_until, clock)
        self.worker = Worker(self.name, self._kept, self._tick, self._due)
        """Its thread."""
        self._status = self._current_status()
        if self._waits_for_clock:
            log(_STOPPED, level="error", counter=self.name)
        with suppress(Refused):  # then the next request for a release returns it
            self._publish_late()

    def start(self) -> None:
        """Begin to count."""
        self.worker.start()

    def close(self) -> None:
        """Count what waits, and unlock the files."""
        self.worker.close()
        self._kept.close()

    # --- in any thread -----------------------------------------------------------------------------------------

    def take(self, body: Body, sender: bytes = b"") -> "Future[int]":
        """Count the rows of a body; the result is there when they are on disk, and says how many there were.

        Bodies of its source, which has no name, are counted in order. Each `sender` of others gets an equal share of
        the time.
        """
        self._check_live()
        self._kept.check_free()
        size = len(body.octets)
        is_short = self._reading.is_short(size)
        return self.worker.submit(lambda: self._count(body), sender, size if sender else 0, is_short=is_short)

    def release(self, level: float | None = None, key: str | None = None) -> "Future[Record]":
        """Spend a release; the result is there when it is published.

        A request with the `key` of an earlier one gets the release that the earlier one has spent.
        """
        self._check_live()
        if self.settings.by_day:
            raise Refused(ProblemType.not_now, "days of this counter end by its schedule, and are released then")
        return self.worker.submit(lambda: self._release(None, level, key))

    def layout(self) -> "Future[bytes]":
        """The public layout of its slots, for those who send packed sets of them."""
        self._check_live(by_clock=False)
        return self.worker.submit(self._layout)

    def _check_live(self, *, by_clock: bool = True) -> None:
        if self.settings.table.retired:
            raise Refused(ProblemType.retired)
        if by_clock and self._waits_for_clock:
            raise Refused(ProblemType.clock, retry=_LOOK)

    @property
    def trouble(self) -> str | None:
        """Why it does not do all that it should now; None while it does."""
        if self._kept.failing:
            return "the disk does not take its state"
        if self._stuck:
            return "the disk does not take a release"
        if self._waits_for_clock:
            return _STOPPED
        return "the clock has jumped ahead" if self._by_clock and _CLOCK.has_jumped else None

    @property
    def status(self) -> dict[str, Any]:
        """The public status of the counter now, at no cost.

        `next` is when the period ends that is released next; None if there is no schedule, or no release left.
        """
        table, schedule = self.settings.table, self._schedule
        over = schedule is None or table.retired or self._status["budget"]["releases_left"] == 0
        return self._status | {
            "title": table.title or self.name,
            "next": None if schedule is None or over else as_datetime(schedule.ends).isoformat(),
            "last": self.release_log.last,
        }

    # --- in the thread of the counter ---------------------------------------------------------------------------

    def _count(self, body: Body) -> int:
        try:
            with self._reading.reading(len(body.octets)):
                rows = self._feeder.take(body, self.worker.give_way)
        finally:
            body.wipe()
        if self.events is not None:
            self.events.update(rows=rows, batches=1)
        return rows

    def _layout(self) -> bytes:
        if not self._kept.est.TRAITS.in_folder:
            raise Refused(ProblemType.not_found, "slots are not gathered for this counter: send rows")
        layout: bytes = self._kept.est.layout()
        return layout

    def _release(self, period: dict[str, Any] | None, level: float | None = None, key: str | None = None) -> Record:
        """Spend a release of a period, or on request: what was spent is on disk before it is shown."""
        late = self._publish_late() or self._owed
        self._owed = request = None
        if key is not None:
            try:
                request = self._pinned.request_of(key)
            except OSError:
                raise Refused(ProblemType.disk) from None
            number = self._pinned.release_of(request)
            if number is not None and number <= len(self.release_log):
                found: Record = json.loads(self.release_log.lines(number - 1, 0)[0])
                return found
        if late is not None and late["period"] == period:
            return late  # an earlier request spent it, and the disk did not take it into the log
        at = as_datetime(_now() // SECOND * SECOND).isoformat()
        released = self._spend(at, period, level or self.settings.table.level, request)
        return self._publish(released, at, period)

    def _spend(self, at: str, period: dict[str, Any] | None, level: float, request: str | None) -> Any:
        self._kept.save_if_changed()
        try:
            self._pinned.note_release(at, period, len(self.release_log) + 1, request)
            released = self._kept.est.next_release(level)
        except BudgetExhausted:
            raise Refused(ProblemType.spent) from None
        except (OSError, StateFileError):  # no room, or a link in the place of a file
            self._note_stuck("the disk does not take a release")
            raise Refused(ProblemType.disk) from None
        except PanPrivacyError as error:
            raise error if isinstance(error, Refused) else Refused(ProblemType.not_now) from None
        self._kept.save()
        return released

    def _publish(self, released: Any, at: str, period: dict[str, Any] | None) -> Record:
        record = record_of(len(self.release_log) + 1, released, at, period)
        try:
            self.release_log.publish(record)
        except (OSError, StateFileError):
            self._note_stuck("a release is spent, and the disk does not take it into the list")
            raise Refused(ProblemType.unlisted) from None
        self._stuck = False
        if self._schedule is not None:
            self._schedule.note(period)
        self._status = self._current_status()
        for listener in self.release_log.listeners:  # last: they read the status after it
            listener()
        log("released", counter=self.name, release=record["id"], period=period)
        return record

    def _publish_late(self) -> Record | None:
        """Publish a release that the state has and the log of releases lacks, because of a crash or a full disk."""
        last, listed = getattr(self._kept.est, "last", None), self.release_log.last
        if last is None or (listed is not None and listed["release"]["number"] >= last.number):
            return None
        begun = self._pinned.under_way
        if begun is None:  # the settings beside the state were lost, and are new
            return self._publish(last, as_datetime(self._pinned.begun).isoformat(), None)
        return self._publish(last, begun.at, begun.period)

    def _note_stuck(self, what: str) -> None:
        if not self._stuck:
            log(what, counter=self.name, level="error")
        self._stuck = True

    def _release_until(self, period: int) -> None:
        """Make all due releases before a row of this period is counted."""
        schedule = self._schedule
        assert schedule is not None
        while schedule.open < period:
            last = schedule.open + 1 if self.settings.by_day else period
            if self._kept.est.releases_left != 0:
                number = last - 1 if schedule.by_clock else schedule.open
                self._release(schedule.described(number, missed=last - 1 - schedule.open))
            schedule.open = last

    @property
    def _waits_for_clock(self) -> bool:
        """Whether the clock would end periods that should have been released long ago: then it is rather wrong."""
        return _is_overdue(self._schedule, self._status["budget"]["releases_left"], self._longest_stop)

    def _tick(self) -> None:
        if self._kept.failing or self._stuck:
            self._try_disk()
        if self._by_clock and not self._waits_for_clock and not self.settings.table.retired:
            self._release_until(self._by_clock.periods.number(_now()))

    def _try_disk(self) -> None:
        """Write the state once more, the note that comes before a release, and a release that is not published."""
        self._kept.check_free()
        self._kept.save()
        try:
            self._pinned.write()  # a disk without room for it has none for a release
        except (OSError, StateFileError):
            return
        late = self._publish_late()
        if late is not None and late["period"] is None:
            self._owed = late
        if not self._by_clock:
            self._stuck = False

    def _due(self) -> float | None:
        """Seconds until `_tick` is to be called; None for not at all."""
        if self._kept.failing or self._stuck:
            return _AGAIN
        if self._by_clock is None:
            return None
        if self._waits_for_clock:
            return _LOOK
        return min(max((self._by_clock.ends - _now()) / SECOND, 0) + _MIND, _LOOK)

    def _current_status(self) -> dict[str, Any]:
        """What changes by releases only, for JSON: its settings, its budget, the error to expect."""
        settings, est, schedule = self.settings, self._kept.est, self.settings.table.schedule
        budget, left = est.budget, est.releases_left
        planned = getattr(budget, "releases", getattr(budget, "moves", None))
        return {
            "name": settings.name,
            "title": settings.table.title or settings.name,
            "kind": settings.table.kind,
            "universe": None if settings.universe is None else est.universe.size,
            "groups": list(getattr(est, "groups", None) or ()),
            "budget": {
                "epsilon": est.epsilon,
                "delta": est.delta,
                "state": budget.state,
                "spent": budget.spent,
                "remaining": budget.remaining,
                "releases": None if left is None else planned,
                "releases_left": left,
                "releases_are": est.TRAITS.unit,
            },
            "error": est.expected_errors(),
            "level": settings.table.level,
            "schedule": schedule
            and {
                "every_seconds": length_of(schedule.every) / SECOND,
                "by": "clock" if schedule.by_clock else "events",
                "late": None if schedule.time is None else settings.table.row_policy.late,
            },
            "columns": {key: getattr(settings.columns, key) for key in ("ids", "action", "time", "category")},
            "repeatable": est.REPEATABLE,
            "retired": settings.table.retired,
            "secure": est.secure,
        }


def _schedule_of(settings: CounterSettings, pinned: PinnedSettings, listed: ReleaseLog) -> Schedule | None:
    """The schedule of a counter, after the periods that are released."""
    if settings.table.schedule is None:
        return None
    schedule = Schedule(settings.table.schedule, settings.table.row_policy, pinned.begun)
    for record in listed.records:
        schedule.note(record["period"])
    return schedule


def _is_overdue(schedule: Schedule | None, releases_left: int | None, longest_stop: int | None) -> bool:
    """Whether the clock would spend a release of a period that is over for longer than this."""
    if schedule is None or not schedule.by_clock or releases_left == 0 or longest_stop is None:
        return False
    return _now() - schedule.ends > longest_stop


def check_files(settings: CounterSettings, folder: Path, longest_stop: int) -> None:
    """Refuse files of a counter that would keep it from being opened, or from counting; change none."""
    state = StateFile(folder / f"{settings.name}.pp")
    pinned = PinnedSettings.of(folder / f"{settings.name}.json")
    listed = ReleaseLog(folder / f"{settings.name}.releases.ndjson", mend=False)
    pinned.check(state.path, settings.pinned, len(listed))
    pinned.check_list(settings.name, len(listed))
    if state.exists:
        est = state.load(settings.universe)
        _check_spent(settings.name, state.path, est, listed)
        if _is_overdue(_schedule_of(settings, pinned, listed), est.releases_left, longest_stop):
            raise InvalidSettings([f"counters.{settings.name}: {_STOPPED}"])


def _set_aside(name: str, folder: Path) -> None:
    """Rename the remaining files of a counter whose state is lost, so that it starts anew and overwrites nothing."""
    left = [path for kind in ("json", "releases.ndjson") if (path := folder / f"{name}.{kind}").exists()]
    number = next(number for number in count(1) if not list(folder.glob(f"{name}.lost-{number}.*")))
    for path in left:
        path.rename(folder / f"{name}.lost-{number}{path.name.removeprefix(name)}")
    if left:
        log("its state is lost: its other files are set aside", level="warning", counter=name)


def _check_spent(name: str, state: Path, est: Any, log_: ReleaseLog) -> None:
    """Refuse a state that knows of fewer releases than are published: it would spend them again."""
    made = est.last.number if getattr(est, "last", None) is not None else 0
    if hasattr(est, "last") and log_.last is not None and log_.last["release"]["number"] > made:
        raise InvalidSettings([_OLDER.format(name=name, state=state)])


def _now() -> int:
    """Microseconds since 1970."""
    return _CLOCK.now()

"""One counter of the service: its state on disk, its thread, its schedule, and what it has published."""

import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

from panprivacy.errors import BudgetExhausted, PanPrivacyError
from panprivacy.periods import SECOND, as_datetime
from panprivacy.serve.bodies import Body
from panprivacy.serve.config import CounterSettings
from panprivacy.serve.counting import Counting
from panprivacy.serve.keeping import Kept
from panprivacy.serve.logs import log
from panprivacy.serve.promise import Broken, Promise
from panprivacy.serve.published import Bulletin, Record, record_of
from panprivacy.serve.refusals import Refused, Why
from panprivacy.serve.schedule import Due, Schedule
from panprivacy.serve.standing import standing_of
from panprivacy.serve.worker import Worker
from panprivacy.state import StateFile

_LOOK = 30.0  # seconds after which the clock is looked at again: somebody may have set it
_AGAIN = 1.0  # seconds until a release is tried again that the disk did not take
_MIND = 0.02  # seconds by which a wait may end too early
_OLDER = (
    "counters.{name}: its state {state} lacks releases that are published: it is an older copy, or another counter's, "
    "and would spend them again; put the right one back, or give the counter another name"
)


class Counter:
    """Counts bodies, releases when it is time or when it is asked to, and keeps it all in files of one folder.

    Whatever changes the state is done by one thread, in order; methods may be called from any.
    """

    def __init__(self, settings: CounterSettings, folder: Path) -> None:
        self.settings = settings
        self.name = settings.name
        self.counted: Callable[[int], None] = lambda _: None
        """Is told of how many rows each batch was."""
        self._stuck = False  # whether the disk keeps a release from being published
        state = StateFile(folder / f"{self.name}.pp")
        self._kept = Kept(state, settings.who.universe())  # first: another service may be using all these files
        try:
            self._open(folder, state)
        except BaseException:
            self._kept.close()
            raise

    def _open(self, folder: Path, state: StateFile) -> None:
        settings = self.settings
        self._promise = Promise(folder / f"{self.name}.json")
        self._promise.check(self.name, settings.promise)
        self.bulletin = Bulletin(folder / f"{self.name}.releases.ndjson")
        self._promise.check_state(state.path, len(self.bulletin.records))
        if not state.exists:
            self._promise.make(settings.promise, _now())
        self._kept.open(settings.make)
        self._promise.note_made()
        self._check_spent(state.path)
        scheduled = settings.schedule
        self._schedule = Schedule(scheduled, self._promise.begun) if scheduled is not None else None
        self._counting = Counting(settings, self._schedule, self._pass, self._note_change, lambda: _now())  # noqa: PLW0108 - tests set the clock
        self._worker = Worker(self.name, self._kept, self._tick, self._due, self._note_broken)
        if self._schedule is not None:
            for record in self.bulletin.records:
                self._schedule.note(record["period"])
        self._stood = self._standing()
        with suppress(Refused):  # then whoever asks for a release gets it
            self._publish_late()

    def _check_spent(self, state: Path) -> None:
        """Refuse a state that knows of fewer releases than are published: it would spend them again."""
        est, listed = self._kept.est, self.bulletin.last
        made = est.last.number if getattr(est, "last", None) is not None else 0
        if hasattr(est, "last") and listed is not None and listed["release"]["number"] > made:
            raise Broken(_OLDER.format(name=self.name, state=state))

    def start(self) -> None:
        """Begin to count."""
        self._worker.start()

    def close(self) -> None:
        """Count what waits, and give the file back."""
        self._worker.close()
        self._kept.close()

    # --- from any thread ----------------------------------------------------------------------------------------

    def take(self, body: Body) -> "Future[int]":
        """Count the rows of a body; the result is there when they are on disk, and says how many there were."""
        self._check_live()
        self._kept.check_free()
        return self._worker.submit(lambda: self._count(body))

    def release(self, level: float | None = None) -> "Future[Record]":
        """Spend a release; the result is there when it is published."""
        self._check_live()
        if self.settings.kind == "actives":
            raise Refused(Why.not_now, "days of this counter end by its schedule, and are released then")
        return self._worker.submit(lambda: self._release(None, level))

    @property
    def queue(self) -> int:
        """How many requests wait for the thread of the counter."""
        return self._worker.queue

    @property
    def failing(self) -> bool:
        """Whether the disk does not take its state, or a release."""
        return self._kept.failing or self._stuck

    @property
    def standing(self) -> dict[str, Any]:
        """What is public about the counter now, at no cost."""
        return self._stood | {"next": self._next, "last": self.bulletin.last}

    # --- in the thread of the counter ---------------------------------------------------------------------------

    def _count(self, body: Body) -> int:
        try:
            rows = self._counting.take(body, lambda: self._kept.est)
        finally:
            body.wipe()
        self.counted(rows)
        return rows

    def _note_change(self) -> None:
        self._kept.changed = True

    def _release(self, due: Due | None, level: float | None = None) -> Record:
        """Spend a release: what was spent is on disk before anybody can see it."""
        period = self._schedule.described(due) if self._schedule and due else None
        late = self._publish_late()
        if late is not None and late["period"] == period:
            return late  # it was asked for before, and spent, when the disk did not take what is published
        at = as_datetime(_now() // SECOND * SECOND).isoformat()
        released = self._spend(at, period, level or self.settings.level)
        return self._publish(released, at, period)

    def _spend(self, at: str, period: dict[str, Any] | None, level: float) -> Any:
        self._kept.save_if_changed()
        try:
            self._promise.note_release(at, period)
            released = self.settings.of.release(self._kept.est, level)
        except BudgetExhausted:
            raise Refused(Why.spent) from None
        except OSError:
            if self._schedule is not None:  # then it is tried again soon
                self._note_stuck("the disk does not take a release")
            raise Refused(Why.disk) from None
        except PanPrivacyError as error:
            raise error if isinstance(error, Refused) else Refused(Why.not_now) from None
        self._kept.save()
        return released

    def _publish(self, released: Any, at: str, period: dict[str, Any] | None) -> Record:
        record = record_of(len(self.bulletin.records) + 1, released, at, period)
        try:
            self.bulletin.publish(record)
        except OSError:
            self._note_stuck("a release is spent, and the disk does not take it into the list")
            raise Refused(Why.unlisted) from None
        self._stuck = False
        if self._schedule is not None:
            self._schedule.note(period)
        self._stood = self._standing()
        self.bulletin.tell(record)  # last: whoever hears of it finds what is left after it
        log("released", counter=self.name, release=record["id"], period=period)
        return record

    def _publish_late(self) -> Record | None:
        """Publish a release that the state has, and the list of releases lacks: a crash or the disk kept it off."""
        last, listed = getattr(self._kept.est, "last", None), self.bulletin.last
        if last is None or (listed is not None and listed["release"]["number"] >= last.number):
            return None
        known = self._promise.under_way or {"at": as_datetime(self._promise.begun).isoformat(), "period": None}
        return self._publish(last, known["at"], known["period"])

    def _pass(self, period: int) -> None:
        """Release what is due before a row of this period is counted."""
        assert self._schedule is not None
        while self._schedule.open < period:
            last = self._schedule.open + 1 if self.settings.kind == "actives" else period
            due = Due(last - 1 if self._by_clock else self._schedule.open, last - 1 - self._schedule.open)
            if self.settings.of.left(self._kept.est) != 0:
                self._release(due)
            self._schedule.open = last

    @property
    def _by_clock(self) -> bool:
        return self._schedule is not None and self._schedule.by_clock

    def _tick(self) -> None:
        if self._by_clock and self._schedule is not None and not self.settings.retired:
            self._pass(self._schedule.period_of(_now()))

    def _due(self) -> float | None:
        if not self._by_clock or self._schedule is None:
            return None
        if self.failing:
            return _AGAIN
        return min(max((self._schedule.ends - _now()) / SECOND, 0) + _MIND, _LOOK)

    def _note_broken(self) -> None:
        log("failed", counter=self.name, level="error")

    def _note_stuck(self, what: str) -> None:
        if not self._stuck:
            log(what, counter=self.name, level="error")
        self._stuck = True

    def _check_live(self) -> None:
        if self.settings.retired:
            raise Refused(Why.retired)

    @property
    def _next(self) -> str | None:
        """When the period ends that is released next; None if there is no schedule, or no release left."""
        left = self._stood["budget"]["releases_left"]
        if self._schedule is None or left == 0 or self.settings.retired:
            return None
        return as_datetime(self._schedule.ends).isoformat()

    def _standing(self) -> dict[str, Any]:
        return standing_of(self.settings, self._kept.est)


def _now() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1000

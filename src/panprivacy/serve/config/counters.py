"""What the file says about one counter: what is counted, how rows are read, when it is released."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from panprivacy.clock import EARLY, LATE
from panprivacy.errors import PanPrivacyError
from panprivacy.events import Columns
from panprivacy.events import Kind as Ids
from panprivacy.periods import as_datetime
from panprivacy.serve.config.table import Table
from panprivacy.serve.config.who import Who, who_of
from panprivacy.serve.kinds import KINDS, Kind

UNLISTED = ("skip", "refuse")
"""What may become of a row in no listed category, or with an unknown action: it is left out, or refuses its body."""


@dataclass(frozen=True)
class ScheduleSettings:
    """When a counter is released."""

    every: int
    """Microseconds of a period."""
    start: int | None = None
    """When the first period starts; if nobody says, when the counter is made."""
    time: str | None = None
    """The column of the events' own times, which say which rows are late or early; None if they have none."""
    late: str = "count"
    """What becomes of a row of a period that is released."""
    early: str = "skip"
    """What becomes of a row of a period that has not begun."""
    ahead: int = 0
    """By how many periods a row may move the clock; 0: the wall clock ends periods, and rows never do."""

    @property
    def by_clock(self) -> bool:
        """Whether the wall clock ends periods."""
        return self.time is None or self.ahead == 0


@dataclass(frozen=True)
class CounterSettings:
    """One counter."""

    name: str
    kind: str
    epsilon: float
    columns: Columns
    who: Who = field(default_factory=Who)
    plan: dict[str, Any] = field(default_factory=dict)
    """What else its estimator is made with."""
    title: str = ""
    level: float = 0.95
    skip_missing: bool = False
    skip_outside: bool = False
    unlisted: str = "skip"
    """What becomes of a row in no listed category, or with an unknown action."""
    schedule: ScheduleSettings | None = None
    source: dict[str, Any] | None = None
    """Where its events come from besides HTTP: `panprivacy.serve.sources` reads it."""
    retired: bool = False

    @property
    def of(self) -> Kind:
        """Its kind."""
        return KINDS[self.kind]

    def make(self) -> Any:
        """A new estimator of it."""
        return self.of.make(self.who.universe(), self.epsilon, self.plan)

    @property
    def promise(self) -> dict[str, Any]:
        """What cannot change while the counter lives, by the keys of the file: as JSON has it."""
        plan = {key: _written(value) for key, value in self.plan.items()}
        return {"kind": self.kind, "epsilon": self.epsilon, **self.who.promise, **plan}


def counter_of(name: str, table: Table, folder: Path) -> CounterSettings | None:
    """Read one table of `counters`; None where so much is wrong that nothing can be made of it."""
    kind = table.one_of("kind", tuple(KINDS))
    epsilon = table.number("epsilon")
    title, retired = table.text("title", ""), table.flag("retired")
    skips: dict[str, Any] = {key: table.flag(key) for key in ("skip_missing", "skip_outside")}
    skips["unlisted"] = table.one_of("unlisted", UNLISTED, "skip")
    level = table.number("level", 0.95)
    if not 0 < level < 1:
        table.blame("level", f"between 0 and 1, not {level:g}")
    source = table.table("source")
    if kind is None:
        if "kind" not in table:
            table.blame("kind", f"what is counted: one of {', '.join(KINDS)}")
        return None
    if epsilon is None and "epsilon" not in table:
        table.blame("epsilon", "how much privacy? The total budget of the counter's life; 1 is usual")
    schedule = _schedule_of(table.table("schedule"), kind)
    plan = _plan_of(table, KINDS[kind], schedule)
    who = who_of(table, KINDS[kind], folder)
    columns = _columns_of(table, who, plan, schedule)
    table.close()
    if who is None or columns is None or epsilon is None:
        return None
    given = None if source is None else source.plain()
    return CounterSettings(
        name, kind, epsilon, columns, who, plan, title, level, **skips, schedule=schedule, source=given, retired=retired
    )


def check_made(settings: CounterSettings, table: Table) -> None:
    """Make the estimator once, and note what its constructor refuses, by the key that it speaks of."""
    try:
        settings.make()
    except (PanPrivacyError, ValueError, TypeError, OverflowError) as error:
        cause = str(error)
        key = next((key for key in ("epsilon", *settings.of.keys) if key in cause), "")
        table.blame(key, cause)


def _plan_of(table: Table, kind: Kind, schedule: ScheduleSettings | None) -> dict[str, Any]:
    readers: dict[str, Callable[[str], Any]] = {
        **dict.fromkeys(("delta", "error", "step", "beta"), table.number),
        **dict.fromkeys(
            ("sample", "releases", "buckets", "up_to", "moves", "observations"), partial(table.whole, least=1)
        ),
        "intrusions": table.whole,
        **dict.fromkeys(("memory", "only", "span", "ids"), table.text),
        **dict.fromkeys(("other", "newcomers"), table.flag),
        "categories": table.labels,
    }
    plan = {key: readers[key](key) for key in kind.keys if key in readers}
    if "ids" in kind.keys and plan["ids"] is None:
        table.blame("ids", "are they integers or text?")
    if "every" in kind.keys:
        if schedule is None or schedule.start is None:
            table.blame("schedule.start", "when does the first day start? Such as 2026-01-05")
        else:
            plan |= {"every": timedelta(microseconds=schedule.every), "start": as_datetime(schedule.start)}
    return {key: value for key, value in plan.items() if value is not None and value is not False}


def _schedule_of(table: Table | None, kind: str) -> ScheduleSettings | None:
    if table is None:
        return None
    every = table.period("every")
    if every is None and "every" not in table:
        table.blame("every", "how long is a period? Such as 12h, 7d or 1mo")
    in_own_period = kind in ("actives", "retention")  # elsewhere answers are of all that came so far
    late = table.one_of("late", LATE, "skip" if in_own_period else "count")
    if kind == "actives" and late == "count":
        table.blame("late", "a row of a day that is over cannot count on another: skip or refuse")
    early, ahead = table.one_of("early", EARLY, "skip"), table.whole("ahead", 0)
    found = ScheduleSettings(every or 1, table.moment("start"), table.text("time"), late, early, ahead)
    for key in ("late", "early", "ahead") if found.time is None else ():
        if key in table:
            table.blame(key, "is about the times of events: say in which column they are, time = NAME")
    table.close()
    return found


def _columns_of(
    table: Table, who: Who | None, plan: dict[str, Any], schedule: ScheduleSettings | None
) -> Columns | None:
    column, edges = table.text("column"), table.texts("edges")
    action, by = table.text("action"), table.text("by")
    if who is None:
        return None
    if ("categories" in plan) != (by is not None):
        table.blame("by", "the column of the category of an event goes with the list of categories, and only with it")
    ids = (column,) if column is not None else ()
    if who.edges:
        ids = edges or ()
        if len(ids) != 2 or column is not None:
            table.blame("edges", 'the columns of the two ends of an edge, such as ["from", "to"], and no column')
            return None
    elif edges is not None:
        table.blame("edges", "are for a graph: say how many nodes it has")
    elif not ids:
        table.blame("column", "the column that holds the ids")
    if not ids:
        return None
    kind = Ids(plan["ids"]) if plan.get("ids") in tuple(Ids) else who.ids
    try:
        return Columns(ids, kind, action, schedule.time if schedule else None, by)
    except ValueError as error:
        table.blame("column", str(error))
        return None


def _written(value: Any) -> Any:
    """A value of a plan as JSON has it."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    return value.isoformat() if hasattr(value, "isoformat") else list(value) if isinstance(value, tuple) else value

"""Does adding one user's rows change what becomes of the rows of others?

The promise is about streams that differ in one user's rows. It holds for what an estimator makes of rows, so nothing
around the estimator may depend on them, either: the clock, which periods have ended, which batches of others are
refused, what others add to each release, and how long the state is. This check runs the shipping code twice, with
certain coins and without noise: once with the rows of others alone, and once with rows of one more user, put in every
place of the stream. Whatever differs by more than that user's own appearance is a find.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from panprivacy import registry
from panprivacy.audit.holders import new_place
from panprivacy.estimators.actives import ActiveUsers
from panprivacy.estimators.density import Density
from panprivacy.estimators.retention import Retention
from panprivacy.estimators.windows import Windows
from panprivacy.folder import StateFolder
from panprivacy.privacy.noise import Noise
from panprivacy.registry import example
from panprivacy.testing import CertainCoins

START = datetime(2026, 1, 5, tzinfo=UTC)
USERS = 61
"""Of whom user 0 is the one, and the others are the others."""
CATEGORIES = ("flu", "cold")
_KEY = bytes(range(16))


class Row(NamedTuple):
    """One row: of whom, how many days after the start (None: without a time), in which category, and what it does."""

    user: int
    day: float | None
    category: str | None = CATEGORIES[0]
    action: str = "insert"

    @property
    def time(self) -> datetime | None:
        """When it was."""
        return None if self.day is None else START + timedelta(days=self.day)


class Tick(NamedTuple):
    """Days after the start that the wall clock shows."""

    day: float

    @property
    def time(self) -> datetime:
        """When that is."""
        return START + timedelta(days=self.day)


Step: TypeAlias = Tick | tuple[Row, ...]
"""What happens next: the clock moves on, or a batch of rows comes."""


def _day(day: float, users: range) -> tuple[Row, ...]:
    return tuple(Row(user, day, CATEGORIES[user % 2]) for user in users)


OTHERS: tuple[Step, ...] = (
    _day(0.1, range(1, 21)),
    _day(0.5, range(15, 41)),
    Tick(1),
    _day(1.2, range(1, 31)),
    _day(1.9, range(25, 61)),
    Tick(2),
    _day(2.1, range(31, 61)),
    Tick(3),
)
"""Three days of others."""

ADDITIONS: Mapping[str, tuple[Row, ...]] = {
    "a row of the first day": (Row(0, 0.3),),
    "a row dated 2030": (Row(0, 1457.0),),
    "a late row": (Row(0, -30.0),),
    "a row of every day": tuple(Row(0, day + 0.01) for day in range(60)),
    "a row without a time": (Row(0, None),),
    "a row in an unlisted category": (Row(0, 0.3, "gout"),),
    "a row without a category": (Row(0, 0.3, None),),
    "a deletion": (Row(0, 0.3, action="delete"),),
}
"""What one user may add."""
TIMED = ("a row of the first day", "a row dated 2030", "a late row", "a row of every day")
CATEGORISED = ("a row of the first day", "a row in an unlisted category", "a row without a category")


@dataclass(frozen=True)
class Seen:
    """What can be seen of a run but for the bits."""

    refused: tuple[bool, ...] = ()
    """Whether each step was refused."""
    counts: tuple[int, ...] = ()
    """The numbers that were released, in order, without their noise."""
    clock: str = ""
    ended: int = 0
    """How many periods have ended."""
    lengths: tuple[tuple[str, int], ...] = ()
    """The names and lengths of files, or the length of the state."""


Run: TypeAlias = Callable[[Sequence[Step]], Seen]


@dataclass(frozen=True)
class Subject:
    """Something that is fed rows."""

    name: str
    run: Run
    additions: tuple[str, ...]
    mixed: bool = True
    """Whether the rows of the one may come in the batches of others, too, and not only in a batch of their own."""
    exempt: Mapping[str, str] = field(default_factory=dict)
    """Additions that do interfere, and are documented to, with the reason."""


@dataclass(frozen=True)
class Interference:
    """One user's rows that changed something for others."""

    subject: str
    addition: str
    place: str
    changed: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.subject}: {self.addition}, {self.place}, changes {', '.join(self.changed)}"


def interference(subject: Subject, *, once: bool = False) -> list[Interference]:
    """All ways found in which one user's rows change what becomes of the rows of others.

    With `once`, an addition is listed for the first place only in which it changes something, and tried nowhere else.

    >>> interference(next(subject for subject in SUBJECTS if subject.name == "Windows, row by row"))
    []
    """
    alone = subject.run(OTHERS)
    found = []
    for name in subject.additions:
        if name in subject.exempt:
            continue
        for place, steps in _placements(ADDITIONS[name], subject.mixed):
            changed = _changes(alone, subject.run(steps), steps)
            if changed:
                found.append(Interference(subject.name, name, place, changed))
                if once:
                    break
    return found


def _placements(rows: tuple[Row, ...], mixed: bool) -> Iterator[tuple[str, Sequence[Step]]]:
    for at, step in enumerate(OTHERS):
        yield f"in a batch before step {at + 1}", (*OTHERS[:at], rows, *OTHERS[at:])
        if mixed and not isinstance(step, Tick):
            yield f"at the start of step {at + 1}", (*OTHERS[:at], rows + step, *OTHERS[at + 1 :])
            yield f"at the end of step {at + 1}", (*OTHERS[:at], step + rows, *OTHERS[at + 1 :])


def _changes(alone: Seen, beside: Seen, steps: Sequence[Step]) -> tuple[str, ...]:
    of_others = tuple(
        refused
        for refused, step in zip(beside.refused, steps, strict=True)
        if isinstance(step, Tick) or any(row.user for row in step)
    )
    same = {
        "refusals": alone.refused == of_others,
        "releases": len(alone.counts) == len(beside.counts)
        and all(abs(one - other) <= 1 for one, other in zip(alone.counts, beside.counts, strict=True)),
        "the clock": (alone.clock, alone.ended) == (beside.clock, beside.ended),
        "lengths": alone.lengths == beside.lengths,
    }
    return tuple(what for what, equal in same.items() if not equal)


class Recording(CertainCoins):
    """Certain coins that note every number before noise is added, which is none; keys are the same in each run."""

    def __init__(self) -> None:
        super().__init__()
        self.released: list[int] = []

    def randbelow(self, n: int) -> int:
        return n // 3

    def noisy(self, value: int, noise: Noise) -> int:  # noqa: ARG002
        self.released.append(value)
        return value


def fed(
    make: Callable[[Recording, Path], Any],
    at_end: Callable[[Any], object] = lambda est: est.next_release(),
    at_tick: Callable[[Any, Tick], object] = lambda *_: None,
    *,
    by: str = "",
    **policy: Any,
) -> Run:
    """Feed rows to an estimator: with their times, by category, or neither; `policy` goes to `update_many`."""

    def refuses(est: Any, step: Step) -> bool:
        try:
            if isinstance(step, Tick):
                at_tick(est, step)
            elif by == "time":
                est.update_many([row.user for row in step], time=[row.time for row in step], **policy)
            else:
                categories = [[row.category for row in step]] if by == "category" else []
                est.update_many([row.user for row in step], *categories)
        except (ValueError, TypeError):  # the errors of this library about rows are both
            return True
        return False

    def run(steps: Sequence[Step]) -> Seen:
        coins = Recording()
        with new_place() as place:
            est = make(coins, Path(place))
            refused = tuple(refuses(est, step) for step in steps)
            at_end(est)
            return replace(_shown(est, Path(place)), refused=refused, counts=tuple(coins.released))

    return run


def _shown(est: Any, place: Path) -> Seen:
    """The clock and the periods that have ended; the lengths of files, or of the state."""
    if isinstance(est, Windows):
        return Seen(clock=repr(est.closed[-1].end if est.closed else None), ended=len(est.closed))
    if isinstance(est, ActiveUsers):
        return Seen(clock=repr(est.day), ended=len(est.released))
    if isinstance(est, StateFolder):
        files = sorted(path for path in place.rglob("*") if path.is_file())
        return Seen(lengths=tuple((path.name, path.stat().st_size) for path in files))
    return Seen(lengths=(("state", len(est.to_bytes(insecure=True))),))


def _timed(make: Callable[[Recording, Path], Any], **policy: Any) -> Run:
    """Feed rows with their times; the wall clock ends periods, and their releases."""
    return fed(make, lambda _: None, lambda est, tick: est.advance(tick.time), by="time", **policy)


def windows(every: str = "1d", tz: str | None = None, **policy: Any) -> Run:
    """Daily windows of a `Density`."""
    return _timed(
        lambda coins, _: Windows(lambda: Density(USERS, 1.0, coins=coins), every, start=START, tz=tz), **policy
    )


def actives(**policy: Any) -> Run:
    """An `ActiveUsers` of two days."""
    return _timed(lambda coins, _: ActiveUsers(USERS, 1.0, span="2d", start=START, key=_KEY, coins=coins), **policy)


_FOLDER = fed(
    lambda coins, place: StateFolder.create(place / "folder", USERS, 1.0, shards=2, categories=CATEGORIES, coins=coins),
    lambda est: est.release(),
    by="category",
)
_BY_ROWS = {"a row of every day": "by default a row may end the open period: feed with ahead=0"}
_ROW_BY_ROW: dict[str, Any] = {"ahead": 0, "late": "skip", "early": "skip"}


SUBJECTS: tuple[Subject, ...] = (
    Subject("Windows, row by row", windows(**_ROW_BY_ROW), TIMED),
    Subject("Windows", windows(), TIMED, mixed=False, exempt=_BY_ROWS),
    Subject("Windows, days of the calendar", windows("day", "Europe/Berlin", **_ROW_BY_ROW), TIMED),
    Subject("ActiveUsers, row by row", actives(**_ROW_BY_ROW), TIMED),
    Subject("ActiveUsers", actives(), TIMED, mixed=False, exempt=_BY_ROWS),
    Subject(
        "Density, categories",
        fed(lambda coins, _: Density(USERS, 1.0, categories=CATEGORIES, coins=coins), by="category"),
        CATEGORISED,
        mixed=False,
    ),
    Subject(
        "Retention",
        fed(
            lambda coins, _: Retention(USERS, 1.0, key=_KEY, coins=coins),
            at_tick=lambda est, _: None if est.closed else est.close(),
        ),
        TIMED[:1],
    ),
    Subject("StateFolder, categories", _FOLDER, CATEGORISED[:1]),
    Subject("StateFolder, categories, refusals", _FOLDER, CATEGORISED[1:], mixed=False),
)
"""Uses of estimators that need words of their own. Pipes, brokers and the service are checked by the tests alike."""


def subjects_of(kind: Any) -> list[Subject]:
    """The checks of an estimator or a container: by default an estimator of `USERS`, fed without times."""
    name = kind.__name__
    written = [subject for subject in SUBJECTS if subject.name.split(",")[0] == name]
    if any(subject.name == name for subject in written) or not hasattr(kind, "TRAITS"):
        return written
    plain = fed(lambda coins, _: example(kind, USERS, 1.0, key=_KEY, coins=coins))
    return [Subject(name, plain, TIMED[:1]), *written]


def subjects() -> list[Subject]:
    """The checks of all estimators and containers."""
    return [subject for kind in (*registry.estimators(), Windows, StateFolder) for subject in subjects_of(kind)]

"""Who is imaged: every estimator of the package, with the verbs that a scenario is made of.

The process that is imaged and the one that images it build the same estimators, under the same key, so that the
second knows which bit a user of the first owns.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from panprivacy.estimator import Estimator
from panprivacy.folder.bits import shard_name
from panprivacy.periods import DAY, SECOND

pp: Any = import_module("panprivacy")  # all of it, as a program sees it: this layer may not name what is above others

KEY = bytes(range(1, 17))
EPSILON = 1.0
DELTA = 1e-9
RELEASES = 8
BUCKETS = 4096


_IN_FOLDER, _TAKEN = "folder, ", "taken, "
SHARDS = 3

TIMES = ", times"
"""What the name of a kind ends with whose events have times."""
START = 20_458 * DAY
"""When the first day starts: on 5 January 2026."""
_SPREAD = 2_654_435_761  # prime, and large: neighbouring ids come at times that are far apart
LARGE = ", large"
"""What the name of a kind ends with whose counts are large enough to be told from other numbers in memory."""
SMALL_EPSILON = 1e-3
"""Of which noise is large, too."""
_LARGE, _GROUPS = 2**22, 50

FEW, MANY = 3, 1000
"""Categories: so few that bits change often, and so many that a row of them is as telling as a row of ids."""
_UNUSED = 100  # of many categories the first are nobody's: small numbers stand everywhere


def categories_of(kind: str) -> int:
    """How many categories the estimators of a kind have; none, if events are in none."""
    return MANY if kind == "many categories" else FEW if kind.endswith("categories") else 0


def category_of(ids: Any, categories: int, into: Any = None) -> Any:
    """The category of the event of an id, or of each of an array of ids, written to another."""
    first = _UNUSED if categories == MANY else 0
    if into is None:
        return first + ids % (categories - first)
    np.remainder(ids, categories - first, out=into)
    into += first
    return into


def times_of(ids: Any, day: int, into: Any) -> Any:
    """A moment of a day for each id, in microseconds, all of them different and none of them midnight, in an array."""
    np.add(ids, 1, out=into)
    into *= _SPREAD
    into %= DAY
    into += START + day * DAY
    return into


@dataclass(frozen=True)
class Shown:
    """Where the bits of one table are, so that whoever images the process can read them off the image."""

    address: int
    octets: int
    size: int
    sparse: bool
    epoch: int
    """Tables of different epochs have nothing to do with each other: those of two windows, or a union and its parts."""
    offset: int
    """Where these bits stand among those of the whole."""
    each: int = 1
    """How many of the bits are one slot's: one, or a counter beside it."""
    file: str | None = None
    """The file they are in, where they are not in memory; the address is then counted from its beginning."""

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return asdict(self)


def spacing(kind: str, users: int) -> int:
    """How far apart the ids of so many users are; those between them never come."""
    return -(-_LARGE // users) if kind.endswith(LARGE) else 1


def parts_of(kind: str, users: int, listed: Any) -> list[Any]:
    """The estimators of a kind, over so many users; several where they are to be merged.

    What is to be kept in a folder is of the kind that follows.
    """
    kind = kind.removeprefix(_IN_FOLDER).removeprefix(_TAKEN)
    if kind.endswith(LARGE):
        return [_large(kind.removesuffix(LARGE), users * spacing(kind, users))]
    groups = [i % 5 for i in range(len(listed))] if kind == "Users, groups" else None
    universe = (
        pp.Users(listed, groups=groups)
        if kind.startswith("Users")
        else pp.Edges(nodes_for(users))
        if kind == "Edges"
        else users
    )
    plan: dict[str, Any] = {"epsilon": EPSILON, "releases": RELEASES}
    makers: dict[str, Callable[[], list[Any]]] = {
        "delta": lambda: [pp.Density(users, **plan, delta=DELTA, intrusions=1)],
        "DistinctCount, delta": lambda: [pp.DistinctCount(**plan, delta=DELTA, buckets=BUCKETS, key=KEY)],
        "categories": lambda: [pp.Density(users, **plan, categories=range(FEW), key=KEY)],
        "many categories": lambda: [pp.Density(users, **plan, categories=range(MANY), key=KEY)],
        "DistinctCount, categories": lambda: [
            pp.DistinctCount(**plan, buckets=BUCKETS, key=KEY, categories=range(FEW)),
        ],
        "sampled": lambda: [pp.Density(users, **plan, sample=users // 2, key=KEY)],
        "shard": lambda: [pp.Density(users, **plan, shard=(0, 2))],
        "shards": lambda: [pp.Density(users, **plan, shard=(i, 2)) for i in range(2)],
        "Counts": lambda: [pp.Counts(users, **plan)],
        "Counts, groups": lambda: [pp.Counts(users, **plan, groups=[i // (users // 5) for i in range(users)])],
        "Counts, categories": lambda: [pp.Counts(users, **plan, categories=range(FEW), key=KEY)],
        "Counts, shards": lambda: [pp.Counts(users, **plan, shard=(i, 2)) for i in range(2)],
        "DistinctCount": lambda: [pp.DistinctCount(**plan, buckets=BUCKETS, key=KEY)],
        "DistinctCount, text": lambda: [pp.DistinctCount(**plan, buckets=BUCKETS, key=KEY)],
        "overlapping": lambda: [pp.DistinctCount(**plan, buckets=BUCKETS, key=KEY) for _ in range(2)],
        "Continual": lambda: [pp.Continual(users, EPSILON, step=0.1)],
        "Windows": lambda: [pp.Windows(lambda: pp.Density(users, **plan), every="1d", start="2026-01-05")],
        "Windows, times": lambda: [pp.Windows(lambda: pp.Density(users, **plan), every="1d", start="2026-01-05")],
        "ActiveUsers, times": lambda: [pp.ActiveUsers(users, EPSILON, span="3d", start="2026-01-05", key=KEY)],
        "ActiveUsers": lambda: [pp.ActiveUsers(users, EPSILON, span="3d", start=0, key=KEY)],
        "Retention": lambda: [pp.Retention(users, **plan, key=KEY)],
        "FixedLevelPPDS": lambda: [_fixed_level(users, plan)],
    }
    return makers.get(kind, lambda: [pp.Density(universe, **plan, intrusions=1)])()


def _large(kind: str, universe: int) -> Any:
    """An estimator whose counts, and the noise on them, are numbers of five digits and more."""
    plan: dict[str, Any] = {"epsilon": SMALL_EPSILON, "releases": RELEASES}
    weights = np.arange(_GROUPS) + _GROUPS  # groups of different sizes have different counts
    sizes = universe * weights // weights.sum()
    sizes[-1] += universe - sizes.sum()
    makers: dict[str, Callable[[], Any]] = {
        "Density": lambda: pp.Density(universe, **plan, groups=np.repeat(np.arange(_GROUPS), sizes)),
        "delta": lambda: pp.Density(universe, **plan, delta=DELTA),
        "Counts": lambda: pp.Counts(universe, **plan | {"epsilon": EPSILON}),  # ones less zeros: far from 0
        "DistinctCount": lambda: pp.DistinctCount(**plan, buckets=_LARGE // 64, key=KEY),
        "Continual": lambda: pp.Continual(universe, SMALL_EPSILON, step=0.1, moves=RELEASES),
        "Windows": lambda: pp.Windows(lambda: pp.Density(universe, **plan), every="1d", start="2026-01-05"),
        "ActiveUsers": lambda: pp.ActiveUsers(universe, SMALL_EPSILON, span="3d", start=0, key=KEY),
        "Retention": lambda: pp.Retention(universe, **plan, key=KEY),
    }
    return makers[kind]()


def _fixed_level(users: int, plan: dict[str, Any]) -> Any:
    return pp.paper.FixedLevelPPDS(users, **plan, sample=users // 2, key=KEY)


def nodes_for(users: int) -> int:
    """How many nodes a graph of about so many possible edges has."""
    return int((2 * users) ** 0.5) + 1


def within(est: Any) -> Estimator[Any]:
    """The estimator that has the bits."""
    inner = getattr(est, "_density", None) or getattr(est, "open", est)
    assert isinstance(inner, Estimator)
    return inner


def bits_each(est: Estimator[Any]) -> int:
    """How many bits of the table a slot has: one, or a counter beside it."""
    return getattr(est._table, "width", 1)


class Subject:
    """An estimator, or parts of one, and what a scenario does with it."""

    def __init__(self, kind: str, users: int, listed: Any, folder: Path) -> None:
        self.parts = parts_of(kind, users, listed)
        if kind.startswith(_IN_FOLDER):
            self.parts = [pp.StateFolder.holding(part, folder / "shards", shards=SHARDS) for part in self.parts]
        self._taken = kind.startswith(_IN_FOLDER + _TAKEN)
        self._given = pp.Users(listed) if kind.startswith("Users") else None
        self._categories = categories_of(kind)
        self._timed = kind.endswith(TIMES)
        self._days = 0
        self._file = folder / "state.pp"
        self._held: Any = None
        self._open = ExitStack()
        self._epoch = 0
        self._used: list[Any] = []
        self._released: list[Any] = []

    # --- events -------------------------------------------------------------------------------------------------

    def feed(self, ids: Any) -> None:
        """Take a batch."""
        if self._categories:
            self._feed_by_category(ids)
            return
        for part in self.parts:
            if self._timed:
                self._feed_with_times(part, ids)
            elif isinstance(part, pp.Windows):
                part.update_many(ids, self._day)
            elif self._taken:
                self._feed_by_shard(part, ids)
            else:
                part.update_many(ids)

    def _feed_by_shard(self, folder: Any, ids: Any) -> None:
        """Gather the slots of a batch, and let each shard take its own, as processes of an engine do."""
        with folder.gather() as gathered:
            gathered.add(ids)
            for number in range(folder.shards):
                folder.take(number, [gathered.packed(number)])

    def _feed_with_times(self, part: Any, ids: Any) -> None:
        """Take a batch with a time of each row: dates for windows, seconds for days; they are wiped as the ids are."""
        column, seconds = np.zeros(len(ids), dtype=np.int64), np.zeros(len(ids))
        try:
            times_of(ids, self._days, column)
            np.divide(column, SECOND, out=seconds)
            part.update_many(ids, column.view("datetime64[us]") if isinstance(part, pp.Windows) else seconds)
        finally:
            column.fill(0)
            seconds.fill(0)

    def _feed_by_category(self, ids: Any) -> None:
        """Take a batch whose categories go with its ids; the column of them is wiped as that of the ids is."""
        column = np.zeros(len(ids), dtype=np.int64)
        try:
            for part in self.parts:
                part.update_many(ids, category_of(ids, self._categories, column))
        finally:
            column.fill(0)

    def feed_one(self, user: Any) -> None:
        """Take one user."""
        for part in self.parts:
            if isinstance(part, pp.Windows):
                part.update(user, self._day)
            elif self._categories:
                part.update(user, category_of(user, self._categories))
            else:
                part.update(user)

    # --- everything else ----------------------------------------------------------------------------------------

    def release(self) -> None:
        """Spend a release, and keep it, as a program does: its floats stand where counts may have been."""
        self._released += [part.release() for part in self.parts]

    def close(self) -> None:
        """End the first period."""
        self._released.append(self.parts[0].close())

    def observe(self) -> None:
        """Look, and look again."""
        for _ in range(3):
            self._released.append(self.parts[0].observe())

    def rerandomize(self) -> None:
        """Redraw all bits, as after an announced reading."""
        self.parts[0].rerandomize()

    def grow(self) -> None:
        """Take a tenth more users, who come last."""
        est = self.parts[0]
        est.grow(est.users + est.users // 10)

    def save(self) -> None:
        """Write the state to a file that is held from now on, as a program does that feeds and saves in turns."""
        if self._held is None:
            self._held = self._open.enter_context(pp.StateFile(self._file).locked())
        self.parts[0].save(self._held)

    def move(self) -> None:
        """Move the state to a file, and go on with what is loaded from there."""
        self.parts.pop().save(self._file)
        self.load()

    def load(self) -> None:
        """Give the file back, and go on with what was saved."""
        self._open.close()
        self._held = None
        self.parts = [pp.load(self._file, self._given)]

    def merge(self) -> None:
        """Make one of the parts, which stay where they are, as they would in a program that goes on."""
        self._used = self.parts
        overlapping = isinstance(self.parts[0], pp.DistinctCount)
        self.parts = [pp.merge(self.parts, overlapping=True) if overlapping else pp.merge(self.parts)]
        self._epoch += overlapping

    def next_window(self) -> None:
        """Let the clock end a window, or a day."""
        self._days += 1
        self._epoch += isinstance(self.parts[0], pp.Windows)  # which has new bits now
        self._released += self.parts[0].advance(self._day)

    @property
    def _day(self) -> str:
        return f"2026-01-{5 + self._days:02}"

    def tables(self) -> Iterator[Shown]:
        """Where all bits are."""
        for part in self.parts:
            if isinstance(part, pp.StateFolder):
                yield from shards_of(part)
                continue
            est = within(part)
            words = est._table.words
            whole = hasattr(est._slots, "levels") or type(est._slots).__name__ in ("Asked", "CountedAsked", "Sampled")
            first = 0 if whole else getattr(est._slots, "first", 0)
            size, first = est._table.size * bits_each(est), first * bits_each(est)
            sparse = len(words) != -(-size // 64)
            yield Shown(words.ctypes.data, words.nbytes, size, sparse, self._epoch, first, bits_each(est))


def shards_of(folder: Any) -> Iterator[Shown]:
    """Where the bits of a state folder are: in one file for each shard, before the checksum that ends it."""
    for number in range(folder.shards):
        first, end = folder._bits.bounds(number)
        table = folder._bits.cells.empty(end - first)
        file, each = Path(folder.url).absolute() / f"{shard_name(number)}.pp", getattr(table, "width", 1)
        address = file.stat().st_size - sha256().digest_size - table.words.nbytes
        slots = (table.size * each, False, 0, first * each, each)
        yield Shown(address, table.words.nbytes, *slots, file=str(file))

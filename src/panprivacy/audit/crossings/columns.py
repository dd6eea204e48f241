"""The columns of the table of crossings: each finds, for any row, one cell."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from panprivacy.audit import interference
from panprivacy.audit.adapters import Observer
from panprivacy.audit.crossings import holders
from panprivacy.audit.crossings.cells import Cell, How, Verdict, not_applicable, refused
from panprivacy.audit.crossings.measuring import Scenario, measure, refusal
from panprivacy.audit.crossings.repeating import cycles, windows
from panprivacy.audit.crossings.rows import KINDS, Row
from panprivacy.audit.subjects import SUBJECTS, Case
from panprivacy.continual import Continual
from panprivacy.density import Density
from panprivacy.folder import StateFolder
from panprivacy.privacy.coins import Coins
from panprivacy.state.merging import merge
from panprivacy.testing import SeededCoins
from panprivacy.universe import Users
from panprivacy.windows import Windows

DELTA = 1e-3
EPSILON_WITH_DELTA = {1: 3.0, 2: 3.0, 3: 6.0}
"""For so many releases: where noise has few enough outputs."""


@dataclass(frozen=True)
class Column:
    """One feature that estimators are crossed with."""

    title: str
    cell: Callable[[Row], Cell]


def _holder(row: Row, coins: Coins, **options: Any) -> Any:
    """The estimator of a row as a stream meets it."""
    return row.wrap(coins, **options) if row.container else holders.Alone(row.build(coins, **options))


def _planned(row: Row, releases: int) -> dict[str, Any]:
    """The options by which a row plans so many releases; with two periods, the cohort is one more."""
    if "releases" in row.options:
        return {"releases": releases}
    if "span" in row.options:
        span = {"span": f"{releases}d"}
        return span | {"universe": row.users_for(**span)}
    return {}


def _verbs(row: Row) -> tuple[str, ...]:
    return ("update", "remove") if row.removes else ("update",)


# --- alone, and how often it is released ------------------------------------------------------------------------------


def _releases(row: Row, releases: int) -> Cell:
    if row.kind is Continual:
        return _observer(releases)
    options = _planned(row, releases)
    if not options and releases > 1:
        return not_applicable("more than one release cannot be planned")
    users = options.get("universe", row.users if row.container or releases > 1 else max(row.users, 2))
    few = releases == 3 and row.cycles  # whose users are in phases of their own, and have many states
    scenario = Scenario(
        range(users), 1 if few else 2, releases=row.releases_of(releases), verbs=("update",) if few else _verbs(row)
    )
    return measure(lambda coins: _holder(row, coins, **{**options, **_of(row, users)}), scenario)


def _of(row: Row, users: int) -> dict[str, Any]:
    return {"universe": users} if "universe" in row.options else {}


def _observer(observations: int) -> Cell:
    """The bar is beyond so few users, so it is put lower; with a small epsilon the threshold walks too far."""
    users = 2 if observations < 3 else 1

    def make(coins: Coins) -> Any:
        observer = Observer(users, 8.0, step=1.0, moves=1, observations=observations, coins=coins)
        observer._observed.watch.bar = 1
        return observer

    return measure(make, Scenario(range(users), 2, releases=observations))


def _with_delta(row: Row, releases: int) -> Cell:
    if "delta" not in row.options:
        return not_applicable("takes no delta")
    if row.kind is Continual:
        return _observer_with_delta(releases)
    options: dict[str, Any] = {"delta": DELTA, "epsilon": EPSILON_WITH_DELTA[releases]}
    verbs = _verbs(row) if releases < 3 else ("update",)
    if row.cycles or hasattr(row.kind, "close"):
        return _one_bit(row, options, releases)
    counts = "up_to" in row.options
    if counts:  # every release has two numbers: more than one has too many outputs, but for the mean
        options |= {"only": "mean"} if releases > 1 else {}
        verbs = ("update",)
    options |= {"releases": releases}
    scenario = Scenario(range(1), 2 if counts else 1, releases=releases, verbs=verbs, even=counts and releases > 2)
    return measure(lambda coins: _holder(row, coins, **options, **_of(row, row.users)), scenario)


def _one_bit(row: Row, options: dict[str, Any], releases: int) -> Cell:
    """The abstract machine: others are in the counts that its releases show, and have too many outputs."""
    made = max(releases, row.releases_of(1))
    planned = _planned(row, releases if "span" in row.options else made - 1)
    est = row.build(SeededCoins(0), **options, **planned)
    claimed, split = (est.budget.total, est.budget.delta), est._ledger.split
    scenario = Scenario(range(1), 1, releases=made, verbs=("update", "remove")[: 2 if made < 3 else 1])
    return measure(lambda coins: holders.OneBit(split, claimed, made, coins), scenario, How.MACHINE)


def _observer_with_delta(releases: int) -> Cell:
    if releases > 1:
        return not_applicable("the noise that stays in its state has too many outcomes for more than one move")
    (subject,) = (subject for subject in SUBJECTS if subject.name == "Continual, delta")
    result = subject.audit(Case(events=1))
    return Cell(
        Verdict.AUDITED, epsilon=result.claimed, delta=result.claimed_delta, found=result.worst_delta, how=How.FIXED
    )


# --- groups and categories --------------------------------------------------------------------------------------------


def _groups(row: Row) -> Cell:
    if "universe" not in row.options:
        return not_applicable("no list of users, so no groups of them")
    names = [f"user{i}" for i in range(max(row.users, 2))]
    listed = Users(names, groups=[KINDS[i % 2] for i in range(len(names))])
    error = refusal(lambda: _holder(row, SeededCoins(0), universe=listed).update(names[0]))
    if error:
        return refused(error)
    return measure(lambda coins: _holder(row, coins, universe=listed), Scenario(names, 1, verbs=_verbs(row)))


def _categories(row: Row) -> Cell:
    if "categories" not in row.options:
        return not_applicable("events have no category")
    options = {"categories": KINDS} | ({"universe": 2} if "universe" in row.options else {})

    def make(coins: Coins) -> Any:
        return holders.ByCategory(_holder(row, coins, **options), *KINDS)

    if row.kind is Windows:  # whose events have a time and no category
        error = refusal(lambda: _holder(row, SeededCoins(0), **options).update(0))
        assert error is not None, "windows took an event without its category"
        return refused(error)
    return measure(make, Scenario(range(2), 2, verbs=("update", "update_other")))


# --- readings ---------------------------------------------------------------------------------------------------------


def _announced(row: Row) -> Cell:
    options: dict[str, Any] = {"intrusions": 1} if "intrusions" in row.options else {}
    if not options:
        if not hasattr(row.kind, "rerandomize"):
            return not_applicable("has no rerandomize")
        error = refusal(lambda: row.build(SeededCoins(0)).rerandomize())
        assert error is not None, f"{row.name} rerandomizes, and plans no announced reading"
        return refused(error)
    scenario = Scenario(range(row.users), 2, intrusions=1, verbs=_verbs(row))
    return measure(lambda coins: _holder(row, coins, **options), scenario)


# --- where it is kept -------------------------------------------------------------------------------------------------


def _kept(row: Row, holder: Any, verb: str) -> Cell:
    if row.container:
        return not_applicable("what it holds is kept elsewhere: it has no bits of its own")
    if not hasattr(row.kind, verb):
        return not_applicable(f"has no {verb}")
    if row.kind is Continual:
        return measure(lambda coins: Watching(coins, holder), Scenario(range(1), 1))
    made = row.releases_of(1) if "span" not in row.options else 2
    events = 2 if "up_to" in row.options else 1
    return measure(lambda coins: holder(row.build(coins), coins), Scenario(range(row.users), events, releases=made))


class Watching(holders.Holder):
    """An observer in a holder: what it observes are its releases."""

    def __init__(self, coins: Coins, holder: Any) -> None:
        observer = Continual(1, 8.0, step=1.0, moves=1, observations=1, coins=coins)
        self._held = holder(observer, coins)
        self.claimed_epsilon, self.claimed_delta = self._held.claimed_epsilon, self._held.claimed_delta

    def _call(self, verb: str, *given: Any) -> Any:
        return self._held._call("observe" if verb == "release" else verb, *given)


def _folder(row: Row) -> Cell:
    if row.kind is StateFolder:
        return _releases(row, 1)
    with tempfile.TemporaryDirectory() as place:
        error = refusal(lambda: StateFolder.holding(row.itself(), Path(place) / "folder", shards=1))
    if error:
        return refused(error)
    return _kept(row, holders.InFolder, "save")


# --- merging, growing, watching ---------------------------------------------------------------------------------------


def _continual(row: Row) -> Cell:
    if row.kind is Continual:
        return _releases(row, 1)
    if row.held is Density and not row.container:
        return measure(_taken_over, Scenario(range(1), 1))
    error = refusal(lambda: Continual(row.itself(), 1.0))
    assert error is not None, f"a Continual took a {row.name}"
    return refused(error)


def _taken_over(coins: Coins) -> Any:
    observer = Observer(Density(1, 8.0, releases=1, coins=coins), step=1.0, moves=1, observations=1)
    observer._observed.watch.bar = 1
    return observer


def _merge(row: Row) -> Cell:
    if "shard" in row.options and not row.container:
        users = Scenario(range(2), 2)
        return measure(
            lambda coins: holders.Merged([row.build(coins, universe=2, shard=(i, 2)) for i in range(2)]), users
        )
    error = refusal(lambda: merge([row.itself(), row.itself()], overlapping=True))
    if error:
        return refused(error)
    return measure(lambda coins: holders.MergedWithAnother(holders.Maker(row.build, coins)), Scenario(range(2), 2))


def _grow(row: Row) -> Cell:
    if not hasattr(row.kind, "grow"):
        return not_applicable("has no grow")
    events = 1 if "up_to" in row.options else 2
    make = Scenario(range(row.users), events, releases=2)
    return measure(lambda coins: holders.Grown(row.build(coins, releases=2)), make)


# --- what one user's rows change of others ----------------------------------------------------------------------------


def _clock(row: Row) -> Cell:
    """How often one user's rows changed what became of the rows of others: `panprivacy.audit.interference`."""
    subjects = [subject for subject in interference.SUBJECTS if subject.name.split(",")[0] == row.name]
    if not subjects:
        raise LookupError(f"panprivacy.audit.interference has no subject {row.name}")
    changes = sum(len(interference.interference(subject)) for subject in subjects)
    return Cell(Verdict.AUDITED, found=changes, how=How.INTERFERENCE)


COLUMNS: tuple[Column, ...] = (
    Column("1 release", lambda row: _releases(row, 1)),
    Column("2 releases", lambda row: _releases(row, 2)),
    Column("3 releases", lambda row: _releases(row, 3)),
    Column("delta, 1 release", lambda row: _with_delta(row, 1)),
    Column("delta, 2 releases", lambda row: _with_delta(row, 2)),
    Column("delta, 3 releases", lambda row: _with_delta(row, 3)),
    Column("groups", _groups),
    Column("categories", _categories),
    Column("announced reading", _announced),
    Column("state file", lambda row: _kept(row, holders.InFile, "save")),
    Column("pickle", lambda row: _kept(row, holders.Pickled, "to_bytes")),
    Column("state folder", _folder),
    Column("1 window", lambda row: windows(row, 1, 1)),
    Column("2 windows, read once", lambda row: windows(row, 2, 1)),
    Column("2 windows, read in each", lambda row: windows(row, 2, None)),
    Column("2 windows, unread", lambda row: windows(row, 2, 0)),
    Column("2 windows of 2 releases, read once", lambda row: windows(row, 2, 1, releases=2)),
    Column("2 windows of 2 releases, unread", lambda row: windows(row, 2, 0, releases=2)),
    Column("1 window, delta, unread", lambda row: windows(row, 1, 0, DELTA)),
    Column("2 windows, delta, read once", lambda row: windows(row, 2, 1, DELTA)),
    Column("2 windows, delta, unread", lambda row: windows(row, 2, 0, DELTA)),
    Column("2 cycles, read once", lambda row: cycles(row, 1)),
    Column("2 cycles, unread", lambda row: cycles(row, 0)),
    Column("2 cycles, delta, read once", lambda row: cycles(row, 1, DELTA)),
    Column("2 cycles, delta, unread", lambda row: cycles(row, 0, DELTA)),
    Column("Continual", _continual),
    Column("merge", _merge),
    Column("grow", _grow),
    Column("clock and refusals", _clock),
)

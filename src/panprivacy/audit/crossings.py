"""Crossings: every exported estimator with every feature that it can meet, each audited, refused or not applicable.

**Rows** are every estimator of the package. A row is made of facts: which options the constructor takes, and which
verbs the class has. So an estimator gets its row by being registered. Its `TRAITS` say which options make it small.
**Columns** are the features; a column finds the cell of any row. **A cell** is audited, with its exact loss; refused;
or not applicable. Crossings of more than two features follow.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cache, partial
from itertools import product
from math import expm1, inf
from pathlib import Path
from typing import Any, NamedTuple

from panprivacy import registry
from panprivacy.audit import holders, interference
from panprivacy.audit.enumeration import claim_of, exact
from panprivacy.audit.enumeration.delta import Watcher
from panprivacy.audit.enumeration.loss import Judge
from panprivacy.audit.enumeration.machine import Laws, Machine, Make, Step
from panprivacy.audit.enumeration.search import Left, Search, Streams
from panprivacy.audit.enumeration.wording import AGREE
from panprivacy.audit.subjects import SUBJECTS, Case
from panprivacy.checks import LargeDelta
from panprivacy.errors import InvalidValue, PanPrivacyError
from panprivacy.estimators.actives import ActiveUsers
from panprivacy.estimators.continual import Continual
from panprivacy.estimators.counts import Counts
from panprivacy.estimators.density import Density
from panprivacy.estimators.merge import merge
from panprivacy.estimators.retention import Retention
from panprivacy.estimators.windows import Windows
from panprivacy.folder import StateFolder
from panprivacy.folder.ledger import check_kind
from panprivacy.paper import FixedLevelPPDS
from panprivacy.privacy.coins import Coins
from panprivacy.registry import options_of
from panprivacy.slots.parts import phase_reset_on
from panprivacy.testing import SeededCoins, gaussian_noise, phases_of, slots_of, split_of
from panprivacy.universe import Users

KEY = bytes([2] * 16)  # of those that deal 2 users to 2 phases and 3 to 3: it decides who owns which bit
KINDS = ("flu", "cold")

CONTAINERS: tuple[type, ...] = (Windows, StateFolder)
"""What holds an estimator and has no bits of its own: each is crossed while it holds a `Density`."""


@dataclass(frozen=True)
class Row:
    """One exported estimator, and the facts about it that decide how it is crossed."""

    kind: Any

    @property
    def name(self) -> str:
        return str(self.kind.__name__)

    @property
    def container(self) -> bool:
        """Whether it holds another estimator."""
        return self.kind in CONTAINERS

    @property
    def held(self) -> Any:
        """The class whose constructor takes the options."""
        return Density if self.container else self.kind

    @property
    def options(self) -> frozenset[str]:
        """What the constructor takes."""
        return options_of(self.held)

    @property
    def verbs(self) -> tuple[str, ...]:
        """What a user can do at all times."""
        return ("update", "remove") if _accepts_removal(self) else ("update",)

    @property
    def cycles(self) -> bool:
        """Whether one object goes through several cycles of a user, and states what they lose."""
        return not self.container and hasattr(self.kind, "loss")

    @property
    def users(self) -> int:
        """The fewest users with whom it can be built."""
        return fewest_users(self)

    def releases_of(self, planned: int) -> int:
        """How many releases it makes in all: with two periods, the release of the first period is one more."""
        return planned + hasattr(self.kind, "close")

    def build(self, coins: Coins, **options: Any) -> Any:
        """The estimator itself, or the estimator in a container. With a delta, its noise is Gaussian."""
        given = options.pop("universe", None)
        universe = {"universe": given or self.users} if "universe" in self.options else {}
        key = {"key": KEY} if "key" in self.options else {}
        with warnings.catch_warnings(), gaussian_noise():
            warnings.simplefilter("ignore", LargeDelta)
            return self.held(**universe, **{"epsilon": 1.0, **key, **self.held.TRAITS.small, **options}, coins=coins)

    def itself(self) -> Any:
        """The estimator or the container itself, to see what else takes it."""
        if self.kind is Windows:
            return Windows(holders.Maker(self.build, SeededCoins(0)), every=1, start=0)
        if self.kind is StateFolder:
            with holders.new_place() as place:
                return StateFolder.holding(self.build(SeededCoins(0)), Path(place) / "folder", shards=1)
        return self.build(SeededCoins(0))

    def holder(self, coins: Coins, **options: Any) -> Any:
        """The estimator, or the container with its estimator, as a stream meets it."""
        if self.kind is Windows:
            return holders.InWindows(holders.Maker(self.build, coins, **options))
        est = self.build(coins, **options)
        return holders.InFolder(est, coins) if self.kind is StateFolder else holders.Holder(est)


@cache
def fewest_users(row: Row, **options: Any) -> int:
    """The fewest users with whom a row can be built with these options, of four at most."""
    if "universe" not in row.options:
        return 2  # of everybody: two may share a bit
    for users in range(1, 4):
        if refusal(partial(row.build, SeededCoins(0), universe=users, **options)) is None:
            return users
    return 4


@cache
def _accepts_removal(row: Row) -> bool:
    if row.kind in (Windows, Continual) or not hasattr(row.kind, "remove") or hasattr(row.kind, "close"):
        return False
    return refusal(lambda: row.build(SeededCoins(0)).remove(0)) is None


def rows() -> list[Row]:
    """One row for each estimator of the package, and containers last."""
    kinds = [kind for kind in registry.estimators() if not issubclass(kind, FixedLevelPPDS)]
    return sorted(map(Row, (*kinds, *CONTAINERS)), key=lambda row: (row.container, row.name))


class Verdict(StrEnum):
    """Whether a crossing was audited, and if not, why."""

    AUDITED = "audited"
    REFUSED = "refused"
    NOT_APPLICABLE = "not applicable"


class How(StrEnum):
    """How a crossing was audited."""

    CODE = "code"
    """The shipping code was run under every outcome of its coins."""
    FIXED = "code, read at a fixed moment"
    """As above, but the moment of the reading does not depend on what was released."""
    MACHINE = "machine"
    """The abstract machine of one user's bit was run, with the coins and the noise of the estimator."""
    INTERFERENCE = "interference"
    """The shipping code was run with and without one user's rows, and what became of the rows of others compared."""


@dataclass(frozen=True)
class Cell:
    """One crossing of an estimator with a feature."""

    verdict: Verdict
    reason: str = ""
    """Why a crossing is not applicable, or the sentence of the refusal."""
    epsilon: float = 0.0
    """The loss that is stated."""
    delta: float = 0.0
    """The delta that is stated; 0 if none is."""
    found: float = 0.0
    """The exact loss; with a delta, the exact delta at the stated loss; of interference, the number of changes."""
    how: How = How.CODE

    @property
    def holds(self) -> bool:
        """Whether the loss found is at most the loss stated; a crossing that is not audited states none."""
        if self.verdict is not Verdict.AUDITED:
            return bool(self.reason)
        return self.found <= self.delta if self.delta else self.found <= self.epsilon * (1 + AGREE)

    @property
    def exact(self) -> str:
        """The loss found, for people."""
        if self.verdict is not Verdict.AUDITED:
            return ""
        if self.how is How.INTERFERENCE:
            return f"{self.found:.0f} changes"
        return f"delta {self.found:.2e}" if self.delta else f"{self.found:.6f}"

    @property
    def stated(self) -> str:
        """The loss stated, for people."""
        if self.verdict is not Verdict.AUDITED:
            return ""
        if self.how is How.INTERFERENCE:
            return "none"
        return f"{self.epsilon:.6f}" + (f", delta {self.delta:.2e}" if self.delta else "")

    def __str__(self) -> str:
        if self.verdict is not Verdict.AUDITED:
            return f"{self.verdict}: {self.reason}"
        return f"exact {self.exact}, stated {self.stated} ({self.how}){'' if self.holds else ': DOES NOT HOLD'}"

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return asdict(self) | {"holds": self.holds}


def not_applicable(reason: str) -> Cell:
    """The cell of a crossing that cannot be asked for."""
    return Cell(Verdict.NOT_APPLICABLE, reason)


@dataclass(frozen=True)
class Scenario:
    """The events, readings and releases of an estimator."""

    users: Sequence[Any]
    events: int = 2
    """Events of the longest stream; with a delta, events of the user between two observations."""
    releases: int = 1
    readings: int = 1
    stretch: int = 0
    """The state is read once in every stretch of this many releases; 0: once in all."""
    intrusions: int = 0
    verbs: tuple[str, ...] = ("update",)
    together: int = 1
    """How many users act as one."""
    even: bool = False
    """Whether the user comes an even number of times between two observations: the counters stay where they are."""


def measure(make: Make, scenario: Scenario, how: How = How.CODE) -> Cell:
    """The exact loss beside the stated one; of an estimator with a delta, the exact delta against one who watches."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LargeDelta)
        machine = Machine(make, scenario.users)
        epsilon, delta = claim_of(machine.sample)
        if delta:
            watcher = Watcher(machine, list(_actions(scenario)))
            found = watcher.smallest_delta(epsilon, scenario.releases, scenario.readings, stretch=scenario.stretch)
        elif scenario.stretch or scenario.together > 1:
            laws = Laws(machine)
            judge = Judge(laws)
            search = Search(laws, Streams(scenario.events), scenario.verbs, False, judge)
            left = Left(scenario.releases, scenario.readings, stretch=scenario.stretch)
            search.around(tuple(range(scenario.together)), left)
            found = judge.loss_at(0) if judge.settled else inf
        else:
            result = exact(
                make,
                scenario.users,
                scenario.events,
                releases=scenario.releases,
                intrusions=scenario.intrusions,
                readings=scenario.readings,
                verbs=scenario.verbs,
            )
            found = result.worst_loss if result.settled else inf
    return Cell(Verdict.AUDITED, epsilon=epsilon, delta=delta, found=found, how=how)


def _actions(scenario: Scenario) -> Iterator[tuple[Step, ...]]:
    """All that the users who differ can do between two observations: nothing, or a verb once or more."""
    yield ()
    for who, verb, times in product(range(scenario.together), scenario.verbs, range(1, scenario.events + 1)):
        if not (scenario.even and times % 2):
            yield (Step(verb, (who,)),) * times
    if scenario.together > 1:
        yield tuple(Step("update", (who,)) for who in range(scenario.together))


def refusal(attempt: Callable[[], object]) -> Cell | None:
    """The cell of a crossing that the library refuses, if it does; other errors are defects, and are not caught."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            attempt()
    except (PanPrivacyError, TypeError, ValueError) as error:
        return Cell(Verdict.REFUSED, f"{error}".splitlines()[0])
    return None


DELTA = 1e-3


def _planned(row: Row, releases: int) -> dict[str, Any]:
    """The options by which a row plans releases; with two periods, the cohort is one more."""
    if "releases" in row.options:
        return {"releases": releases}
    if "span" in row.options:
        span = f"{releases}d"
        return {"span": span, "universe": fewest_users(row, span=span)}
    return {}


# --- alone, and how often it is released ------------------------------------------------------------------------------


def _releases(row: Row, releases: int) -> Cell:
    if row.kind is Continual:
        users = 2 if releases < 3 else 1
        scenario = Scenario(range(users), 2, releases=releases)
        return measure(lambda coins: holders.with_low_threshold(_observer(users, coins, releases)), scenario)
    options = _planned(row, releases)
    if not options and releases > 1:
        return not_applicable("more than one release cannot be planned")
    users = options.get("universe", row.users if row.container or releases > 1 else max(row.users, 2))
    few = releases == 3 and row.cycles  # whose users are in phases of their own, and have many states
    scenario = Scenario(
        range(users), 1 if few else 2, releases=row.releases_of(releases), verbs=("update",) if few else row.verbs
    )
    return measure(lambda coins: row.holder(coins, **{**options, "universe": users}), scenario)


def _observer(of: int | Density, coins: Coins | None, observations: int = 1) -> Continual:
    """Continual observation with an epsilon of 8: with a small one its threshold walks too far."""
    epsilon = 8.0 if isinstance(of, int) else None
    return Continual(of, epsilon, step=1.0, moves=1, observations=observations, coins=coins)


def _with_delta(row: Row, releases: int) -> Cell:
    if "delta" not in row.options:
        return not_applicable("takes no delta")
    if row.kind is Continual:
        if releases > 1:
            return not_applicable("the noise that stays in its state has too many outcomes for more than one move")
        (subject,) = (subject for subject in SUBJECTS if subject.name == "Continual, delta")
        found = subject.audit(Case(events=1))
        return Cell(Verdict.AUDITED, "", found.claimed, found.claimed_delta, found.worst_delta, How.FIXED)
    options: dict[str, Any] = {"delta": DELTA, "epsilon": 3.0 if releases < 3 else 6.0}  # noise has few enough outputs
    verbs = row.verbs if releases < 3 else ("update",)
    if row.cycles or hasattr(row.kind, "close"):
        made = max(releases, row.releases_of(1))
        planned = _planned(row, releases if "span" in row.options else made - 1)
        est = row.build(SeededCoins(0), **options, **planned)
        scenario = Scenario(range(1), 1, releases=made, verbs=("update", "remove")[: 2 if made < 3 else 1])
        return _one_bit(est, claim_of(est), made, scenario)
    options["releases"], counts = releases, "up_to" in row.options
    if counts:  # every release has two numbers: more than one has too many outputs, but for the mean
        options |= {"only": "mean"} if releases > 1 else {}
        verbs = ("update",)
    scenario = Scenario(range(1), 2 if counts else 1, releases=releases, verbs=verbs, even=counts and releases > 2)
    return measure(lambda coins: row.holder(coins, **options), scenario)


def _one_bit(est: Any, claimed: tuple[float, float], cycle: int, scenario: Scenario) -> Cell:
    """The abstract machine: others are in the counts that its releases show, and have too many outputs."""
    split = split_of(est)
    return measure(lambda coins: holders.OneBit(split, claimed, cycle, coins), scenario, How.MACHINE)


# --- groups and categories --------------------------------------------------------------------------------------------


def _groups(row: Row) -> Cell:
    if "universe" not in row.options:
        return not_applicable("no list of users, so no groups of them")
    names = [f"user{i}" for i in range(max(row.users, 2))]
    listed = Users(names, groups=[KINDS[i % 2] for i in range(len(names))])
    if cell := refusal(lambda: row.holder(SeededCoins(0), universe=listed).update(names[0])):
        return cell
    releases = row.build(SeededCoins(0)).days if row.cycles else row.releases_of(1)
    scenario = Scenario(names, 1, releases=releases, verbs=row.verbs)
    return measure(lambda coins: row.holder(coins, universe=listed), scenario)


def _categories(row: Row) -> Cell:
    if "categories" not in row.options:
        return not_applicable("events have no category")
    scenario = Scenario(range(2), 2, verbs=("update", "update_other"))
    return measure(lambda coins: holders.ByCategory(row.holder(coins, categories=KINDS, universe=2), *KINDS), scenario)


def _announced(row: Row) -> Cell:
    if "intrusions" in row.options:
        scenario = Scenario(range(row.users), 2, intrusions=1, verbs=row.verbs)
        return measure(lambda coins: row.holder(coins, intrusions=1), scenario)
    if not hasattr(row.kind, "rerandomize"):
        return not_applicable("has no rerandomize")
    cell = refusal(lambda: row.build(SeededCoins(0)).rerandomize())
    assert cell is not None, f"{row.name} rerandomizes, and plans no announced reading"
    return cell


# --- where it is kept -------------------------------------------------------------------------------------------------


def _kept(row: Row, holder: Any, verb: str) -> Cell:
    if row.container:
        return not_applicable("what it holds is kept elsewhere: it has no bits of its own")
    if not hasattr(row.kind, verb):
        return not_applicable(f"has no {verb}")
    if row.kind is Continual:
        return measure(lambda coins: holder(_observer(1, coins), coins), Scenario(range(1), 1))
    made = row.releases_of(1) if "span" not in row.options else 2
    events = 2 if "up_to" in row.options else 1
    return measure(lambda coins: holder(row.build(coins), coins), Scenario(range(row.users), events, releases=made))


def _folder(row: Row) -> Cell:
    if row.kind is StateFolder:
        return _releases(row, 1)
    with holders.new_place() as place:
        cell = refusal(lambda: StateFolder.holding(row.itself(), Path(place) / "folder", shards=1))
    return cell or _kept(row, holders.InFolder, "save")


def _slots(row: Row) -> Cell:
    if row.container:
        return not_applicable("packed sets are taken by estimators, and by shards")
    return refusal(lambda: check_kind(row.kind)) or _kept(row, holders.Combined, "layout")


# --- where bits are drawn anew: in every window, in every cycle -------------------------------------------------------


def windows(row: Row, times: int, readings: int | None, delta: float | None = None, releases: int = 1) -> Cell:
    """An estimator inside `Windows`, and the loss stated for one or two of them, read once, in each, or not at all."""
    if cell := refusal(lambda: Windows(row.itself, every=1, start=0)):
        return cell
    if delta is not None and "delta" not in row.options:
        return not_applicable("takes no delta")
    counts, each = "up_to" in row.options, row.releases_of(releases)
    options: dict[str, Any] = {"releases": releases}
    if delta is not None:
        options |= {"delta": delta, "epsilon": 8.0 if counts or releases > 1 else 4.0}
    scenario = Scenario(
        range(1),
        max(times * each, 4 if counts else 3) if delta is None else (2 if counts else 1),
        releases=times * each,
        readings=1 if readings is None else readings,
        stretch=each if readings is None else 0,
        even=delta is not None and counts and bool(readings),
    )
    return measure(
        lambda coins: holders.InWindows(holders.Maker(row.build, coins, **options), times, readings), scenario
    )


def cycles(row: Row, readings: int | None, delta: float | None = None, **options: Any) -> Cell:
    """Two cycles of one object, and its stated loss for them, read once or not at all."""
    if not row.cycles:
        return not_applicable("one cycle is its life")
    if delta is not None:
        est = row.build(SeededCoins(0), delta=delta, epsilon=6.0, span="1d", **options)
        scenario = Scenario(range(1), 1, releases=2, readings=readings or 0, verbs=("update", "remove"))
        return _one_bit(est, holders.claim_for(est, 2, readings), 1, scenario)
    est = row.build(SeededCoins(0))
    # A user whose bit is drawn anew when the first cycle of days is over, and not within it.
    part, slots = phases_of(est)[phase_reset_on(est.days, est.days)], slots_of(est)
    user = next(user for user in range(est.users) if part.first <= slots.slot(user) < part.first + part.size)
    scenario = Scenario([user], 4, releases=2 * est.days, readings=1 if readings is None else readings)
    claimed = holders.claim_for(est, 2, readings)
    return measure(lambda coins: holders.Holder(row.build(coins), claim=claimed), scenario)


# --- merging, growing, watching ---------------------------------------------------------------------------------------


def _continual(row: Row) -> Cell:
    if row.kind is Continual:
        return _releases(row, 1)
    if row.held is Density and not row.container:
        return measure(
            lambda coins: holders.with_low_threshold(_observer(Density(1, 8.0, releases=1, coins=coins), None)),
            Scenario(range(1), 1),
        )
    cell = refusal(lambda: Continual(row.itself(), 1.0))
    assert cell is not None, f"a Continual took a {row.name}"
    return cell


def _merge(row: Row) -> Cell:
    if "shard" in row.options and not row.container:
        return measure(
            lambda coins: holders.Merged([row.build(coins, universe=2, shard=(i, 2)) for i in range(2)]),
            Scenario(range(2), 2),
        )
    cell = refusal(lambda: merge([row.itself(), row.itself()], overlapping=True))
    return cell or measure(
        lambda coins: holders.MergedWithAnother(holders.Maker(row.build, coins)), Scenario(range(2), 2)
    )


def _grow(row: Row) -> Cell:
    if not hasattr(row.kind, "grow"):
        return not_applicable("has no grow")
    scenario = Scenario(range(row.users), 1 if "up_to" in row.options else 2, releases=2)
    return measure(lambda coins: holders.Grown(row.build(coins, releases=2)), scenario)


def _clock(row: Row) -> Cell:
    """How often one user's rows changed what became of the rows of others: `panprivacy.audit.interference`."""
    changes = sum(len(interference.interference(subject)) for subject in interference.subjects_of(row.kind))
    return Cell(Verdict.AUDITED, found=changes, how=How.INTERFERENCE)


COLUMNS: dict[str, Callable[[Row], Cell]] = {
    "1 release": lambda row: _releases(row, 1),
    "2 releases": lambda row: _releases(row, 2),
    "3 releases": lambda row: _releases(row, 3),
    "delta, 1 release": lambda row: _with_delta(row, 1),
    "delta, 2 releases": lambda row: _with_delta(row, 2),
    "delta, 3 releases": lambda row: _with_delta(row, 3),
    "groups": _groups,
    "categories": _categories,
    "announced reading": _announced,
    "state file": lambda row: _kept(row, holders.InFile, "save"),
    "pickle": lambda row: _kept(row, holders.Pickled, "to_bytes"),
    "state folder": _folder,
    "packed slots": _slots,
    "1 window": lambda row: windows(row, 1, 1),
    "2 windows, read once": lambda row: windows(row, 2, 1),
    "2 windows, read in each": lambda row: windows(row, 2, None),
    "2 windows, unread": lambda row: windows(row, 2, 0),
    "2 windows of 2 releases, read once": lambda row: windows(row, 2, 1, releases=2),
    "2 windows of 2 releases, unread": lambda row: windows(row, 2, 0, releases=2),
    "1 window, delta, unread": lambda row: windows(row, 1, 0, DELTA),
    "2 windows, delta, read once": lambda row: windows(row, 2, 1, DELTA),
    "2 windows, delta, unread": lambda row: windows(row, 2, 0, DELTA),
    "2 cycles, read once": lambda row: cycles(row, 1),
    "2 cycles, unread": lambda row: cycles(row, 0),
    "2 cycles, delta, read once": lambda row: cycles(row, 1, DELTA),
    "2 cycles, delta, unread": lambda row: cycles(row, 0, DELTA),
    "Continual": _continual,
    "merge": _merge,
    "grow": _grow,
    "clock and refusals": _clock,
}
"""What finds the cell of any row, by the feature that estimators are crossed with."""


# --- more than two features, and users who act as one -----------------------------------------------------------------


GROUPED = Users(["user0", "user1"], groups=list(KINDS))


def _audited(kind: Any, scenario: Scenario, holder: Any = holders.Holder, **options: Any) -> Cell:
    """An estimator in a holder."""
    return measure(lambda coins: holder(Row(kind).build(coins, **options), coins), scenario)


def _by_category(holder: Any) -> Cell:
    """A `Counts` with categories, in a holder."""
    return _audited(
        Counts,
        Scenario(range(1), 2, verbs=("update", "update_other")),
        lambda est, coins: holders.ByCategory(holder(est, coins), *KINDS),
        universe=2,
        categories=KINDS,
    )


def _windows_by_category(times: int, readings: int) -> Cell:
    """Windows of a `Density` whose users appear in one category, in the other, or in both."""

    make = partial(holders.Maker, Row(Density).build, universe=2, categories=KINDS)
    return measure(
        lambda coins: holders.ByCategory(holders.InWindows(make(coins), times, readings), *KINDS),
        Scenario(range(1), 3, releases=times, readings=readings, verbs=("update", "update_other")),
    )


def _groups_in_windows() -> Cell:
    options = {"universe": GROUPED, "delta": DELTA, "epsilon": 4.0}
    scenario = Scenario(["user0"], 1, releases=1, readings=0)
    return measure(lambda coins: holders.InWindows(holders.Maker(Row(Density).build, coins, **options), 1, 0), scenario)


def _together(events: int, **options: Any) -> Cell:
    """What k users who act as one lose: k times epsilon, ``delta * (e^(k*epsilon) - 1) / (e^epsilon - 1)``."""
    epsilon, delta = claim_of(Row(Density).build(SeededCoins(0), universe=2, **options))
    claimed = 2 * epsilon, delta * expm1(2 * epsilon) / expm1(epsilon)
    scenario = Scenario(range(2), events, together=2)
    return _audited(Density, scenario, partial(holders.Holder, claim=claimed), universe=2, **options)


MORE: dict[str, Callable[[], Cell]] = {
    "StateFolder x Counts x categories": lambda: _by_category(holders.InFolder),
    "state file x Counts x categories": lambda: _by_category(holders.InFile),
    "packed slots x Counts x categories": lambda: _by_category(holders.Combined),
    "StateFolder x Density x lost shards x 2 releases": lambda: _audited(
        Density, Scenario(range(2), 3, releases=2), holders.LosingShards, universe=2, releases=2
    ),
    "StateFolder x Counts x lost shards x 2 releases": lambda: _audited(
        Counts, Scenario(range(2), 2, releases=2), holders.LosingShards, universe=2, releases=2
    ),
    "Windows x Density x categories, read once": lambda: _windows_by_category(2, 1),
    "Windows x Density x categories, unread": lambda: _windows_by_category(2, 0),
    "Retention x groups x delta": lambda: _audited(
        Retention, Scenario(["user0"], 1, releases=2), universe=GROUPED, releases=1, delta=DELTA, epsilon=6.0
    ),
    "StateFolder x Counts x groups": lambda: _audited(
        Counts, Scenario(range(1), 2), holders.InFolder, universe=2, groups=list(KINDS)
    ),
    "StateFolder x Counts x delta": lambda: _audited(
        Counts, Scenario(range(1), 2), holders.InFolder, delta=DELTA, epsilon=8.0
    ),
    "Windows x Density x groups x delta, unread": _groups_in_windows,
    "Windows x Density x 2 releases x delta, read once": lambda: windows(Row(Density), 2, 1, DELTA, releases=2),
    "Windows x Density x 2 releases x delta, unread": lambda: windows(Row(Density), 2, 0, DELTA, releases=2),
    "ActiveUsers x groups x delta x 2 cycles": lambda: cycles(Row(ActiveUsers), 1, DELTA, universe=GROUPED),
    "Density x 3 releases x delta 1e-5 x epsilon 12": lambda: _audited(
        Density, Scenario(range(1), 1, releases=3), releases=3, delta=1e-5, epsilon=12.0
    ),
    "Density, 2 users who act as one": lambda: _together(2),
    "Density, delta, 2 users who act as one": lambda: _together(1, delta=DELTA, epsilon=3.0),
}
"""Crossings beyond pairs, by their names."""


# --- the whole table --------------------------------------------------------------------------------------------------

BEYOND = "beyond pairs"
"""What stands in the place of an estimator for crossings of more than two features."""


class Crossing(NamedTuple):
    """One cell to be filled."""

    estimator: str
    feature: str
    cell: Callable[[], Cell]


class Filled(NamedTuple):
    """One cell that is filled."""

    estimator: str
    feature: str
    cell: Cell


def crossings(estimator: str | None = None) -> list[Crossing]:
    """All cells of the table, or of one estimator."""
    chosen = [row for row in rows() if estimator is None or row.name.lower() == estimator.lower()]
    if not chosen:
        raise InvalidValue(
            f"there is no estimator {estimator!r} to cross; there are: {', '.join(r.name for r in rows())}",
            code="audit-estimator",
        )
    found = [Crossing(row.name, title, partial(cell, row)) for row in chosen for title, cell in COLUMNS.items()]
    if estimator is None:
        found += [Crossing(BEYOND, name, cell) for name, cell in MORE.items()]
    return found


def fill(wanted: Sequence[Crossing]) -> Iterator[Filled]:
    """Fill cells, one after the other."""
    for estimator, feature, cell in wanted:
        yield Filled(estimator, feature, cell())


def markdown(table: Sequence[Filled]) -> str:
    """The page: a table of verdicts, and for each estimator what was found."""
    estimators = list(dict.fromkeys(one.estimator for one in table if one.estimator != BEYOND))
    cells = {(one.estimator, one.feature): one.cell for one in table}
    lines = [f"| crossed with | {' | '.join(estimators)} |", f"|---|{'---|' * len(estimators)}"]
    for feature in COLUMNS:
        verdicts = (_verdict(cells[estimator, feature]) for estimator in estimators)
        lines.append(f"| {feature} | {' | '.join(verdicts)} |")
    for estimator in dict.fromkeys(one.estimator for one in table):
        lines += ["", f"## {title_of(estimator)}", ""]
        lines += ["| crossed with | verdict | exact | stated | how, or why not |", "|---|---|---|---|---|"]
        lines += [line_of(one) for one in table if one.estimator == estimator]
    return "\n".join(lines)


def title_of(estimator: str) -> str:
    """The title of the section of an estimator."""
    return "More than two features" if estimator == BEYOND else estimator


def _verdict(cell: Cell) -> str:
    return cell.verdict.value if cell.holds else "**DOES NOT HOLD**"


def line_of(one: Filled) -> str:
    """One crossing, in Markdown."""
    cell = one.cell
    why = cell.reason or cell.how.value
    return f"| {one.feature} | {_verdict(cell)} | {cell.exact} | {cell.stated} | {why.replace('|', '/')} |"

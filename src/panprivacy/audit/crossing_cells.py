"""Rows and cells of the table of crossings: an estimator as small as it can be, and what an audit of it finds.

**Rows** are every estimator of the package. A row is made of facts: which options the constructor takes, and which
verbs the class has. So an estimator gets its row by being registered. Its `TRAITS` say which options make it small.

**A cell** is audited, with its exact loss; refused; or not applicable.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cache, partial
from itertools import product
from math import inf
from pathlib import Path
from typing import Any

from panprivacy import registry
from panprivacy.audit.enumeration import claim_of, exact
from panprivacy.audit.enumeration.delta import Watcher
from panprivacy.audit.enumeration.loss import Judge
from panprivacy.audit.enumeration.machine import Laws, Machine, Make, Step
from panprivacy.audit.enumeration.search import Left, Search, Streams
from panprivacy.audit.enumeration.wording import AGREE
from panprivacy.audit.holders import Holder, InFolder, InWindows, Maker, new_place
from panprivacy.checks import LargeDelta
from panprivacy.errors import PanPrivacyError
from panprivacy.estimators.continual import Continual
from panprivacy.estimators.density import Density
from panprivacy.estimators.windows import Windows
from panprivacy.folder import StateFolder
from panprivacy.paper import FixedLevelPPDS
from panprivacy.privacy import exact as arithmetic
from panprivacy.privacy.coins import Coins
from panprivacy.registry import options_of
from panprivacy.testing import SeededCoins, gaussian_noise

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
            return Windows(Maker(self.build, SeededCoins(0)), every=1, start=0)
        if self.kind is StateFolder:
            with new_place() as place:
                return StateFolder.holding(self.build(SeededCoins(0)), Path(place) / "folder", shards=1)
        return self.build(SeededCoins(0))

    def holder(self, coins: Coins, **options: Any) -> Any:
        """The estimator, or the container with its estimator, as a stream meets it."""
        if self.kind is Windows:
            return InWindows(Maker(self.build, coins, **options))
        est = self.build(coins, **options)
        return InFolder(est, coins) if self.kind is StateFolder else Holder(est)


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
            search = Search(laws, Streams(scenario.events), scenario.verbs, False, judge.hear, judge.is_certain)
            left = Left(scenario.releases, scenario.readings, stretch=scenario.stretch)
            search.around(tuple(range(scenario.together)), left)
            found = arithmetic.round_up(judge.loss) if judge.settled else inf
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

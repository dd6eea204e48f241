"""One cell of the table of crossings: audited, with its exact loss; refused; or not applicable."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from math import inf
from typing import Any

from panprivacy.audit.enumeration.auditor import claim_of, exact
from panprivacy.audit.enumeration.loss import Judge
from panprivacy.audit.enumeration.machine import Laws, Machine, Make, Step
from panprivacy.audit.enumeration.search import RELEASE, AllStreams, Left, Search
from panprivacy.audit.enumeration.watcher import Watcher
from panprivacy.audit.enumeration.wording import AGREE
from panprivacy.checks import LargeDelta
from panprivacy.errors import PanPrivacyError
from panprivacy.privacy import exact as arithmetic


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


def refused(error: Exception) -> Cell:
    """The cell of a crossing that the library refuses."""
    return Cell(Verdict.REFUSED, f"{error}".splitlines()[0])


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
            found = watched(machine, scenario, epsilon)
        elif scenario.stretch or scenario.together > 1:
            found = _searched(machine, scenario)
        else:
            found = _loss(make, scenario)
    return Cell(Verdict.AUDITED, epsilon=epsilon, delta=delta, found=found, how=how)


def watched(machine: Machine, scenario: Scenario, epsilon: float) -> float:
    """The delta at an epsilon, against an intruder who decides by the releases."""
    watcher = Watcher(machine, list(actions(scenario)), RELEASE)
    return watcher.smallest_delta(epsilon, scenario.releases, scenario.readings, stretch=scenario.stretch)


def actions(scenario: Scenario) -> Iterator[tuple[Step, ...]]:
    """All that the users who differ can do between two observations: nothing, or a verb once or more."""
    yield ()
    for who in range(scenario.together):
        for verb in scenario.verbs:
            for times in range(1, scenario.events + 1):
                if not (scenario.even and times % 2):
                    yield (Step(verb, (who,)),) * times
    if scenario.together > 1:
        yield tuple(Step("update", (who,)) for who in range(scenario.together))


def _loss(make: Make, scenario: Scenario) -> float:
    result = exact(
        make,
        scenario.users,
        scenario.events,
        releases=scenario.releases,
        intrusions=scenario.intrusions,
        readings=scenario.readings,
        verbs=scenario.verbs,
    )
    return result.worst_loss if result.settled else inf


def _searched(machine: Machine, scenario: Scenario) -> float:
    """The loss, where the state is read in every stretch, or where several users act as one."""
    laws = Laws(machine)
    judge = Judge(laws)
    search = Search(laws, AllStreams(scenario.events), scenario.verbs, RELEASE, False, judge.hear, judge.is_certain)
    left = Left(scenario.releases, scenario.readings, stretch=scenario.stretch)
    search.around(tuple(range(scenario.together)), left)
    return arithmetic.round_up(judge.loss) if judge.settled else inf


def refusal(attempt: Callable[[], object]) -> Exception | None:
    """The error with which the library refuses, if it does; other errors are defects, and are not caught."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            attempt()
    except (PanPrivacyError, TypeError, ValueError) as error:
        return error
    return None

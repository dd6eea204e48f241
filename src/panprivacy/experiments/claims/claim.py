"""What was said, what was measured, and whether the one bears out the other."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from math import inf

from panprivacy.experiments.statistics import Interval

ERROR = 1e-4
"""The probability that chance alone makes a claim fail: all intervals that it is judged by miss together as rarely."""


class Verdict(StrEnum):
    """Whether a claim stands, as far as the repetitions can tell."""

    HOLDS = "holds"
    FAILS = "does not hold"
    OPEN = "not decided"


class Of(StrEnum):
    """Whose claim it is."""

    EXPERIMENTS = "What the paper says of its figures (sections 3, 4 and 6)"
    THEOREMS = "What the paper says of its algorithms' privacy"
    LIBRARY = "What this library says"


@dataclass(frozen=True)
class Claim:
    """A sentence and its verdict."""

    of: Of
    said: str
    where: str
    measured: str
    tolerance: str
    """The condition under which the sentence counts as true."""
    verdict: Verdict

    @property
    def counts(self) -> bool:
        """Whether a reproduction fails if this claim does.

        The privacy theorems are known to be wrong, and the library's promises have tests of their own.
        """
        return self.of is Of.EXPERIMENTS


def inside(found: Interval, low: float = -inf, high: float = inf) -> Verdict:
    """Whether a number that is known up to an interval lies between two others.

    >>> inside(Interval(2.0, 1.5, 2.5), low=1).value, inside(Interval(0.8, 0.5, 0.9), low=1).value
    ('holds', 'does not hold')
    >>> inside(Interval(1.1, 0.8, 1.4), low=1).value
    'not decided'
    """
    if low <= found.low and found.high <= high:
        return Verdict.HOLDS
    return Verdict.FAILS if found.high < low or high < found.low else Verdict.OPEN


def not_outside(found: Interval, low: float = -inf, high: float = inf) -> Verdict:
    """As `inside`, but what cannot be refuted holds: for many small parts of a claim that is decided as a whole."""
    return Verdict.FAILS if inside(found, low, high) is Verdict.FAILS else Verdict.HOLDS


def together(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict on a claim of several parts: it holds if all of them do."""
    found = set(verdicts)
    return next((verdict for verdict in (Verdict.FAILS, Verdict.OPEN) if verdict in found), Verdict.HOLDS)

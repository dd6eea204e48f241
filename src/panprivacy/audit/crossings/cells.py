"""One cell of the table of crossings: audited, refused or not applicable."""

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

_AGREE = 1e-12  # a claim is a float, computed in floats: it is compared to twelve digits


class Verdict(StrEnum):
    """What is known about a crossing."""

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
    """Of a crossing that is not applicable; of one that is refused, what the refusal says."""
    epsilon: float = 0.0
    """The loss that is stated."""
    delta: float = 0.0
    """The delta that is stated; 0 if none is."""
    found: float = 0.0
    """The exact loss; with a delta, the exact delta at the stated loss; of interference, the number of changes."""
    how: How = How.CODE

    @property
    def holds(self) -> bool:
        """Whether what was found is at most what is stated; a crossing that is not audited states nothing."""
        if self.verdict is not Verdict.AUDITED:
            return bool(self.reason)
        return self.found <= self.delta if self.delta else self.found <= self.epsilon * (1 + _AGREE)

    @property
    def exact(self) -> str:
        """What was found, for people."""
        if self.verdict is not Verdict.AUDITED:
            return ""
        if self.how is How.INTERFERENCE:
            return f"{self.found:.0f} changes"
        return f"delta {self.found:.2e}" if self.delta else f"{self.found:.6f}"

    @property
    def stated(self) -> str:
        """What is stated, for people."""
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

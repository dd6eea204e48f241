"""The accounting that every estimator shares: a law says what is lost at most, and what is spent follows from it.

There are two laws: `budget.Split` for planned releases and announced readings, `continual.shares.Shares` for any number
of observations.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from decimal import Decimal

from panprivacy.errors import NotPrivate
from panprivacy.privacy import exact
from panprivacy.privacy.pairs import Pair


@dataclass(frozen=True)
class Law(ABC):
    """What an estimator with these coins loses at most, as a function of how often things have been done.

    What can be done, and in which order it is counted, is for each law to say: `planned` has as many numbers as
    `exact_loss` takes.
    """

    epsilon: float
    """The total that was promised."""
    pair: Pair
    """The coins of the bits."""
    delta: float = field(default=0.0, kw_only=True)
    """The probability, at most, with which more than epsilon may be lost: none, without Gaussian noise."""

    def __post_init__(self) -> None:
        if self.exact_loss(*self.planned) > exact.decimal(self.epsilon):
            raise NotPrivate(f"this plan loses more than the {self.epsilon} it was given")

    @property
    @abstractmethod
    def planned(self) -> tuple[int, ...]:
        """How often each thing is planned to be done."""

    @abstractmethod
    def exact_loss(self, *done: int) -> Decimal:
        """The worst-case loss to 50 digits, once each thing has been done so often."""

    def loss(self, *done: int) -> float:
        """`exact_loss`, rounded up."""
        return exact.round_up(self.exact_loss(*done))

    @abstractmethod
    def delta_after(self, *done: int) -> float:
        """The delta that goes with `exact_loss`: all of it, as soon as Gaussian noise has been drawn once."""


@dataclass(frozen=True)
class Spending:
    """What an estimator has spent of its epsilon and delta."""

    epsilon: float
    """The total that was promised."""
    state: float
    """Share of the state: spent as soon as the estimator exists, since it may be read at any time."""
    spent: float
    """Worst-case loss of what has happened so far, one reading of the state included."""
    total: float
    """Worst-case loss once everything planned has happened: at most `epsilon`."""
    delta: float
    """The probability, at most, with which more than `total` is lost: 0 unless a delta was given."""
    delta_spent: float
    """The probability, at most, with which more than `spent` is lost."""

    @property
    def remaining(self) -> float:
        """What is still planned may spend."""
        return max(self.total - self.spent, 0.0)


def spent_under(law: Law, *done: int) -> dict[str, float]:
    """The fields of `Spending` when each thing of a law has been done so often."""
    return {
        "epsilon": law.epsilon,
        "state": law.pair.loss,
        "spent": law.loss(*done),
        "total": law.loss(*law.planned),
        "delta": law.delta,
        "delta_spent": law.delta_after(*done),
    }

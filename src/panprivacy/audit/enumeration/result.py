"""What an audit found, and the evidence in words."""

from dataclasses import asdict, dataclass
from math import isinf
from typing import Any

_AGREE = 1e-12  # a claim is a float, computed in floats: it is compared to twelve digits


@dataclass(frozen=True)
class Witness:
    """Two streams that differ in one user's events, and what an observer sees that tells them apart best."""

    user: str
    """Whose events differ."""
    stream_a: tuple[str, ...]
    """The stream under which the observation is likelier, with readings, releases and redraws at their moments."""
    stream_b: tuple[str, ...]
    """The stream under which it is less likely."""
    moment: str
    """When the state was read."""
    state: str
    """The state seen: those parts of the memory that can differ."""
    release: str
    """What was released."""
    probability_a: float
    """Probability of that observation under `stream_a`; a density if the noise is on real numbers."""
    probability_b: float
    others: tuple[str, ...] = ()
    """With a delta: all else that is seen and tells the streams apart. The probabilities are of all of it together."""

    def __str__(self) -> str:
        return (
            f"Streams that differ in the events of user {self.user}:\n"
            f"  A: {_line(self.stream_a)}\n"
            f"  B: {_line(self.stream_b)}\n"
            f"Seen: {self.seen}\n"
            f"Moment: {self.moment}\n"
            f"Probability: {self.probability_a:.6g} under A, {self.probability_b:.6g} under B"
        )

    @property
    def seen(self) -> str:
        """The observation in one line."""
        first = "; ".join(part for part in (self.state, self.release) if part)
        return f"{first}, or {len(self.others)} more such" if self.others else first

    @property
    def sentence(self) -> str:
        """The evidence in one sentence."""
        against = "impossible" if not self.probability_b else f"{self.probability_b:.3g}"
        a, b = _line(self.stream_a), _line(self.stream_b)
        return f"{self.seen}: {self.probability_a:.3g} after '{a}', {against} after '{b}'"


@dataclass(frozen=True)
class Result:
    """The worst that an observer can learn about one user, beside what was claimed."""

    worst_loss: float
    """``ln`` of the largest ratio of probabilities, rounded up; infinite if something seen rules a stream out.

    With a delta: the epsilon that is kept with the claimed delta, to six digits.
    """
    claimed: float
    """What the estimator says of itself."""
    settled: bool
    """False if `worst_loss` is only a lower bound, because the width of the noise was itself hidden from view."""
    witness: Witness | None
    """Where the worst loss occurs; None if nothing that is seen depends on anybody."""
    timelines: int
    """How many different sets of laws were compared."""
    states: int
    """How many states of the memory were reached."""
    reach: int | None = None
    """How far from zero numbers were followed that stay in the state with noise on them; None if there are none.

    Such a number has infinitely many values. What leads beyond is left out, and the loss is exact up to the weight of
    that.
    """
    worst_delta: float = 0.0
    """With a delta: the largest that is needed at the claimed epsilon. Never too small: what is not summed is added."""
    claimed_delta: float = 0.0
    """What the estimator says of itself; 0 if it claims epsilon alone, and then no delta is looked for."""

    @property
    def holds(self) -> bool:
        """Whether the loss is at most what was claimed, to twelve digits; with a delta, whether the delta is."""
        if self.claimed_delta:
            return self.worst_delta <= self.claimed_delta
        return self.settled and self.worst_loss <= self.claimed * (1 + _AGREE)

    def __str__(self) -> str:
        head = self._delta_line() if self.claimed_delta else self._loss_line()
        return f"{head}\n{self.witness}" if self.witness else head

    def _delta_line(self) -> str:
        verdict = "holds" if self.holds else "DOES NOT HOLD"
        return (
            f"worst delta {self.worst_delta:.3g} at epsilon {self.claimed:.6f}, claimed {self.claimed_delta:.3g}: the "
            f"claim {verdict}{self._reached} (at delta {self.claimed_delta:.3g}, epsilon {self.worst_loss:.6f})"
        )

    def _loss_line(self) -> str:
        verdict = "holds" if self.holds else "DOES NOT HOLD" if self.worst_loss > self.claimed else "is not proven"
        bound = "" if self.settled or isinf(self.worst_loss) else "at least "
        loss, claimed = f"{bound}{self.worst_loss:.6f}", f"{self.claimed:.6f}"
        return f"worst loss {loss}, claimed {claimed}: the claim {verdict}{self._reached}"

    @property
    def _reached(self) -> str:
        return "" if self.reach is None else f" (noise in the state followed up to {self.reach})"

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        loss = "infinite" if isinf(self.worst_loss) else self.worst_loss
        claimed = "infinite" if isinf(self.claimed) else self.claimed
        return asdict(self) | {"worst_loss": loss, "claimed": claimed, "holds": self.holds}


def _line(stream: tuple[str, ...]) -> str:
    return ", ".join(stream)

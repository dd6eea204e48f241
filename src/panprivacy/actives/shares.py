"""What the noisy counts of phases say: shares of active users, their errors, and how sticky they are."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from panprivacy.privacy.budget import Split
from panprivacy.release.actives import days_in, month_in
from panprivacy.release.error import Error, Ratio, ratio_of
from panprivacy.release.spread import Spread
from panprivacy.slots import Sampled
from panprivacy.slots.phased import phases_by_age


@dataclass(frozen=True)
class Shares:
    """The raw shares of users active in the last 1, 2, ... days, each with the law of the users who tell it."""

    raw: tuple[float, ...]
    spreads: tuple[Spread, ...]

    @property
    def stderrs(self) -> tuple[float, ...]:
        """Standard errors."""
        return tuple(spread.stderr(_inside(raw)) for raw, spread in zip(self.raw, self.spreads, strict=True))

    def intervals(self, level: float) -> tuple[tuple[float, float], ...]:
        """Confidence intervals."""
        return tuple(spread.interval(raw, level) for raw, spread in zip(self.raw, self.spreads, strict=True))

    def stickiness(self, length: timedelta, level: float) -> Ratio | None:
        """Daily actives as a share of monthly ones, which other users tell: their errors are independent."""
        day, month = days_in(timedelta(days=1), length), month_in(length, len(self.raw))
        if day is None or month is None:
            return None
        errors = self._error(day), self._error(month), Error(0.0, 0.0, self.spreads[0].noise)
        return ratio_of(self.raw[day - 1], self.raw[month - 1], errors, level)

    def _error(self, days: int) -> Error:
        spread = self.spreads[days - 1]
        return Error(spread.normal_variance(_inside(self.raw[days - 1])), spread.noise_stderr**2, spread.noise)


def spread_of(phases: Sequence[Sampled], split: Split) -> Spread:
    """The law of the share that the users of some phases tell."""
    bits, users = sum(phase.size for phase in phases), sum(phase.users for phase in phases)
    return Spread(split.pair, bits, users, phases[0].universe, split.noise)


def shares_of(noisy: Sequence[int], day: int, phases: Sequence[Sampled], split: Split) -> Shares:
    """The shares that were released at the end of a day."""
    spreads = [spread_of([phases[i] for i in same], split) for same in phases_by_age(day, len(phases))]
    return Shares(tuple(s.density(count) for s, count in zip(spreads, noisy, strict=False)), tuple(spreads))


def _inside(share: float) -> float:
    return min(max(share, 0.0), 1.0)

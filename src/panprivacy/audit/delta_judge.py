"""The largest delta of all timelines at a claimed epsilon, kept with what it takes to show it."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import permutations
from typing import TypeAlias

from panprivacy.audit.contrasts import Contrast, contrast_of
from panprivacy.audit.divergence import divergence
from panprivacy.audit.laws import Laws
from panprivacy.audit.machine import Step
from panprivacy.audit.search import Finished
from panprivacy.audit.views import Views, steps_of

Profile: TypeAlias = frozenset[tuple[Contrast | None, Fraction]]
"""All that tells two laws apart: contrasts and their shares. None stands for what was left out of the first law."""

_FINE = 1e-6  # how closely an epsilon is bracketed


@dataclass(frozen=True)
class Excess:
    """Two laws whose divergence is the delta, and the steps that lead to each."""

    delta: float
    law_a: int
    law_b: int
    steps_a: tuple[Step, ...]
    steps_b: tuple[Step, ...]


class DeltaJudge:
    """Finds the largest divergence, at one epsilon, of any two laws of a finished timeline, in either direction."""

    def __init__(self, laws: Laws, epsilon: float) -> None:
        self.epsilon = epsilon
        self.views = Views(laws)
        self.worst: Excess | None = None
        self._judged: set[frozenset[int]] = set()
        self._profiles: set[Profile] = set()
        self._profile = cache(self._make_profile)
        self._divergence = cache(divergence)

    @property
    def delta(self) -> float:
        """The largest so far."""
        return self.worst.delta if self.worst else 0.0

    @property
    def timelines(self) -> int:
        """How many different sets of laws were compared."""
        return len(self._judged)

    def is_certain(self) -> bool:
        """Whether nothing worse can come: something has been seen that rules a stream out for certain."""
        return self.delta >= 1

    def hear(self, finished: Finished) -> None:
        """Compare the laws of one timeline."""
        case = frozenset(finished)
        if len(case) < 2 or case in self._judged:
            return
        self._judged.add(case)
        for a, b in permutations(finished, 2):
            profile = self._profile(a, b)
            if profile in self._profiles:
                continue
            self._profiles.add(profile)
            delta = self._delta(profile, self.epsilon)
            if delta > self.delta:
                self.worst = Excess(delta, a, b, steps_of(finished[a]), steps_of(finished[b]))

    def loss_at(self, delta: float) -> float:
        """The epsilon at which no divergence is above delta, from above and to six digits."""
        loss = 0.0
        for profile in self._profiles:
            if self._delta(profile, loss) <= delta:
                continue
            low, high = loss, max(2 * self.epsilon, 1.0)
            while self._delta(profile, high) > delta:
                low, high = high, 2 * high
                if high > 700:
                    return float("inf")
            while high - low > _FINE:
                middle = (low + high) / 2
                low, high = (middle, high) if self._delta(profile, middle) > delta else (low, middle)
            loss = high
        return loss

    def _delta(self, profile: Profile, epsilon: float) -> float:
        """The divergence of two laws: at most 1, and never too small."""
        return min(
            sum(
                float(share)
                if contrast is None
                else float(share * contrast.whole) * self._divergence(contrast, epsilon)
                for contrast, share in profile
            ),
            1.0,
        )

    def _make_profile(self, a: int, b: int) -> Profile:
        one, other = self.views.of(a), self.views.of(b)
        shares: dict[Contrast | None, Fraction] = {}
        for visible, weights in one.items():  # what is impossible under the first law adds nothing
            contrast, share, _ = contrast_of(weights, other.get(visible))
            shares[contrast] = shares.get(contrast, Fraction(0)) + share
        if missing := self.views.missing(a):
            shares[None] = missing
        return frozenset(shares.items())

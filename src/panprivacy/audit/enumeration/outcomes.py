"""A coin source that takes every branch, and gives the exact probability of each.

Noise that leaves the estimator is not drawn but recorded. Noise that stays in the state is enumerated, with the
probabilities at the end of this file, which are exact to 25 digits.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import cache
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from panprivacy.errors import PanPrivacyError
from panprivacy.privacy import exact
from panprivacy.privacy.coins import ONE, Coins, Flips, check_threshold
from panprivacy.privacy.noise import Gaussian, Noise

T = TypeVar("T")

MOST_WAYS = 4096
"""A single draw with more outcomes than this is refused: its branches could not be walked."""

_MOST_FLIPS = 20
_CONTEXT = Context(prec=50)
_NOTHING = Decimal("1e-45")


class TooManyOutcomes(PanPrivacyError, ValueError):
    """A draw has more outcomes than can be enumerated."""


class NoBound(PanPrivacyError, ValueError):
    """Gaussian noise is under a claim of pure epsilon."""

    def __init__(self) -> None:
        super().__init__("Gaussian noise keeps no epsilon without a delta: let the estimator claim a delta, too")


@dataclass(frozen=True)
class RealLaplace:
    """Laplace noise on a real number: x has density ``epsilon/2 * exp(-epsilon * |x|)``."""

    epsilon: Fraction


class Noised(NamedTuple):
    """A number that leaves behind noise: the observer sees o with the law's weight at ``o - value``."""

    value: Fraction
    law: Noise | RealLaplace

    @property
    def whole(self) -> bool:
        """True for exact discrete noise on an integer, False for Laplace noise on a real number."""
        return not isinstance(self.law, RealLaplace)

    @property
    def rate(self) -> Fraction:
        """The epsilon of Laplace noise. Gaussian noise has none: far out, it tells two values apart for certain."""
        if isinstance(self.law, Gaussian):
            raise NoBound
        return self.law.epsilon


@dataclass(frozen=True)
class Outcome(Generic[T]):
    """One way a call can go: what it returned, how likely that is, and what it added noise to."""

    value: T
    weight: Fraction
    noised: tuple[Noised, ...]


class EveryOutcome(Coins):
    """Coins that land on every side in turn.

    `outcomes` repeats a call until each sequence of answers that the call can be given has been given once. Noise
    is not drawn: it is noted as the number under it and its law, and the caller gets a constant, so nothing that
    noise is to hide can enter the state unseen.

    >>> coins = EveryOutcome()
    >>> [(int(o.value), str(o.weight)) for o in coins.outcomes(lambda: coins.below(ONE // 4, 2).sum())]
    [(0, '9/16'), (1, '3/16'), (1, '3/16'), (2, '1/16')]
    """

    secure = False

    STAND_IN = 1
    """What `noisy` and `noisy_real` return. Not 0, which would hide a factor that depends on the state."""

    REACH = 6
    """How far from zero a number with noise that stays in the state is followed, unless told otherwise."""

    def __init__(self, reach: int | None = None) -> None:
        self.reach = self.REACH if reach is None else reach
        self._taken: list[tuple[int, int]] = []  # at each draw of this run: the branch taken, of how many
        self._at = 0
        self._weight = Fraction(1)
        self._noised: list[Noised] = []
        self._running = False
        self.walked = 0
        """Outcomes of the last call."""
        self.cut = False
        """Whether outcomes were left out, because noise that stays in the state has infinitely many."""

    def outcomes(self, call: Callable[[], T]) -> Iterator[Outcome[T]]:
        """Run a call under every outcome of the coins it asks for. The call must start afresh each time."""
        self._taken, self.walked = [], 0
        while True:
            self._at, self._weight, self._noised, self._running = 0, Fraction(1), [], True
            value = call()
            self._running = False
            if self._at != len(self._taken):
                raise RuntimeError("the call drew fewer coins when it was repeated: it depends on more than its coins")
            self.walked += 1
            yield Outcome(value, self._weight, tuple(self._noised))
            while self._taken and self._taken[-1][0] + 1 == self._taken[-1][1]:
                self._taken.pop()
            if not self._taken:
                return
            branch, ways = self._taken[-1]
            self._taken[-1] = (branch + 1, ways)

    def below(self, threshold: int, n: int) -> Flips:
        check_threshold(threshold)
        if n > _MOST_FLIPS:
            raise TooManyOutcomes(
                f"{n} flips at once have 2**{n} outcomes; audit a smaller table", code="too-many-flips"
            )
        heads = Fraction(threshold, ONE)
        flips = np.zeros(n, dtype=np.bool_)
        for i in range(n):
            flips[i] = self._branch(2) == 1
            self._weight *= heads if flips[i] else 1 - heads
        return flips

    def randbelow(self, n: int) -> int:
        if n > MOST_WAYS:
            raise TooManyOutcomes(
                f"a draw among {n} values cannot be enumerated; if it is a key, give the estimator a fixed one: the "
                "state shows it, so the loss is that of the worst key",
                code="draw-too-wide",
            )
        self._weight /= n
        return self._branch(n)

    def noisy(self, value: int, noise: Noise) -> int:
        self._noised.append(Noised(Fraction(int(value)), noise))
        return self.STAND_IN

    def noisy_real(self, value: float, scale: float) -> float:
        self._noised.append(Noised(Fraction(float(value)), RealLaplace(1 / Fraction(float(scale)))))
        return float(self.STAND_IN)

    def noisy_inside(self, value: int, noise: Noise) -> int:
        """Noise that is kept has infinitely many outcomes: those beyond `reach` are left out, with their weight."""
        self.cut = True
        noisy = self._branch(2 * self.reach + 1) - self.reach
        self._weight *= chance(abs(noisy - value), noise)
        return noisy

    def reaches(self, value: int, bar: int, noise: Noise) -> bool:
        """Two outcomes, since the noise is not seen: no tail is left out."""
        reached = self._branch(2) == 1
        beyond = chance(abs(bar - value) + (bar <= value), noise, beyond=True)
        self._weight *= beyond if reached == (bar > value) else 1 - beyond
        return reached

    def _branch(self, ways: int) -> int:
        if not self._running:
            raise RuntimeError("coins were drawn outside of the call that is being enumerated")
        if self._at == len(self._taken):
            self._taken.append((0, ways))
        branch, known = self._taken[self._at]
        if known != ways:
            raise RuntimeError("the call drew other coins when it was repeated: it depends on more than its coins")
        self._at += 1
        return branch


@cache
def chance(distance: int, noise: Noise, *, beyond: bool = False) -> Fraction:
    """``P(X = distance)``, for a distance of at least 0; or ``P(X >= distance)``, for a distance above 0."""
    if isinstance(noise, Gaussian):
        heights, whole = _bell(noise.square)
        share = Fraction(exact.add(*heights[distance : None if beyond else distance + 1])) / whole
    else:
        a = Fraction(exact.exp(exact.decimal(-noise.epsilon)))
        share = a**distance / (1 + a) if beyond else (1 - a) / (1 + a) * a**distance
    # A power of two below the line keeps the fractions of an audit short.
    return Fraction(max(round(share * 2**96), 1), 2**96)


@cache
def _bell(square: Fraction) -> tuple[tuple[Decimal, ...], Fraction]:
    """``exp(-x^2 / (2*square))`` for x = 0, 1, .. until nothing is left, and the sum over all integers.

    From one height to the next it takes a factor ``q^(2x+1)`` with ``q = exp(-1 / (2*square))``.
    """
    step = exact.exp(exact.decimal(-1 / (2 * square)))
    factor, double = step, _CONTEXT.multiply(step, step)
    heights = [Decimal(1)]
    while heights[-1] > _NOTHING:
        heights.append(_CONTEXT.multiply(heights[-1], factor))
        factor = _CONTEXT.multiply(factor, double)
    return tuple(heights), 2 * Fraction(exact.add(*heights)) - 1

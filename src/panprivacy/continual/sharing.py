"""The shares of a total epsilon with which an observer errs least."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil, exp, expm1, floor, inf, log, log1p, sqrt, tanh

import numpy as np
from numpy.typing import NDArray

from panprivacy.checks import check_epsilon
from panprivacy.continual import epochs
from panprivacy.continual.accuracy import log_moment
from panprivacy.continual.shares import Shares
from panprivacy.errors import NotPrivate
from panprivacy.privacy.budget import LARGEST_SQUARE, LARGEST_STATE_EPSILON, RELEASE_STEPS, SQUARE_STEPS
from panprivacy.privacy.gaussian import LEAST_SQUARE
from panprivacy.privacy.noise import Gaussian, Laplace, Noise
from panprivacy.privacy.pairs import Pair, symmetric
from panprivacy.privacy.splitting import even_if_worse

_BETA = 0.0125  # of each source of error in the statement for the usual beta of 0.05
_WORTH_A_DELTA = 0.95  # of the error without one
_IMPOSSIBLE = 1e9  # the error of shares that are none; finite, since the search subtracts errors


@dataclass(frozen=True)
class Plan:
    """What an observer is planned for."""

    size: int
    """How many bits there are."""
    moves: int
    observations: int
    rising: bool = False
    """Whether the shares may be those of a stream that only rises."""


def best_shares(epsilon: float, plan: Plan, delta: float | None = None, pair: Pair | None = None) -> Shares:
    """Share out a total epsilon so that the accuracy that is promised for a plan is best.

    A delta is used only where it is better than none. If the bits are drawn already, their `pair` is the state's share.

    >>> plan = Plan(1_000_000, moves=20, observations=1000, rising=True)
    >>> shares = best_shares(1.0, plan)
    >>> round(shares.loss(20), 9), [round(float(x), 3) for x in (shares.threshold, shares.test, shares.value.epsilon)]
    (1.0, [0.063, 0.006, 0.006])
    """
    epsilon = check_epsilon(epsilon)
    if plan.moves < 1 or plan.observations < 1:
        raise ValueError(f"plan at least one move and one observation, got {plan.moves} and {plan.observations}")
    return _best_shares(epsilon, plan, delta, pair, even_if_worse.get())


@lru_cache(maxsize=256)
def _best_shares(epsilon: float, plan: Plan, delta: float | None, pair: Pair | None, even_if_worse: bool) -> Shares:
    found = _Search(epsilon, plan, 0.0, pair).best()
    if delta:
        other = _Search(epsilon, plan, delta, pair).best()
        found = other if even_if_worse or other.error < _WORTH_A_DELTA * found.error else found
    if found.error < _IMPOSSIBLE:
        for shares in found.affordable(plan, epsilon, pair):
            return shares
    raise ValueError(f"epsilon = {epsilon} is too small for {plan.moves} moves")


@dataclass(frozen=True)
class _Found:
    """Shares as floats: of the state, the walk's step, the test and the value, which is 1/sigma if there is a delta."""

    error: float
    state: float
    noises: tuple[float, float, float]
    delta: float

    def affordable(self, plan: Plan, epsilon: float, pair: Pair | None) -> Iterator[Shares]:
        """The shares as fractions. Floats may have erred in the last digits: step down until the exact loss fits."""
        drawn, shrink, less = pair or symmetric(self.state), 1.0, 2**-40
        while shrink > 0.5:
            threshold, test = (Fraction(floor(x * shrink * RELEASE_STEPS), RELEASE_STEPS) for x in self.noises[:2])
            noise = _noise(self.noises[2] * shrink, self.delta)
            if min(threshold, test) > 0 and noise is not None:
                with suppress(NotPrivate):
                    yield Shares(epsilon, drawn, plan.moves, threshold, test, noise, plan.rising, delta=self.delta)
            shrink, less = shrink - less, 2 * less


def _noise(share: float, delta: float) -> Noise | None:
    """The noise of a released count, if it can be drawn."""
    if not delta:
        epsilon = Fraction(floor(share * RELEASE_STEPS), RELEASE_STEPS)
        return Laplace(epsilon) if epsilon > 0 else None
    square = max(Fraction(ceil(share**-2 * SQUARE_STEPS), SQUARE_STEPS), LEAST_SQUARE)
    return Gaussian(square) if square <= LARGEST_SQUARE else None


@dataclass(frozen=True)
class _Search:
    """The search for the best shares under one law."""

    epsilon: float
    plan: Plan
    delta: float
    pair: Pair | None

    def best(self) -> _Found:
        """Search over the proportions of the shares; how large they are then follows from epsilon."""
        from scipy.optimize import minimize

        tests = log(4 / self.plan.moves) / 2
        start = np.zeros(4)
        start[1:3] = tests

        def error(at: NDArray[np.float64]) -> float:
            return self._at(*at.tolist()).error

        found = minimize(error, start, method="Nelder-Mead", options={"xatol": 1e-4, "fatol": 1e-7, "maxiter": 2000})
        return self._at(*found.x.tolist())

    def _at(self, of_state: float, test: float, value: float, rate: float) -> _Found:
        state = self.pair.loss if self.pair else _part(of_state) * min(self.epsilon, LARGEST_STATE_EPSILON)
        if max(abs(test), abs(value)) > 30 or state < 1e-9:
            return _Found(_IMPOSSIBLE, state, (0.0, 0.0, 0.0), self.delta)
        proportions = (1.0, exp(test), exp(value))
        scale = self._scale(state, proportions)
        noises = (scale, scale * proportions[1], scale * proportions[2])
        return _Found(self._error(state, noises, _part(rate)), state, noises, self.delta)

    def _scale(self, state: float, proportions: tuple[float, float, float]) -> float:
        """How large the shares can be in these proportions."""
        from scipy.optimize import brentq

        def excess(scale: float) -> float:
            threshold, test, value = (scale * each for each in proportions)
            return self._loss(state, threshold, test, value) - self.epsilon

        return float(brentq(excess, 0.0, self.epsilon / 3, xtol=1e-15, rtol=1e-13)) if excess(0.0) < 0 else 0.0

    def _loss(self, state: float, threshold: float, test: float, value: float) -> float:
        """The laws of `panprivacy.continual.shares`, in floats."""
        moves, walk = self.plan.moves, state + 3 * threshold
        if test <= 0:
            return walk
        if self.delta:
            m, square = 2 * test, value**-2
            order = epochs.best_order(m, square, moves, self.delta)
            return walk + test + max(epochs.loss_at(order, m, square, moves, self.delta), 0.0)
        p1 = 1 / (1 + exp(-state))
        if not self.plan.rising:
            return walk + moves * test + _mixture(p1, (moves + 1) * test + moves * value)
        test = max(test, value)
        each = test + value
        beside = max(moves * max(0.0, test - p1 * each), moves * test - state)
        return walk + test + _mixture(p1, moves * each) + beside

    def _error(self, state: float, noises: tuple[float, float, float], part: float) -> float:
        """What the accuracy adds to the step, as a part of all users; `part` sets the rate in Chernoff's bound."""
        threshold, test, value = noises
        plan, whole = self.plan, self.plan.size * tanh(state / 2)
        if min(threshold, test, value) < 1e-12 or whole <= 0:
            return _IMPOSSIBLE
        looks, rate = log(2 * plan.observations / _BETA), part * min(threshold, test)
        tested = (looks + plan.observations * log_moment(threshold, rate) + log_moment(test, rate)) / rate
        tail = log(2 * min(plan.moves, plan.observations) / _BETA)
        valued = sqrt(2 * tail) / value if self.delta else tail / value
        bits = sqrt(plan.size * tanh(state / 2) / state * looks)
        # Of a stream that only rises the middle of what can be is published, which halves all but one of each.
        parts = (tested, valued, 2 * bits) if plan.rising else (2 * tested, valued, 3 * bits)
        return min(sum(parts) / whole, _IMPOSSIBLE / 2) if sum(parts) < inf else _IMPOSSIBLE


def _part(x: float) -> float:
    """Any number as a part of one."""
    return 1 / (1 + exp(-min(max(x, -700.0), 36.0)))


def _mixture(p: float, exponent: float) -> float:
    """``ln(1 + p*(e^exponent - 1))``, for any exponent."""
    return exponent + log1p((1 - p) * expm1(-exponent))

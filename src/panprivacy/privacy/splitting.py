"""The split of a total epsilon between the state, the releases and the redraws that errs least."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil, exp, expm1, floor, log, log1p, sqrt

import numpy as np
from numpy.typing import NDArray

from panprivacy.checks import bounded_delta, check_epsilon
from panprivacy.errors import NotPrivate
from panprivacy.privacy import gaussian, noise
from panprivacy.privacy.budget import (
    LARGEST_SQUARE,
    LARGEST_STATE_EPSILON,
    MOST_INTRUSIONS,
    MOST_RELEASES,
    RELEASE_STEPS,
    SQUARE_STEPS,
    Split,
)
from panprivacy.privacy.coins import ONE
from panprivacy.privacy.noise import Gaussian, Laplace
from panprivacy.privacy.pairs import Pair, response, symmetric
from panprivacy.sizes import counted

_IMPOSSIBLE = 1e9  # the log error of shares that exceed the budget; finite, since the search subtracts errors


@lru_cache(maxsize=256)
def best_split(
    epsilon: float,
    size: int,
    releases: int = 1,
    intrusions: int = 0,
    delta: float | None = None,
    *,
    up_to: int | None = None,
) -> Split:
    """Split a total epsilon so that a table of `size` bits errs least; with a delta, for Gaussian noise.

    Minimises ``(size*p1*p0 + Var(noise)) / (size*(p1-p0))**2`` for the pair that is left after all intrusions. For a
    table of counters up to `up_to` whose places are all released, ``(up_to - (p1-p0)**2) / up_to**2`` takes the place
    of ``p1*p0``.

    >>> split = best_split(0.4, 1000)
    >>> round(split.pair.loss, 3), round(split.loss(1, 0), 6)
    (0.313, 0.4)
    >>> split = best_split(1.0, 1_000_000, releases=365, delta=1e-9)
    >>> round(split.pair.loss, 3), round(split.loss(365, 0), 6), round(split.noise.variance ** 0.5)
    (0.73, 1.0, 369)
    """
    epsilon = check_epsilon(epsilon)
    if delta is not None:
        delta = bounded_delta(delta)
    if size < 1:
        raise ValueError(f"the table needs at least one bit, got {size}")
    if releases < 1:
        raise ValueError(f"plan at least one release, got releases={releases}")
    if releases > MOST_RELEASES:
        raise ValueError(
            f"plan at most {MOST_RELEASES:,} releases, got {releases:,}; pp.Continual may be looked at for ever"
        )
    if intrusions < 0:
        raise ValueError(f"intrusions must not be negative, got {intrusions}")
    if intrusions > MOST_INTRUSIONS:
        raise ValueError(f"plan at most {MOST_INTRUSIONS} intrusions, got {intrusions}")
    reach = 1 if up_to is None else 2
    choice = _Gaussian(releases, delta, reach) if delta else _Laplace(releases, reach)
    state, redraw = _best_shares(epsilon, size, intrusions, choice, up_to)
    try:
        pair = symmetric(state)
        flip = response(redraw) if intrusions else 0
        rest = epsilon - pair.loss
        if intrusions:  # the flip is rounded: take what it really loses
            redraw = log((ONE - flip) / flip)
            rest -= _later_redraws(pair.loss, redraw, intrusions)
        if _left_of(pair, flip, intrusions):
            for drawn in choice.affordable(rest, float(pair.p1), redraw):
                try:  # floats may have erred in the last digits: step down until the exact loss fits
                    return Split(epsilon, pair, drawn, releases, flip, intrusions, delta=delta or 0.0, reach=reach)
                except NotPrivate:
                    continue
    except ValueError:  # which speaks of a share of epsilon, and that is nobody's number
        pass
    planned = f"{counted(releases, 'release')} and {counted(intrusions, 'intrusion')}"
    raise ValueError(f"epsilon = {epsilon} is too small for {planned}")


@dataclass(frozen=True)
class _Laplace:
    """Laplace noise for so many releases: pure epsilon."""

    releases: int
    reach: int

    def variance(self, rest: float, p1: float, redraw: float) -> float | None:
        """Variance of the noise that `rest` can pay for, or None."""
        each = self._each(rest, p1, redraw)
        return noise.variance(each) if each > 0 else None

    def affordable(self, rest: float, p1: float, redraw: float) -> Iterator[Laplace]:
        """The noise that `rest` pays for, and then a little more of it each time."""
        steps = floor(self._each(rest, p1, redraw) * RELEASE_STEPS)
        while steps > 0:
            yield Laplace(Fraction(steps, RELEASE_STEPS))
            steps -= max(1, steps >> 40)

    def _each(self, rest: float, p1: float, redraw: float) -> float:
        """The epsilon of the noise on each count."""
        released = _released(rest, p1, redraw) if self.reach == 1 else rest
        return released / (self.releases * self.reach)


@dataclass(frozen=True)
class _Gaussian:
    """Gaussian noise for so many releases, which lose epsilon but for a probability of delta."""

    releases: int
    delta: float
    reach: int

    def variance(self, rest: float, p1: float, redraw: float) -> float | None:
        """Variance of the noise that `rest` can pay for, or None."""
        rest -= log1p(p1 * (exp(redraw) - 1))
        return self.releases * (self.reach / _mean_of(rest, self.delta)) ** 2 if rest > 0 else None

    def affordable(self, rest: float, p1: float, redraw: float) -> Iterator[Gaussian]:
        """The noise that `rest` pays for, and then a little more of it each time."""
        square = self.variance(rest, p1, redraw)
        more = 1e-7
        while square is not None and square <= LARGEST_SQUARE:
            yield Gaussian(max(Fraction(ceil(square * SQUARE_STEPS), SQUARE_STEPS), gaussian.LEAST_SQUARE))
            square, more = square * (1 + more), min(2 * more, 0.01)


@lru_cache(maxsize=4096)
def _mean_of(epsilon: float, delta: float) -> float:
    """The m for which a normal law around 0 and one around m, both of variance 1, are (epsilon, delta) apart.

    That is ``delta = Phi(m/2 - epsilon/m) - e^epsilon * Phi(-m/2 - epsilon/m)`` (Balle and Wang 2018).
    """
    from scipy.optimize import brentq
    from scipy.special import log_ndtr

    def excess(log_m: float) -> float:
        m = exp(log_m)
        one, other = float(log_ndtr(m / 2 - epsilon / m)), float(log_ndtr(-m / 2 - epsilon / m)) + epsilon
        return (one + log(-expm1(other - one)) if other < one else -1e9) - log(delta)

    # With epsilon = rho + 2*sqrt(rho*ln(1/delta)), m = sqrt(2*rho) is private by concentrated privacy: look around it.
    enough = sqrt(2) * (sqrt(log(1 / delta) + epsilon) - sqrt(log(1 / delta)))
    return exp(float(brentq(excess, log(enough) - 1, log(enough) + 4, xtol=1e-12)))


def _left_of(pair: Pair, flip: int, redraws: int) -> bool:
    """Whether the two coins of a pair still differ after so many redraws."""
    for _ in range(redraws):
        pair = pair.seen_through(flip)
    return pair.present > pair.absent


def _best_shares(
    epsilon: float, size: int, intrusions: int, choice: "_Laplace | _Gaussian", up_to: int | None
) -> tuple[float, float]:
    """The shares of state and redraw that minimise the error of the last release."""
    from scipy.optimize import minimize, minimize_scalar

    top = min(epsilon, LARGEST_STATE_EPSILON)

    def log_error(state: float, redraw: float) -> float:
        rest = epsilon - state - _later_redraws(state, redraw, intrusions)
        p1 = _logistic(state)
        of_noise = choice.variance(rest, p1, redraw)
        if of_noise is None:
            return _IMPOSSIBLE
        for _ in range(intrusions):
            p1 = _through(p1, redraw)
        if p1 <= 0.5:
            return _IMPOSSIBLE
        of_bit = p1 * (1 - p1) if up_to is None else (up_to - (2 * p1 - 1) ** 2) / up_to**2
        spread = size * of_bit + of_noise
        return log(spread) - 2 * log(size * (2 * p1 - 1))

    if not intrusions:
        found = minimize_scalar(
            lambda share: log_error(share * top, 0.0),
            bounds=(0.0, 1.0),
            method="bounded",
            options={"xatol": 1e-9},
        )
        return float(found.x) * top, 0.0

    def objective(shares: NDArray[np.float64]) -> float:
        state, redraw = shares.tolist()
        return log_error(state, redraw) if min(state, redraw) > 0 else _IMPOSSIBLE

    start = np.full(2, 0.9 * top / (intrusions + 1))
    state, redraw = minimize(objective, start, method="Nelder-Mead").x.tolist()
    return state, redraw


def _logistic(x: float) -> float:
    return 1 / (1 + exp(-x))


def _through(p: float, redraw: float) -> float:
    q = 1 - _logistic(redraw)
    return p * (1 - q) + (1 - p) * q


def _later_redraws(state: float, redraw: float, intrusions: int) -> float:
    """The last sum of the formula at the top of this file."""
    p1, total = _logistic(state), 0.0
    for _ in range(1, intrusions):
        p1 = _through(p1, redraw)
        total += log1p(p1 * (exp(redraw) - 1))
    return total


def _released(rest: float, p1: float, redraw: float) -> float:
    """The R for which ``ln(1 + p1*(e^(R + redraw) - 1)) = rest``."""
    if rest > 500:
        return rest - log(p1) - redraw
    grown = (exp(rest) - 1) / p1
    return log1p(grown) - redraw if grown > 0 else 0.0

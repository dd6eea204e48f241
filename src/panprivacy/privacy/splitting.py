"""The split of a total epsilon between the state, the releases and the redraws that errs least."""

from collections.abc import Iterator
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil, exp, expm1, floor, log, log1p, sqrt

import numpy as np
from numpy.typing import NDArray

from panprivacy.checks import bounded_delta, check_epsilon
from panprivacy.display import counted
from panprivacy.errors import InvalidValue, NotPrivate
from panprivacy.privacy import gaussian, noise, renyi
from panprivacy.privacy.budget import (
    LARGEST_SQUARE,
    LARGEST_STATE_EPSILON,
    MOST_INTRUSIONS,
    MOST_RELEASES,
    RELEASE_STEPS,
    SQUARE_STEPS,
    Split,
    sensitivity_of,
)
from panprivacy.privacy.coins import ONE
from panprivacy.privacy.noise import Gaussian, Laplace
from panprivacy.privacy.pairs import Pair, response, symmetric

_IMPOSSIBLE = 1e9  # the log error of shares that exceed the budget; finite, since the search subtracts errors


even_if_worse: ContextVar[bool] = ContextVar("even_if_worse", default=False)
"""Whether noise is Gaussian wherever there is a delta: for `panprivacy.testing.gaussian_noise`."""


def best_split(
    epsilon: float,
    size: int,
    releases: int = 1,
    intrusions: int = 0,
    delta: float | None = None,
    *,
    up_to: int | None = None,
) -> Split:
    """Split a total epsilon so that a table of `size` bits errs least.

    Minimises ``(size*p1*p0 + Var(noise)) / (size*(p1-p0))**2`` for the pair that is left after all intrusions. For a
    table of counters up to `up_to` whose places are all released, ``(up_to - (p1-p0)**2) / up_to**2`` takes the place
    of ``p1*p0``. With a delta the noise is Gaussian, unless Laplace noise errs no more: then the split has no delta.

    >>> split = best_split(0.4, 1000)
    >>> round(split.pair.loss, 3), round(split.loss(1, 0), 6)
    (0.313, 0.4)
    >>> split = best_split(1.0, 1_000_000, releases=365, delta=1e-9)
    >>> round(split.pair.loss, 3), round(split.loss(365, 0), 6), round(split.noise.variance ** 0.5)
    (0.741, 1.0, 337)
    >>> best_split(1.0, 1_000_000, releases=2, delta=1e-9).delta
    0.0
    """
    epsilon = check_epsilon(epsilon)
    if delta is not None:
        delta = bounded_delta(delta)
    if size < 1:
        raise InvalidValue(f"the table needs at least one bit, got {size}", code="size-range")
    if releases < 1:
        raise InvalidValue(f"plan at least one release, got releases={releases}", code="releases-range")
    if releases > MOST_RELEASES:
        raise InvalidValue(
            f"plan at most {MOST_RELEASES:,} releases, got {releases:,}; pp.Continual may be looked at for ever",
            code="releases-range",
        )
    if intrusions < 0:
        raise InvalidValue(f"intrusions must not be negative, got {intrusions}", code="intrusions-range")
    if intrusions > MOST_INTRUSIONS:
        raise InvalidValue(f"plan at most {MOST_INTRUSIONS} intrusions, got {intrusions}", code="intrusions-range")
    return _best_split(epsilon, size, releases, intrusions, delta, up_to, even_if_worse.get())


@lru_cache(maxsize=256)
def _best_split(  # noqa: PLR0917 - what the cache is keyed by
    epsilon: float,
    size: int,
    releases: int,
    intrusions: int,
    delta: float | None,
    up_to: int | None,
    even_if_worse: bool,
) -> Split:
    places = up_to or 1
    best = _Search(epsilon, size, intrusions, _Laplace(releases, places), up_to).best()
    if delta:
        other = _Search(epsilon, size, intrusions, _Gaussian(releases, delta, places, intrusions), up_to).best()
        best = other if even_if_worse or other.log_error < best.log_error else best
    for split in best.affordable():
        return split
    planned = f"{counted(releases, 'release')} and {counted(intrusions, 'intrusion')}"
    raise InvalidValue(f"epsilon = {epsilon} is too small for {planned}", code="epsilon-too-small")


@dataclass(frozen=True)
class _Laplace:
    """Laplace noise for the planned releases: pure epsilon."""

    releases: int
    places: int
    delta: float = 0.0

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
        released = _released(rest, p1, redraw) if self.places == 1 else rest / sensitivity_of(self.places)
        return released / self.releases


@dataclass(frozen=True)
class _Gaussian:
    """Gaussian noise for the planned releases, which lose epsilon except with probability at most delta."""

    releases: int
    delta: float
    places: int
    intrusions: int

    def variance(self, rest: float, p1: float, redraw: float) -> float | None:
        """Variance of the noise that `rest` can pay for, or None."""
        rest -= log1p(p1 * (exp(redraw) - 1))
        if rest <= 0:
            return None
        log_choices = gaussian.log_choices(self.releases, self.intrusions, self.places)
        ratio = (_mean_of(rest, log(self.delta) - log_choices) / sensitivity_of(self.places)) ** 2
        if self.places == 1 and not self.intrusions:
            ratio = max(ratio, renyi.affordable(rest, self.releases, self.delta, p1))
        square = self.releases / ratio
        return square if square <= LARGEST_SQUARE else None  # beyond it no noise is drawn

    def affordable(self, rest: float, p1: float, redraw: float) -> Iterator[Gaussian]:
        """The noise that `rest` pays for, and then a little more of it each time."""
        square = self.variance(rest, p1, redraw)
        more = 1e-7
        while square is not None and square <= LARGEST_SQUARE:
            yield Gaussian(max(Fraction(ceil(square * SQUARE_STEPS), SQUARE_STEPS), gaussian.LEAST_SQUARE))
            square, more = square * (1 + more), min(2 * more, 0.01)


@lru_cache(maxsize=4096)
def _mean_of(epsilon: float, log_delta: float) -> float:
    """The m for which a normal law around 0 and one around m, both of variance 1, are (epsilon, delta) apart.

    That is ``delta = Phi(m/2 - epsilon/m) - e^epsilon * Phi(-m/2 - epsilon/m)`` (Balle and Wang 2018).
    """
    from scipy.optimize import brentq
    from scipy.special import log_ndtr

    def excess(log_m: float) -> float:
        m = exp(log_m)
        one, other = float(log_ndtr(m / 2 - epsilon / m)), float(log_ndtr(-m / 2 - epsilon / m)) + epsilon
        return (one + log(-expm1(other - one)) if other < one else -1e9) - log_delta

    # With epsilon = rho + 2*sqrt(rho*ln(1/delta)), m = sqrt(2*rho) is private by concentrated privacy: look around it.
    enough = sqrt(2) * (sqrt(epsilon - log_delta) - sqrt(-log_delta))
    return exp(float(brentq(excess, log(enough) - 1, log(enough) + 4, xtol=1e-12)))


def _left_of(pair: Pair, flip: int, redraws: int) -> bool:
    """Whether the two coins of a pair still differ after these redraws."""
    for _ in range(redraws):
        pair = pair.after_randomized_response(flip)
    return pair.present > pair.absent


@dataclass(frozen=True)
class _Search:
    """The search for the split that errs least with one kind of noise."""

    epsilon: float
    size: int
    intrusions: int
    choice: "_Laplace | _Gaussian"
    up_to: int | None

    def best(self) -> "_Found":
        """The shares of state and redraw that minimise the error of the last release."""
        from scipy.optimize import minimize, minimize_scalar

        top = min(self.epsilon, LARGEST_STATE_EPSILON)
        if not self.intrusions:
            found = minimize_scalar(
                lambda share: self.log_error(share * top, 0.0),
                bounds=(0.0, 1.0),
                method="bounded",
                options={"xatol": 1e-9 if isinstance(self.choice, _Laplace) else 1e-6},
            )
            return _Found(float(found.fun), self, float(found.x) * top, 0.0)

        def objective(shares: NDArray[np.float64]) -> float:
            state, redraw = shares.tolist()
            return self.log_error(state, redraw) if min(state, redraw) > 0 else _IMPOSSIBLE

        least = minimize(objective, np.full(2, 0.9 * top / (self.intrusions + 1)), method="Nelder-Mead")
        state, redraw = least.x.tolist()
        return _Found(float(least.fun), self, state, redraw)

    def log_error(self, state: float, redraw: float) -> float:
        """Logarithm of the variance of the last release, but for a constant factor."""
        rest = self.epsilon - state - _later_redraws(state, redraw, self.intrusions)
        p1 = _logistic(state)
        of_noise = self.choice.variance(rest, p1, redraw)
        if of_noise is None:
            return _IMPOSSIBLE
        for _ in range(self.intrusions):
            p1 = _through(p1, redraw)
        if p1 <= 0.5:
            return _IMPOSSIBLE
        up_to = self.up_to
        of_bit = p1 * (1 - p1) if up_to is None else (up_to - (2 * p1 - 1) ** 2) / up_to**2
        spread = self.size * of_bit + of_noise
        return log(spread) - 2 * log(self.size * (2 * p1 - 1))


@dataclass(frozen=True)
class _Found:
    """Shares as floats, and their error."""

    log_error: float
    search: _Search
    state: float
    redraw: float

    def affordable(self) -> Iterator[Split]:
        """The splits of these shares that are private, the one with the least noise first; none if none can be drawn.

        Floats may have erred in the last digits: the noise grows until the exact loss fits.
        """
        search, choice = self.search, self.search.choice
        try:
            pair = symmetric(self.state)
            flip = response(self.redraw) if search.intrusions else 0
        except ValueError:  # which speaks of a share of epsilon, a number that the caller has never seen
            return
        rest, redraw = search.epsilon - pair.loss, self.redraw
        if search.intrusions:  # the flip is rounded: take what it really loses
            redraw = log((ONE - flip) / flip)
            rest -= _later_redraws(pair.loss, redraw, search.intrusions)
        if not _left_of(pair, flip, search.intrusions):
            return
        plan = (choice.releases, flip, search.intrusions)
        for drawn in choice.affordable(rest, float(pair.p1), redraw):
            with suppress(NotPrivate):
                yield Split(search.epsilon, pair, drawn, *plan, delta=choice.delta, places=choice.places)


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

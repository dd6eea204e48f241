r"""Where the budget of continual observation goes, why it suffices for any number of observations, and what it buys.

The sparse-vector test compares the distance of the count from the last release with a bar plus threshold noise. In the
textbook's version that noise is drawn once and kept, and it pays for all the answers "not yet" together. But what is
kept is state. An intruder who has read it knows it, and from then on every answer is hidden by its own noise alone:
the loss grows with each observation. Here the threshold noise is a *walk*: before every test it takes a step of
discrete Laplace noise, and only the sum is kept.

**Any stream.** Take two worlds that differ in one user's bit, which the user may redraw before each observation, so
that the distance is off by -1, 0 or 1, differently each time. Fix everything that is seen. If in the other world the
walk runs one higher, then each "not yet" is at least as likely there, however many there are. To run one higher the
walk needs

- a first step that is larger by one: ``e^threshold``;
- a step that is smaller by one at the last observation before the reading, so that what is read is the same:
  ``e^threshold``; that one observation is hidden by its own noise, ``e^test``;
- a step that is larger by one again after the reading, from the value that the intruder knows: ``e^threshold``.

Each of the c answers "moved" is hidden by its test's noise, which must make up for the higher bar (``e^test``) and for
the bit (``e^test`` again); and the released count shows the bit once more (``e^value``). The bits at these c + 1
observations are coins that come out against the user with probability p1 at most, as in `panprivacy.privacy.budget`.
So in all

    total = eps_state + 3*threshold + c*test + ln(1 + p1*(e^((c + 1)*test + c*value) - 1)).          (any stream)

**A stream that only rises.** Without deletions the distance need not be absolute: the test asks whether the count is
*above* the last release by the bar. Then a bit of 1 always makes a move likelier and a "not yet" less likely, and every
event redraws the bit with the same p1. That is worth ``min(eps_state, c*test, c*p1*(test + value))``, as follows.

Let b be the path of the user's bit in world A and b' that in world B, f(b) the probability of all that is seen (but for
the bit that is read), and k = test + value, with test >= value (a smaller test counts as if it were value). The release
of a move makes f larger or smaller by ``e^value`` if the bit is 1; the numbers here are for larger, which is worst
unless said otherwise. Shares are counted in logarithms. If B's walk runs one higher, then

    (1)  ln f(b) - ln f(b') <= sum over moves of  test + k*(b - b'),    whatever the paths, beside steps of the walk;

if b >= b' at every "not yet", the walk need not run higher, and

    (2)  ln f(b) - ln f(b') <= sum over moves of  k*(b - b')    wherever b >= b'.

The right sides are differences of a function of b and one of b', so that f may be averaged over the paths of either
world: ln E f(b) - ln E f(b') is at most the same with ``ln E e^(k*sum of b)`` and ``ln E e^(k*sum of b')`` in place of
the sums. A coin of probability p that m moves see has ``pkm <= ln E e^(km) = ln(1 + p*(e^(km) - 1)) <= km``, and it is
convex in m: several coins together lie between the first and one coin for all.

*After the reading* both bits are what was read, until their user appears. While neither has: nothing is lost. Once
both have, every bit has the mean p1, in A as in B: by (1), m moves lose ``m*test + ln(1 + p1*(e^(km) - 1)) - p1*k*m``.
While only one has, and a 0 was read: A's user, by (2), ``ln(1 + p1*(e^(km) - 1))``; B's user, by (1),
``m*test - p1*k*m``. And if a 1 was read: A's user, by (1), ``m*test`` at most (also if the release makes f smaller);
B's user, by (2), ``p0*k*m``. All these, one after the other, come to at most

    after(c) = threshold + ln(1 + p1*(e^(kc) - 1)) + c*max(0, test - p1*k).

*Before the reading* there are three cases. If neither user has appeared, the two worlds are the same. If exactly one
has, say B's has not, B's bit was at all times the one that is read. The reading loses eps_state if that is the likelier
bit in A, a 1. So b' = 1, and by (1) a move loses ``test + k*(b - 1) <= test``; likewise with A's user away and a 0 that
is read. Should the reading show the other bit, eps_state is gained. If both have appeared, the reading tells nothing,
and by (1) m moves lose ``m*test + ln(1 + p1*(e^(km) - 1))`` at most. In every case two steps of the walk are paid, and
one test at the last observation before the reading. So in all

    total = 3*threshold + test + ln(1 + p1*(e^(kc) - 1)) + max(eps_state + c*max(0, test - p1*k), c*test).  (only rises)

The smaller of the two totals holds. There is no number of observations in either. Both are bounds.

**With a delta**, `loss_of_epochs` is a third law, in which moves add up like the root of their number.

**Accuracy**, at the end: how far the published density can be from the truth, over all of many observations at once.
"""

from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from math import ceil, exp, expm1, floor, inf, log, log1p, nextafter, sqrt, tanh
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from panprivacy.checks import check_epsilon
from panprivacy.errors import InvalidValue, NotPrivate
from panprivacy.estimates.errors import SampleDesign
from panprivacy.privacy import exact
from panprivacy.privacy.budget import LARGEST_SQUARE, LARGEST_STATE_EPSILON, RELEASE_STEPS, SQUARE_STEPS, Law
from panprivacy.privacy.gaussian import LEAST_SQUARE
from panprivacy.privacy.noise import Gaussian, Laplace, Noise
from panprivacy.privacy.pairs import Pair, symmetric
from panprivacy.privacy.splitting import even_if_worse

_SOURCES = 4  # sources of error, each with the same part of beta: bits, test, value, sampling
_BETA = 0.0125  # of each source of error in the statement for the usual beta of 0.05
_WORTH_A_DELTA = 0.95  # of the error without one
_SLACK = 1e-11  # relative, and more than all roundings together
_IMPOSSIBLE = 1e9  # the error of shares that are none; finite, since the search subtracts errors


@dataclass(frozen=True)
class Shares(Law):
    """The decided shares of a total epsilon."""

    moves: int
    """How often the published value may move."""
    threshold: Fraction
    """Share of the step that the threshold's walk takes before a test."""
    test: Fraction
    """Share of the noise on the distance in a test."""
    value: Noise
    """The noise on the count that is released when the published value moves: Gaussian if there is a delta."""
    rising: bool = False
    """Whether no bit was ever redrawn by a deletion, nor will be."""

    @property
    def planned(self) -> tuple[int]:
        """How many moves are planned."""
        return (self.moves,)

    def exact_loss(self, *done: int) -> Decimal:
        """The largest loss by one reading, these moves, and any number of observations."""
        (moves,) = done
        walk = exact.decimal(3 * self.threshold)
        if isinstance(self.value, Gaussian):
            read = exact.add(self.pair.exact_loss, walk, exact.decimal(self.test))
            return exact.add(read, exact.decimal(loss_of_epochs(self.test, self.value.square, moves, self.delta)))
        test, value = self.test, self.value.epsilon
        seen = exact.log_mixture(self.pair.p1, exact.decimal((moves + 1) * test + moves * value))
        of_any = exact.add(self.pair.exact_loss, walk, exact.decimal(moves * test), seen)
        if not self.rising:
            return of_any
        test = max(test, value)
        seen = exact.log_mixture(self.pair.p1, exact.decimal(moves * (test + value)))
        beside = exact.decimal(moves * max(Fraction(0), test - self.pair.p1 * (test + value)))
        most = max(exact.add(self.pair.exact_loss, beside), exact.decimal(moves * test))
        return min(of_any, exact.add(walk, exact.decimal(test), seen, most))

    def delta_after(self, *done: int) -> float:
        """The delta: all of it, from the first move on."""
        return self.delta if done[0] else 0.0


def log_moment(epsilon: float, rate: float) -> float:
    """``ln E exp(rate*X)`` of discrete Laplace noise: ``(1-a)^2 / ((1 - a*e^rate)(1 - a*e^-rate))``."""
    return 2 * log(-expm1(-epsilon)) - log(-expm1(rate - epsilon)) - log(-expm1(-rate - epsilon))


@dataclass(frozen=True)
class Workload:
    """What an observer is planned for."""

    size: int
    """How many bits there are."""
    moves: int
    observations: int
    rising: bool = False
    """Whether the shares may be planned for a stream that only rises."""


def best_shares(epsilon: float, plan: Workload, delta: float | None = None, pair: Pair | None = None) -> Shares:
    """Share out a total epsilon so that the accuracy that is promised for a plan is best.

    A delta is used only where it is better than none. If the bits are drawn already, their `pair` is the state's share.

    >>> plan = Workload(1_000_000, moves=20, observations=1000, rising=True)
    >>> shares = best_shares(1.0, plan)
    >>> round(shares.loss(20), 9), [round(float(x), 3) for x in (shares.threshold, shares.test, shares.value.epsilon)]
    (1.0, [0.063, 0.006, 0.006])
    """
    epsilon = check_epsilon(epsilon)
    if plan.moves < 1 or plan.observations < 1:
        raise InvalidValue(
            f"plan at least one move and one observation, got {plan.moves} and {plan.observations}", code="moves-range"
        )
    return _best_shares(epsilon, plan, delta, pair, even_if_worse.get())


@lru_cache(maxsize=256)
def _best_shares(epsilon: float, plan: Workload, delta: float | None, pair: Pair | None, even_if_worse: bool) -> Shares:
    search = _Search(epsilon, plan, 0.0, pair)
    found = search.best()
    if delta:
        other = _Search(epsilon, plan, delta, pair)
        better = other.best()
        if even_if_worse or better.error < _WORTH_A_DELTA * found.error:
            search, found = other, better
    shares = search.exact(found) if found.error < _IMPOSSIBLE else None
    if shares is None:
        raise InvalidValue(f"epsilon = {epsilon} is too small for {plan.moves} moves", code="epsilon-too-small")
    return shares


class _Found(NamedTuple):
    """Shares as floats: of the state, the walk's step, the test and the value, which is 1/sigma if there is a delta."""

    error: float
    state: float
    noises: tuple[float, float, float]


@dataclass(frozen=True)
class _Search:
    """The search for the best shares under one law."""

    epsilon: float
    plan: Workload
    delta: float
    pair: Pair | None

    def exact(self, found: _Found) -> Shares | None:
        """The shares as fractions. Floats may have erred in the last digits: step down until the exact loss fits."""
        plan, drawn, shrink, less = self.plan, self.pair or symmetric(found.state), 1.0, 2**-40
        while shrink > 0.5:
            threshold, test, value = (Fraction(floor(x * shrink * RELEASE_STEPS), RELEASE_STEPS) for x in found.noises)
            noise: Noise = Laplace(value)
            if self.delta:
                least = Fraction(ceil((found.noises[2] * shrink) ** -2 * SQUARE_STEPS), SQUARE_STEPS)
                noise = Gaussian(max(least, LEAST_SQUARE))
            can_be_drawn = noise.square <= LARGEST_SQUARE if isinstance(noise, Gaussian) else value > 0
            if min(threshold, test) > 0 and can_be_drawn:
                with suppress(NotPrivate):
                    of = (self.epsilon, drawn, plan.moves, threshold, test, noise, plan.rising)
                    return Shares(*of, delta=self.delta)
            shrink, less = shrink - less, 2 * less
        return None

    def best(self) -> _Found:
        """Search over the proportions of the shares; how large they are then follows from epsilon."""
        from scipy.optimize import minimize

        start = np.array([0.0, 1.0, 1.0, 0.0]) * log(4 / self.plan.moves) / 2

        def error(at: NDArray[np.float64]) -> float:
            return self._at(*at.tolist()).error

        found = minimize(error, start, method="Nelder-Mead", options={"xatol": 1e-4, "fatol": 1e-7, "maxiter": 2000})
        return self._at(*found.x.tolist())

    def _at(self, of_state: float, test: float, value: float, rate: float) -> _Found:
        state = self.pair.loss if self.pair else _part(of_state) * min(self.epsilon, LARGEST_STATE_EPSILON)
        if max(abs(test), abs(value)) > 30 or state < 1e-9:
            return _Found(_IMPOSSIBLE, state, (0.0, 0.0, 0.0))
        proportions = (1.0, exp(test), exp(value))
        scale = self._scale(state, proportions)
        noises = (scale, scale * proportions[1], scale * proportions[2])
        return _Found(self._error(state, noises, _part(rate)), state, noises)

    def _scale(self, state: float, proportions: tuple[float, float, float]) -> float:
        """How large the shares can be in these proportions."""
        from scipy.optimize import brentq

        def excess(scale: float) -> float:
            threshold, test, value = (scale * each for each in proportions)
            return self._loss(state, threshold, test, value) - self.epsilon

        return float(brentq(excess, 0.0, self.epsilon / 3, xtol=1e-15, rtol=1e-13)) if excess(0.0) < 0 else 0.0

    def _loss(self, state: float, threshold: float, test: float, value: float) -> float:
        """The laws at the top of this file, in floats."""
        moves, walk = self.plan.moves, state + 3 * threshold
        if test <= 0:
            return walk
        if self.delta:
            m, square = 2 * test, value**-2
            order = best_order(m, square, moves, self.delta)
            return walk + test + max(loss_of_epochs_at(order, m, square, moves, self.delta), 0.0)
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


# --- many moves, if a delta is allowed --------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def loss_of_epochs(test: Fraction, square: Fraction, moves: int, delta: float) -> float:
    r"""The epsilon that these moves lose together with this delta, if they are watched: never below the truth.

    It is about the root of their number, not the number.

    An *epoch* is all that is seen between two moves: some answers "not yet", then "moved", and the released count. As
    above, fix the two paths of a user's bit, and let the walk run one higher in the other world. The walk's steps cost
    ``3*threshold``, the reading costs eps_state, and the last test before the reading costs ``test``, all for certain.
    Let r be the ratio of all other probabilities in the two worlds. At every test the other world is no likelier to
    move, and less likely by two counts of noise at most. So the two chances to move, p and q, have

        q <= p <= min(e^m * q, 1 - e^-m * (1 - q)),     m = 2*test.

    **One epoch.** For l > 0 let V be the largest mean of r^l in the first world, over all ways to set the bars; each
    may depend on what was seen. A move has r = p/q. A "not yet" has r = (1-p)/(1-q), and the epoch goes on. So V is the
    least number from 1 on that, for all such p and q, is at least

        p*(p/q)^l + (1-p)*((1-p)/(1-q))^l * V.

    This is convex in q, and at q = p at most V: only the smallest q counts. With it, since ``x^(1+l) / y^l`` is convex
    in (x, y), it is convex in p on either side of the point at which both bounds on p hold. At p = 0 it is V, and at p
    = 1 it is 1. So V is decided at that point, ``p = e^m/(1+e^m)`` and ``q = 1/(1+e^m)``: the worst epoch is a
    randomised response that is asked until it says "moved". There

        ln V = (1+l)*m - ln(1 + e^m - e^(-l*m)).

    **All of them.** A released count that differs by at most 1, behind Gaussian noise of square s, has a mean of r^l of
    at most ``e^(l*(l+1)/(2s))`` (Canonne, Kamath and Steinke 2020, proposition 5), whatever came before it. So c epochs
    have ``ln E r^l <= c*(ln V + l*(l+1)/(2s))``, and by their proposition 12, for any l,

        eps(delta) = ln(E r^l)/l + ln(l/(1+l)) - ln(delta*(1+l))/l.

    An epoch without a move at its end has r <= 1. Mixtures over paths lose no more, as in
    `panprivacy.privacy.gaussian`.

    **A reading whose moment depends on what was seen.** As there, the first world's path is compared with the other's,
    in which the block that is read may be changed from its beginning on. In the epoch in which that block began, r is
    at most e^m whatever the paths are: every "not yet" has r <= 1, and the move at the end at most e^m. So that epoch
    costs ``m = 2*test`` for certain, and then only its number counts: there are c + 1 paths, and ``delta / (c + 1)``
    for each.

    **Why the tests keep Laplace noise.** With Gaussian noise p/q has no bound: the rarer a move, the more it tells. An
    intruder who looks often enough sees rare things, so the loss would grow with the number of observations, and here
    it must not.

    >>> loss_of_epochs(Fraction(1, 1000), Fraction(1000**2), 365, 1e-9) < 2 * 365 / 1000 / 2
    True
    """
    if not moves:
        return 0.0
    from scipy.optimize import minimize_scalar

    m, s = 2 * float(test), float(square)

    def bound(log_l: float) -> float:
        return loss_of_epochs_at(exp(log_l), m, s, moves, delta)

    middle = log(best_order(m, s, moves, delta))
    found = minimize_scalar(bound, bounds=(middle - 3, middle + 3), method="bounded")  # any order is valid
    return nextafter(max(float(found.fun), 0.0) * (1 + _SLACK) + 1e-15, inf)


def loss_of_epochs_at(order: float, m: float, square: float, moves: int, delta: float) -> float:
    """The epsilon by the moments of one order l."""
    moment = log_moment_of_epoch(order, m) / order + (order + 1) / (2 * square)
    return m + moves * moment - log1p(1 / order) - (log(delta / (moves + 1)) + log1p(order)) / order


def log_moment_of_epoch(order: float, m: float) -> float:
    """``ln V`` of one epoch, as ``l*m - ln(1 + e^-m * (1 - e^(-l*m)))``."""
    return order * m - log1p(-exp(-m) * expm1(-order * m))


def best_order(m: float, square: float, moves: int, delta: float) -> float:
    """The order that is about best: ``ln(E r^l)/l`` is about ``(l+1)*a``, with ``a = c*(m^2 + 1/(2s))``."""
    return sqrt(log((moves + 1) / delta) / (moves * (m**2 + 1 / (2 * square))))


@dataclass(frozen=True)
class Accuracy:
    """With probability at least ``1 - beta``, none of the observations errs by more than `alpha`.

    For a stream with deletions, or with more observations than planned, this holds as long as moves are left.
    """

    beta: float
    observations: int
    below: float
    """How far the density can be below the last one released."""
    released: float
    """How far the two can be apart at a move: the noise of the value, the coins of the bits, and the sampling."""
    bar: float
    """The drift at which the published density moves: the step, and the part of it that may be noise."""
    test: float
    """The error from the noise of the test, which may let a move come late."""
    bits: float
    """The error from the coins of the bits."""
    sampling: float
    """The error from tracking only a sample of the users."""
    moves_suffice: bool
    """Whether the planned moves are enough, with that probability."""

    @property
    def above(self) -> float:
        """How far the density can be above the last one released."""
        return self.bar + self.test + self.bits + self.sampling

    @property
    def alpha(self) -> float:
        """The larger of `above` and `below` if users may be removed, else the middle of both; at most 1."""
        return min((self.above + self.below) / 2, 1.0)

    def __str__(self) -> str:
        sampling = f" + sampling {self.sampling:.4f}" if self.sampling else ""
        until = "" if self.moves_suffice else ", as long as moves are left"
        parts = f"bar {self.bar:.4f} + test {self.test:.4f} + bits {self.bits:.4f}{sampling}"
        if self.below < self.above:
            parts = f"half of {parts} above the last release, and of {self.below:.4f} below it"
        return (
            f"with probability {1 - self.beta:g} all of {self.observations:,} observations err by at most "
            f"{self.alpha:.4f}{until} ({parts})"
        )


def bar_for(step: float, shares: Shares, tracked: SampleDesign, observations: int, beta: float) -> int:
    """The distance in counts at which to move, so that every move means a drift of at least `step`.

    Then a stream without deletions needs ``1/step`` moves at most, with probability ``1 - beta``.
    """
    return ceil(step * tracked.whole + slack_of(shares, tracked.bits, observations, beta).between_moves)


def accuracy_of(
    bar: int, step: float | None, shares: Shares, tracked: SampleDesign, *, observations: int, beta: float
) -> Accuracy:
    """The accuracy of a test with this bar; `step` is None for a stream with deletions, where no moves surely suffice.

    Between moves the count is within the bar and the test's noise of the released one; at a move, within the noise of
    the value. The coins of the bits, and the sample, come on top. On a stream without deletions the density is never
    below what it was at the last move; so what it can be is an interval that begins just below the last release, and
    its middle errs by half of it at most.
    """
    slack = slack_of(shares, tracked.bits, observations, beta)
    sampling = 0.0
    if tracked.users < tracked.population:  # how far the sample is from all, at every observation (Serfling 1974)
        unsampled = 1 - (tracked.users - 1) / tracked.population
        sampling = sqrt(unsampled * log(2 * observations * _SOURCES / beta) / (2 * tracked.users))
    test, bits = slack.test / tracked.whole, slack.bits / tracked.whole
    released = slack.value / tracked.whole + bits + sampling
    waited = max(float(bar), slack.value - slack.test) / tracked.whole
    return Accuracy(
        beta=beta,
        observations=observations,
        below=waited + test + bits + sampling if step is None else released,
        released=released,
        bar=waited,
        test=test,
        bits=bits,
        sampling=sampling,
        moves_suffice=step is not None and bar - slack.between_moves >= step * tracked.whole,
    )


class Slack(NamedTuple):
    """What each source of error stays within, in counts, over all observations, but for its part of beta."""

    bits: float
    test: float
    value: float

    @property
    def between_moves(self) -> float:
        """How much of a drift seen by the test may be error: the error of the bits counts at both ends."""
        return self.test + self.value + 2 * self.bits


@lru_cache(maxsize=1024)
def slack_of(shares: Shares, size: int, observations: int, beta: float) -> Slack:
    """Bounds that hold together but for a probability of ``3/4 * beta``; the sample has the last quarter.

    *Bits*: the smallest variance with which a coin of probability p0, or of ``p1 = 1 - p0``, is sub-Gaussian is
    ``(p1-p0) / (2*ln(p1/p0))`` (Kearns and Saul 1998). *Test*: Chernoff's bound of the noise, by moments, the walk
    of the threshold included. *Value*: ``P(|X| >= k) = 2*a^k / (1+a)``, or, of Gaussian noise, Chernoff's bound.
    """
    from scipy.optimize import minimize_scalar

    beta, pair, moves = beta / _SOURCES, shares.pair, min(observations, shares.moves)
    looks, threshold, test = log(2 * observations / beta), float(shares.threshold), float(shares.test)

    def of_test(share: float) -> float:
        rate = share * min(threshold, test)
        return (looks + (observations * log_moment(threshold, rate) + log_moment(test, rate))) / rate

    found = minimize_scalar(of_test, bounds=(1e-6, 1 - 1e-9), method="bounded", options={"xatol": 1e-9})
    if isinstance(shares.value, Gaussian):
        value = sqrt(2 * float(shares.value.square) * log(2 * moves / beta))
    else:
        epsilon = float(shares.value.epsilon)
        value = max(ceil(log(2 * moves / ((1 + exp(-epsilon)) * beta)) / epsilon) - 1, 0)
    return Slack(bits=sqrt(2 * (size * pair.gap / (2 * pair.loss)) * looks), test=float(found.fun), value=value)


def farthest_walk(shares: Shares, steps: int, beta: float) -> float:
    """A bound of the threshold's noise after these steps, with probability ``1 - beta``: Chernoff's, at one rate."""
    threshold = float(shares.threshold)
    rate = threshold / (2 * sqrt(steps + 1))
    return (steps * log_moment(threshold, rate) + log(2 / beta)) / rate if steps else 0.0

"""How far the published density can be from the truth, over all of many observations at once."""

from dataclasses import dataclass
from functools import lru_cache
from math import ceil, exp, expm1, log, sqrt

from panprivacy.continual.shares import Shares
from panprivacy.release.tracked import Tracked

_SOURCES = 4  # sources of error, each with the same part of beta: bits, test, value, sampling


@dataclass(frozen=True)
class Accuracy:
    """With probability at least ``1 - beta``, none of so many observations errs by more than `alpha`.

    For a stream with deletions, or with more observations than planned, this holds as long as moves are left.
    """

    alpha: float
    """The sum of the four below, and at most 1."""
    beta: float
    observations: int
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

    def __str__(self) -> str:
        sampling = f" + sampling {self.sampling:.4f}" if self.sampling else ""
        until = "" if self.moves_suffice else ", as long as moves are left"
        return (
            f"with probability {1 - self.beta:g} all of {self.observations:,} observations err by at most "
            f"{self.alpha:.4f}{until} (bar {self.bar:.4f} + test {self.test:.4f} + bits {self.bits:.4f}{sampling})"
        )


def bar_for(step: float, shares: Shares, tracked: Tracked, observations: int, beta: float) -> int:
    """The distance in counts at which to move, so that every move means a drift of at least `step`.

    Then a stream without deletions needs ``1/step`` moves at most, with probability ``1 - beta``.
    """
    return ceil(step * tracked.whole + slack_of(shares, tracked.bits, observations, beta).between_moves)


def accuracy_of(
    bar: int, step: float | None, shares: Shares, tracked: Tracked, *, observations: int, beta: float
) -> Accuracy:
    """The accuracy of a test with this bar; `step` is None for a stream with deletions, where no moves surely suffice.

    Between moves the count is within the bar and the test's noise of the released one; at a move, within the noise of
    the value. The coins of the bits, and the sample, come on top. On a stream without deletions the largest value
    published so far is as close: it was close to a density that was no larger.
    """
    slack = slack_of(shares, tracked.bits, observations, beta)
    waited = max(float(bar), slack.value - slack.test) / tracked.whole
    test, bits = slack.test / tracked.whole, slack.bits / tracked.whole
    sampling = _sampling(tracked.users, tracked.population, observations, beta)
    return Accuracy(
        alpha=min(waited + test + bits + sampling, 1.0),
        beta=beta,
        observations=observations,
        bar=waited,
        test=test,
        bits=bits,
        sampling=sampling,
        moves_suffice=step is not None and bar - slack.between_moves >= step * tracked.whole,
    )


@dataclass(frozen=True)
class Slack:
    """What each source of error stays within, in counts, over all observations, but for its part of beta."""

    bits: float
    test: float
    value: float

    @property
    def between_moves(self) -> float:
        """How much of a drift seen by the test may be error: that of the bits counts at both ends."""
        return self.test + self.value + 2 * self.bits


@lru_cache(maxsize=1024)
def slack_of(shares: Shares, size: int, observations: int, beta: float) -> Slack:
    """Bounds that hold together but for a probability of ``3/4 * beta``; the sample has the last quarter."""
    beta = beta / _SOURCES
    return Slack(
        bits=_bits(shares, size, observations, beta),
        test=_test(shares, observations, beta),
        value=_value(shares, min(observations, shares.moves), beta),
    )


def _bits(shares: Shares, size: int, observations: int, beta: float) -> float:
    """A bound of the number of ones around its mean, by the sub-Gaussian constant of a coin.

    The smallest variance with which a coin of probability p0, or of ``p1 = 1 - p0``, is sub-Gaussian is
    ``(p1-p0) / (2*ln(p1/p0))`` (Kearns and Saul 1998).
    """
    pair = shares.pair
    variance = size * pair.gap / (2 * pair.loss)
    return sqrt(2 * variance * log(2 * observations / beta))


def _test(shares: Shares, observations: int, beta: float) -> float:
    """A bound of the noise in a test, the walk of the threshold included: Chernoff's, by moments."""
    from scipy.optimize import minimize_scalar

    threshold, test = float(shares.threshold), float(shares.test)
    top = min(threshold, test)

    def bound(share: float) -> float:
        rate = share * top
        moment = observations * _log_moment(threshold, rate) + _log_moment(test, rate)
        return (log(2 * observations / beta) + moment) / rate

    return float(minimize_scalar(bound, bounds=(1e-6, 1 - 1e-9), method="bounded", options={"xatol": 1e-9}).fun)


def _log_moment(epsilon: float, rate: float) -> float:
    """``ln E exp(rate*X)`` of discrete Laplace noise: ``(1-a)^2 / ((1 - a*e^rate)(1 - a*e^-rate))``."""
    return 2 * log(-expm1(-epsilon)) - log(-expm1(rate - epsilon)) - log(-expm1(-rate - epsilon))


def _value(shares: Shares, moves: int, beta: float) -> float:
    """A bound of the noise of any released count: ``P(|X| >= k) = 2*a^k / (1+a)``."""
    epsilon = float(shares.value)
    tail = log(2 * moves / ((1 + exp(-epsilon)) * beta)) / epsilon
    return max(ceil(tail) - 1, 0)


def _sampling(users: int, population: int, observations: int, beta: float) -> float:
    """How far the density among sampled users is from that among all, at every observation (Serfling 1974)."""
    if users == population:
        return 0.0
    unsampled = 1 - (users - 1) / population
    return sqrt(unsampled * log(2 * observations * _SOURCES / beta) / (2 * users))

"""How far the published density can be from the truth, over all of many observations at once."""

from dataclasses import dataclass
from functools import lru_cache
from math import ceil, exp, log, sqrt

from panprivacy.estimates.errors import SampleDesign
from panprivacy.estimators.continual_shares import Shares, log_moment
from panprivacy.privacy.noise import Gaussian

_SOURCES = 4  # sources of error, each with the same part of beta: bits, test, value, sampling


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
    sampling = _sampling(tracked.users, tracked.population, observations, beta)
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


@dataclass(frozen=True)
class Slack:
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
        moment = observations * log_moment(threshold, rate) + log_moment(test, rate)
        return (log(2 * observations / beta) + moment) / rate

    return float(minimize_scalar(bound, bounds=(1e-6, 1 - 1e-9), method="bounded", options={"xatol": 1e-9}).fun)


def farthest_walk(shares: Shares, steps: int, beta: float) -> float:
    """A bound of the threshold's noise after these steps, with probability ``1 - beta``: Chernoff's, at one rate."""
    threshold = float(shares.threshold)
    rate = threshold / (2 * sqrt(steps + 1))
    return (steps * log_moment(threshold, rate) + log(2 / beta)) / rate if steps else 0.0


def _value(shares: Shares, moves: int, beta: float) -> float:
    """A bound of the noise of any released count: ``P(|X| >= k) = 2*a^k / (1+a)``, or a Gaussian's by Chernoff."""
    if isinstance(shares.value, Gaussian):
        return sqrt(2 * float(shares.value.square) * log(2 * moves / beta))
    epsilon = float(shares.value.epsilon)
    tail = log(2 * moves / ((1 + exp(-epsilon)) * beta)) / epsilon
    return max(ceil(tail) - 1, 0)


def _sampling(users: int, population: int, observations: int, beta: float) -> float:
    """How far the density among sampled users is from that among all, at every observation (Serfling 1974)."""
    if users == population:
        return 0.0
    unsampled = 1 - (users - 1) / population
    return sqrt(unsampled * log(2 * observations * _SOURCES / beta) / (2 * users))

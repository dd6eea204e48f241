r"""Where the budget of continual observation goes, and why it suffices for any number of observations.

The sparse-vector test compares the distance of the count from the last release with a bar plus threshold noise. In the
textbook's version that noise is drawn once and kept, and it pays for all the answers "not yet" together. But what is
kept is state. An intruder who has read it knows it, and from then on every answer is hidden by its own noise alone:
the loss grows with each observation. Here the threshold noise is a *walk*: before every test it takes a step of
discrete Laplace noise, and only the sum is kept.

Take two worlds that differ in one user's bit, which the user may redraw before each observation, so that the count is
off by -1, 0 or 1, differently each time. Fix everything that is seen. If in the other world the walk runs one higher,
then each "not yet" is at least as likely there, however many there are. To run one higher the walk needs

- a first step that is larger by one: ``e^threshold``;
- a step that is smaller by one at the last observation before the reading, so that what is read is the same:
  ``e^threshold``; that one observation is hidden by its own noise, ``e^test``;
- a step that is larger by one again after the reading, from the value that the intruder knows: ``e^threshold``.

Each of the c answers "moved" is hidden by its test's noise, which must make up for the higher bar (``e^test``) and for
the bit (``e^test`` again); and the released count shows the bit once more (``e^value``). The bits at these c + 1
observations are coins that come out against the user with probability p1 at most, as in `panprivacy.privacy.budget`.
So in all

    total = eps_state + 3*threshold + c*test + ln(1 + p1*(e^((c + 1)*test + c*value) - 1)).

There is no number of observations in it. It is a bound: what the auditor finds is somewhat less.
"""

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from math import cbrt, exp, floor, log, sqrt

from panprivacy.checks import check_epsilon
from panprivacy.errors import NotPrivate
from panprivacy.privacy import exact, noise
from panprivacy.privacy.accounting import Law
from panprivacy.privacy.budget import LARGEST_STATE_EPSILON, RELEASE_STEPS
from panprivacy.privacy.pairs import Pair, symmetric
from panprivacy.theory.losses import log_mixture


@dataclass(frozen=True)
class Shares(Law):
    """The decided shares of a total epsilon."""

    moves: int
    """How often the published value may move."""
    threshold: Fraction
    """Share of the step that the threshold's walk takes before a test."""
    test: Fraction
    """Share of the noise on the distance in a test."""
    value: Fraction
    """Share of the noise on the count that is released when the published value moves."""

    @property
    def planned(self) -> tuple[int]:
        """How many moves are planned."""
        return (self.moves,)

    def exact_loss(self, *done: int) -> Decimal:
        """The loss at most, of one reading, so many moves, and any number of observations."""
        (moves,) = done
        unseen = exact.decimal(3 * self.threshold + moves * self.test)
        seen = exact.decimal((moves + 1) * self.test + moves * self.value)
        return exact.add(self.pair.exact_loss, unseen, exact.log_mixture(self.pair.p1, seen))

    def delta_after(self, *done: int) -> float:  # noqa: ARG002 - whatever was done
        """None: this loss is certain."""
        return 0.0


@lru_cache(maxsize=256)
def best_shares(epsilon: float, size: int, moves: int, observations: int, pair: Pair | None = None) -> Shares:
    """Share out a total epsilon so that a table of `size` bits errs least over so many observations.

    Given the state's share, the others are in the proportion that minimises the sum of the noises' variances, each
    weighed by how often it is added up. If the bits are drawn already, their `pair` decides the state's share.

    >>> shares = best_shares(1.0, 1_000_000, moves=20, observations=1000)
    >>> round(shares.loss(20), 9), [round(float(x), 4) for x in (shares.threshold, shares.test, shares.value)]
    (1.0, [0.0751, 0.0034, 0.0029])
    """
    epsilon = check_epsilon(epsilon)
    if moves < 1 or observations < 1:
        raise ValueError(f"plan at least one move and one observation, got {moves} and {observations}")
    if pair is None:
        pair = symmetric(_best_state(epsilon, size, moves, observations))
    each = _noise_shares(epsilon - pair.loss, float(pair.p1), moves, observations)
    shrink = 1.0
    while True:  # floats may have erred in the last digits: step down until the exact loss fits
        threshold, test, value = (Fraction(floor(share * shrink * RELEASE_STEPS), RELEASE_STEPS) for share in each)
        if min(threshold, test, value) <= 0:
            raise ValueError(f"epsilon = {epsilon} is too small for {moves} moves")
        try:
            return Shares(epsilon, pair, moves, threshold, test, value)
        except NotPrivate:
            shrink -= 2**-40


def _noise_shares(rest: float, p1: float, moves: int, observations: int) -> tuple[float, float, float]:
    """Shares of threshold, test and value that spend `rest`.

    A noise of share x has variance about 2/x^2. With weight w and cost k in ``sum of w/x^2`` and ``sum of k*x``, the
    best x is proportional to ``(w/k)^(1/3)``.
    """
    from scipy.optimize import brentq

    if rest <= 0:
        return 0.0, 0.0, 0.0
    # Errors of a test enter the accuracy twice, those of a value once; the walk adds up over the observations.
    threshold = cbrt(4 * observations / 3)
    test, value = cbrt(4 / (moves + (moves + 1) * p1)), cbrt(1 / (moves * p1))

    def excess(scale: float) -> float:
        unseen = scale * (3 * threshold + moves * test)
        return unseen + float(log_mixture(p1, scale * ((moves + 1) * test + moves * value))) - rest

    scale = float(brentq(excess, 0.0, rest / (3 * threshold), xtol=1e-15, rtol=1e-14))
    return threshold * scale, test * scale, value * scale


def _best_state(epsilon: float, size: int, moves: int, observations: int) -> float:
    """The state's share that minimises the error over all observations, at their standard deviations."""
    from scipy.optimize import minimize_scalar

    top = min(epsilon, LARGEST_STATE_EPSILON)

    def log_error(share: float) -> float:
        state = share * top
        p1 = 1 / (1 + exp(-state))
        threshold, test, value = _noise_shares(epsilon - state, p1, moves, observations)
        if min(threshold, test, value) <= 0 or p1 <= 0.5:
            return float("inf")
        tested = observations * noise.variance(threshold) + noise.variance(test)
        parts = 3 * sqrt(size * p1 * (1 - p1)), 2 * sqrt(tested), sqrt(noise.variance(value))
        return log(sum(parts) / (size * (2 * p1 - 1)))

    found = minimize_scalar(log_error, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-9})
    return float(found.x) * top

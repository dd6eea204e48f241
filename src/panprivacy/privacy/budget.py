r"""How one budget is split between the state and what is released, and what has been spent of it.

One user's bit is all that user touches, so the exact worst case over every pattern of that user's insertions and
deletions, with one reading of the state anywhere among them, is

    total = eps_state + ln(1 + p1*(e^R - 1)),                   R = the sum of the releases' epsilons.

The second term is the case of a user who stays away until the reading and appears after it: the reading fixed the
bit, the appearance redraws it as 1 with probability p1, and the releases see that 1 through noise of epsilon R.

J announced readings, the state being redrawn through randomised response of eps_r after each, add one more factor
each. The worst case puts all releases before the first redraw, on the bit that the redraw then shows:

    total = eps_state + ln(1 + p1*(e^(R + eps_r) - 1)) + sum over j = 1..J-1 of ln(1 + p1_j*(e^eps_r - 1)),

p1_j being the pair after j redraws. At most one reading, announced or not, may fall between two redraws.
"""

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from math import exp, floor, log, log1p

import numpy as np
from numpy.typing import NDArray

from panprivacy.checks import check_epsilon
from panprivacy.display import Card, grid_of, html_of, text_of
from panprivacy.errors import NotPrivate
from panprivacy.privacy import exact, noise
from panprivacy.privacy.accounting import Law, Spending, spent_under
from panprivacy.privacy.coins import ONE
from panprivacy.privacy.pairs import Pair, response, symmetric
from panprivacy.sizes import counted

RELEASE_STEPS = 2**40
"""The epsilon of a release is a whole number of these steps, so its noise is drawn exactly."""

MOST_INTRUSIONS, MOST_RELEASES = 1000, 100_000
"""No budget makes sense of more, and so many intrusions take long to compute the worst case of."""

LARGEST_STATE_EPSILON = 22.0
"""Of one bit: beyond it a 32-bit coin cannot be more certain."""

_IMPOSSIBLE = 1e9  # the log error of shares that exceed the budget; finite, since the search subtracts errors


@dataclass(frozen=True)
class Split(Law):
    """The decided split of a total epsilon: the pair of the state, the noise of releases and redraws."""

    release: Fraction
    releases: int
    flip: int
    intrusions: int

    @property
    def planned(self) -> tuple[int, int]:
        """How many releases and how many redraws are planned."""
        return self.releases, self.intrusions

    def pair_after(self, redraws: int) -> Pair:
        """The pair in force after that many announced intrusions."""
        pair = self.pair
        for _ in range(redraws):
            pair = pair.seen_through(self.flip)
        return pair

    def exact_loss(self, *done: int) -> Decimal:
        """The worst-case loss of a reading in every stretch between redraws, after so many releases and redraws."""
        releases, redraws = done
        released = exact.decimal(releases * self.release)
        state = self.pair.exact_loss
        if not redraws:
            return exact.add(state, exact.log_mixture(self.pair.p1, released))
        redraw = exact.ln(exact.decimal(Fraction(ONE - self.flip, self.flip)))
        first = exact.log_mixture(self.pair.p1, exact.add(released, redraw))
        later = (exact.log_mixture(self.pair_after(j).p1, redraw) for j in range(1, redraws))
        return exact.add(state, first, *later)


@dataclass(frozen=True)
class Budget(Spending):
    """Where an estimator's epsilon goes: planned shares, what is spent, what is left."""

    releases: tuple[float, ...]
    """Epsilon of each planned release."""
    redraws: tuple[float, ...]
    """Epsilon of each planned rerandomisation."""
    releases_made: int
    redraws_made: int

    def card(self) -> Card:
        """What is shown of it."""
        each = f" x {self.releases[0]:.4g}" if self.releases else ""
        rows = [
            ("total", f"{self.total:.6f} of epsilon {self.epsilon:g}"),
            ("state", f"{self.state:.6f}"),
            ("releases", f"{self.releases_made} of {len(self.releases)} made{each}"),
            ("spent", f"{self.spent:.6f}"),
            ("remaining", f"{self.remaining:.6f}"),
        ]
        if self.redraws:
            made = f"{self.redraws_made} of {len(self.redraws)} made x {self.redraws[0]:.4g}"
            rows.insert(3, ("redraws", made))
        return Card("Budget", tuple(rows))

    __str__ = text_of
    __rich__ = grid_of
    _repr_html_ = html_of


@lru_cache(maxsize=16)
def budget_of(split: Split, releases_made: int, redraws_made: int) -> Budget:
    """Lay a split open, with what has been spent of it."""
    redraw = log((ONE - split.flip) / split.flip) if split.intrusions else 0.0
    return Budget(
        **spent_under(split, releases_made, redraws_made),
        releases=(float(split.release),) * split.releases,
        redraws=(redraw,) * split.intrusions,
        releases_made=releases_made,
        redraws_made=redraws_made,
    )


@lru_cache(maxsize=256)
def best_split(epsilon: float, size: int, releases: int = 1, intrusions: int = 0) -> Split:
    """Split a total epsilon so that a table of `size` bits errs least.

    Minimises ``(size*p1*p0 + Var(noise)) / (size*(p1-p0))**2`` for the pair that is left after all intrusions.

    >>> split = best_split(0.4, 1000)
    >>> round(split.pair.loss, 3), round(split.loss(1, 0), 6)
    (0.313, 0.4)
    """
    epsilon = check_epsilon(epsilon)
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
    planned = f"{counted(releases, 'release')} and {counted(intrusions, 'intrusion')}"
    state, redraw = _best_shares(epsilon, size, releases, intrusions)
    try:
        pair = symmetric(state)
        flip = response(redraw) if intrusions else 0
    except ValueError:  # which speaks of a share of epsilon, and that is nobody's number
        raise ValueError(f"epsilon = {epsilon} is too small for {planned}") from None
    rest = epsilon - pair.loss
    if intrusions:  # the flip is rounded: take what it really loses
        redraw = log((ONE - flip) / flip)
        rest -= _later_redraws(pair.loss, redraw, intrusions)
    each = _released(rest, float(pair.p1), redraw) / releases
    steps = floor(each * RELEASE_STEPS) if _left_of(pair, flip, intrusions) else 0
    while steps > 0:  # floats may have erred in the last digits: step down until the exact loss fits
        try:
            return Split(epsilon, pair, Fraction(steps, RELEASE_STEPS), releases, flip, intrusions)
        except NotPrivate:
            steps -= max(1, steps >> 40)
    raise ValueError(f"epsilon = {epsilon} is too small for {planned}")


def _left_of(pair: Pair, flip: int, redraws: int) -> bool:
    """Whether the two coins of a pair still differ after so many redraws."""
    for _ in range(redraws):
        pair = pair.seen_through(flip)
    return pair.present > pair.absent


def _best_shares(epsilon: float, size: int, releases: int, intrusions: int) -> tuple[float, float]:
    """The shares of state and redraw that minimise the error of the last release."""
    from scipy.optimize import minimize, minimize_scalar

    top = min(epsilon, LARGEST_STATE_EPSILON)

    def log_error(state: float, redraw: float) -> float:
        rest = epsilon - state - _later_redraws(state, redraw, intrusions)
        p1 = _logistic(state)
        released = _released(rest, p1, redraw)
        if released <= 0:
            return _IMPOSSIBLE
        for _ in range(intrusions):
            p1 = _through(p1, redraw)
        if p1 <= 0.5:
            return _IMPOSSIBLE
        spread = size * p1 * (1 - p1) + noise.variance(released / releases)
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

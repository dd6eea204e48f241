"""Pairs of coins: what a bit holds while its user is absent, and what an appearance redraws it from."""

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import ceil, floor

from panprivacy.checks import check_epsilon
from panprivacy.errors import InvalidValue, NotPrivate
from panprivacy.privacy import exact
from panprivacy.privacy.coins import ONE, check_threshold


@dataclass(frozen=True)
class Pair:
    """Two Bernoulli coins, as integer thresholds over 2**32.

    Every bit starts as a flip of `absent`; an event redraws it from `present`; a deletion redraws it from `absent`.
    An intruder who reads the bit learns at most ``loss = max(|ln(p1/p0)|, |ln((1-p0)/(1-p1))|)`` about its user.

    >>> pair = symmetric(1.0)
    >>> round(float(pair.p1), 6), round(pair.loss, 6)
    (0.731059, 1.0)
    """

    absent: int
    present: int

    def __post_init__(self) -> None:
        check_threshold(self.absent)
        check_threshold(self.present)

    @property
    def p0(self) -> Fraction:
        """Probability that an absent user's bit is 1."""
        return Fraction(self.absent, ONE)

    @property
    def p1(self) -> Fraction:
        """Probability that a present user's bit is 1."""
        return Fraction(self.present, ONE)

    @property
    def gap(self) -> float:
        """``p1 - p0``: how much one appearance moves the expected number of ones."""
        return (self.present - self.absent) / ONE

    @property
    def ratio(self) -> Fraction:
        """The worst ratio of probabilities between the two coins, exactly; its logarithm is the loss."""
        ones = Fraction(self.present, self.absent)
        zeros = Fraction(ONE - self.absent, ONE - self.present)
        return max(ones, 1 / ones, zeros, 1 / zeros)

    @property
    def exact_loss(self) -> Decimal:
        """The loss to 50 digits."""
        return exact.ln(exact.decimal(self.ratio))

    @property
    def loss(self) -> float:
        """The loss, rounded up."""
        return exact.round_up(self.exact_loss)

    def after_randomized_response(self, flip: int) -> "Pair":
        """The pair of a bit that is then flipped with probability ``q = flip / 2**32``.

        ``p' = p*(1-q) + (1-p)*q`` for both coins, each rounded towards 1/2: the loss can only be smaller.
        """
        return Pair(absent=_flipped(self.absent, flip), present=_flipped(self.present, flip))


def symmetric(epsilon: float, c: float = 0.5) -> Pair:
    """The pair of the paper's OptBern: ``p0 = c(1 - tanh(epsilon/2))``, ``p1 = c(1 + tanh(epsilon/2))``.

    With c = 1/2 it is tight on both sides, ``p1 = e^epsilon/(1 + e^epsilon) = 1 - p0``, and no other pair of that
    loss has less variance. p1 is rounded down and p0 up, so the loss is at most epsilon.
    """
    epsilon = check_epsilon(epsilon)
    if c > 0.5:
        raise NotPrivate(
            f"c = {c} is above 1/2: a zero bit would then give away more than epsilon, since "
            "(1-p0)/(1-p1) > p1/p0 = e^epsilon; use c = 1/2",
            code="centre-too-high",
        )
    if c <= 0:
        raise InvalidValue(f"c must be in (0, 1/2], got {c}", code="c-range")
    share = exact.logistic(epsilon)
    scale = 2 * Fraction(c) * ONE
    present = min(floor(scale * share), ONE - 1)
    absent = max(ceil(scale * (1 - share)), 1)
    return _informative(absent, present, epsilon)


def dwork(epsilon: float) -> Pair:
    """The pair of Dwork et al. (Alg. 1): ``p0 = 1/2``, ``p1 = 1/2 + epsilon/4``; it spends ``-ln(1 - epsilon/2)``.

    >>> round(dwork(0.5).loss, 4)
    0.2877
    """
    if not 0 < epsilon < 2:
        raise InvalidValue(f"Dwork's pair needs epsilon in (0, 2), got {epsilon}", code="epsilon-range")
    return _informative(ONE // 2, ONE // 2 + int(Fraction(epsilon) * (ONE // 4)), epsilon)


def response(epsilon: float) -> int:
    """The threshold of a flip ``q >= 1/(1 + e^epsilon)``: randomised response that loses at most epsilon."""
    return symmetric(epsilon).absent


def _informative(absent: int, present: int, epsilon: float) -> Pair:
    if present <= absent:
        raise InvalidValue(
            f"epsilon = {epsilon} is too small: both coins round to the same 32-bit probability",
            code="epsilon-too-small",
        )
    return Pair(absent, present)


def _flipped(threshold: int, flip: int) -> int:
    new = Fraction(threshold * (ONE - flip) + (ONE - threshold) * flip, ONE)
    return floor(new) if 2 * new >= ONE else ceil(new)

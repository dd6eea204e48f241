r"""What K Gaussian releases of one drawn bit lose beside one reading, if the intruder watches them.

`panprivacy.privacy.gaussian` compares counts that differ by 1 in every release. But the releases see a bit that was
drawn: it is 1 with probability p1 at most. This law uses that. Let N_0 and N_1 be the laws of n releases of a bit that
is 0 or 1, ``x = N_1/N_0`` their ratio, s the square of the noise, and alpha a whole number from 2 on. Then

    h(n) = E_0[(p0 + p1*x)^alpha] = sum over j of C(alpha, j) * p0^(alpha-j) * p1^j * e^((j^2-j)*n/(2s)),

since ``E_0[x^j] = e^((j^2-j)*n/(2s))`` holds exactly for a discrete Gaussian and whole j.

**Theorem.** Fix the events of two worlds, which differ in one user, and when the releases are made. Let A and B be the
laws of all that is seen: K releases, and the bit at one moment, which may depend on the releases before it. Then

    sum of A^alpha * (e^eps_state * B)^(1-alpha) <= f * h(K),
    f = p1 * (1 + e^(-(alpha-1)*eps_state)) * (1 + 2 * sum_{i=1..K} h(i)*h(K-i)/h(K)),

and without a reading the sum of ``A^alpha * B^(1-alpha)`` is at most h(K). For all positive a and b,
``(a - e^eps*b)_+ <= c * e^(-(alpha-1)*eps) * a^alpha * b^(1-alpha)`` with ``c = (1 - 1/alpha)^(alpha-1) / alpha``. So
the whole is (eps_state + eps, delta)-private with

    eps = (ln f + ln h(K) + ln c - ln delta) / (alpha - 1)       for every alpha.

docs/explanation/mathematics.md has the proof. In short: the sum is convex in B, so B's bits outside the block that is
read may be taken as known. Then it factorises over the blocks between A's redraws. A known bit that changes inside
such a block helps, because rising and falling functions are negatively correlated; two blocks are at most one longer,
``h(m)*h(n) <= h(m+n)``, because rising functions are positively correlated. In the block that is read A's bit is known
and B's is drawn, and ``E_0[(1-p+p*x)^(1-alpha)] <= E_0[(1-p+p*x)^alpha]`` for every p. An intruder who watches chooses
between the moments; between two releases and redraws nothing changes, which leaves the terms of f. And a reading loses
eps_state only if it shows the likelier bit, which has probability p1.
"""

from bisect import bisect_left
from fractions import Fraction
from functools import lru_cache
from math import exp, inf, log, log1p, nextafter, sqrt

import numpy as np
from numpy.typing import NDArray

ORDERS = tuple(dict.fromkeys(round(2 * 1.06**k) for k in range(135)))
"""The orders that are tried: any is valid, and the best one of these loses a few parts in 10,000 more than the best."""

_SLACK = 1e-10  # relative: more than all roundings of a loss together
_SECANTS = 24
_OVERFLOW = 700.0  # the exponential of more is no float
_CELLS = 24  # into which the sum over the moments is cut where it has more terms


def loss(square: Fraction, releases: int, delta: float, p1: Fraction, *, read: bool = True) -> float:
    """The epsilon that these releases lose with this delta, beside the loss of the state: never below the truth.

    >>> round(loss(Fraction(369**2), 365, 1e-9, Fraction(2, 3)), 4)
    0.2315
    """
    return _loss(float(square), releases, delta, float(p1), read)


@lru_cache(maxsize=8192)
def _loss(square: float, releases: int, delta: float, p1: float, read: bool) -> float:
    if not releases:
        return 0.0
    found = _best(releases / square, releases if read else 0, delta, p1)[0]
    return nextafter(max(found, 0.0) * (1 + _SLACK) + 1e-15, inf)


@lru_cache(maxsize=4096)  # the search for a split asks the same at first, for tables of every size
def affordable(epsilon: float, releases: int, delta: float, p1: float) -> float:
    """The ratio ``releases / square`` at which watched releases lose about this epsilon."""
    # Moments of normal laws would lose p1^2*ratio/2 + p1*sqrt(2*ratio*rare). The factor brings that near for most.
    rare = log(1 / delta) + log1p(releases)
    ratio = 2.3 * sqrt(p1) * exp(-0.15 * log(epsilon)) * ((sqrt(rare + epsilon) - sqrt(rare)) / p1) ** 2
    step, slope, before, place = 1.0, 0.7, inf, -1
    for _ in range(_SECANTS):  # in logarithms the loss is nearly a straight line: some five do
        least, place = _best(ratio, releases, delta, p1, place)
        above = log(least / epsilon) if 2 * least > epsilon else 2 * least / epsilon - 1 - log(2)  # its tangent at 1/2
        slope = (above - before) / step if before < inf and above != before else slope
        step = min(max(-above / slope, -3.0), 3.0)
        ratio, before = ratio * exp(step), above
        if abs(step) < 1e-6:
            return ratio
    return 0.0  # the delta alone takes more than this epsilon


def _place(order: float) -> int:
    """The place of an order among all."""
    return min(bisect_left(ORDERS, order), len(ORDERS) - 1)


def _best(ratio: float, watched: int, delta: float, p1: float, place: int = -1) -> tuple[float, int]:
    """The least epsilon over all orders, and the place of the order, looked for from a place; there is one valley."""
    if place < 0:
        place = _place(0.92 * (2 * (log(1 / delta) + log1p(watched)) / (ratio * p1)) ** 0.5)
    least = _loss_at(ORDERS[place], ratio, watched, delta, p1)
    for step in (1, -1):
        moved = False
        while 0 <= place + step < len(ORDERS):
            found = _loss_at(ORDERS[place + step], ratio, watched, delta, p1)
            if found >= least:
                break
            place, least, moved = place + step, found, True
        if moved:
            break
    return least, place


def _loss_at(order: int, ratio: float, watched: int, delta: float, p1: float) -> float:
    """The epsilon by the moment of one order; `watched` is the number of releases, or 0 without a reading."""
    moment = _Moment(order, p1, ratio)
    whole = float(moment.log_h(np.array([ratio]))[0])
    if watched:
        whole += _log_moments(moment, ratio, watched, whole)
    return (whole + (order - 1) * log1p(-1 / order) - log(order) - log(delta)) / (order - 1)


def _log_moments(moment: "_Moment", ratio: float, releases: int, whole: float) -> float:
    """``ln f``: the moments among which an intruder may choose.

    ``h(i) * h(K-i)`` falls up to the middle and is symmetric, so a cell of terms is at most as often its first one.
    """
    first, terms = _cells(releases // 2)
    at = ratio / releases * first
    logs = moment.log_h(np.concatenate([at, ratio - at]))
    each = np.exp(logs[: len(first)] + logs[len(first) :] - whole)
    middle = float(each[-1]) if releases % 2 == 0 else 0.0  # is one term, not two
    total = 1.0 + 2 * float((terms * each).sum()) - middle  # the reading after all releases, and those before
    odds = log1p(-moment.p1) - log(moment.p1)  # -eps_state
    return log(moment.p1) + log1p(exp((moment.order - 1) * odds)) + log1p(2 * total)


@lru_cache(maxsize=64)
def _cells(half: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first terms of the cells of terms 1 to `half`, and how many terms each has."""
    first = np.arange(1, half + 1) if half <= 2 * _CELLS else np.unique(np.geomspace(1, half, _CELLS).astype(np.int64))
    return first, np.diff(first, append=half + 1)


class _Moment:
    """h of one order, as a function of ``n / s`` up to some ratio."""

    def __init__(self, order: int, p1: float, most: float) -> None:
        self.order, self.p1, self.most = order, p1, most
        weights, rates = _terms(order, p1)
        tilted = weights + most * rates
        # Terms below e^-60 of the largest, at all ratios in between, are far below the rounding.
        first = int(np.argmax(weights > weights.max() - 60))
        last = order - int(np.argmax(tilted[::-1] > tilted.max() - 60))
        self.weights, self.rates = weights[first : last + 1], rates[first : last + 1]

    def log_h(self, ratios: NDArray[np.float64]) -> NDArray[np.float64]:
        """``ln h`` at each ratio of releases to the square of the noise."""
        logs = np.multiply.outer(ratios, self.rates)
        logs += self.weights
        if self.most * self.rates[-1] < _OVERFLOW:  # weights are at most 0, and h at least 1
            return np.asarray(np.log(np.exp(logs, out=logs).sum(axis=1)))
        top = logs.max(axis=1, keepdims=True)
        return np.asarray((top + np.log(np.exp(logs - top).sum(axis=1, keepdims=True)))[:, 0])


@lru_cache(maxsize=512)
def _terms(order: int, p1: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Logarithms of the binomial weights, and ``(j^2 - j) / 2``."""
    from scipy.special import gammaln

    j = np.arange(order + 1.0)
    weights = gammaln(order + 1) - gammaln(j + 1) - gammaln(order - j + 1) + j * log(p1) + (order - j) * log1p(-p1)
    return weights, (j * j - j) / 2

"""Bounds on the probability of a large error, and the sample sizes that follow from them."""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from panprivacy.theory._arguments import FloatArray, Real, count, inside, plain
from panprivacy.theory.pairs import Coins, find_algorithm


def error_bound(algorithm: str, epsilon: ArrayLike, alpha: ArrayLike, sample: ArrayLike) -> Real:
    """Tightest bound of Thm 3.3 (Dwork) or 4.3 (OptBern) on ``P(|estimate - d(S)| >= alpha)``.

    The minimum over ``delta_1, delta_2`` in [0, 1], and never above 1, of

    ``2 exp(-2 m alpha^2 (1 - delta_1)^2) + 2 exp(-2 m gap^2 alpha^2 delta_1^2 (1 - delta_2)^2)
    + exp(-epsilon alpha m delta_1 delta_2)``

    with ``gap`` = ``epsilon/4`` (Dwork) or ``tanh(epsilon/2)`` (OptBern).

    Parameters
    ----------
    algorithm
        ``"dwork"`` or ``"optbern"``. The paper prints no tail bound for PPDS; with its level fixed it is
        OptBern's for ``universe / 2**level`` users.
    epsilon
        The paper's budget: in (0, 2) for Dwork, positive for OptBern.
    alpha
        Additive error of the density, in (0, 1].
    sample
        Number of sampled users m.

    Examples
    --------
    >>> round(error_bound("optbern", 0.2, alpha=0.1, sample=24_960), 6)
    0.049997
    >>> error_bound("dwork", 0.2, alpha=0.1, sample=5000)
    1.0
    """
    coins, error = _with_tail_bound(algorithm, epsilon, alpha)
    bound = np.vectorize(_tightest_bound, otypes=[np.float64])
    return plain(bound(coins.epsilon, coins.gap, error, count("sample", sample)))


def sample_size(algorithm: str, epsilon: ArrayLike, alpha: ArrayLike, beta: ArrayLike) -> int | NDArray[np.int64]:
    """Smallest sample that Thm 3.3 (Dwork) or 4.3 (OptBern) proves sufficient: the paper's m*.

    The minimum over ``delta_1, ..., delta_4`` of ``max(m_1, m_2, m_3)`` (section 3.2 of the paper), rounded
    up: with the returned number of users ``P(|estimate - d(S)| >= alpha) <= beta`` is proved, with one fewer
    it is not.

    Parameters
    ----------
    algorithm
        ``"dwork"`` or ``"optbern"``; the paper prints no tail bound for PPDS.
    epsilon
        The paper's budget: in (0, 2) for Dwork, positive for OptBern.
    alpha
        Additive error of the density, in (0, 1].
    beta
        Allowed probability of a larger error, in (0, 1).

    Notes
    -----
    For a given m the best ``delta_3, delta_4`` are the shares of the first two terms in `error_bound`, so m*
    is the smallest m whose `error_bound` is at most beta; that bound falls as m grows, so bisection finds it.
    Above 10^12 or so the last digits are lost to rounding. The bounds are loose, as the paper notes.

    Examples
    --------
    >>> sample_size("dwork", 0.2, alpha=0.1, beta=0.05), sample_size("optbern", 0.2, alpha=0.1, beta=0.05)
    (86023, 24960)
    """
    coins, error = _with_tail_bound(algorithm, epsilon, alpha)
    solve = np.vectorize(_smallest_sample, otypes=[np.int64])
    sizes: NDArray[np.int64] = np.asarray(solve(coins.epsilon, coins.gap, error, inside("beta", beta, 0, 1)))
    return int(sizes) if sizes.ndim == 0 else sizes


def _with_tail_bound(algorithm: str, epsilon: ArrayLike, alpha: ArrayLike) -> tuple[Coins, FloatArray]:
    facts = find_algorithm(algorithm)
    if facts.levels:
        raise ValueError(
            f"the paper prints no tail bound for {algorithm}: use 'optbern' with universe / 2**level users"
        )
    return facts.coins(epsilon), inside("alpha", alpha, 0, 1, ends="(]")


def _tightest_bound(epsilon: float, gap: float, alpha: float, m: float) -> float:
    """Minimise ``2 exp(-A a^2) + 2 exp(-B b^2) + exp(-C c)`` over ``a + b + c = 1``, none negative.

    Here a = 1 - delta_1, b = delta_1 (1 - delta_2), c = delta_1 delta_2. Where the sum is below 1 both
    squares exceed ln 2 > 1/2, and there each term is convex: there is one minimum, where the three slopes are
    equal. With t = C c, equal slopes mean that y = A a^2 solves ``y - ln(y)/2 = t + ln(4 sqrt(A) / C)``, and
    likewise B b^2. Then a + b + c grows with t, and only its crossing of 1 remains to be found. No crossing:
    nowhere below 1.
    """
    from scipy.optimize import brentq

    squares = (2 * m * alpha**2, 2 * m * (gap * alpha) ** 2)
    if min(squares) <= math.log(2):
        return 1.0
    slope = epsilon * alpha * m
    offsets = [math.log(4 * math.sqrt(square) / slope) for square in squares]

    def shares(t: float) -> list[float]:
        return [math.sqrt(_convex_root(t + offset) / square) for offset, square in zip(offsets, squares, strict=True)]

    def excess(t: float) -> float:
        return sum(shares(t)) + t / slope - 1

    lowest = max(0.0, *(_ROOT_EXISTS_FROM - offset for offset in offsets))
    if lowest >= slope or excess(lowest) >= 0:
        return 1.0
    a, b = shares(brentq(excess, lowest, slope))
    # c from the constraint rather than from t: the point is then feasible, and the value a true bound.
    first, second = (2 * math.exp(-square * s**2) for square, s in zip(squares, (a, b), strict=True))
    return min(1.0, first + second + math.exp(-slope * (1 - a - b)))


_ROOT_EXISTS_FROM = (1 + math.log(2)) / 2  # the least value of y - ln(y)/2, taken at y = 1/2


def _convex_root(target: float) -> float:
    """Solve ``y - ln(y)/2 = target`` for the y >= 1/2; Newton's steps fall monotonically from 2 * target."""
    y = 2 * target
    while y > 0.5:
        lower = y - (y - math.log(y) / 2 - target) / (1 - 0.5 / y)
        if not lower < y:
            return y
        y = lower
    return 0.5


def _smallest_sample(epsilon: float, gap: float, alpha: float, beta: float) -> int:
    # A third of alpha and of beta for each term is enough; as gap <= min(1, epsilon/2) and alpha <= 1, the
    # second term asks for the most.
    thirds, scale = 4.5 * math.log(6 / beta), (gap * alpha) ** 2
    if thirds > 2**53 * scale:
        raise ValueError(
            f"epsilon = {epsilon:g}, alpha = {alpha:g}, beta = {beta:g} would take some 10^15 users or more: "
            "allow a larger error or epsilon"
        )
    enough = math.ceil(thirds / scale)
    too_few = 0
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        if _tightest_bound(epsilon, gap, alpha, middle) <= beta:
            enough = middle
        else:
            too_few = middle
    return enough

"""Mean squared errors, bounds on the probability of a large error, and the sample sizes that follow from them."""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from panprivacy.errors import InvalidValue
from panprivacy.theory.pairs import Coins, FloatArray, Real, count, find_algorithm, inside, plain, positive

_ROOT_EXISTS_FROM = (1 + math.log(2)) / 2  # the least value of y - ln(y)/2, taken at y = 1/2


def mse(
    algorithm: str,
    epsilon: ArrayLike,
    sample: ArrayLike | None,
    density: ArrayLike,
    universe: ArrayLike | None = None,
    *,
    level: ArrayLike | None = None,
) -> Real:
    """Exact mean squared error of the printed estimate of ``d(S)``, the density of the whole stream.

    With m sampled users, ``gap = p_upd - p_init`` and d the density, it is the sum of

    - the coins: ``((1-d) p_init (1-p_init) + d p_upd (1-p_upd)) / (m gap^2)``,
    - the sampling: ``d (1-d) / m * (|U| - m) / (|U| - 1)``, the last factor 1 when ``universe`` is None,
    - the printed Laplace noise: ``2 / (epsilon m)^2``.

    Without ``universe`` the sum is what the proofs of Thm 3.2 and 4.2 arrive at:
    ``4/(m epsilon^2) - d^2/m + 2/(m epsilon)^2`` for Dwork and
    ``(1/tanh^2(epsilon/2) - 1)/(4m) + d(1-d)/m + 2/(m epsilon)^2`` for OptBern.

    Parameters
    ----------
    algorithm
        ``"dwork"``, ``"optbern"`` or ``"ppds"``.
    epsilon
        The paper's budget: in (0, 2) for Dwork, positive for the others.
    sample
        Number of sampled users m. None for PPDS, whose m is ``universe / 2**level`` (Thm 5.2).
    density
        Fraction of the universe that appears in the stream, in [0, 1].
    universe
        Number of users the sample is drawn from without replacement; None for one so large that the draws are
        independent. PPDS needs it.
    level
        Final level of PPDS, at most ``log2(universe)``; None for the others.

    Notes
    -----
    Thm 3.2 and 4.2 speak of the error about ``d(S_M)`` for a *fixed* sample, which is the coins and the noise
    only; their proofs use the law of total variance and so add the sampling error, for draws with
    replacement. For PPDS the formula assumes a level fixed before the stream and users drawn evenly; the
    printed level depends on the coins, and the linear hash keeps an arithmetic progression of ids.

    Examples
    --------
    >>> f"{mse('dwork', 0.5, 1000, density=0.63, universe=100_000):.4e}"
    '1.5609e-02'
    >>> f"{mse('optbern', 0.5, 1000, density=0.63, universe=100_000):.4e}"
    '4.1565e-03'
    >>> f"{mse('ppds', 0.5, None, density=0.63, universe=100_000, level=6):.4e}"
    '2.6575e-03'
    """
    coins = find_algorithm(algorithm).coins(epsilon)
    m = _sampled_users(algorithm, sample, universe, level)
    d = inside("density", density, 0, 1, ends="[]")
    of_a_bit = (1 - d) * coins.p_init * (1 - coins.p_init) + d * coins.p_upd * (1 - coins.p_upd)
    sampling = d * (1 - d) / m * _finite_population(m, universe)
    return plain(of_a_bit / (m * coins.gap**2) + sampling + 2 / (coins.epsilon * m) ** 2)


def mse_bound(
    algorithm: str,
    epsilon: ArrayLike,
    sample: ArrayLike | None,
    universe: ArrayLike | None = None,
    *,
    level: ArrayLike | None = None,
) -> Real:
    """Bound on the mean squared error, as printed.

    - Dwork (Thm 3.2): ``2 (2m + 1) / (m^2 epsilon^2)``
    - OptBern (Thm 4.2): ``1 / (4 m tanh^2(epsilon/2)) + 2 / (m^2 epsilon^2)``
    - PPDS (Thm 5.2): OptBern's with ``m = universe / 2**level``

    All three are ``1 / (4 m gap^2) + 2 / (m epsilon)^2``, and hold for the exact `mse` too, sampling error
    included. Arguments as in `mse`; only PPDS uses ``universe`` and ``level``.

    Examples
    --------
    >>> mse_bound("dwork", 0.5, 1000)
    0.016008
    >>> f"{mse_bound('ppds', 0.5, None, universe=100_000, level=6):.4e}"
    '2.6706e-03'
    """
    coins = find_algorithm(algorithm).coins(epsilon)
    m = _sampled_users(algorithm, sample, universe, level)
    return plain(1 / (4 * m * coins.gap**2) + 2 / (coins.epsilon * m) ** 2)


def discrete_laplace_variance(epsilon: ArrayLike) -> Real:
    """Variance of discrete Laplace noise, ``P(k)`` proportional to ``exp(-epsilon |k|)`` on the integers.

    ``2a / (1 - a)^2`` with ``a = exp(-epsilon)``. Not in the paper, whose noise (Thm 2.2) is continuous with
    variance ``2 / epsilon^2``; the discrete one has a little less.

    Examples
    --------
    >>> round(discrete_laplace_variance(1.0), 4)
    1.8413
    """
    budget = positive("epsilon", epsilon)
    return plain(2 * np.exp(-budget) / np.expm1(-budget) ** 2)


def _sampled_users(
    algorithm: str, sample: ArrayLike | None, universe: ArrayLike | None, level: ArrayLike | None
) -> FloatArray:
    if find_algorithm(algorithm).levels:
        if sample is not None or universe is None or level is None:
            raise InvalidValue(
                f"{algorithm} samples universe / 2**level users: give both, and sample=None", code="ppds-sample"
            )
        size, depth = np.broadcast_arrays(
            count("universe", universe), inside("level", level, 0, 64, ends="[]", whole=True)
        )
        users: FloatArray = np.asarray(size / 2.0**depth)
        if (users < 1).any():
            deep = depth[users < 1].flat[0]
            raise InvalidValue(
                f"level = {deep:g} is too deep: it leaves less than one user of the universe", code="level-range"
            )
        return users
    if level is not None:
        raise InvalidValue(f"{algorithm} has no level: leave it out", code="level-without-ppds")
    if sample is None:
        raise InvalidValue(f"{algorithm} needs a sample: give its number of users", code="sample-missing")
    users = count("sample", sample)
    if universe is not None and (users > count("universe", universe)).any():
        raise InvalidValue("sample must be at most universe: users are drawn without replacement", code="sample-range")
    return users


def _finite_population(m: FloatArray, universe: ArrayLike | None) -> FloatArray:
    if universe is None:
        return np.ones_like(m)
    size = np.asarray(universe, dtype=np.float64)
    # A universe of one user is always sampled whole, and 0/1 says so where 0/0 would not.
    return np.asarray((size - m) / np.maximum(size - 1, 1))


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
        raise InvalidValue(
            f"the paper prints no tail bound for {algorithm}: use 'optbern' with universe / 2**level users",
            code="no-tail-bound",
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
        raise InvalidValue(
            f"epsilon = {epsilon:g}, alpha = {alpha:g}, beta = {beta:g} would take some 10^15 users or more: "
            "allow a larger error or epsilon",
            code="sample-too-large",
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

"""The paper's theory as pure functions: pairs, privacy losses, errors, tail bounds and sample sizes.

Every function takes scalars or arrays, broadcast as NumPy does; scalars in, a Python number out. ``epsilon``
is the paper's: the budget of the state alone, where the printed theorems claim a total of ``2 * epsilon``.
Theorems are numbered as the paper numbers them, by section: Dwork 3.1-3.3, OptBern 4.1-4.3, PPDS 5.1-5.2.
"""

import math
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from panprivacy.errors import InvalidValue

__all__ = [
    "actual_epsilon",
    "discrete_laplace_variance",
    "dwork_pair",
    "error_bound",
    "joint_loss",
    "mse",
    "mse_bound",
    "ratios",
    "sample_size",
    "symmetric_pair",
    "total_loss",
]

FloatArray = NDArray[np.float64]
Real = float | FloatArray
_ROOT_EXISTS_FROM = (1 + math.log(2)) / 2  # the least value of y - ln(y)/2, taken at y = 1/2


# --- pairs of coins, and what each algorithm does with its pair ------------------------------------------------------


def _inside(
    name: str,
    value: ArrayLike,
    low: float,
    high: float,
    *,
    ends: Literal["()", "(]", "[]"] = "()",
    whole: bool = False,
) -> FloatArray:
    """Return ``value`` as floats, or say which of its entries is outside the interval."""
    array = np.asarray(value, dtype=np.float64)
    good = (array > low) & (array < high)
    good |= (ends[0] == "[") & (array == low) | (ends[1] == "]") & (array == high)
    if whole:
        good &= array == np.floor(array)
    if not good.all():
        kind = "a whole number" if whole else "a number"
        wanted = f"{kind} in {ends[0]}{low:g}, {high:g}{ends[1]}"
        raise InvalidValue(f"{name} = {array[~good].flat[0]:g} must be {wanted}", code="argument-range")
    return array


def _positive(name: str, value: ArrayLike) -> FloatArray:
    return _inside(name, value, 0, np.inf)


def _count(name: str, value: ArrayLike) -> FloatArray:
    """Check a number of users; beyond 2**53 floats no longer hold every integer."""
    return _inside(name, value, 1, 2**53, ends="[]", whole=True)


def _plain(result: ArrayLike) -> Real:
    """Turn a zero-dimensional result into a float and leave arrays alone."""
    array = np.asarray(result, dtype=np.float64)
    return float(array) if array.ndim == 0 else array


def dwork_pair(epsilon: ArrayLike) -> tuple[Real, Real]:
    """Coins of Alg. 1 (Dwork).

    ``p_init = 1/2`` and ``p_upd = 1/2 + epsilon/4`` (Thm 3.1).

    Parameters
    ----------
    epsilon
        In (0, 2), where ``p_upd`` stays below 1. Thm 3.1 asks for ``epsilon <= 1/2``; the state's loss stays
        within ``epsilon`` up to about 1.59.

    Examples
    --------
    >>> dwork_pair(0.5)
    (0.5, 0.625)
    """
    budget = _inside("epsilon", epsilon, 0, 2)
    return _plain(np.full_like(budget, 0.5)), _plain(0.5 + budget / 4)


def symmetric_pair(epsilon: ArrayLike, c: ArrayLike = 0.5) -> tuple[Real, Real]:
    """Coins of Alg. 2 and 3 (OptBern and PPDS), as section 4.2 of the paper prints them.

    ``p_init = c (1 - tanh(epsilon/2))`` and ``p_upd = c (1 + tanh(epsilon/2))``.

    Parameters
    ----------
    epsilon
        Positive.
    c
        In (0, 1 / (1 + tanh(epsilon/2))), which keeps both probabilities inside (0, 1).

    Notes
    -----
    The state loses exactly ``epsilon`` for ``c <= 1/2`` (Thm 4.1 has ``c = 1/2``). **A larger c is not
    private**, though the paper allows 4/5: its proof tests only R(1), and R(0) drops below ``exp(-epsilon)``.
    With ``c = 0.8`` and ``epsilon = 0.5`` the loss is 4.58, as `actual_epsilon` shows.

    Examples
    --------
    >>> p_init, p_upd = symmetric_pair(1.0)
    >>> round(p_init, 4), round(p_upd, 4)
    (0.2689, 0.7311)
    >>> round(actual_epsilon(symmetric_pair(0.5, c=0.8)), 2)
    4.58
    """
    budget, centre = np.broadcast_arrays(_positive("epsilon", epsilon), _positive("c", c))
    # 1 -+ tanh(x/2) = 2 / (1 + exp(+-x)), which keeps its digits where tanh is close to 1.
    p_init, p_upd = (2 * centre * np.exp(-np.logaddexp(0, sign * budget)) for sign in (1, -1))
    bad = p_upd >= 1
    if bad.any():
        raise InvalidValue(
            f"c = {centre[bad].flat[0]:g} with epsilon = {budget[bad].flat[0]:g} makes p_upd = "
            f"{p_upd[bad].flat[0]:g}, which must be below 1: take a smaller c or epsilon",
            code="centre-range",
        )
    return _plain(p_init), _plain(p_upd)


def ratios(pair: tuple[ArrayLike, ArrayLike]) -> tuple[Real, Real]:
    """How much likelier each value of a bit becomes once its user has appeared.

    ``R(b) = f_upd(b) / f_init(b)``, returned as ``(R(0), R(1))`` (section 4.1 of the paper; proofs of Thm 3.1
    and 4.1). Dwork's pair has ``1 - epsilon/2`` and ``1 + epsilon/2``, the symmetric one ``exp(-epsilon)``
    and ``exp(epsilon)``.

    Examples
    --------
    >>> ratios(dwork_pair(0.5))
    (0.75, 1.25)
    """
    p_init, p_upd = _probabilities(pair)
    return _plain((1 - p_upd) / (1 - p_init)), _plain(p_upd / p_init)


def actual_epsilon(pair: tuple[ArrayLike, ArrayLike]) -> Real:
    """Budget that the state really spends with a pair.

    ``max(|ln R(0)|, |ln R(1)|)`` (section 4.1 of the paper): ``-ln(1 - epsilon/2)`` for Dwork, which leaves
    part of its budget unused, and ``epsilon`` for the symmetric pair, which does not (Thm 4.1).

    Examples
    --------
    >>> round(actual_epsilon(dwork_pair(0.5)), 4)
    0.2877
    >>> round(actual_epsilon(symmetric_pair(0.5)), 4)
    0.5
    """
    p_init, p_upd = _probabilities(pair)
    one = np.abs(np.log(p_upd) - np.log(p_init))
    zero = np.abs(np.log1p(-p_upd) - np.log1p(-p_init))
    return _plain(np.maximum(one, zero))


def _probabilities(pair: tuple[ArrayLike, ArrayLike]) -> tuple[FloatArray, FloatArray]:
    return _inside("p_init", pair[0], 0, 1), _inside("p_upd", pair[1], 0, 1)


class _Coins(NamedTuple):
    """An algorithm's probabilities at a checked epsilon; ``gap`` is ``p_upd - p_init`` in full precision.

    One bit moves the printed estimate by ``1 / (sample * gap)``.
    """

    epsilon: FloatArray
    p_init: FloatArray
    p_upd: FloatArray
    gap: FloatArray


def _coins_of(algorithm: str, epsilon: ArrayLike) -> _Coins:
    if algorithm not in ("dwork", "optbern", "ppds"):
        raise InvalidValue(f"algorithm {algorithm!r} is not one of 'dwork', 'optbern', 'ppds'", code="algorithm-choice")
    pair = dwork_pair(epsilon) if algorithm == "dwork" else symmetric_pair(epsilon)
    budget = np.asarray(epsilon, dtype=np.float64)
    gap = budget / 4 if algorithm == "dwork" else np.tanh(budget / 2)
    return _Coins(budget, np.asarray(pair[0]), np.asarray(pair[1]), gap)


# --- losses of the state and everything released, seen together ------------------------------------------------------


def joint_loss(algorithm: str, epsilon: ArrayLike, sample: ArrayLike | None = None, moved: bool = True) -> Real:
    """True loss of an algorithm exactly as printed, to someone who sees its state once and its output.

    Thm 3.1, 4.1 and 5.1 claim ``2 * epsilon``. In truth, with ``e_s`` the loss of the state and ``x`` the
    number of noise scales by which one bit moves the printed output,

    - ``moved=True``: ``e_s + ln(1 + p_upd (e^x - 1))``
    - ``moved=False``: the largest of ``ln(1 + p_upd (e^x - 1))``, ``ln R(1) + ln(1 + (1 - p_upd)(e^x - 1))``
      and ``-ln R(0) - ln(1 - p_upd + p_upd e^-x)``

    where ``x = 4`` for Dwork and ``epsilon / tanh(epsilon/2)`` for OptBern. PPDS loses without bound.

    Parameters
    ----------
    algorithm, epsilon
        As in `mse`.
    sample
        Number of sampled users, at least 1. It is checked and otherwise without effect: the noise and the
        step of one bit both shrink as ``1/sample``. May be left out.
    moved
        True: neighbouring streams may differ in any way in one user's insertions, so those may also move from
        one side of the intrusion to the other. False: insertions are only added or only removed, all or some.

    Notes
    -----
    Let the intruder know every other bit. The user's own bit is seen as s, drawn with p_upd if the user came
    before the intrusion and with p_init if not; at the output it is s again, or redrawn with p_upd if the
    user came after. The printed noise Laplace(1/(epsilon m)) makes outputs beyond one end e^x times likelier
    for a 1 and beyond the other e^x times likelier for a 0, with x = epsilon / (p_upd - p_init). Between the
    ends the likelihood ratio lies between its two extremes, so these are all that need comparing.

    - Moved. "Only after" against "only before", with s = 0 and a high output:
      ``(1 - p_init)/(1 - p_upd) * (p_upd e^x + 1 - p_upd)``. No other pair of patterns exceeds it, and
      deletions (redraws with p_init) add nothing.
    - Not moved, three candidates. "Only after" against "never", s = 0, high output:
      ``1 + p_upd (e^x - 1)``, Dwork's worst up to epsilon = 1.63. "Before and after" against "never", s = 1,
      low output: ``R(1) (1 + (1 - p_upd)(e^x - 1))``, OptBern's worst up to 1.10. "Never" against "before and
      after", s = 0, low output: ``1 / (R(0) (1 - p_upd + p_upd e^-x))``, the worst of both beyond. If users
      may also be deleted, "insert before, delete after" against "never" is worse than any of these: at
      epsilon = 0.1 it loses 3.374 with Dwork and, as in the moved case, 1.573 with OptBern.

    The loss does not vanish with epsilon: x tends to 2 for OptBern. For PPDS the level is part of the state
    and may be reachable only if the user came, unless the sample can never fill (sample > universe: then as
    OptBern).

    Examples
    --------
    >>> round(joint_loss("dwork", 0.1), 3), round(joint_loss("dwork", 0.1, moved=False), 3)
    (3.423, 3.372)
    >>> round(joint_loss("optbern", 0.1), 3), round(joint_loss("optbern", 0.1, moved=False), 3)
    (1.573, 1.496)
    >>> joint_loss("ppds", 0.1)
    inf
    """
    coins = _coins_of(algorithm, epsilon)
    shape = np.broadcast_shapes(coins.epsilon.shape, () if sample is None else _count("sample", sample).shape)
    if algorithm == "ppds":
        return _plain(np.full(shape, np.inf))
    p_init, p_upd, x = coins.p_init, coins.p_upd, coins.epsilon / coins.gap
    if moved:
        loss = actual_epsilon((p_init, p_upd)) + _log_mixture(p_upd, x)
    else:
        only_after = _log_mixture(p_upd, x)
        both = np.log(p_upd) - np.log(p_init) + _log_mixture(1 - p_upd, x)
        never = np.log1p(-p_init) - np.log1p(-p_upd) - _log_mixture(p_upd, -x)
        loss = np.maximum(np.maximum(only_after, both), never)
    return _plain(np.broadcast_to(loss, shape).copy())


def total_loss(epsilon_state: ArrayLike, release_epsilons: ArrayLike) -> Real:
    """Total loss of one unannounced intrusion plus all releases, for the symmetric pair and integer releases.

    ``epsilon_state + ln(1 + p1 (e^R - 1))`` with ``p1 = 1 / (1 + e^-epsilon_state)`` and R the sum of the
    release epsilons; at most ``epsilon_state + R``. It is the worst case over all patterns of one user's
    insertions and deletions, with the intrusion anywhere among the releases. Not in the paper: it replaces
    the ``2 * epsilon`` of Thm 4.1 where each release adds discrete Laplace noise to the *number of ones*.

    Parameters
    ----------
    epsilon_state
        Loss of the state, positive.
    release_epsilons
        One release's epsilon or a sequence of them, each positive; an array is summed over its last axis.
        None at all (an empty sequence) leaves ``epsilon_state``.

    Notes
    -----
    Holds for one intrusion only: two raw readings with no redraw between them are protected by nothing.

    Examples
    --------
    >>> round(total_loss(0.5, 0.5), 6), round(total_loss(1.0, [0.5, 0.5, 0.5]), 6)
    (0.839185, 2.265628)
    """
    state = _positive("epsilon_state", epsilon_state)
    releases = _positive("release_epsilons", release_epsilons)
    spent = releases if releases.ndim == 0 else np.asarray(releases.sum(axis=-1))
    # ln p1 and ln(1 - p1) directly, so that neither underflows for a large epsilon_state.
    return _plain(state + np.logaddexp(spent - np.logaddexp(0, -state), -np.logaddexp(0, state)))


def _log_mixture(p: FloatArray | float, x: FloatArray | float) -> FloatArray:
    """``ln(1 + p (e^x - 1))`` without overflow."""
    return np.asarray(np.logaddexp(np.log(p) + x, np.log1p(-p)))


# --- mean squared errors, large errors, sample sizes -----------------------------------------------------------------


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
    coins = _coins_of(algorithm, epsilon)
    m = _sampled_users(algorithm, sample, universe, level)
    d = _inside("density", density, 0, 1, ends="[]")
    of_a_bit = (1 - d) * coins.p_init * (1 - coins.p_init) + d * coins.p_upd * (1 - coins.p_upd)
    sampling = d * (1 - d) / m
    if universe is not None:
        size = np.asarray(universe, dtype=np.float64)
        # A universe of one user is always sampled whole, and 0/1 says so where 0/0 would not.
        sampling = sampling * ((size - m) / np.maximum(size - 1, 1))
    return _plain(of_a_bit / (m * coins.gap**2) + sampling + 2 / (coins.epsilon * m) ** 2)


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
    coins = _coins_of(algorithm, epsilon)
    m = _sampled_users(algorithm, sample, universe, level)
    return _plain(1 / (4 * m * coins.gap**2) + 2 / (coins.epsilon * m) ** 2)


def discrete_laplace_variance(epsilon: ArrayLike) -> Real:
    """Variance of discrete Laplace noise, ``P(k)`` proportional to ``exp(-epsilon |k|)`` on the integers.

    ``2a / (1 - a)^2`` with ``a = exp(-epsilon)``. Not in the paper, whose noise (Thm 2.2) is continuous with
    variance ``2 / epsilon^2``; the discrete one has a little less.

    Examples
    --------
    >>> round(discrete_laplace_variance(1.0), 4)
    1.8413
    """
    budget = _positive("epsilon", epsilon)
    return _plain(2 * np.exp(-budget) / np.expm1(-budget) ** 2)


def _sampled_users(
    algorithm: str, sample: ArrayLike | None, universe: ArrayLike | None, level: ArrayLike | None
) -> FloatArray:
    if algorithm == "ppds":
        if sample is not None or universe is None or level is None:
            raise InvalidValue(
                f"{algorithm} samples universe / 2**level users: give both, and sample=None", code="ppds-sample"
            )
        size, depth = np.broadcast_arrays(
            _count("universe", universe), _inside("level", level, 0, 64, ends="[]", whole=True)
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
    users = _count("sample", sample)
    if universe is not None and (users > _count("universe", universe)).any():
        raise InvalidValue("sample must be at most universe: users are drawn without replacement", code="sample-range")
    return users


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
    return _plain(bound(coins.epsilon, coins.gap, error, _count("sample", sample)))


def sample_size(algorithm: str, epsilon: ArrayLike, alpha: ArrayLike, beta: ArrayLike) -> int | NDArray[np.int64]:
    """Smallest sample that Thm 3.3 (Dwork) or 4.3 (OptBern) proves sufficient: the paper's m*.

    The minimum over ``delta_1, ..., delta_4`` of ``max(m_1, m_2, m_3)`` (section 3.2 of the paper), rounded
    up: with the returned number of users ``P(|estimate - d(S)| >= alpha) <= beta`` is proved, with one fewer
    it is not.

    Parameters
    ----------
    algorithm, epsilon, alpha
        As in `error_bound`.
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
    sizes: NDArray[np.int64] = np.asarray(solve(coins.epsilon, coins.gap, error, _inside("beta", beta, 0, 1)))
    return int(sizes) if sizes.ndim == 0 else sizes


def _with_tail_bound(algorithm: str, epsilon: ArrayLike, alpha: ArrayLike) -> tuple[_Coins, FloatArray]:
    coins = _coins_of(algorithm, epsilon)
    if algorithm == "ppds":
        raise InvalidValue(
            f"the paper prints no tail bound for {algorithm}: use 'optbern' with universe / 2**level users",
            code="no-tail-bound",
        )
    return coins, _inside("alpha", alpha, 0, 1, ends="(]")


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

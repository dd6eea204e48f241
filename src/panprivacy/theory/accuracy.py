"""Mean squared errors."""

import numpy as np
from numpy.typing import ArrayLike

from panprivacy.theory._arguments import FloatArray, Real, count, inside, plain, positive
from panprivacy.theory.pairs import find_algorithm


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
    replacement. For PPDS the formula is that of a level fixed before the stream and users drawn evenly; the
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
            raise ValueError(f"{algorithm} samples universe / 2**level users: give both, and sample=None")
        size, depth = np.broadcast_arrays(
            count("universe", universe), inside("level", level, 0, 64, ends="[]", whole=True)
        )
        users: FloatArray = np.asarray(size / 2.0**depth)
        if (users < 1).any():
            deep = depth[users < 1].flat[0]
            raise ValueError(f"level = {deep:g} is too deep: it leaves less than one user of the universe")
        return users
    if level is not None:
        raise ValueError(f"{algorithm} has no level: leave it out")
    if sample is None:
        raise ValueError(f"{algorithm} needs a sample: give its number of users")
    users = count("sample", sample)
    if universe is not None and (users > count("universe", universe)).any():
        raise ValueError("sample must be at most universe: users are drawn without replacement")
    return users


def _finite_population(m: FloatArray, universe: ArrayLike | None) -> FloatArray:
    if universe is None:
        return np.ones_like(m)
    size = np.asarray(universe, dtype=np.float64)
    # A universe of one user is always sampled whole, and 0/1 says so where 0/0 would not.
    return np.asarray((size - m) / np.maximum(size - 1, 1))

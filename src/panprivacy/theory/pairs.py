"""Pairs of coins (p_init, p_upd), and what each of the paper's algorithms does with its pair."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from panprivacy.errors import InvalidValue

FloatArray = NDArray[np.float64]
Real = float | FloatArray


def inside(
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


def positive(name: str, value: ArrayLike) -> FloatArray:
    return inside(name, value, 0, np.inf)


def count(name: str, value: ArrayLike) -> FloatArray:
    """Check a number of users; beyond 2**53 floats no longer hold every integer."""
    return inside(name, value, 1, 2**53, ends="[]", whole=True)


def plain(result: ArrayLike) -> Real:
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
    budget = inside("epsilon", epsilon, 0, 2)
    return plain(np.full_like(budget, 0.5)), plain(0.5 + budget / 4)


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
    budget, centre = np.broadcast_arrays(positive("epsilon", epsilon), positive("c", c))
    # 1 -+ tanh(x/2) = 2 / (1 + exp(+-x)), which keeps its digits where tanh is close to 1.
    p_init, p_upd = (2 * centre * np.exp(-np.logaddexp(0, sign * budget)) for sign in (1, -1))
    bad = p_upd >= 1
    if bad.any():
        raise InvalidValue(
            f"c = {centre[bad].flat[0]:g} with epsilon = {budget[bad].flat[0]:g} makes p_upd = "
            f"{p_upd[bad].flat[0]:g}, which must be below 1: take a smaller c or epsilon",
            code="centre-range",
        )
    return plain(p_init), plain(p_upd)


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
    return plain((1 - p_upd) / (1 - p_init)), plain(p_upd / p_init)


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
    return plain(np.maximum(one, zero))


def _probabilities(pair: tuple[ArrayLike, ArrayLike]) -> tuple[FloatArray, FloatArray]:
    p_init, p_upd = pair
    return inside("p_init", p_init, 0, 1), inside("p_upd", p_upd, 0, 1)


@dataclass(frozen=True)
class Coins:
    """An algorithm's probabilities at a checked epsilon; ``gap`` is ``p_upd - p_init`` in full precision."""

    epsilon: FloatArray
    p_init: FloatArray
    p_upd: FloatArray
    gap: FloatArray


@dataclass(frozen=True)
class Algorithm:
    """What distinguishes one of the paper's algorithms; the rest of its theory follows from these.

    One bit moves the printed estimate by ``1 / (sample * gap)``. An algorithm with ``levels`` samples
    ``universe / 2**level`` users instead of a number chosen before the stream.
    """

    pair: Callable[[ArrayLike], tuple[Real, Real]]
    gap: Callable[[FloatArray], FloatArray]
    levels: bool = False

    def coins(self, epsilon: ArrayLike) -> Coins:
        p_init, p_upd = (np.asarray(p) for p in self.pair(epsilon))
        budget = np.asarray(epsilon, dtype=np.float64)
        return Coins(budget, p_init, p_upd, self.gap(budget))


ALGORITHMS = {
    "dwork": Algorithm(dwork_pair, gap=lambda epsilon: epsilon / 4),
    "optbern": Algorithm(symmetric_pair, gap=lambda epsilon: np.tanh(epsilon / 2)),
    "ppds": Algorithm(symmetric_pair, gap=lambda epsilon: np.tanh(epsilon / 2), levels=True),
}


def find_algorithm(name: str) -> Algorithm:
    if name not in ALGORITHMS:
        raise InvalidValue(
            f"algorithm {name!r} is not one of {', '.join(map(repr, ALGORITHMS))}", code="algorithm-choice"
        )
    return ALGORITHMS[name]


# --- losses of the state and everything released, seen together -------------------------------------------------------


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
    facts = find_algorithm(algorithm)
    coins = facts.coins(epsilon)
    shape = np.broadcast_shapes(coins.epsilon.shape, () if sample is None else count("sample", sample).shape)
    if facts.levels:
        return plain(np.full(shape, np.inf))
    p_init, p_upd, x = coins.p_init, coins.p_upd, coins.epsilon / coins.gap
    if moved:
        loss = actual_epsilon((p_init, p_upd)) + log_mixture(p_upd, x)
    else:
        only_after = log_mixture(p_upd, x)
        both = np.log(p_upd) - np.log(p_init) + log_mixture(1 - p_upd, x)
        never = np.log1p(-p_init) - np.log1p(-p_upd) - log_mixture(p_upd, -x)
        loss = np.maximum(np.maximum(only_after, both), never)
    return plain(np.broadcast_to(loss, shape).copy())


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
    state = positive("epsilon_state", epsilon_state)
    releases = positive("release_epsilons", release_epsilons)
    spent = releases if releases.ndim == 0 else np.asarray(releases.sum(axis=-1))
    # ln p1 and ln(1 - p1) directly, so that neither underflows for a large epsilon_state.
    return plain(state + np.logaddexp(spent - np.logaddexp(0, -state), -np.logaddexp(0, state)))


def log_mixture(p: FloatArray | float, x: FloatArray | float) -> FloatArray:
    """``ln(1 + p (e^x - 1))`` without overflow."""
    return np.asarray(np.logaddexp(np.log(p) + x, np.log1p(-p)))

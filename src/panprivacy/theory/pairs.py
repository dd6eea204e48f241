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

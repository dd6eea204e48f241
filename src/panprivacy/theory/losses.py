"""Privacy loss of the state and everything released, seen together."""

import numpy as np
from numpy.typing import ArrayLike

from panprivacy.theory.pairs import FloatArray, Real, actual_epsilon, count, find_algorithm, plain, positive


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

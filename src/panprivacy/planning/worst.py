"""The density at which a design errs most.

The error probability moves with the density in two ways. Slowly: sampling errs most at density 1/2, and the coins are
skewed elsewhere. And in ripples: counts are whole numbers, so the least count that is an error of alpha lies up
to one step beyond alpha, by an amount that changes with every user seen. Ripples can be ranked by taking the
tails for smooth functions; then the few best are computed.
"""

from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from math import ceil, floor
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from panprivacy.planning.law import Design, Ones

Guess: TypeAlias = Callable[[NDArray[np.int64]], NDArray[np.float64]]
"""About how probable an error is, for numbers of seen users."""

_EVERY_DENSITY_UP_TO = 512  # users: in a universe of so many, all densities are tried
_BASES = 9  # numbers of seen users around which the ripples are looked at
_RUN = 2048  # neighbouring numbers of seen users that are ranked at a time
_COMPUTED = 16  # numbers of seen users, the highest ranked, whose probability is computed exactly
_RELIABLE = 1e-12  # a tail below it is all rounding error


class Worst(NamedTuple):
    """The largest probability of an error, and the number of seen users at which it is reached."""

    probability: float
    seen: int


class _Stretch(NamedTuple):
    """Numbers of seen users for which the same errors are possible."""

    low: int
    high: int
    upwards: bool
    downwards: bool


def worst_case(design: Design, alpha: Fraction, *, quick: bool = False) -> Worst:
    """Find the number of seen users with the largest ``P(|release.density - truth| >= alpha)``.

    What is returned is the exact probability at one density, so the true worst case is never below it. Up to 512
    users all densities are tried, and it is the worst case. Beyond, it has been within a ten-thousandth of the worst
    case wherever all were tried for comparison, and mostly the same. `quick` looks around density 1/2 only.

    >>> from panprivacy.privacy.splitting import best_split
    >>> split = best_split(0.4, 4096)
    >>> design = Design(split.pair, 4096, 4096, 10**9, split.noise)
    >>> worst = worst_case(design, Fraction(1, 10))
    >>> round(worst.probability, 5), round(worst.seen / 10**9, 2)
    (0.04962, 0.5)
    """
    users = design.population
    if users <= _EVERY_DENSITY_UP_TO and not quick:
        return max(_at(design, seen, alpha) for seen in range(users + 1))
    guesses: set[tuple[float, int]] = set()
    for stretch in _stretches(users, alpha)[: 1 if quick else None]:
        for base, part in _around(stretch, users, quick):
            guesses.update(_best_ripples(design, base, part, alpha))
    most = sorted(guesses, reverse=True)[: 2 if quick else _COMPUTED]
    return max(_at(design, seen, alpha) for _, seen in most)


def _at(design: Design, seen: int, alpha: Fraction) -> Worst:
    return Worst(design.error_probability(seen, alpha), seen)


def _stretches(users: int, alpha: Fraction) -> list[_Stretch]:
    """Where errors in both directions are possible; then where only one is, the released density being in [0, 1]."""
    first_down, last_up = ceil(alpha * users), floor((1 - alpha) * users)
    stretches = [
        _Stretch(first_down, last_up, upwards=True, downwards=True),
        _Stretch(0, min(first_down - 1, last_up), upwards=True, downwards=False),
        _Stretch(max(last_up + 1, first_down), users, upwards=False, downwards=True),
    ]
    return [stretch for stretch in stretches if stretch.low <= stretch.high]


def _around(stretch: _Stretch, users: int, quick: bool) -> list[tuple[int, _Stretch]]:
    """Places to look around, each with the part of the stretch that is nearest to it."""
    middle = min(max(users // 2, stretch.low), stretch.high)
    spread = [] if quick else np.linspace(stretch.low, stretch.high, _BASES).astype(int).tolist()
    bases = sorted({middle, *spread})
    ends = [stretch.low, *((a + b) // 2 for a, b in pairwise(bases)), stretch.high]
    return [
        (base, stretch._replace(low=low, high=high)) for base, (low, high) in zip(bases, pairwise(ends), strict=True)
    ]


def _best_ripples(design: Design, base: int, stretch: _Stretch, alpha: Fraction) -> list[tuple[float, int]]:
    """Guess the largest error probabilities around a number of seen users, and say where they are."""
    step = 1 / (_RUN * design.moved)  # the run then spans a whole ripple; where one user is more, it spans many
    guess = _guess_around(design, base, stretch, alpha)
    best = _top(guess, _run(base, max(step, 1.0), stretch))
    if step > 1:
        best += _top(guess, _run(best[0][1], max(3 * step / _RUN, 1.0), stretch))
    return best


def _run(base: int, step: float, stretch: _Stretch) -> NDArray[np.int64]:
    run: NDArray[np.int64] = base + np.rint(step * np.arange(-_RUN // 2, _RUN // 2 + 1)).astype(np.int64)
    inside: NDArray[np.int64] = run[(run >= stretch.low) & (run <= stretch.high)]
    return inside


def _top(guess: Guess, run: NDArray[np.int64]) -> list[tuple[float, int]]:
    values = guess(run)
    order = np.argsort(-values)[:_COMPUTED]
    return list(zip(values[order].tolist(), run[order].tolist(), strict=True))


def _guess_around(design: Design, base: int, stretch: _Stretch, alpha: Fraction) -> Guess:
    """Take both tails near `base` for smooth functions of how far beyond alpha they start, which is what ripples.

    Where the variance is larger than at `base`, the tails are those of a smaller distance at `base`.
    """
    mean, reach = design.mean(base), design.users * design.gap * alpha
    ones, variance = Ones(design, base), design.variance(base)
    top, bottom = ceil(mean + reach), floor(mean - reach)
    up, down = float(top - mean - reach), float(mean - reach - bottom)
    rising = _parabola(up, [ones.at_least(top + k) for k in (-1, 0, 1)])
    falling = _parabola(down, [ones.at_most(bottom - k) for k in (-1, 0, 1)])

    def guess(seen: NDArray[np.int64]) -> NDArray[np.float64]:
        shift = design.moved * (seen - base)
        nearer = float(reach) * (1 - np.sqrt(variance / design.variance(seen)))
        known = np.abs(nearer) < 1  # further away, the three tails tell nothing
        nearer = np.where(known, nearer, 0.0)
        total = np.zeros(len(seen))
        if stretch.upwards:
            total += np.exp(rising((up - shift) % 1 - nearer))
        if stretch.downwards:
            total += np.exp(falling((down + shift) % 1 - nearer))
        return np.where(known, total, 0.0)

    return guess


def _parabola(middle: float, tails: list[float]) -> Callable[[Any], Any]:
    """The parabola through the logarithms of three neighbouring tails."""
    before, here, after = np.log(np.maximum(tails, _RELIABLE)).tolist()
    slope, bend = (after - before) / 2, (after - 2 * here + before) / 2

    def at(x: Any) -> Any:
        return here + (x - middle) * (slope + (x - middle) * bend)

    return at

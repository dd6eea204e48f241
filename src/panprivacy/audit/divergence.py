r"""How far two laws of one sight are apart at an epsilon: the hockey-stick divergence, summed over all outputs.

For a fixed state seen, noisy numbers o = (o_1..o_k) have the likelihood ``f(o) = sum of weight * prod P(o_i - v_i)``
over the values v that the noise may have hidden, and g(o) under the other law. Their divergence is

    sum over all integers o_1..o_k of  max(f(o) - e^epsilon * g(o), 0).

**Never too small.** All terms of f and g are positive, so floats know each of them up to a relative error far below
`_ROUNDING`; f is raised and g lowered by that much before they are compared. Outputs are summed up to a reach on either
side of the values, beyond which the noise of one number has a probability below 1e-18; the probability, under f, of
all that lies beyond is added.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import ceil, exp, fsum, log, prod, sqrt, tanh
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from panprivacy.audit.contrasts import Contrast, Drawn
from panprivacy.audit.outcomes import TooManyOutcomes
from panprivacy.privacy.noise import Gaussian

Reals: TypeAlias = NDArray[np.float64]

MOST_OUTPUTS = 2**26
"""More combinations of noisy numbers than this are refused: they could not be summed."""

_ROUNDING = 1e-12
_BEYOND = log(2e18)


def divergence(contrast: Contrast, epsilon: float) -> float:
    """The divergence of a contrast, never too small, as a share of all its weights."""
    outputs = _Outputs(contrast)
    growth = exp(epsilon) * (1 - _ROUNDING)
    parts = [float(np.maximum(a * (1 + _ROUNDING) - growth * b, 0.0).sum()) for _, a, b in outputs.blocks()]
    return fsum([*parts, outputs.beyond]) * (1 + _ROUNDING)


@dataclass(frozen=True)
class Region:
    """The outputs that are more than e^epsilon times likelier under the first law, and their probabilities."""

    a: float
    b: float
    likeliest: tuple[int, ...]
    """The one among them that is likeliest under the first law."""
    least_sum: int | None
    """They are all those that add up to at least this, if so."""
    most_sum: int | None
    """They are all those that add up to at most this, if so."""


def region(contrast: Contrast, epsilon: float) -> Region | None:
    """Where the divergence of a contrast comes from; None if from nowhere."""
    outputs = _Outputs(contrast)
    growth = exp(epsilon)
    above, below = [], []
    best = 0.0
    likeliest: tuple[int, ...] = ()
    inside: list[int] = []
    outside: list[int] = []
    for first, a, b in outputs.blocks():
        likelier = a > growth * b
        sums = outputs.sums(first)
        outside += _ends(sums[~likelier])
        if not likelier.any():
            continue
        inside += _ends(sums[likelier])
        above.append(float(a[likelier].sum()))
        below.append(float(b[likelier].sum()))
        top = np.where(likelier, a, -1.0)
        if top.max() > best:
            best, at = float(top.max()), np.unravel_index(int(top.argmax()), top.shape)
            likeliest = outputs.point(first, (int(at[0]), int(at[1])))
    if not inside:
        return None
    return Region(
        a=fsum(above),
        b=fsum(below),
        likeliest=likeliest,
        least_sum=min(inside) if outside and min(inside) > max(outside) else None,
        most_sum=max(inside) if outside and max(inside) < min(outside) else None,
    )


def _ends(sums: NDArray[np.int64]) -> list[int]:
    return [int(sums.min()), int(sums.max())] if sums.size else []


class _Outputs:
    """All outputs up to the reach, in blocks of the last two numbers, with their likelihoods under both laws."""

    def __init__(self, contrast: Contrast) -> None:
        masses = contrast.masses
        self._numbers = len(masses[0].values)
        whole = contrast.whole
        weights = np.array([[mass.a / whole, mass.b / whole] for mass in masses])
        self._weights = weights.T
        kinds = contrast.kinds
        columns = [[(mass.values[i], kinds[mass.kind][i]) for mass in masses] for i in range(self._numbers)]
        columns += [[] for _ in range(2 - self._numbers)]  # a number that is always 0
        reach = [max((_reach(noise) for _, noise in column), default=0) for column in columns]
        self._axes = [
            np.arange(-far, max((value for value, _ in column), default=0) + far + 1)
            for column, far in zip(columns, reach, strict=True)
        ]
        if prod(len(axis) for axis in self._axes) > MOST_OUTPUTS:
            raise TooManyOutcomes(
                f"{self._numbers} noisy numbers have too many outputs; audit fewer releases or a larger epsilon"
            )
        self._chances = [
            np.array([_chances(noise, axis - value) for value, noise in column] or [np.ones(1)] * len(masses))
            for column, axis in zip(columns, self._axes, strict=True)
        ]
        self.beyond = fsum(
            mass.a / whole * _beyond(noise, far)
            for mass in masses
            for noise, far in zip(kinds[mass.kind], reach, strict=False)
        )

    def blocks(self) -> Iterator[tuple[tuple[int, ...], Reals, Reals]]:
        """All numbers but the last two, and the likelihoods of those two under either law."""
        *leading, rows, columns = self._chances
        for first in product(*(range(len(axis)) for axis in self._axes[:-2])):
            so_far = prod((chances[:, i] for chances, i in zip(leading, first, strict=True)), start=np.ones(len(rows)))
            a, b = ((weights * so_far * rows.T) @ columns for weights in self._weights)
            yield first, a, b

    def sums(self, first: tuple[int, ...]) -> NDArray[np.int64]:
        """What the numbers of a block add up to."""
        leading = sum(int(axis[i]) for axis, i in zip(self._axes, first, strict=False))
        return np.asarray(leading + self._axes[-2][:, np.newaxis] + self._axes[-1])

    def point(self, first: tuple[int, ...], last: tuple[int, int]) -> tuple[int, ...]:
        """The numbers at one place of a block."""
        places = (*first, *last)
        return tuple(int(axis[i]) for axis, i in zip(self._axes, places, strict=True))[: self._numbers]


def _reach(noise: Drawn) -> int:
    """How far out noise is followed: beyond, it has a probability below 1e-18."""
    law, times = noise
    if isinstance(law, Gaussian):
        return ceil(sqrt(2 * times * float(law.square) * _BEYOND))
    return ceil(_BEYOND / float(law.epsilon))


def _beyond(noise: Drawn, reach: int) -> float:
    """A bound of ``P(|X| > reach)``: sums of discrete Gaussians have no longer tails than continuous ones."""
    law, times = noise
    if isinstance(law, Gaussian):
        return 2 * exp(-((reach + 1) ** 2) / (2 * times * float(law.square)))
    return 2 * exp(-(reach + 1) * float(law.epsilon))


def _chances(noise: Drawn, distances: NDArray[np.int64]) -> Reals:
    """Probabilities of noise."""
    law = noise.law
    if isinstance(law, Gaussian):
        known = _bell(noise, 2 ** int(abs(distances).max()).bit_length())
        return known[distances + len(known) // 2]
    return np.asarray(tanh(float(law.epsilon) / 2) * np.exp(-float(law.epsilon) * np.abs(distances)))


@lru_cache(maxsize=64)
def _bell(noise: Drawn, reach: int) -> Reals:
    """The probabilities of a sum of Gaussians from -reach to reach."""
    heights = np.exp(-(np.arange(-reach, reach + 1, dtype=np.float64) ** 2) / (2 * float(noise.law.variance)))
    one = heights / fsum(heights)
    bell = one
    for _ in range(1, noise.times):
        bell = np.convolve(bell, one, "same")
    return np.asarray(bell)

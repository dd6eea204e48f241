"""The scale on which the noise of a series is the same for all of its releases, as a fit of squares wants it."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf
from typing import Any, Self

import numpy as np

from panprivacy.release.count import CountRelease
from panprivacy.release.normal_laplace import Reals

_SURE_ENOUGH = 0.25  # relative error of what the last point of a curve is made of


@dataclass(frozen=True)
class EvenScale:
    r"""Numbers of users as ``u = asinh(n / unit)``, which is even near zero and geometric far from it.

    The noise of a `CountRelease` has standard deviation ``at_zero`` where few users came and ``relative * n`` where
    many did, so on the scale with ``unit = at_zero / relative`` it is `relative` everywhere. On the scale of users one
    estimate that is a thousand times too high would outweigh all others.
    """

    unit: float
    relative: float

    @classmethod
    def of(cls, releases: Sequence[CountRelease]) -> Self | None:
        """The scale, from what the releases say of their noise; None where they say that there is none."""
        at_zero = min(release.noise_stderr for release in releases)
        if not 0 < at_zero < inf:
            return None
        relative = min(release.noise_stderr / release.count if release.count > 0 else inf for release in releases)
        return cls(at_zero, 1.0) if relative == inf else cls(at_zero / relative, relative)

    @property
    def last(self) -> int:
        """How many releases the last point of a curve has to be made of, for their mean to err by a quarter at most.

        By wide noise a single release is wrong by orders of magnitude; if it is the last one, no later one says so.
        """
        return max(1, ceil((self.relative / _SURE_ENOUGH) ** 2))

    def scaled(self, counts: Any) -> Reals:
        """Numbers of users on this scale."""
        return np.asarray(np.arcsinh(np.asarray(counts) / self.unit))

    def users(self, scaled: Reals) -> Reals:
        """Numbers of users that are on this scale."""
        return np.asarray(self.unit * np.sinh(scaled))

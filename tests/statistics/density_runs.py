"""Many runs of `Density` on seeded coins, and what is asked of them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import panprivacy as pp
from panprivacy.testing import SeededCoins


@dataclass(frozen=True)
class Setting:
    """A universe, how much of it is tracked, a total budget, and the users that appear."""

    universe: int
    epsilon: float
    density: float
    sample: int | None = None
    releases: int = 1
    delta: float | None = None

    @property
    def seen(self) -> NDArray[np.int64]:
        """The first users of the range: the permutation must cope with a block."""
        return np.arange(round(self.density * self.universe))


def releases_of(setting: Setting, runs: int, seed: int) -> list[pp.Release]:
    """The first release of so many independent estimators.

    Each user is fed once: a redraw forgets what the bit was, so a user's last event alone decides the bit's law.
    """
    coins = SeededCoins(seed)
    out = []
    for _ in range(runs):
        est = pp.Density(
            setting.universe,
            setting.epsilon,
            sample=setting.sample,
            releases=setting.releases,
            delta=setting.delta,
            coins=coins,
        )
        est.update_many(setting.seen)
        out.append(est.release())
    return out


def errors_of(releases: list[pp.Release], density: float) -> NDArray[np.float64]:
    """How far the unclamped estimates are off."""
    return np.array([release.raw_density for release in releases]) - density


def coverage_of(releases: list[pp.Release], density: float) -> float:
    """How often the interval holds the truth."""
    return float(np.mean([low <= density <= high for low, high in (release.density_interval for release in releases)]))

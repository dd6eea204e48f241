"""Coins that do what a test needs."""

from collections.abc import Callable

import numpy as np

from panprivacy.privacy.coins import Coins, Flips
from panprivacy.privacy.noise import Noise


class Always(Coins):
    """Every flip comes out the same, and noise is zero."""

    def __init__(self, outcome: bool) -> None:
        self.outcome = outcome

    def below(self, threshold: int, n: int) -> Flips:  # noqa: ARG002 - whatever the probability
        return np.full(n, self.outcome)

    def randbelow(self, n: int) -> int:  # noqa: ARG002
        return 0

    def noisy(self, value: int, noise: Noise) -> int:  # noqa: ARG002
        return value


class Recorded(Coins):
    """Another source's coins, with a note of every question asked of it."""

    def __init__(self, source: Coins) -> None:
        self.source = source
        self.flips_asked: list[tuple[int, int]] = []
        self.noised: list[int] = []

    def below(self, threshold: int, n: int) -> Flips:
        self.flips_asked.append((threshold, n))
        return self.source.below(threshold, n)

    def randbelow(self, n: int) -> int:
        return self.source.randbelow(n)


class Scripted(Coins):
    """Flips computed by a function of threshold and number; noise is zero."""

    def __init__(self, flips: Callable[[int, int], Flips]) -> None:
        self._flips = flips

    def below(self, threshold: int, n: int) -> Flips:
        return self._flips(threshold, n)

    def randbelow(self, n: int) -> int:  # noqa: ARG002
        return 0

    def noisy(self, value: int, noise: Noise) -> int:  # noqa: ARG002
        return value

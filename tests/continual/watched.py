"""Observers small enough for the auditor, right and with planted bugs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from panprivacy.audit.adapters import Observer
from panprivacy.continual.watch import Watch
from panprivacy.privacy.coins import Coins


@dataclass
class KeptThreshold(Watch):
    """Planted: the textbook's test, whose threshold noise is drawn once and kept."""

    def has_drifted(self, distance: int, coins: Coins) -> bool:
        return coins.reaches(distance, self.bar + self.walk, self.shares.test)


def one_user(
    epsilon: float, *, observations: int, moves: int = 1, bar: int = 1, watch: type[Watch] = Watch
) -> Callable[[Coins], Any]:
    """How to make an observer of a single user, with a bar that its one bit can reach."""

    def make(coins: Coins) -> Observer:
        observer = Observer(1, epsilon, step=1.0, moves=moves, observations=observations, coins=coins)
        shares = observer._observed.watch.shares
        walk = coins.noisy_inside(0, shares.threshold) if watch is KeptThreshold else 0
        observer._observed.watch = watch(shares, bar, walk)
        return observer

    return make

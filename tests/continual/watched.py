"""Observers small enough for the auditor, right and with planted bugs."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panprivacy.audit.adapters import Observer
from panprivacy.continual.watch import Watch
from panprivacy.privacy.coins import Coins
from panprivacy.privacy.noise import Laplace


class KeptThreshold(Watch):
    """Planted: the textbook's test, whose threshold noise is drawn once and kept."""

    def has_drifted(self, distance: NDArray[np.int64], coins: Coins) -> bool:
        return self._reached(distance, coins)


def one_user(
    epsilon: float, *, observations: int, moves: int | None = 1, bar: int = 1, watch: type[Watch] = Watch
) -> Callable[[Coins], Any]:
    """How to make an observer of a single user, with a bar that its one bit can reach; without deletions if no moves
    are given, and then for a single one."""

    def make(coins: Coins) -> Observer:
        observer = Observer(1, epsilon, step=1.0, moves=moves, observations=observations, coins=coins)
        shares = observer._observed.watch.shares
        walk = coins.noisy_inside(0, Laplace(shares.threshold)) if watch is KeptThreshold else 0
        observer._observed.watch = watch(shares, bar, walk)
        return observer

    return make

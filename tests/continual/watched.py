"""Observers small enough for the auditor, right and with planted bugs."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panprivacy.estimators.continual import Continual, DriftTest
from panprivacy.privacy.coins import Coins
from panprivacy.privacy.noise import Laplace
from panprivacy.testing import observed_of


class KeptThreshold(DriftTest):
    """Planted: the textbook's test, whose threshold noise is drawn once and kept."""

    def has_drifted(self, distance: NDArray[np.int64], coins: Coins) -> bool:
        return self._reached(distance, coins)


def one_user(
    epsilon: float, *, observations: int, moves: int | None = 1, bar: int = 1, watch: type[DriftTest] = DriftTest
) -> Callable[[Coins], Any]:
    """How to make an observer of a single user, with a bar that its one bit can reach; without deletions if no moves
    are given, and then for a single one."""

    def make(coins: Coins) -> Continual:
        observer = Continual(1, epsilon, step=1.0, moves=moves, observations=observations, coins=coins)
        shares = observed_of(observer).drift_test.shares
        walk = coins.noisy_inside(0, Laplace(shares.threshold)) if watch is KeptThreshold else 0
        observed_of(observer).drift_test = watch(shares, bar)
        observed_of(observer).drift_test.walk[:] = walk
        return observer

    return make

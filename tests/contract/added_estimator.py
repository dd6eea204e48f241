"""An estimator that is added in one file, as CONTRIBUTING says: everything else follows from its `TRAITS`."""

from typing import Any

import panprivacy as pp
from panprivacy.privacy.coins import Coins
from panprivacy.registry import Traits
from panprivacy.universe import universe_of


class HalfSample(pp.Density):
    """Estimate a density from a random half of the users, in half of the memory."""

    KIND = 101
    TRAITS = Traits("half", ("releases", "delta"))

    def __init__(
        self,
        universe: Any,
        epsilon: float,
        *,
        releases: int = 1,
        delta: float | None = None,
        key: bytes | None = None,
        coins: Coins | None = None,
    ) -> None:
        half = (universe_of(universe).size + 1) // 2
        super().__init__(universe, epsilon, sample=half, releases=releases, delta=delta, key=key, coins=coins)

    def grow(self, more: Any) -> None:
        """Refuse: a sample cannot grow."""
        super().grow(more)

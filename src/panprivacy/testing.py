"""Seeded coins, for tests and experiments only: whoever knows the seed can undo everything."""

import numpy as np
from numpy.typing import NDArray

from panprivacy.privacy.coins import Coins, Flips, Octets, check_threshold


class SeededCoins(Coins):
    """Coins that repeat themselves; every release made with them says ``secure=False``.

    >>> import panprivacy as pp
    >>> est = pp.Density(universe=1000, epsilon=1.0, coins=SeededCoins(7))
    >>> est.secure
    False
    """

    secure = False

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def below(self, threshold: int, n: int) -> Flips:
        check_threshold(threshold)
        return self._generator.integers(0, 2**32, size=n, dtype=np.uint32) < threshold

    def fill_below(self, n: int, octets: Octets) -> None:
        octets[:] = self._generator.integers(0, n, size=len(octets), dtype=np.uint8)

    def randbelow(self, n: int) -> int:
        # More bits than needed by 64: the remainder is uniform up to 2**-64.
        width = n.bit_length() // 8 + 9
        return int.from_bytes(self._generator.bytes(width), "little") % n

    def subset(self, universe: int, size: int) -> NDArray[np.int64]:
        return np.sort(self._generator.choice(universe, size, replace=False, shuffle=False))

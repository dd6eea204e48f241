"""Coins for tests and experiments only: whoever knows them can undo everything."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from panprivacy.privacy.coins import ONE, Coins, Flips, Octets, check_threshold
from panprivacy.privacy.noise import Noise
from panprivacy.privacy.splitting import even_if_worse


@contextmanager
def gaussian_noise() -> Iterator[None]:
    """Plan Gaussian noise wherever there is a delta, also where Laplace noise errs less: to audit few releases.

    >>> import panprivacy as pp
    >>> with gaussian_noise():
    ...     pp.Density(1000, epsilon=1.0, delta=1e-9).delta
    1e-09
    """
    before = even_if_worse.set(True)
    try:
        yield
    finally:
        even_if_worse.reset(before)


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


class CertainCoins(Coins):
    """Coins that come out on their likelier side, and noise that is zero: a table is then a plain list of who came.

    Counters start at zero, so that they say how often. With these a test of storage can tell exactly whether an event
    was lost, or counted twice.

    >>> import panprivacy as pp
    >>> est = pp.Density(universe=1000, epsilon=1.0, coins=CertainCoins())
    >>> est.update_many(range(7)); round(est._table.ones())
    7
    """

    secure = False

    def below(self, threshold: int, n: int) -> Flips:
        check_threshold(threshold)
        return np.full(n, 2 * threshold > ONE)

    def fill_below(self, n: int, octets: Octets) -> None:  # noqa: ARG002
        octets.fill(0)

    def randbelow(self, n: int) -> int:
        return secrets.randbelow(n)

    def noisy(self, value: int, noise: Noise) -> int:  # noqa: ARG002
        return value

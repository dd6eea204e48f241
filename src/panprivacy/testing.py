"""For tests and experiments only: coins that can be known beforehand, and refusals that are expected by their code."""

import random
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panprivacy.errors import PanPrivacyError
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


@dataclass
class Refusal:
    """What `refused` caught."""

    error: PanPrivacyError | None = None
    """The error, once the `with` block is left."""

    def __str__(self) -> str:
        return str(self.error)


@contextmanager
def refused(code: str, *values: object) -> Iterator[Refusal]:
    """Expect that the `with` block is refused with an error of this code, which mentions these values; give the error.

    >>> import panprivacy as pp
    >>> with refused("epsilon-range", -1.0) as refusal:
    ...     pp.Density(1000, epsilon=-1.0)
    >>> str(refusal)
    'epsilon must be positive and at most 1,000,000, got -1.0'
    """
    refusal = Refusal()
    try:
        yield refusal
    except PanPrivacyError as error:
        refusal.error = error
        if error.code != code:
            raise AssertionError(f"refused with the code {error.code!r} instead of {code!r}: {error}") from error
        missing = [value for value in values if str(value) not in str(error)]
        if missing:
            raise AssertionError(f"refused without a mention of {missing}: {error}") from error
    else:
        raise AssertionError(f"nothing was refused; {code!r} was expected")


def estimator_of(est: Any) -> Any:
    """The estimator that has the bits: the one behind an observer, the open one of windows.

    That of a state folder has the plan and the budget; its bits are in files (`folder_table`).
    """
    return getattr(est, "_est", None) or getattr(est, "_density", None) or getattr(est, "open", est)


def table_of(est: Any) -> Any:
    """The bits of an estimator.

    >>> import panprivacy as pp
    >>> table_of(pp.Density(100, epsilon=1.0)).size
    100
    """
    return estimator_of(est)._table


def slots_of(est: Any) -> Any:
    """Which bit each user of an estimator owns."""
    return estimator_of(est)._slots


phases_of = attrgetter("_phases")
"""The parts of the bits of an `ActiveUsers`, each of which is drawn anew on another day."""


def split_of(est: Any) -> Any:
    """The coins of an estimator, and the noise of its releases."""
    return estimator_of(est)._ledger.split


def ledger_of(est: Any) -> Any:
    """What an estimator has spent, and of what."""
    return estimator_of(est)._ledger


def coins_of(est: Any) -> Any:
    """Where an estimator draws from."""
    return estimator_of(est)._coins


lock_of = attrgetter("_lock")
"""The lock that an estimator holds while a call changes it."""

observed_of = attrgetter("_observed")
"""What a `Continual` knows of its stream besides the bits: its drift test, and what it has published."""


def folder_table(folder: Any) -> Any:
    """The bits of all shards of a state folder, in one table."""
    return folder._bits.gathered()


def set_coins(est: Any, coins: Coins, *, claimed_secure: bool = False) -> None:
    """Have an estimator draw from other coins; `claimed_secure` lets it be saved as if all its coins were secure."""
    inner = getattr(est, "_density", est)
    inner._coins = coins
    if claimed_secure:
        inner._drawn_securely = True


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
        self._bits = random.Random(seed).getrandbits  # six times as fast as NumPy for one number

    def below(self, threshold: int, n: int) -> Flips:
        check_threshold(threshold)
        return self._generator.integers(0, 2**32, size=n, dtype=np.uint32) < threshold

    def fill_below(self, n: int, octets: Octets) -> None:
        octets[:] = self._generator.integers(0, n, size=len(octets), dtype=np.uint8)

    def randbelow(self, n: int) -> int:
        width = (n - 1).bit_length()
        while (number := self._bits(width)) >= n:
            pass
        return number

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

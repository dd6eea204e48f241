"""The exact counts of an estimator or a table, as integers for tests."""

from collections.abc import Callable
from typing import Any

import numpy as np

from panprivacy.memory.scratch import Scratch
from panprivacy.privacy.noise import Noise
from panprivacy.privacy.noisy_counts import add_noise
from panprivacy.table import Counters
from panprivacy.testing import coins_of


def counts_of(est: Any) -> list[int]:
    """What a release of this estimator adds noise to."""
    with Scratch() as scratch:
        return [int(count) for count in est._counts(scratch)]


def noisy_counts(est: Any, noise: Noise) -> tuple[int, ...]:
    """The counts of an estimator with noise of a law that it would not take itself."""
    with Scratch() as scratch:
        counts = est._counts(scratch)
        add_noise(counts, noise, coins_of(est))
        return tuple(counts.tolist())


class OtherNoise:
    """An estimator that releases with another noise than the one that is booked."""

    drawn: Callable[[Any], Noise]
    """The noise that is drawn, given the one that is booked."""
    _ledger: Any
    _interpret: Any

    def release(self, level: float = 0.95) -> Any:
        self._ledger.spend_release()
        noisy = noisy_counts(self, type(self).drawn(self._ledger.split.noise))
        return self._interpret(self._ledger.publish(noisy, level))


def excesses_of(table: Counters) -> tuple[int, ...]:
    """For each place of the counters, how many more bits are 1 than 0."""
    counts = np.zeros(table.up_to, dtype=np.int64)
    table.count_excesses(np.array([0, table.size]), counts)
    return tuple(counts.tolist())


def ones_of(table: Any) -> int:
    """How many bits are 1."""
    counts = np.zeros(1, dtype=np.int64)
    table.count_ones(np.array([0, table.size]), counts)
    return int(counts[0])

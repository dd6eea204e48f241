"""The streams of section 6 of the paper: 10^5 events on 10^5 users, uniform and Zipf(1)."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from panprivacy.paper.printed import Printed
from panprivacy.privacy.coins import Coins
from panprivacy.testing import SeededCoins

USERS = 100_000


def _streams() -> dict[str, NDArray[np.int64]]:
    generator = np.random.default_rng(6)
    weights = 1 / np.arange(1, USERS + 1)
    zipf = np.searchsorted(np.cumsum(weights)[:-1] / weights.sum(), generator.random(USERS))
    return {"uniform": generator.integers(0, USERS, USERS), "zipf": zipf}


STREAMS = _streams()
DENSITIES = {name: len(np.unique(ids)) / USERS for name, ids in STREAMS.items()}


def estimates(
    make: Callable[[Coins], Printed], stream: str, runs: int = 300
) -> tuple[NDArray[np.float64], list[Printed]]:
    """The errors of independent estimates of a stream's density, and the estimators after it."""
    made = []
    for run in range(runs):
        est = make(SeededCoins(run))
        est.update_many(STREAMS[stream])
        made.append(est)
    return np.array([est.estimate() for est in made]) - DENSITIES[stream], made

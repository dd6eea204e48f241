"""Cells that look at the parts of the printed algorithms: the sample they propose, and their coins."""

from dataclasses import dataclass

import numpy as np
import polars as pl

from panprivacy import theory
from panprivacy.experiments.cells import seeds
from panprivacy.experiments.cells.algorithms import ALGORITHMS, knowingly
from panprivacy.paper import Dwork, OptBern
from panprivacy.testing import SeededCoins


@dataclass(frozen=True)
class SampleSize:
    """The first line of Alg. 1 or 2: "compute m*", as the printed algorithm does it."""

    algorithm: str
    epsilon: float
    alpha: float
    beta: float

    @property
    def runs(self) -> int:
        return 1

    def compute(self, seed: int) -> pl.DataFrame:
        """Build the algorithm for (alpha, beta) and see how many users it samples."""
        printed: type[Dwork] | type[OptBern] = Dwork if self.algorithm == "Dwork" else OptBern
        needed = int(theory.sample_size(self.algorithm.lower(), self.epsilon, self.alpha, self.beta))
        with knowingly():
            est = printed.for_accuracy(2 * needed, self.epsilon, self.alpha, self.beta, coins=SeededCoins(seed))
        row = {"algorithm": self.algorithm, "epsilon": self.epsilon, "alpha": self.alpha, "beta": self.beta}
        return pl.DataFrame([row | {"sample": est.sample}])


@dataclass(frozen=True)
class CoinCount:
    """The bits of a printed algorithm after half of its users came: how often each half's are 1."""

    algorithm: str
    epsilon: float
    users: int

    @property
    def runs(self) -> int:
        return 1

    def compute(self, seed: int) -> pl.DataFrame:
        """Count the ones of those who came and of those who did not."""
        coins = SeededCoins(seeds.number(seed, self))
        with knowingly():
            est = ALGORITHMS[self.algorithm].build(self.users, 2 * self.epsilon, self.users, coins)
        half = self.users // 2
        est.update_many(np.arange(half))
        ones = np.array(est.state.bits)
        row = {"algorithm": self.algorithm, "epsilon": self.epsilon, "came": half, "stayed": self.users - half}
        counts = {"came_ones": int(ones[:half].sum()), "stayed_ones": int(ones[half:].sum())}
        return pl.DataFrame([row | counts])

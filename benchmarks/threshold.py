"""What an intruder learns from a threshold that is kept: the table of docs/explanation/continual.md.

    python benchmarks/threshold.py

One user, one reading of the whole state at any moment, and more and more observations. The auditor runs the observer
under every outcome of its coins, once with the textbook's sparse-vector test, which draws its threshold noise once and
keeps it, and once with the walk that ships.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from rich.table import Table

from panprivacy import audit
from panprivacy.estimators.continual import Continual, DriftTest
from panprivacy.privacy.coins import Coins
from panprivacy.privacy.noise import Laplace

EPSILON = 8.0  # noise of a few counts, so that most of its outcomes can be followed
OBSERVATIONS = (1, 2, 4, 6, 8)


class Kept(DriftTest):
    """The textbook's test."""

    def has_drifted(self, distance: NDArray[np.int64], coins: Coins) -> bool:
        """Compare with the threshold that was drawn at the start."""
        return self._reached(distance, coins)


def observer(kind: type[DriftTest]) -> Callable[[Coins], Continual]:
    """How to make an observer of one user, with a bar that the one bit can reach."""

    def make(coins: Coins) -> Continual:
        est = Continual(1, EPSILON, step=1.0, observations=1, coins=coins)
        shares = est._observed.drift_test.shares
        est._observed.drift_test = test = kind(shares, 1)
        test.walk[0] = coins.noisy_inside(0, Laplace(shares.threshold)) if kind is Kept else 0
        return est

    return make


def main() -> None:
    """Print the table."""
    console = Console()
    table = Table("observations", "threshold kept", "threshold walks", "claimed", title="worst loss found")
    for times in track(OBSERVATIONS, "auditing", console=Console(stderr=True)):
        kept, walk = (audit.exact(observer(kind), users=1, length=2, releases=times) for kind in (Kept, DriftTest))
        table.add_row(str(times), f"{kept.worst_loss:.3f}", f"{walk.worst_loss:.3f}", f"{walk.claimed:.3f}")
    console.print(table)


if __name__ == "__main__":
    main()

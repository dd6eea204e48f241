"""Cells of the exact auditor: what someone who looks can really learn from an algorithm."""

from dataclasses import dataclass

import polars as pl

from panprivacy.audit import exact
from panprivacy.audit.subjects import SUBJECTS, Case
from panprivacy.experiments.cells.algorithms import ALGORITHMS, knowingly


@dataclass(frozen=True)
class TrueLoss:
    """The worst-case loss of state and output together, over all streams of two events and three users."""

    algorithm: str
    total: float
    """What is claimed."""

    @property
    def runs(self) -> int:
        return 1

    def compute(self, seed: int) -> pl.DataFrame:  # noqa: ARG002 (nothing is random)
        """Audit the shipping code."""
        subject = next(subject for subject in SUBJECTS if subject.name == self.algorithm)
        found = subject.audit(Case(epsilon=self.total, users=3, events=2))
        witness = found.witness.sentence if found.witness else ""
        row = {"algorithm": self.algorithm, "claimed": self.total, "loss": found.worst_loss, "settled": found.settled}
        return pl.DataFrame([row | {"witness": witness}])


@dataclass(frozen=True)
class StateLoss:
    """The worst-case loss of the state of a printed algorithm, seen by itself."""

    algorithm: str
    epsilon: float

    @property
    def runs(self) -> int:
        return 1

    def compute(self, seed: int) -> pl.DataFrame:  # noqa: ARG002 (nothing is random)
        """Audit the shipping code, without any output."""
        build = ALGORITHMS[self.algorithm].build
        with knowingly():
            found = exact(lambda coins: build(2, 2 * self.epsilon, 2, coins), users=2, length=2, releases=0)
        return pl.DataFrame([{"algorithm": self.algorithm, "epsilon": self.epsilon, "loss": found.worst_loss}])

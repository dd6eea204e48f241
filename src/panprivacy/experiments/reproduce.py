"""A whole reproduction: cells, tables, pictures, claims, report."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from panprivacy.experiments import claims, report
from panprivacy.experiments.cells import Cell
from panprivacy.experiments.claims import Claim, Verdict
from panprivacy.experiments.figures import STUDIES, Study, save
from panprivacy.experiments.figures.study import Frames
from panprivacy.experiments.runner import compute
from panprivacy.experiments.scale import FULL, Scale
from panprivacy.experiments.store import Store


@dataclass(frozen=True)
class Reproduction:
    """Figures to be reproduced into a folder.

    `compute` may be interrupted and called again; `write` needs all of it. With several jobs, the script that calls
    it must be guarded by ``if __name__ == "__main__"``, as for all of `multiprocessing`.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     one = Reproduction(Path(folder), numbers=(3,), scale=Scale(epsilons=(0.1, 0.5), coin_users=100_000))
    ...     one.compute()
    ...     [claim] = one.write()
    ...     sorted(file.name for file in Path(folder).iterdir())
    ['cells', 'claims.csv', 'data', 'figures', 'report.html']
    >>> print(claim.said, claim.measured, claim.verdict, sep="; ")
    Dwork does not use all of its allocated budget.; its state loses 51% to 58% of it; holds
    """

    out: Path
    scale: Scale = FULL
    seed: int = 1
    numbers: tuple[int, ...] = tuple(STUDIES)

    @property
    def studies(self) -> list[Study]:
        """The figures that were asked for."""
        return [STUDIES[number] for number in self.numbers]

    @property
    def cells(self) -> list[Cell]:
        """All cells that the figures need, each once."""
        return list(dict.fromkeys(cell for study in self.studies for cell in study.cells(self.scale)))

    def compute(self, jobs: int = 1, done: Callable[[Cell], None] | None = None) -> None:
        """Compute what is not computed yet; `done` is called for every cell, old or new."""
        compute(self.cells, self._store, jobs, done or (lambda cell: None))  # noqa: ARG005 (nobody listens)

    def tables(self) -> dict[int, pl.DataFrame]:
        """The data of each figure."""
        return {study.number: study.table(self._frames(study), self.scale) for study in self.studies}

    def write(self, drawn: Callable[[Study], None] | None = None) -> list[Claim]:
        """Write data, pictures, claims and report, and return the claims; `drawn` is called for every picture."""
        tables = self.tables()
        found = claims.judged(tables)
        for study in self.studies:
            save(study, tables[study.number], self.out)
            if drawn:
                drawn(study)
        claims.as_table(found).write_csv(self.out / "claims.csv")
        (self.out / "report.html").write_text(report.page(self, found), encoding="utf-8")
        return found

    @property
    def _store(self) -> Store:
        return Store(self.out / "cells", self.seed)

    def _frames(self, study: Study) -> Frames:
        kinds: dict[type[Cell], list[Cell]] = {}
        for cell in study.cells(self.scale):
            kinds.setdefault(type(cell), []).append(cell)
        return {kind: self._store.load(cells) for kind, cells in kinds.items()}


def failed(found: list[Claim]) -> list[Claim]:
    """The claims that the paper makes of its own experiments and that do not hold."""
    return [claim for claim in found if claim.counts and claim.verdict is Verdict.FAILS]

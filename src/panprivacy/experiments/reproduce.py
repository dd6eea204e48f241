"""A whole reproduction: cells, tables, pictures, claims, report.

Cells are computed on several cores. Finished ones are kept on disk, so that an interrupted reproduction continues.
"""

import hashlib
import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl

from panprivacy.errors import InvalidValue
from panprivacy.experiments import claims, report
from panprivacy.experiments.cells import Cell
from panprivacy.experiments.claims import Claim, Verdict
from panprivacy.experiments.figures import STUDIES, Study, save
from panprivacy.experiments.figures.study import Frames
from panprivacy.experiments.scale import FULL, Scale

_PACKAGE = Path(__file__).resolve().parents[1]
_SHOWING = ("cli", "planning", "ingest", "brokers", "serve", "spark", "experiments")
"""Parts of the package that change no number of a cell, except for the file that computes it."""
_COMPUTING = Path("experiments", "cells.py")
_PICTURES = Path("estimates", "plots.py")


@cache
def fingerprint() -> str:
    """A hash of the code that numbers depend on, and of NumPy's version, whose generators they come from."""
    digest = hashlib.sha256(np.__version__.encode())
    for file in sorted(_PACKAGE.rglob("*.py")):
        name = file.relative_to(_PACKAGE)
        if name == _COMPUTING or (name.parts[0] not in _SHOWING and name != _PICTURES):
            digest.update(name.as_posix().encode() + file.read_bytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class Store:
    """A folder with one Parquet file a cell.

    A file's name is a hash of the cell's parameters, the seed, and the source code that computes it: a cell that was
    computed by other code is never taken for this one.
    """

    folder: Path
    seed: int
    code: str = field(default_factory=fingerprint)
    """The code's hash, taken once: processes that start later must give a cell the same name."""

    def path(self, cell: Cell) -> Path:
        """Where a cell is, or will be."""
        key = f"{cell!r} seed={self.seed} code={self.code}"
        return self.folder / f"{type(cell).__name__.lower()}-{hashlib.sha256(key.encode()).hexdigest()[:24]}.parquet"

    def has(self, cell: Cell) -> bool:
        """Whether a cell is finished."""
        return self.path(cell).exists()

    def finish(self, cell: Cell) -> None:
        """Compute a cell and keep it; the file appears whole or not at all."""
        table = cell.compute(self.seed)
        path = self.path(cell)
        partial = path.with_name(f"{path.stem}.{os.getpid()}.partial")
        try:
            table.write_parquet(partial)
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)

    def load(self, cells: list[Cell]) -> pl.DataFrame:
        """The rows of finished cells of one kind, in their order."""
        return pl.concat([self._read(self.path(cell)) for cell in cells])

    @staticmethod
    def _read(path: Path) -> pl.DataFrame:
        try:
            return pl.read_parquet(path)
        except pl.exceptions.PolarsError as error:
            raise InvalidValue(f"{path} is damaged; delete it and run again", code="damaged-results") from error


def compute(cells: Sequence[Cell], store: Store, jobs: int, done: Callable[[Cell], None]) -> None:
    """Compute those cells that the store does not have; `done` is called for every cell, first for those it has.

    Interrupted (Ctrl-C), it keeps what is finished, cells under way included.
    """
    store.folder.mkdir(parents=True, exist_ok=True)
    missing = []
    for cell in cells:
        if store.has(cell):
            done(cell)
        else:
            missing.append(cell)
    # By hash, that is at random: quick and slow cells then alternate, and the time left can be told from the start.
    missing.sort(key=store.path)
    if jobs == 1:
        for cell in missing:
            store.finish(cell)
            done(cell)
    elif missing:
        _compute_in_parallel(missing, store, min(jobs, len(missing)), done)


def _compute_in_parallel(cells: Sequence[Cell], store: Store, jobs: int, done: Callable[[Cell], None]) -> None:
    # Processes start afresh: a fork would copy the threads of Polars in whatever state they are.
    pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), initializer=_leave_interrupts_to_the_parent)
    try:
        waiting = {pool.submit(store.finish, cell): cell for cell in cells}
        for future in as_completed(waiting):
            future.result()
            done(waiting[future])
    finally:
        pool.shutdown(cancel_futures=True)


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


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

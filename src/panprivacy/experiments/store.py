"""Finished cells on disk, so that an interrupted reproduction goes on where it was."""

import hashlib
import os
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl

from panprivacy.experiments.cells import Cell

_PACKAGE = Path(__file__).resolve().parents[1]
_SHOWING = ("cli", "planning", "events", "experiments", "drawing.py")
"""Parts of the package that change no number of a cell, except for the folder that computes it."""
_COMPUTING = Path("experiments", "cells")


@cache
def fingerprint() -> str:
    """A hash of the code that numbers depend on, and of NumPy's version, whose generators they come from."""
    digest = hashlib.sha256(np.__version__.encode())
    for file in sorted(_PACKAGE.rglob("*.py")):
        name = file.relative_to(_PACKAGE)
        if name.is_relative_to(_COMPUTING) or name.parts[0] not in _SHOWING:
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
            raise ValueError(f"{path} is damaged; delete it and run again") from error

"""A cell: a piece of work of a second or so, whose table depends on its parameters and the seed alone."""

from typing import Protocol

import polars as pl


class Cell(Protocol):
    """What can be computed, stored and counted. A cell is a frozen dataclass: its fields are its key."""

    @property
    def runs(self) -> int:
        """How much work it is, in runs of an algorithm."""

    def compute(self, seed: int) -> pl.DataFrame:
        """Do the work."""

"""What a figure is made of."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import polars as pl

from panprivacy.experiments.cells import Cell
from panprivacy.experiments.scale import Scale

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Frames: TypeAlias = dict[type[Cell], pl.DataFrame]
"""The rows of all cells of a figure, by the kind of cell."""


@dataclass(frozen=True)
class Study:
    """One figure: the cells it needs, the table they make, and the picture of that table."""

    number: int
    title: str
    caption: str
    cells: Callable[[Scale], list[Cell]]
    table: Callable[[Frames, Scale], pl.DataFrame]
    """The data of the figure: everything that is drawn, and nothing that is not."""
    draw: Callable[[pl.DataFrame], "Figure"]

    @property
    def name(self) -> str:
        """The name of its files, without their endings."""
        return f"figure-{self.number:02d}"

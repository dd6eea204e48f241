"""Tables of releases: whatever has a frame has it for Polars and for pandas."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

    from panprivacy.universe.groups import Label


def group_column(label: "Label | None") -> "pl.Expr":
    """A column that has the label of a group in every row; null stands for all users."""
    import polars as pl

    return pl.lit(label, dtype=pl.Int64 if isinstance(label, int) else None).alias("group")


class Tabular(ABC):
    """Has ``to_polars()`` and ``to_pandas()``."""

    __slots__ = ()

    @abstractmethod
    def to_polars(self) -> "pl.DataFrame":
        """All numbers as a Polars frame."""

    def to_pandas(self) -> Any:
        """The frame of `to_polars` for pandas, which has to be installed."""
        import pandas as pd

        return pd.DataFrame(self.to_polars().to_dict(as_series=False))

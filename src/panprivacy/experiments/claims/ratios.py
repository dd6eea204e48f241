"""How many times larger one mean squared error is than another, setting by setting."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from panprivacy.experiments.claims.claim import ERROR
from panprivacy.experiments.statistics import Interval, pooled, quantile, ratio_interval


@dataclass(frozen=True)
class Ratios:
    """Ratios of independent mean squared errors, with the degrees of freedom of both."""

    values: list[float]
    freedoms: list[tuple[float, float]]

    def each(self) -> list[Interval]:
        """Intervals for all of them that are right together, but for a probability of `ERROR`."""
        error = ERROR / len(self.values)
        both = zip(self.values, self.freedoms, strict=True)
        return [ratio_interval(value, *freedoms, error) for value, freedoms in both]

    def pooled(self, comparisons: int = 1) -> Interval:
        """An interval for their geometric mean; wider if several such are judged together."""
        return pooled(self.values, self.freedoms, quantile(ERROR, comparisons))

    @property
    def range(self) -> str:
        """From the smallest to the largest."""
        return f"{min(self.values):.3g} to {max(self.values):.3g}"


def ratios(over: pl.DataFrame, under: pl.DataFrame, *, on: Sequence[str]) -> Ratios:
    """The errors of one table over those of another, where they agree in these columns."""
    both = over.join(under, on=on, suffix="_under", maintain_order="left")
    values = (both["mse"] / both["mse_under"]).to_list()
    return Ratios(values, list(zip(both["freedom"], both["freedom_under"], strict=True)))


def against(table: pl.DataFrame, over: str, under: str) -> Ratios:
    """One algorithm against another, in the settings that both were run in."""
    parts = (table.filter(algorithm=name) for name in (over, under))
    return ratios(*parts, on=["stream", "epsilon", "sample"])

"""What repetitions tell, what a figure is, and how it is saved: data and picture.

A mean of n squares of normal errors is ``sigma^2 chi^2_n / n``. Errors that are not quite normal make it wider: it is
then taken for one of fewer degrees of freedom f, so that its relative variance is ``2/f`` (Satterthwaite 1946).
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, inf, isinf, log, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from panprivacy.audit.sampling import clopper_pearson
from panprivacy.estimates import plots as drawing
from panprivacy.experiments.cells import Cell, Scale

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BAND = 0.05
"""The error probability of the bands in the figures: 95 % each."""

_SETTING = ["stream", "algorithm", "total", "size"]


@dataclass(frozen=True)
class Interval:
    """An estimate and where the truth is likely to be."""

    estimate: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.estimate:.3g} ({self.low:.3g} to {self.high:.3g})"


def quantile(error: float, comparisons: int = 1) -> float:
    """How many standard errors an interval needs on either side, for `error` in all over several comparisons.

    >>> round(quantile(0.05), 2), round(quantile(0.05, comparisons=10), 2)
    (1.96, 2.81)
    """
    from scipy.special import ndtri

    return float(-ndtri(error / comparisons / 2))


def relative_interval(estimate: float, relative_error: float, quantiles: float) -> Interval:
    """An interval for a positive number whose logarithm is about normal, with this standard error."""
    factor = exp(quantiles * relative_error)
    return Interval(estimate, estimate / factor, estimate * factor)


def freedom_of(squares: NDArray[np.float64]) -> float:
    """Degrees of freedom of a mean of squares: ``2 mean^2 n / variance``, and never more than n."""
    n, variance = len(squares), float(squares.var(ddof=1))
    return min(2 * float(squares.mean()) ** 2 * n / variance, n) if variance else float(n)


def ratio_interval(ratio: float, freedom: float, under: float, error: float) -> Interval:
    """An interval for the ratio of two mean squares with these degrees of freedom, by the F distribution.

    >>> print(ratio_interval(1.0, 40, 40, 0.05))
    1 (0.533 to 1.88)
    >>> print(ratio_interval(1.0, 40, inf, 0.05))
    1 (0.674 to 1.64)
    """
    from scipy.special import fdtri, gammaincinv

    shares = np.array([error / 2, 1 - error / 2])
    if isinf(under):  # a number that is known: chi squared over its degrees of freedom
        low, high = 2 * gammaincinv(freedom / 2, shares) / freedom
    else:
        low, high = fdtri(freedom, under, shares)
    return Interval(ratio, ratio / float(high), ratio / float(low))


def pooled(ratios: list[float], freedoms: list[tuple[float, float]], quantiles: float) -> Interval:
    """The geometric mean of independent ratios of mean squares.

    The logarithm of ``chi^2_f / f`` has the mean ``digamma(f/2) - ln(f/2)``, which is taken out, and the variance
    ``trigamma(f/2)``.
    """
    from scipy.special import polygamma, psi

    known = [(sign, f) for pair in freedoms for sign, f in zip((1, -1), pair, strict=True) if not isinf(f)]
    variance = sum(float(polygamma(1, f / 2)) for _, f in known)
    logs = [log(ratio) for ratio in ratios] + [sign * (log(f / 2) - float(psi(f / 2))) for sign, f in known]
    return relative_interval(exp(sum(logs) / len(ratios)), sqrt(variance) / len(ratios), quantiles)


def settings_of(runs: pl.DataFrame) -> dict[tuple[str, str, float, int], pl.DataFrame]:
    """The runs of each setting (stream, algorithm, total, size), in the order of the repetitions."""
    parts = runs.sort("repetition").partition_by(_SETTING, maintain_order=True, as_dict=True)
    return {
        (str(stream), str(algorithm), float(total), int(size)): part
        for (stream, algorithm, total, size), part in parts.items()
    }


def mse_table(runs: pl.DataFrame) -> pl.DataFrame:
    """Mean squared errors, one row a setting, with their degrees of freedom and 95 % bands.

    All sums are NumPy's: Polars may add up in any order, and the last digit would depend on it.
    """
    rows = []
    for (stream, algorithm, total, size), part in settings_of(runs).items():
        truths = part["truth"].to_numpy()
        errors = part["estimate"].to_numpy() - truths
        mean, freedom = float((errors**2).mean()), freedom_of(errors**2)
        band = ratio_interval(mean, freedom, inf, BAND)
        row = {"stream": stream, "algorithm": algorithm, "total": total, "size": size, "repetitions": len(errors)}
        found = {"mse": mean, "low": band.low, "high": band.high, "freedom": freedom}
        rows.append(row | {"density": float(truths.mean()), "bias": float(errors.mean())} | found)
    return pl.DataFrame(rows)


def proportion(successes: int, trials: int, error: float = BAND, comparisons: int = 1) -> Interval:
    """An exact interval for a probability.

    >>> print(proportion(5, 100))
    0.05 (0.0164 to 0.113)
    """
    low, high = clopper_pearson(np.array([successes]), trials, error / comparisons / 2)
    return Interval(successes / trials, float(low[0]), float(high[0]))


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


DATA, PICTURES = "data", "figures"
"""The folders."""


def save(study: Study, table: pl.DataFrame, out: Path) -> None:
    """Write all four files of a figure."""
    data, pictures = out / DATA / study.name, out / PICTURES / study.name
    for path in (data, pictures):
        path.parent.mkdir(parents=True, exist_ok=True)
    table.write_parquet(data.with_suffix(".parquet"))
    table.write_csv(data.with_suffix(".csv"))
    with drawing.look():
        figure = study.draw(table)
        drawing.save(figure, pictures.with_suffix(".png"))
        figure.set_layout_engine("none")  # everything has its place by now
        drawing.save(figure, pictures.with_suffix(".svg"))

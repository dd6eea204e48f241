"""What the last point of the curve that never falls errs by, beside isotonic regression as in the textbook.

    python benchmarks/curve_ends.py                  # the tables of docs/explanation/continual.md

The first table has truths of several shapes and normal noise, in units of the noise of one release. The second has
releases of a real `DistinctCount` that are mostly noise, 4,096 buckets, in shares of the truth.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy.optimize import isotonic_regression

import panprivacy as pp
from panprivacy.estimates.smoothing import rising_curve
from panprivacy.testing import SeededCoins

Reals = NDArray[np.float64]

SHAPES: dict[str, Callable[[Reals], Reals]] = {
    "flat": lambda t: 0.5 + 0 * t,
    "an epidemic that is over": lambda t: 0.8 / (1 + np.exp(-(t - 0.33) * 30)),
    "slowing down": lambda t: 0.8 * (1 - np.exp(-3 * t)),
    "a straight line": lambda t: 0.8 * t,
    "an epidemic that begins": lambda t: 0.1 + 0.7 / (1 + np.exp(-(t - 0.95) * 40)),
}
SERIES = {(12, 0.01): 2000, (52, 0.041): 1000, (365, 0.041): 400, (8736, 0.0045): 60}
"""How many releases with how much noise, and how often the series is repeated."""
USERS = 94_618
COUNTED = {"365, Gaussian": (365, 365, 1e-9), "365, Laplace": (365, 365, None), "8,760, Gaussian": (8760, 1000, 1e-9)}
"""How many releases are planned, and made, and with which delta."""


def errors(fitted: Reals, truth: Reals) -> tuple[float, float, float]:
    """Bias and root mean squared error of the last points, and that of all points."""
    off = fitted - truth
    return float(off[:, -1].mean()), float(np.sqrt(np.mean(off[:, -1] ** 2))), float(np.sqrt(np.mean(off**2)))


def of_densities() -> Table:
    """The first table."""
    table = Table("releases", "noise", "truth", "last point, textbook", "ours", "all points, textbook", "ours")
    draws = np.random.default_rng(1)
    for (releases, noise), times in SERIES.items():
        for name, shape in SHAPES.items():
            truth = shape(np.arange(1, releases + 1) / releases)
            made = truth + noise * draws.normal(size=(times, releases))
            same, width = np.ones(releases), np.full(releases, noise)
            plain = errors(np.array([isotonic_regression(each).x for each in made]) / noise, truth / noise)
            ours = errors(np.array([rising_curve(each, same, width) for each in made]) / noise, truth / noise)
            last = (f"{bias:+.2f}, error {rms:.2f}" for bias, rms, _ in (plain, ours))
            table.add_row(f"{releases:,}", f"{noise:g}", name, *last, f"{plain[2]:.3f}", f"{ours[2]:.3f}")
    return table


def of_counts() -> Table:
    """The second table."""
    table = Table("releases planned", "relative error of one", "way", "median error", "largest error", "last point")
    for name, (planned, made, delta) in COUNTED.items():
        est = pp.DistinctCount(1.0, 4096, releases=planned, delta=delta, coins=SeededCoins(1))
        truth = np.rint(USERS * -np.expm1(-3 * np.arange(1, made + 1) / made) / -np.expm1(-3.0))
        releases, before = [], 0
        for count in truth.astype(int):
            est.update_many(range(before, count))
            before = count
            releases.append(est.release())
        raw = np.array([release.raw_count for release in releases])
        ways = {"released": raw, "textbook": isotonic_regression(raw).x, "ours": pp.monotone(releases).counts}
        for way, values in ways.items():
            off = (np.array(values) - truth) / truth
            cells = f"{np.median(np.abs(off)):.2g}", f"{np.abs(off).max():.2g}", f"{off[-1]:+.2g}"
            table.add_row(name, f"{est.relative_error:.2f}", way, *cells)
    return table


def main() -> None:
    """Print both tables."""
    console = Console(width=140)
    console.print(of_densities())
    console.print(of_counts())


if __name__ == "__main__":
    main()

"""Many looks at one density: Laplace noise, Gaussian noise and `Continual` side by side, against the limits we set.

    python benchmarks/many_looks.py                  # some minutes; --years 3 repeats the year more often

The year is the simulated epidemic of benchmarks/epidemic.py: a million people, epsilon 1, and 1e-9 for those who accept
a delta. It is looked at 52, 365, 8,736 (every hour) or 50,000 times, at even intervals. The releases are real ones;
the epidemic and the coins are seeded, so that each run prints the same errors. Where a year has few releases, it is
repeated with other coins.
"""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import nan, sqrt
from time import process_time

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from rich.table import Table

import panprivacy as pp
from epidemic import DAYS, EPSILON, HOURS, PEOPLE, epidemic
from panprivacy.estimates import Release
from panprivacy.privacy import coins
from panprivacy.privacy.noise import Gaussian
from panprivacy.privacy.splitting import best_split
from panprivacy.testing import SeededCoins

DELTA, STEP = 1e-9, 0.05
YEARS = {52: 60, 365: 20, 8736: 3, 50_000: 1}
"""How often the year is repeated for so many looks."""

RAW_LIMITS, FITTED_LIMITS = {365: 0.0019, 8736: 0.0050, 50_000: 0.011}, {8736: 0.0025}
"""Of the root mean squared error with Gaussian noise, as released and after the monotone fit."""
COVERAGE = (0.93, 0.97)
SLOWEST_RELEASE, SLOWEST_ACCOUNTING = 1e-3, 1.0  # seconds


@dataclass(frozen=True)
class Year:
    """All visits in order, when the year is looked at, and how many people had been to a clinic by then."""

    parts: list[NDArray[np.int64]]
    """Who came between one look and the next."""
    truth: NDArray[np.float64]


@dataclass(frozen=True)
class Seen:
    """What one way to look published over a year."""

    raw: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    fitted: NDArray[np.float64]
    """The curve that never falls and is nearest."""


@dataclass(frozen=True)
class Errors:
    """What was measured over some years: root mean squared errors, and how often the intervals held the truth."""

    raw: float
    fitted: float
    held: float


def visits_of_the_year() -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """All visits in order, how many there were by the end of each hour, and how many people by each visit."""
    hours = [hour.visitors for hour in track(epidemic(), "a year passes", total=DAYS * HOURS, transient=True)]
    visits = np.concatenate(hours)
    first = np.zeros(len(visits), dtype=np.int64)
    first[np.unique(visits, return_index=True)[1]] = 1
    return visits, np.cumsum([len(hour) for hour in hours]), np.cumsum(first)


def looked_at(visits: NDArray[np.int64], by_hour: NDArray[np.int64], people: NDArray[np.int64], looks: int) -> Year:
    """Cut the year into as many parts as there are looks; visits are spread evenly over their hour."""
    hours = np.arange(len(by_hour) + 1)
    ends = np.interp(np.arange(1, looks + 1) * len(by_hour) / looks, hours, np.concatenate([[0], by_hour])).astype(int)
    return Year(np.split(visits, ends[:-1]), np.concatenate([[0], people])[ends] / PEOPLE)


def planned(delta: float | None, year: Year, seed: int) -> Seen:
    """Make a release at each look."""
    est = pp.Density(PEOPLE, EPSILON, releases=len(year.parts), delta=delta, coins=SeededCoins(seed))

    def released() -> Iterator[Release]:
        for part in year.parts:
            est.update_many(part)
            yield est.release()

    releases = list(released())
    raw = np.array([release.raw_density for release in releases])
    low, high = np.array([release.density_interval for release in releases]).T
    return Seen(raw, low, high, never_falling(releases))


def never_falling(releases: list[Release]) -> NDArray[np.float64]:
    """The monotone fit: all releases of an estimator have the same noise, hence the same weight."""
    return np.array(pp.monotone(releases).densities)


def observed(year: Year, seed: int) -> Seen:
    """Observe a `Continual` at each look."""
    watch = pp.Continual(PEOPLE, EPSILON, step=STEP, observations=len(year.parts), coins=SeededCoins(seed))

    def published() -> Iterator[tuple[float, float, float]]:
        for part in year.parts:
            watch.update_many(part)
            seen = watch.observe()
            yield seen.density, *seen.density_band

    density, low, high = np.array(list(published())).T
    return Seen(density, low, high, fitted=density)  # it never falls


def measured(way: Callable[[Year, int], Seen], year: Year, years: int, name: str) -> Errors:
    """Watch the same year several times, each time with other coins."""
    squares, fitted, held = [], [], []
    for seed in track(range(years), f"{name}, {len(year.parts):,} looks", transient=True):
        seen = way(year, 100 + seed)
        squares.append(np.mean((seen.raw - year.truth) ** 2))
        fitted.append(np.mean((seen.fitted - year.truth) ** 2))
        held.append(np.mean((seen.low <= year.truth) & (year.truth <= seen.high)))
    return Errors(sqrt(np.mean(squares)), sqrt(np.mean(fitted)), float(np.mean(held)))


def judged(found: float, limit: float | None, digits: str = ".4f") -> str:
    """A figure, and whether it is within its limit."""
    if limit is None:
        return f"{found:{digits}}"
    return f"{found:{digits}} (at most {limit:g}) {'PASS' if found <= limit else 'FAIL'}"


def covered(held: float, promised: bool) -> str:
    """How many intervals held the truth; of Gaussian releases, whether that is what they say."""
    if not promised:
        return f"{held:.1%}"
    low, high = COVERAGE
    return f"{held:.1%} ({low:.0%} to {high:.0%}) {'PASS' if low <= held <= high else 'FAIL'}"


def compare(console: Console, more: int) -> None:
    """Print errors and coverage of the three ways to look."""
    table = Table("looks", "way", "standard error, or alpha", "measured RMSE", "intervals that hold", "after the fit")
    visits = visits_of_the_year()
    for looks, repeats in YEARS.items():
        year = looked_at(*visits, looks)
        for name, delta in (("Laplace", None), (f"Gaussian, delta {DELTA:g}", DELTA)):
            stated = pp.Density(PEOPLE, EPSILON, releases=looks, delta=delta, coins=SeededCoins(1)).density_stderr_at(
                0.5
            )
            # Laplace noise is there to compare with: its error is known from the formula.
            years = more * repeats if delta else max(more * repeats // 3, 1)
            found = measured(partial(planned, delta), year, years, name)
            raw = judged(found.raw, RAW_LIMITS.get(looks) if delta else None)
            fitted = judged(found.fitted, FITTED_LIMITS.get(looks) if delta else None)
            table.add_row(f"{looks:,}", name, f"{stated:.5f}", raw, covered(found.held, bool(delta)), fitted)
        alpha = pp.Continual(PEOPLE, EPSILON, step=STEP, observations=looks, coins=SeededCoins(1)).accuracy().alpha
        found = measured(observed, year, more * max(repeats // 10, 1), "Continual")
        name = f"Continual, step {STEP:g}"
        table.add_row(
            f"{looks:,}", name, f"alpha {alpha:.4f}", f"{found.raw:.4f}", f"{found.held:.1%} (all at once)", ""
        )
        table.add_section()
    console.print(f"{PEOPLE:,} people, epsilon {EPSILON:g}:")
    console.print(table)


def seconds(work: Callable[[], object], times: int) -> float:
    """The median processor time of some work: others may share the machine."""
    taken = []
    for _ in range(times):
        start = process_time()
        work()
        taken.append(process_time() - start)
    return float(np.median(taken)) if taken else nan


def time_it(console: Console) -> None:
    """Print how long noise, releases and accounting take."""
    table = Table("what", "seconds")
    for sigma in (10, 1000, 1_000_000):
        draw = partial(coins.system.noisy, 0, Gaussian(Fraction(sigma**2)))
        table.add_row(
            f"one draw of Gaussian noise, sigma {sigma:,}", judged(seconds(draw, 2000), SLOWEST_RELEASE, ".6f")
        )
    est = pp.Density(PEOPLE, EPSILON, releases=100_000, delta=DELTA)
    table.add_row(f"one release of {PEOPLE:,} users", judged(seconds(est.release, 1000), SLOWEST_RELEASE, ".6f"))
    split = partial(best_split, EPSILON, PEOPLE + 1, 100_000, 0, DELTA)  # of a size that nothing else asked for
    for name in ("first", "again"):
        table.add_row(f"accounting of 100,000 releases, {name}", judged(seconds(split, 1), SLOWEST_ACCOUNTING, ".6f"))
    console.print(table)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--years", type=int, default=1, help="repeat every year so many times more often")
    asked = parser.parse_args()
    console = Console(width=150)
    time_it(console)
    compare(console, asked.years)


if __name__ == "__main__":
    main()

"""Laplace and Gaussian noise side by side: what releases err by, and how long one takes.

    python benchmarks/noises.py             # a few seconds; --epsilon and --delta change the budget

Standard errors are those of the design, at density 1/2, with the split that errs least. A release is timed with all
that it does: counting ones, drawing noise, accounting, and the interval. Times are the processor's, so that others who
use the machine do not show.
"""

import argparse
import time
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from statistics import median

from rich.console import Console
from rich.table import Table

import panprivacy as pp
from panprivacy.planning.search import Terms
from panprivacy.privacy import gaussian
from panprivacy.privacy.splitting import best_split
from panprivacy.testing import gaussian_noise

CROWDS = [(10**5, 365), (10**6, 12), (10**6, 52), (10**6, 365), (10**6, 8_760), (10**6, 50_000), (10**7, 8_760)]
TIMED = [(1.0, 12), (1.0, 365), (1.0, 8_760), (1.0, 100_000), (0.003, 100_000)]
"""Epsilons and planned releases of the estimators whose releases are timed; the last have noise of a million."""
RELEASES = 400


def print_errors(console: Console, epsilon: float, delta: float) -> None:
    """Print the standard errors with either noise."""
    title = f"standard errors, epsilon {epsilon:g}, delta {delta:g}"
    table = Table("users", "releases", "Laplace", "Gaussian", title=title)
    for users, releases in CROWDS:
        errors = [Terms(users, epsilon, releases, delta=each).design(users).stderr(0.5) for each in (None, delta)]
        table.add_row(f"{users:,}", f"{releases:,}", *(f"{error:.3g}" for error in errors))
    console.print(table)


def break_even(users: int, epsilon: float, delta: float) -> int:
    """The least number of releases for which Gaussian noise errs less."""
    low, high = 1, 1000
    while high - low > 1:
        middle = (low + high) // 2
        laplace, normal = (
            Terms(users, epsilon, middle, delta=each).design(users).stderr(0.5) for each in (None, delta)
        )
        low, high = (low, middle) if normal < laplace else (middle, high)
    return high


def milliseconds(work: Callable[[], object], times: int) -> float:
    """The median time that some work takes a processor."""
    moments = [time.thread_time()]
    for _ in range(times):
        work()
        moments.append(time.thread_time())
    return 1e3 * median(after - before for before, after in pairwise(moments))


def print_times(console: Console, delta: float) -> None:
    """Print how long a release takes with either noise."""
    columns = ("epsilon", "releases", "Laplace ±", "ms a release", "Gaussian ±", "ms a release")
    table = Table(*columns, title=f"one release of a Density of a million users, median of {RELEASES}")
    for epsilon, releases in TIMED:
        cells = [f"{epsilon:g}", f"{releases:,}"]
        for each in (None, delta):
            est = pp.Density(1_000_000, epsilon, releases=releases, delta=each)
            taken = milliseconds(est.release, min(RELEASES, releases))
            cells += [f"{est.budget.noise_stderr:,.0f}", f"{taken:.2f}"]
        table.add_row(*cells)
    console.print(table)


def print_accounting(console: Console, delta: float) -> None:
    """Print how long the accounting of many releases takes, the first time."""
    split = milliseconds(lambda: best_split(1.0, 999_999, 100_000, delta=delta), 1)
    lost = milliseconds(lambda: gaussian.loss(Fraction(10**7), 100_000, delta), 1)
    console.print(f"the split for 100,000 releases: {split:.1f} ms; what so many lose: {lost:.1f} ms")


def main() -> None:
    """Read the options and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-9)
    options = parser.parse_args()
    console = Console()
    with gaussian_noise():  # also where it is the worse one
        print_errors(console, options.epsilon, options.delta)
        for users in (10**4, 10**5, 10**6, 10**7):
            first = break_even(users, options.epsilon, options.delta)
            console.print(f"{users:,} users: Gaussian noise errs less from {first} releases on")
        print_times(console, options.delta)
    print_accounting(console, options.delta)


if __name__ == "__main__":
    main()

"""How far `Counts` errs, how often its intervals hold, and how long an event takes, beside what was designed.

    python benchmarks/answers_counts.py                  # the rows, of 100 runs each
    python benchmarks/answers_counts.py --runs 400
    python benchmarks/answers_counts.py --times          # nanoseconds an event, beside `Density`
    python benchmarks/answers_counts.py --picture docs/img/counts.png

10^6 users, or, for means, 100,000 in twenty times as many runs; epsilon 1, releases with Laplace noise. How often users
appear has a long tail: P(n >= j) = 0.6 * 0.7^(j-1).
"""

import argparse
import time
from collections.abc import Iterator
from math import hypot, sqrt, tanh
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

import panprivacy as pp

USERS, FEWER, EPSILON = 10**6, 100_000, 1.0
MORE = 20
"""Times as many runs of fewer users, for what a release has one of."""
DESIGNED = {4: 0.0022, 8: 0.0032, 16: 0.0046}
"""Standard errors of a share that the design promises."""


class Row(NamedTuple):
    """One figure: what it is of, its designed and measured standard error, and how many 95 % intervals held."""

    what: str
    designed: float
    measured: float
    coverage: float


def appearances(users: int) -> NDArray[np.int64]:
    """How often each user appears."""
    shares = 0.6 * 0.7 ** np.arange(40)
    return np.concatenate(
        [np.zeros(users - round(0.6 * users), dtype=np.int64)]
        + [np.full(round(users * (share - 0.7 * share)), j + 1) for j, share in enumerate(shares)]
    )[:users]


def events(times: NDArray[np.int64], seed: int) -> NDArray[np.uint64]:
    """All events, in any order: only how many of each user matters."""
    ids = np.repeat(np.arange(len(times), dtype=np.uint64), times)
    np.random.default_rng(seed).shuffle(ids)
    return ids


def rows(runs: int = 100) -> Iterator[Row]:
    """Every figure that the design names, and the mean."""
    times = appearances(USERS)
    ids = events(np.minimum(times, 40), 1)
    for up_to, designed in DESIGNED.items():
        releases = []
        for _ in range(runs):
            est = pp.Counts(USERS, EPSILON, up_to)
            est.update_many(ids)
            releases.append(est.release())
        truth = np.array([(times >= j).mean() for j in range(1, up_to + 1)])
        raw = np.array([r.raw_at_least for r in releases])
        yield Row(
            f"Counts up to {up_to}: P(n >= j), all j",
            designed,
            float(np.sqrt(np.square(raw - truth).mean())),
            _held([r.at_least_interval for r in releases], truth),
        )
        exactly = np.array([(times == j).mean() for j in range(up_to)])
        found = np.array([r.raw_exactly for r in releases])
        yield Row(
            f"Counts up to {up_to}: P(n = j), all j",
            float(np.sqrt(np.square(releases[0].exactly_stderr).mean())),
            float(np.sqrt(np.square(found - exactly).mean())),
            _held([r.exactly_interval for r in releases], exactly),
        )
    for up_to in DESIGNED:
        yield _mean(up_to, MORE * runs, None)
    yield _mean(8, MORE * runs, "mean")


def _mean(up_to: int, runs: int, only: Literal["mean"] | None) -> Row:
    """The mean, of fewer users and in more runs: a run has one, and a hundred of them do not tell 93 from 95 %."""
    times = np.minimum(appearances(FEWER), 40)
    ids, capped = events(times, 2), np.minimum(times, up_to)
    releases = []
    for _ in range(runs):
        est = pp.Counts(FEWER, EPSILON, up_to, only=only)
        est.update_many(ids)
        releases.append(est.release())
    designed = _spread_of_mean(est, capped, releases[0].noise_stderr) if only else releases[0].mean_stderr
    return Row(
        f"Counts up to {up_to}, {FEWER:,} users: {'only the ' if only else ''}mean",
        designed,
        float(np.sqrt(np.square([r.raw_mean - capped.mean() for r in releases]).mean())),
        _held([[r.mean_interval] for r in releases], np.array([capped.mean()])),
    )


def _spread_of_mean(est: pp.Counts, capped: NDArray[np.int64], noise: float) -> float:
    """The standard error of a mean that is released alone: a release states the largest that there can be."""
    gap = tanh(est.budget.state / 2)
    ones = (1 - gap) / 2 + gap * capped / est.up_to  # the probability that a bit is 1, whatever its counter
    return hypot(est.up_to / (len(capped) * gap) * sqrt(float((ones * (1 - ones)).sum())), noise)


def _held(intervals: Any, truth: NDArray[np.float64]) -> float:
    """The share of intervals that hold the truth."""
    low, high = np.moveaxis(np.array(intervals), -1, 0)
    return float(((low <= truth) & (truth <= high)).mean())


def best_time(est: Any, ids: NDArray[np.uint64], rounds: int = 5) -> float:
    """Nanoseconds of the processor an event, the best of several rounds."""
    best = float("inf")
    for _ in range(rounds):
        start = time.thread_time()
        est.update_many(ids)
        best = min(best, time.thread_time() - start)
    return best / len(ids) * 1e9


def times() -> None:
    """Print what an event takes, beside `Density`, on one core."""
    pp.use_threads(1)
    for users in (10**5, 10**6, 10**7, 10**8):
        ids = np.random.default_rng(1).integers(0, users, 10_000_000, dtype=np.uint64)
        plain = best_time(pp.Density(users, EPSILON), ids)
        print(f"{users:>11,} users: Density {plain:5.2f} ns", end="")
        for up_to in DESIGNED:
            counted = best_time(pp.Counts(users, EPSILON, up_to), ids)
            print(f", up_to {up_to}: {counted:5.2f} ns ({counted / plain:.1f} x)", end="")
        print()


def picture(path: str) -> None:
    """Draw one release beside the truth, and the standard error against the number of users."""
    from matplotlib.figure import Figure

    from panprivacy.estimates.plots import BLACK, COLOURS, GREEN, ORANGE, look, save

    users, up_to = 100_000, 8
    often = appearances(users)
    est = pp.Counts(users, EPSILON, up_to)
    est.update_many(events(often, 2))
    r = est.release()
    with look():
        figure = Figure(figsize=(9, 3.8), layout="constrained")
        left, right = figure.subplots(1, 2)
        places = np.arange(1, up_to + 1)
        arms = np.abs(np.array(r.at_least_interval).T - np.array(r.at_least))
        left.bar(places, r.at_least, color=COLOURS["Counts"], width=0.75, label="released, 95 % interval")
        left.errorbar(places, r.at_least, yerr=arms, fmt="none", ecolor=BLACK, capsize=3)
        truth = [(often >= j).mean() for j in places]
        left.plot(places, truth, "o", color=ORANGE, markeredgecolor=BLACK, label="true")
        left.set_title(f"One release: {users:,} users, epsilon 1")
        left.set_xlabel("at least so many times")
        left.set_ylabel("share of the users")
        left.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
        left.grid(visible=False, axis="x")
        left.set_ylim(bottom=0)
        left.legend()
        sizes = np.unique(np.logspace(3.5, 8, 28).astype(int))
        for up, colour in ((4, GREEN), (8, COLOURS["Counts"]), (16, ORANGE)):
            errors = [pp.plan(int(size), EPSILON, up_to=up).stderr for size in sizes]
            right.plot(sizes, errors, color=colour, label=f"up_to={up}")
        density = [pp.Density(int(size), EPSILON).density_stderr_at(0.5) for size in sizes]
        right.plot(sizes, density, color=COLOURS["Density"], label="Density")
        right.set_xscale("log")
        right.set_yscale("log")
        right.set_title("Standard error of each share, epsilon 1")
        right.set_xlabel("users")
        right.legend()
        save(figure, path)


def main() -> None:
    """Read the options and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--times", action="store_true")
    parser.add_argument("--picture", metavar="FILE")
    options = parser.parse_args()
    if options.times:
        times()
    elif options.picture:
        picture(options.picture)
    else:
        print(f"{'what':<46}{'designed':>10}{'measured':>10}{'ratio':>7}{'95 % hold':>11}")
        for row in rows(options.runs):
            ratio = row.measured / row.designed
            print(f"{row.what:<46}{row.designed:>10.5f}{row.measured:>10.5f}{ratio:>7.3f}{row.coverage:>11.1%}")


if __name__ == "__main__":
    main()

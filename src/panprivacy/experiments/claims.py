"""What was claimed, and whether it is so: each claim with its verdict, judged by the data of one figure.

The evidence of most claims are ratios of mean squared errors, setting by setting.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from itertools import pairwise
from math import inf, isinf, sqrt
from typing import TypeAlias

import numpy as np
import polars as pl

from panprivacy.experiments.figures import GOAL_STREAM, TOTAL, advantage, goal_bits
from panprivacy.experiments.study import BAND, Interval, mse_table, pooled, proportion, quantile, ratio_interval

ERROR = 1e-4
"""The probability that chance alone makes a claim fail: all intervals that it is judged by miss together as rarely."""


class Verdict(StrEnum):
    """Whether a claim stands, as far as the repetitions can tell."""

    HOLDS = "holds"
    FAILS = "does not hold"
    OPEN = "not decided"


class Of(StrEnum):
    """Whose claim it is."""

    EXPERIMENTS = "What the paper says of its figures (sections 3, 4 and 6)"
    THEOREMS = "What the paper says of its algorithms' privacy"
    LIBRARY = "What this library says"


@dataclass(frozen=True)
class Claim:
    """A sentence and its verdict."""

    of: Of
    said: str
    where: str
    measured: str
    tolerance: str
    """The condition under which the sentence counts as true."""
    verdict: Verdict

    @property
    def counts(self) -> bool:
        """Whether a reproduction fails if this claim does.

        The privacy theorems are known to be wrong, and the library's promises have tests of their own.
        """
        return self.of is Of.EXPERIMENTS


def inside(found: Interval, low: float = -inf, high: float = inf) -> Verdict:
    """Whether a number that is known up to an interval lies between two others.

    >>> inside(Interval(2.0, 1.5, 2.5), low=1).value, inside(Interval(0.8, 0.5, 0.9), low=1).value
    ('holds', 'does not hold')
    >>> inside(Interval(1.1, 0.8, 1.4), low=1).value
    'not decided'
    """
    if low <= found.low and found.high <= high:
        return Verdict.HOLDS
    return Verdict.FAILS if found.high < low or high < found.low else Verdict.OPEN


def not_outside(found: Interval, low: float = -inf, high: float = inf) -> Verdict:
    """As `inside`, but what cannot be refuted holds: for many small parts of a claim that is decided as a whole."""
    return Verdict.FAILS if inside(found, low, high) is Verdict.FAILS else Verdict.HOLDS


def together(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict on a claim of several parts: it holds if all of them do."""
    found = set(verdicts)
    return next((verdict for verdict in (Verdict.FAILS, Verdict.OPEN) if verdict in found), Verdict.HOLDS)


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
    """The errors of one table over the errors of another, where they agree in these columns."""
    both = over.join(under, on=on, suffix="_under", maintain_order="left")
    values = (both["mse"] / both["mse_under"]).to_list()
    return Ratios(values, list(zip(both["freedom"], both["freedom_under"], strict=True)))


def against(table: pl.DataFrame, over: str, under: str) -> Ratios:
    """One algorithm against another, in the settings that both were run in."""
    parts = (table.filter(algorithm=name) for name in (over, under))
    return ratios(*parts, on=["stream", "epsilon", "sample"])


Found: TypeAlias = tuple[str, str, Verdict]
"""What a table shows, the tolerance, and the verdict."""

Judge: TypeAlias = Callable[[pl.DataFrame], Claim]

JUDGES: list[tuple[int, Judge]] = []
"""Each claim is judged by the data of one figure."""


def claim(
    figure: int, said: str, place: str = "section 6, ", of: Of = Of.EXPERIMENTS
) -> Callable[[Callable[[pl.DataFrame], Found]], Judge]:
    """Make a judge of a function, and list it."""

    def judge_of(found: Callable[[pl.DataFrame], Found]) -> Judge:
        def judge(table: pl.DataFrame) -> Claim:
            return Claim(of, said, f"{place}figure {figure}", *found(table))

        JUDGES.append((figure, judge))
        return judge

    return judge_of


of_library = partial(claim, place="", of=Of.LIBRARY)


@claim(1, "OptBern's proposed sample size is half an order of magnitude less than Dwork's.", "section 4.3, ")
def half_an_order(table: pl.DataFrame) -> Found:
    sizes = (table.filter(algorithm=name).sort("epsilon")["sample"].to_numpy() for name in ("Dwork", "OptBern"))
    dwork, optbern = sizes
    factors = dwork / optbern
    low, high = 10**0.4, 10**0.6
    return (
        f"{factors.min():.2f} to {factors.max():.2f} times less",
        f"a factor of 10^0.4 to 10^0.6 ({low:.2f} to {high:.2f}) at every epsilon; nothing is random",
        Verdict.HOLDS if low <= factors.min() and factors.max() <= high else Verdict.FAILS,
    )


@claim(2, "The proposed Bernoulli distributions use all of the allocated budget.", "section 4.2, ")
def optbern_uses_all(table: pl.DataFrame) -> Found:
    """By the slope of ``|ln R(b)|`` over epsilon, fitted through the origin."""
    part = table.filter(algorithm="OptBern")
    epsilons, losses = part["epsilon"].to_numpy(), np.abs(np.log(part["ratio"].to_numpy()))
    errors = np.log(part["high"].to_numpy() / part["low"].to_numpy()) / (2 * quantile(BAND))
    weight = float(np.sum(epsilons**2))
    slope = float(np.sum(epsilons * losses)) / weight
    # R(0) and R(1) come from the same bits: their errors are added up as if they were one.
    wide = quantile(ERROR) * float(np.sqrt(2 * np.sum((epsilons * errors) ** 2))) / weight
    found = Interval(slope, slope - wide, slope + wide)
    return f"{found} of it", "within 5 % of all, by the bits of the state", inside(found, 0.95, 1.05)


@claim(3, "Dwork does not use all of its allocated budget.", "section 4.1, ")
def dwork_wastes(table: pl.DataFrame) -> Found:
    shares = (table["audited"] / table["epsilon"]).to_numpy()
    return (
        f"its state loses {shares.min():.0%} to {shares.max():.0%} of it",
        "less than 90 % at every epsilon; nothing is random",
        Verdict.HOLDS if shares.max() < 0.9 else Verdict.FAILS,
    )


# --- figure 4 --------------------------------------------------------------------------------------------------------


@claim(4, "The density of a uniform stream is 0.63, that of a Zipf stream 0.25.")
def densities(table: pl.DataFrame) -> Found:
    expected = {"uniform": 0.63, "zipf": 0.25}
    found = {stream: float(table.filter(stream=stream)["density"][0]) for stream in expected}
    return (
        ", ".join(f"{stream} {density:.4f}" for stream, density in found.items()),
        "within 0.01; over all repetitions, the mean errs by less than 0.001",
        together(inside(Interval(d, d, d), expected[s] - 0.01, expected[s] + 0.01) for s, d in found.items()),
    )


@claim(4, "OptBern errs by alpha or more less often than Dwork, whatever the distribution of the stream.")
def optbern_errs_less(table: pl.DataFrame) -> Found:
    dwork, optbern = (table.filter(algorithm=name) for name in ("Dwork", "OptBern"))
    both = dwork.join(optbern, on=["stream", "epsilon"], suffix="_optbern", maintain_order="left")
    wide = quantile(ERROR, len(both))
    gaps = []
    for row in both.iter_rows(named=True):
        # One success and one failure more than were seen keep the error away from 0 (Agresti and Caffo 2000).
        n = row["repetitions"] + 2
        shares = (row["errors"] + 1) / n, (row["errors_optbern"] + 1) / n
        error = sqrt(sum(share * (1 - share) / n for share in shares))
        gap = shares[0] - shares[1]
        gaps.append(Interval(gap, gap - wide * error, gap + wide * error))
    return (
        f"Dwork's probability is larger by {_smallest(gaps)} or more",
        f"larger at all {len(gaps)} epsilons and streams, each within its sampling error",
        together(inside(gap, low=0) for gap in gaps),
    )


@claim(
    4, "The theoretical bounds on the probability of error are not tight: they are larger than all that is measured."
)
def bounds_are_loose(table: pl.DataFrame) -> Found:
    slack = []
    for row in table.iter_rows(named=True):
        found = proportion(row["errors"], row["repetitions"], ERROR, len(table))
        slack.append(Interval(row["bound"] - found.estimate, row["bound"] - found.high, row["bound"] - found.low))
    return (
        f"the bound is larger by {_smallest(slack)} or more",
        f"larger at all {len(slack)} points, each within its sampling error",
        together(inside(one, low=0) for one in slack),
    )


def _smallest(found: Sequence[Interval]) -> Interval:
    return min(found, key=lambda one: one.estimate)


# --- figures 5 to 7: mean squared errors -----------------------------------------------------------------------------


def _within(found: dict[str, Ratios], whole: tuple[float, float], single: tuple[float, float]) -> Verdict:
    """Whether means of ratios, which are judged together, keep within bounds, and no single ratio is refuted."""
    singles = (not_outside(one, *single) for ratio in found.values() for one in ratio.each())
    return together([*(inside(ratio.pooled(len(found)), *whole) for ratio in found.values()), *singles])


@claim(5, "The experimental and the theoretical MSE of Dwork and OptBern coincide.")
def theory_coincides(table: pl.DataFrame) -> Found:
    found = {}
    for name in ("Dwork", "OptBern"):
        part = table.filter(algorithm=name)
        found[name] = Ratios((part["mse"] / part["theory"]).to_list(), [(f, inf) for f in part["freedom"]])
    shown = (f"{name} {one.pooled(len(found))}, single {one.range}" for name, one in found.items())
    return (
        f"measured over exact: {'; '.join(shown)}",
        f"within 10 % on the whole, and none of {len(table)} settings off by more than its sampling error and 10 %",
        _within(found, (0.9, 1.1), (0.9, 1.1)),
    )


@claim(6, "Both PPDS and OptBern significantly outperform Dwork.")
def both_beat_dwork(table: pl.DataFrame) -> Found:
    found = {name: against(table, "Dwork", name) for name in ("OptBern", "PPDS")}
    settings = sum(len(one.values) for one in found.values())
    return (
        "; ".join(f"Dwork's MSE over {name}'s: {one.pooled(len(found))}" for name, one in found.items()),
        f"at least twice on the whole, and in none of {settings} settings certainly below 1",
        _within(found, (2, inf), (1, inf)),
    )


@claim(6, "All algorithms are robust to the stream's distribution: uniform and Zipf hardly differ.")
def robust_to_the_stream(table: pl.DataFrame) -> Found:
    wholes = {}
    for name in ("Dwork", "OptBern", "PPDS"):
        parts = (table.filter(algorithm=name, stream=stream) for stream in ("uniform", "zipf"))
        wholes[name] = ratios(*parts, on=["epsilon", "sample"]).pooled(3)
    return (
        "MSE uniform over Zipf: " + "; ".join(f"{name} {whole}" for name, whole in wholes.items()),
        "on the whole within a factor of 2",
        together(inside(whole, 1 / 2, 2) for whole in wholes.values()),
    )


def _ppds_is_better(part: pl.DataFrame, where: str, singles: str) -> Found:
    """OptBern's errors over PPDS's in a part of a table."""
    found = against(part, "OptBern", "PPDS")
    whole = found.pooled()
    measured = f"OptBern's MSE over PPDS's{where}: {whole}; {singles} {found.range}"
    return measured, "above 1 on the whole", inside(whole, low=1)


@claim(6, "PPDS performs noticeably better than OptBern if the stream is sparse (Zipf) and the sample small.")
def ppds_on_sparse_streams(table: pl.DataFrame) -> Found:
    smallest = int(table["sample"].to_numpy().min())
    part = table.filter(stream="zipf", sample=smallest)
    return _ppds_is_better(part, f", Zipf, m = {smallest:,}", "single epsilons")


@claim(7, "With a sample of 1/1000 both PPDS and OptBern struggle, but still significantly outperform Dwork.")
def small_samples(table: pl.DataFrame) -> Found:
    small = table.filter(pl.col("fraction") <= 0.001)
    percent = table.filter((pl.col("fraction") - 0.01).abs() < 1e-9)
    ahead = {name: against(small, "Dwork", name).pooled(4) for name in ("OptBern", "PPDS")}
    worse = {
        name: ratios(*(part.filter(algorithm=name) for part in (small, percent)), on=["stream"]).pooled(4)
        for name in ahead
    }
    return (
        "; ".join(f"{name}: {worse[name]} times its MSE at 1 %, {ahead[name]} times below Dwork's" for name in ahead),
        "at least 3 times the MSE at 1 %, and at least 1.5 times below Dwork's",
        together([*(inside(one, low=3) for one in worse.values()), *(inside(one, low=1.5) for one in ahead.values())]),
    )


@claim(7, "Above a certain sample size PPDS is clearly better than OptBern.")
def ppds_in_the_middle(table: pl.DataFrame) -> Found:
    """Between "very small sample percentages" and those at which the paper sees the algorithms converge."""
    part = table.filter(pl.col("fraction").is_between(0.0015, 0.25))
    return _ppds_is_better(part, " for samples of 0.2 % to 20 %", "single settings")


@claim(7, "As the sample grows, OptBern improves.")
def optbern_improves(table: pl.DataFrame) -> Found:
    fractions = sorted(set(table["fraction"]))
    mine = table.filter(algorithm="OptBern")
    steps = [
        ratios(mine.filter(fraction=few), mine.filter(fraction=many), on=["stream"]).pooled(len(fractions) - 1)
        for few, many in pairwise(fractions)
    ]
    return (
        f"from one size to the next the MSE falls by a factor of {_smallest(steps)} or more",
        "above 1 at every step",
        together(inside(step, low=1) for step in steps),
    )


@claim(7, "OptBern converges to PPDS; with all users sampled the two are identical.")
def identical_without_sampling(table: pl.DataFrame) -> Found:
    whole = against(table.filter(fraction=1.0), "OptBern", "PPDS").pooled()
    return f"OptBern's MSE over PPDS's at 100 %: {whole}", "within a factor of 1.5", inside(whole, 1 / 1.5, 1.5)


# --- figure 9: privacy -----------------------------------------------------------------------------------------------


def _kept(part: pl.DataFrame) -> Verdict:
    """Whether no loss is above its claim; a loss that is only bounded from below refutes, and proves nothing."""
    if (part["loss"] > part["claimed"] * (1 + 1e-9)).any():
        return Verdict.FAILS
    return Verdict.HOLDS if part["settled"].all() else Verdict.OPEN


def theorem(name: str, number: str) -> Judge:
    """The judge of one of the paper's privacy theorems."""

    @claim(9, f"{name} is 2 epsilon-pan-private for epsilon <= 1/2.", f"Thm {number}, ", Of.THEOREMS)
    def judge(table: pl.DataFrame) -> Found:
        part = table.filter(algorithm=name).sort("claimed")
        ends = [(row["loss"], row["claimed"]) for row in (part.row(0, named=True), part.row(-1, named=True))]
        shown = [("infinitely much" if isinf(loss) else f"{loss:.3f}", claimed) for loss, claimed in ends]
        return (
            f"it loses {'; '.join(f'{loss} where {claimed:g} is claimed' for loss, claimed in shown)}",
            "the exact auditor finds no more than is claimed; nothing is random",
            _kept(part),
        )

    return judge


THEOREMS = {name: theorem(name, number) for name, number in (("Dwork", "3.1"), ("OptBern", "4.1"), ("PPDS", "5.1"))}


@of_library(9, "FixedLevelPPDS, Density and DistinctCount lose no more than their budget, and use all of it.")
def budgets_are_kept(table: pl.DataFrame) -> Found:
    part = table.filter(pl.col("algorithm").is_in(("FixedLevelPPDS", "Density", "DistinctCount")))
    shares = (part["loss"] / part["claimed"]).to_numpy()
    return (
        f"their loss is {shares.min():.6f} to {shares.max():.6f} of the budget",
        "the exact auditor finds no more than the budget, and no less than 99.99 % of it; nothing is random",
        Verdict.FAILS if shares.min() < 0.9999 else _kept(part),
    )


# --- figures 8 and 10: this library ----------------------------------------------------------------------------------


@of_library(
    8,
    f"With as many bits and at a total budget of {TOTAL:g}, Density's MSE is 30 times less than that of PPDS as "
    "printed, which does not even keep that budget.",
)
def thirty_times_less(table: pl.DataFrame) -> Found:
    """Where there are the most repetitions."""
    bits = goal_bits(table)
    found = {stream: advantage(table, stream, bits) for stream in ("uniform", "zipf")}
    return (
        f"in {bits:,} bits, " + "; ".join(f"{stream}: {interval} times" for stream, interval in found.items()),
        f"at least 30 times on the {GOAL_STREAM} stream; these two intervals are of 95 %",
        inside(found[GOAL_STREAM], low=30),
    )


@of_library(10, "On a stream of all even ids PPDS's linear hash fails; Density errs as it does on random ids.")
def structure_does_not_matter(table: pl.DataFrame) -> Found:
    squares = mse_table(table)
    keep = {(row["algorithm"], row["stream"]): row for row in squares.iter_rows(named=True)}
    linear = keep["PPDS", "even ids"]
    fails = ratio_interval(linear["mse"], linear["freedom"], inf, ERROR / 2)
    parts = (squares.filter(algorithm="Density", stream=stream) for stream in ("even ids", "random half"))
    same = ratios(*parts, on=["total", "size"]).pooled(2)
    roots = {key: sqrt(row["mse"]) for key, row in keep.items()}
    return (
        f"root mean squared error of PPDS on even ids {roots['PPDS', 'even ids']:.2g}, on one block "
        f"{roots['PPDS', 'one block']:.2g}, on random ids {roots['PPDS', 'random half']:.2g}; Density's MSE on even "
        f"over that on random ids: {same}",
        "PPDS's error on even ids above 0.4; Density's MSE on even and random ids within a factor of 2",
        together([inside(fails, low=0.4**2), inside(same, 1 / 2, 2)]),
    )


def judged(tables: Mapping[int, pl.DataFrame]) -> list[Claim]:
    """The claims about the figures whose tables are given, with their verdicts."""
    return [judge(tables[number]) for number, judge in JUDGES if number in tables]

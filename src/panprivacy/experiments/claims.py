"""What was claimed, and whether it is so: each claim with its verdict, judged by the data of one figure.

The evidence of most claims are ratios of mean squared errors, setting by setting.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from functools import partial
from itertools import pairwise
from math import inf, isinf, sqrt

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


def wholes_and_singles(found: dict[str, Ratios]) -> tuple[dict[str, Interval], list[Interval]]:
    """Intervals for the means of several ratios, which are judged together, and for every single ratio."""
    wholes = {name: one.pooled(len(found)) for name, one in found.items()}
    return wholes, [single for one in found.values() for single in one.each()]


def against(table: pl.DataFrame, over: str, under: str) -> Ratios:
    """One algorithm against another, in the settings that both were run in."""
    parts = (table.filter(algorithm=name) for name in (over, under))
    return ratios(*parts, on=["stream", "epsilon", "sample"])


_SMALL = 0.001
_MIDDLE = (0.0015, 0.25)
"""Between "very small sample percentages" and those at which the paper sees the algorithms converge."""


def theory_coincides(table: pl.DataFrame) -> Claim:
    """Figure 5."""
    found = {}
    for name in ("Dwork", "OptBern"):
        part = table.filter(algorithm=name)
        found[name] = Ratios((part["mse"] / part["theory"]).to_list(), [(f, inf) for f in part["freedom"]])
    wholes, singles = wholes_and_singles(found)
    return Claim(
        Of.EXPERIMENTS,
        "The experimental and the theoretical MSE of Dwork and OptBern coincide.",
        "section 6, figure 5",
        "measured over exact: " + "; ".join(f"{n} {whole}, single {found[n].range}" for n, whole in wholes.items()),
        f"within 10 % on the whole, and none of {len(singles)} settings off by more than its sampling error and 10 %",
        together([*(inside(one, 0.9, 1.1) for one in wholes.values()), *(not_outside(o, 0.9, 1.1) for o in singles)]),
    )


def both_beat_dwork(table: pl.DataFrame) -> Claim:
    """Figure 6."""
    found = {name: against(table, "Dwork", name) for name in ("OptBern", "PPDS")}
    wholes, singles = wholes_and_singles(found)
    return Claim(
        Of.EXPERIMENTS,
        "Both PPDS and OptBern significantly outperform Dwork.",
        "section 6, figure 6",
        "; ".join(f"Dwork's MSE over {name}'s: {whole}" for name, whole in wholes.items()),
        f"at least twice on the whole, and in none of {len(singles)} settings certainly below 1",
        together([*(inside(whole, low=2) for whole in wholes.values()), *(not_outside(one, low=1) for one in singles)]),
    )


def robust_to_the_stream(table: pl.DataFrame) -> Claim:
    """Figure 6."""
    wholes = {}
    for name in ("Dwork", "OptBern", "PPDS"):
        parts = (table.filter(algorithm=name, stream=stream) for stream in ("uniform", "zipf"))
        wholes[name] = ratios(*parts, on=["epsilon", "sample"]).pooled(3)
    return Claim(
        Of.EXPERIMENTS,
        "All algorithms are robust to the stream's distribution: uniform and Zipf hardly differ.",
        "section 6, figure 6",
        "MSE uniform over Zipf: " + "; ".join(f"{name} {whole}" for name, whole in wholes.items()),
        "on the whole within a factor of 2",
        together(inside(whole, 1 / 2, 2) for whole in wholes.values()),
    )


def _ppds_is_better(part: pl.DataFrame, said: str, figure: int, where: str, singles: str) -> Claim:
    """OptBern's errors over PPDS's in a part of a table."""
    found = against(part, "OptBern", "PPDS")
    whole = found.pooled()
    measured = f"OptBern's MSE over PPDS's{where}: {whole}; {singles} {found.range}"
    return Claim(
        Of.EXPERIMENTS, said, f"section 6, figure {figure}", measured, "above 1 on the whole", inside(whole, low=1)
    )


def ppds_on_sparse_streams(table: pl.DataFrame) -> Claim:
    """Figure 6."""
    smallest = int(table["sample"].to_numpy().min())
    said = "PPDS performs noticeably better than OptBern if the stream is sparse (Zipf) and the sample small."
    part = table.filter(stream="zipf", sample=smallest)
    return _ppds_is_better(part, said, 6, f", Zipf, m = {smallest:,}", "single epsilons")


def small_samples(table: pl.DataFrame) -> Claim:
    """Figure 7, at the left end."""
    small = table.filter(pl.col("fraction") <= _SMALL)
    percent = table.filter((pl.col("fraction") - 0.01).abs() < 1e-9)
    ahead = {name: against(small, "Dwork", name).pooled(4) for name in ("OptBern", "PPDS")}
    worse = {
        name: ratios(*(part.filter(algorithm=name) for part in (small, percent)), on=["stream"]).pooled(4)
        for name in ahead
    }
    return Claim(
        Of.EXPERIMENTS,
        "With a sample of 1/1000 both PPDS and OptBern struggle, but still significantly outperform Dwork.",
        "section 6, figure 7",
        "; ".join(f"{name}: {worse[name]} times its MSE at 1 %, {ahead[name]} times below Dwork's" for name in ahead),
        "at least 3 times the MSE at 1 %, and at least 1.5 times below Dwork's",
        together([*(inside(one, low=3) for one in worse.values()), *(inside(one, low=1.5) for one in ahead.values())]),
    )


def ppds_in_the_middle(table: pl.DataFrame) -> Claim:
    """Figure 7, in the middle."""
    said = "Above a certain sample size PPDS is clearly better than OptBern."
    part = table.filter(pl.col("fraction").is_between(*_MIDDLE))
    return _ppds_is_better(part, said, 7, " for samples of 0.2 % to 20 %", "single settings")


def optbern_improves(table: pl.DataFrame) -> Claim:
    """Figure 7, from left to right."""
    fractions = sorted(set(table["fraction"]))
    mine = table.filter(algorithm="OptBern")
    steps = [
        ratios(mine.filter(fraction=few), mine.filter(fraction=many), on=["stream"]).pooled(len(fractions) - 1)
        for few, many in pairwise(fractions)
    ]
    smallest = min(steps, key=lambda step: step.estimate)
    return Claim(
        Of.EXPERIMENTS,
        "As the sample grows, OptBern improves.",
        "section 6, figure 7",
        f"from one size to the next the MSE falls by a factor of {smallest} or more",
        "above 1 at every step",
        together(inside(step, low=1) for step in steps),
    )


def identical_without_sampling(table: pl.DataFrame) -> Claim:
    """Figure 7, at the right end."""
    whole = against(table.filter(fraction=1.0), "OptBern", "PPDS").pooled()
    return Claim(
        Of.EXPERIMENTS,
        "OptBern converges to PPDS; with all users sampled the two are identical.",
        "section 6, figure 7",
        f"OptBern's MSE over PPDS's at 100 %: {whole}",
        "within a factor of 1.5",
        inside(whole, 1 / 1.5, 1.5),
    )


# --- figure 4 --------------------------------------------------------------------------------------------------------


_EXPECTED = {"uniform": 0.63, "zipf": 0.25}


def densities(table: pl.DataFrame) -> Claim:
    """The streams of section 6."""
    found = {str(stream): float(table.filter(stream=stream)["density"][0]) for stream in _EXPECTED}
    verdicts = [inside(Interval(d, d, d), _EXPECTED[s] - 0.01, _EXPECTED[s] + 0.01) for s, d in found.items()]
    return Claim(
        Of.EXPERIMENTS,
        "The density of a uniform stream is 0.63, that of a Zipf stream 0.25.",
        "section 6",
        ", ".join(f"{stream} {density:.4f}" for stream, density in found.items()),
        "within 0.01; over all repetitions, the mean errs by less than 0.001",
        together(verdicts),
    )


def optbern_errs_less(table: pl.DataFrame) -> Claim:
    """OptBern's curve is below Dwork's."""
    keys = ["stream", "epsilon"]
    dwork, optbern = (table.filter(algorithm=name) for name in ("Dwork", "OptBern"))
    both = dwork.join(optbern, on=keys, suffix="_optbern", maintain_order="left")
    wide = quantile(ERROR, len(both))
    gaps = []
    for row in both.iter_rows(named=True):
        # One success and one failure more than were seen keep the error away from 0 (Agresti and Caffo 2000).
        n = row["repetitions"] + 2
        shares = (row["errors"] + 1) / n, (row["errors_optbern"] + 1) / n
        error = sqrt(sum(share * (1 - share) / n for share in shares))
        gap = shares[0] - shares[1]
        gaps.append(Interval(gap, gap - wide * error, gap + wide * error))
    smallest = min(gaps, key=lambda gap: gap.estimate)
    return Claim(
        Of.EXPERIMENTS,
        "OptBern errs by alpha or more less often than Dwork, whatever the distribution of the stream.",
        "section 6, figure 4",
        f"Dwork's probability is larger by {smallest} or more",
        f"larger at all {len(gaps)} epsilons and streams, each within its sampling error",
        together(inside(gap, low=0) for gap in gaps),
    )


def bounds_are_loose(table: pl.DataFrame) -> Claim:
    """The dotted curves are above the others."""
    slack = []
    for row in table.iter_rows(named=True):
        found = proportion(row["errors"], row["repetitions"], ERROR, len(table))
        slack.append(Interval(row["bound"] - found.estimate, row["bound"] - found.high, row["bound"] - found.low))
    smallest = min(slack, key=lambda one: one.estimate)
    return Claim(
        Of.EXPERIMENTS,
        "The theoretical bounds on the probability of error are not tight: they are larger than all that is measured.",
        "section 6, figure 4",
        f"the bound is larger by {smallest} or more",
        f"larger at all {len(slack)} points, each within its sampling error",
        together(inside(one, low=0) for one in slack),
    )


# --- figures 8 and 10 ------------------------------------------------------------------------------------------------


_GOAL = 30


def thirty_times_less(table: pl.DataFrame) -> Claim:
    """Figure 8, where it has the most repetitions."""
    bits = goal_bits(table)
    found = {stream: advantage(table, stream, bits) for stream in ("uniform", "zipf")}
    return Claim(
        Of.LIBRARY,
        f"In {bits:,} bits and at a total budget of {TOTAL:g}, Density's MSE is {_GOAL} times less than that of PPDS "
        "as printed, which does not even keep that budget.",
        "figure 8",
        "; ".join(f"{stream}: {interval} times" for stream, interval in found.items()),
        f"at least {_GOAL} times on the {GOAL_STREAM} stream; these two intervals are of 95 %",
        inside(found[GOAL_STREAM], low=_GOAL),
    )


def structure_does_not_matter(table: pl.DataFrame) -> Claim:
    """Figure 10."""
    squares = mse_table(table)
    keep = {(row["algorithm"], row["stream"]): row for row in squares.iter_rows(named=True)}
    linear = keep["PPDS", "even ids"]
    fails = ratio_interval(linear["mse"], linear["freedom"], inf, ERROR / 2)
    parts = (squares.filter(algorithm="Density", stream=stream) for stream in ("even ids", "random half"))
    same = ratios(*parts, on=["total", "size"]).pooled(2)
    roots = {key: sqrt(row["mse"]) for key, row in keep.items()}
    return Claim(
        Of.LIBRARY,
        "On a stream of all even ids PPDS's linear hash fails; Density errs as it does on random ids.",
        "figure 10",
        f"root mean squared error of PPDS on even ids {roots['PPDS', 'even ids']:.2g}, on one block "
        f"{roots['PPDS', 'one block']:.2g}, on random ids {roots['PPDS', 'random half']:.2g}; Density's MSE on even "
        f"over that on random ids: {same}",
        "PPDS's error on even ids above 0.4; Density's MSE on even and random ids within a factor of 2",
        together([inside(fails, low=0.4**2), inside(same, 1 / 2, 2)]),
    )


def half_an_order(table: pl.DataFrame) -> Claim:
    """Figure 1."""
    sizes = (table.filter(algorithm=name).sort("epsilon")["sample"].to_numpy() for name in ("Dwork", "OptBern"))
    dwork, optbern = sizes
    factors = dwork / optbern
    low, high = 10**0.4, 10**0.6
    return Claim(
        Of.EXPERIMENTS,
        "OptBern's proposed sample size is half an order of magnitude less than Dwork's.",
        "section 4.3, figure 1",
        f"{factors.min():.2f} to {factors.max():.2f} times less",
        f"a factor of 10^0.4 to 10^0.6 ({low:.2f} to {high:.2f}) at every epsilon; nothing is random",
        Verdict.HOLDS if low <= factors.min() and factors.max() <= high else Verdict.FAILS,
    )


def optbern_uses_all(table: pl.DataFrame) -> Claim:
    """Figure 2: the slope of ``|ln R(b)|`` over epsilon, fitted through the origin."""
    part = table.filter(algorithm="OptBern")
    epsilons, losses = part["epsilon"].to_numpy(), np.abs(np.log(part["ratio"].to_numpy()))
    errors = np.log(part["high"].to_numpy() / part["low"].to_numpy()) / (2 * quantile(BAND))
    weight = float(np.sum(epsilons**2))
    slope = float(np.sum(epsilons * losses)) / weight
    # R(0) and R(1) come from the same bits: their errors are added up as if they were one.
    wide = quantile(ERROR) * float(np.sqrt(2 * np.sum((epsilons * errors) ** 2))) / weight
    found = Interval(slope, slope - wide, slope + wide)
    return Claim(
        Of.EXPERIMENTS,
        "The proposed Bernoulli distributions use all of the allocated budget.",
        "section 4.2, figure 2",
        f"{found} of it",
        "within 5 % of all, by the bits of the state",
        inside(found, 0.95, 1.05),
    )


def dwork_wastes(table: pl.DataFrame) -> Claim:
    """Figure 3."""
    shares = (table["audited"] / table["epsilon"]).to_numpy()
    return Claim(
        Of.EXPERIMENTS,
        "Dwork does not use all of its allocated budget.",
        "section 4.1, figure 3",
        f"its state loses {shares.min():.0%} to {shares.max():.0%} of it",
        "less than 90 % at every epsilon; nothing is random",
        Verdict.HOLDS if shares.max() < 0.9 else Verdict.FAILS,
    )


# --- figure 9 --------------------------------------------------------------------------------------------------------


_THEOREMS = {"Dwork": "Thm 3.1", "OptBern": "Thm 4.1", "PPDS": "Thm 5.1"}
_PRIVATE = ("FixedLevelPPDS", "Density", "DistinctCount")
_ROUNDING = 1 + 1e-9


def theorem(table: pl.DataFrame, name: str) -> Claim:
    """One of the paper's privacy theorems."""
    part = table.filter(algorithm=name).sort("claimed")
    ends = [(row["loss"], row["claimed"]) for row in (part.row(0, named=True), part.row(-1, named=True))]
    shown = [("infinitely much" if isinf(loss) else f"{loss:.3f}", claimed) for loss, claimed in ends]
    found = "; ".join(f"{loss} where {claimed:g} is claimed" for loss, claimed in shown)
    return Claim(
        Of.THEOREMS,
        f"{name} is 2 epsilon-pan-private for epsilon <= 1/2.",
        f"{_THEOREMS[name]}, figure 9",
        f"it loses {found}",
        "the exact auditor finds no more than is claimed; nothing is random",
        _kept(part),
    )


def budgets_are_kept(table: pl.DataFrame) -> Claim:
    """The library's own promise."""
    part = table.filter(pl.col("algorithm").is_in(_PRIVATE))
    shares = (part["loss"] / part["claimed"]).to_numpy()
    return Claim(
        Of.LIBRARY,
        f"{', '.join(_PRIVATE[:-1])} and {_PRIVATE[-1]} lose no more than their budget, and use all of it.",
        "figure 9",
        f"their loss is {shares.min():.6f} to {shares.max():.6f} of the budget",
        "the exact auditor finds no more than the budget, and no less than 99.99 % of it; nothing is random",
        Verdict.FAILS if shares.min() < 0.9999 else _kept(part),
    )


def _kept(part: pl.DataFrame) -> Verdict:
    """Whether no loss is above its claim; a loss that is only bounded from below refutes, and proves nothing."""
    if (part["loss"] > part["claimed"] * _ROUNDING).any():
        return Verdict.FAILS
    return Verdict.HOLDS if part["settled"].all() else Verdict.OPEN


JUDGES: Sequence[tuple[int, Callable[[pl.DataFrame], Claim]]] = (
    (1, half_an_order),
    (2, optbern_uses_all),
    (3, dwork_wastes),
    (4, densities),
    (4, optbern_errs_less),
    (4, bounds_are_loose),
    (5, theory_coincides),
    (6, both_beat_dwork),
    (6, robust_to_the_stream),
    (6, ppds_on_sparse_streams),
    (7, small_samples),
    (7, ppds_in_the_middle),
    (7, optbern_improves),
    (7, identical_without_sampling),
    (9, partial(theorem, name="Dwork")),
    (9, partial(theorem, name="OptBern")),
    (9, partial(theorem, name="PPDS")),
    (9, budgets_are_kept),
    (8, thirty_times_less),
    (10, structure_does_not_matter),
)
"""Each claim is judged by the data of one figure."""


def judged(tables: Mapping[int, pl.DataFrame]) -> list[Claim]:
    """The claims about the figures whose tables are given, with their verdicts."""
    return [judge(tables[number]) for number, judge in JUDGES if number in tables]


def as_table(claims: Sequence[Claim]) -> pl.DataFrame:
    """The claims as rows."""
    return pl.DataFrame([asdict(claim) for claim in claims], schema=[field.name for field in fields(Claim)])

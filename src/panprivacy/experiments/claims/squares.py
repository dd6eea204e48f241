"""The claims that go with figures 5 to 7: mean squared errors."""

from itertools import pairwise
from math import inf

import polars as pl

from panprivacy.experiments.claims.claim import Claim, Of, inside, not_outside, together
from panprivacy.experiments.claims.ratios import Ratios, against, ratios

_SMALL = 0.001
_MIDDLE = (0.0015, 0.25)
"""Between "very small sample percentages" and those at which the paper sees the algorithms converge."""


def theory_coincides(table: pl.DataFrame) -> Claim:
    """Figure 5."""
    found = {}
    for name in ("Dwork", "OptBern"):
        part = table.filter(algorithm=name)
        found[name] = Ratios((part["mse"] / part["theory"]).to_list(), [(f, inf) for f in part["freedom"]])
    wholes = {name: one.pooled(len(found)) for name, one in found.items()}
    singles = [single for one in found.values() for single in one.each()]
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
    wholes = {name: one.pooled(len(found)) for name, one in found.items()}
    singles = [single for one in found.values() for single in one.each()]
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


def ppds_on_sparse_streams(table: pl.DataFrame) -> Claim:
    """Figure 6."""
    smallest = int(table["sample"].to_numpy().min())
    found = against(table.filter(stream="zipf", sample=smallest), "OptBern", "PPDS")
    whole = found.pooled()
    return Claim(
        Of.EXPERIMENTS,
        "PPDS performs noticeably better than OptBern if the stream is sparse (Zipf) and the sample small.",
        "section 6, figure 6",
        f"OptBern's MSE over PPDS's, Zipf, m = {smallest:,}: {whole}; single epsilons {found.range}",
        "above 1 on the whole",
        inside(whole, low=1),
    )


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
    found = against(table.filter(pl.col("fraction").is_between(*_MIDDLE)), "OptBern", "PPDS")
    whole = found.pooled()
    return Claim(
        Of.EXPERIMENTS,
        "Above a certain sample size PPDS is clearly better than OptBern.",
        "section 6, figure 7",
        f"OptBern's MSE over PPDS's for samples of 0.2 % to 20 %: {whole}; single settings {found.range}",
        "above 1 on the whole",
        inside(whole, low=1),
    )


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

"""The claims that go with figure 4: how often the algorithms err by alpha or more."""

from math import sqrt

import polars as pl

from panprivacy.experiments.claims.claim import ERROR, Claim, Of, inside, together
from panprivacy.experiments.statistics import Interval, proportion, quantile

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

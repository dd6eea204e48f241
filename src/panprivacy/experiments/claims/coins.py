"""The claims that go with figures 1 to 3."""

import numpy as np
import polars as pl

from panprivacy.experiments.claims.claim import ERROR, Claim, Of, Verdict, inside
from panprivacy.experiments.statistics import BAND, Interval, quantile


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

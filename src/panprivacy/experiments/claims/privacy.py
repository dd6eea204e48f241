"""The claims that go with figures 1 to 3."""

from math import isinf

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

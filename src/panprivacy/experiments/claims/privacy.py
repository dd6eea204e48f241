"""The claims that go with figure 9, of the paper and of the library."""

from math import isinf

import polars as pl

from panprivacy.experiments.claims.claim import Claim, Of, Verdict

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

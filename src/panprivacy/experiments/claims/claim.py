"""A claim and its verdict, and the evidence of most claims: ratios of mean squared errors, setting by setting."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf

import polars as pl

from panprivacy.experiments.statistics import Interval, pooled, quantile, ratio_interval

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
    """The errors of one table over those of another, where they agree in these columns."""
    both = over.join(under, on=on, suffix="_under", maintain_order="left")
    values = (both["mse"] / both["mse_under"]).to_list()
    return Ratios(values, list(zip(both["freedom"], both["freedom_under"], strict=True)))


def against(table: pl.DataFrame, over: str, under: str) -> Ratios:
    """One algorithm against another, in the settings that both were run in."""
    parts = (table.filter(algorithm=name) for name in (over, under))
    return ratios(*parts, on=["stream", "epsilon", "sample"])

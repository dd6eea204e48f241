"""The library's claims that go with figures 8 and 10."""

from math import inf, sqrt

import polars as pl

from panprivacy.experiments.claims.claim import ERROR, Claim, Of, inside, together
from panprivacy.experiments.claims.ratios import ratios
from panprivacy.experiments.figures.equal_bits import GOAL_STREAM, TOTAL, advantage, goal_bits
from panprivacy.experiments.statistics import mse_table, ratio_interval

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

"""Figures 2 and 3: what the two pairs of coins make of the budget of the state."""

from math import exp, inf, log, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from panprivacy import theory
from panprivacy.estimates.plots import GREY
from panprivacy.experiments import statistics
from panprivacy.experiments.cells import ALGORITHMS, Cell, CoinCount, Scale, StateLoss, TrueLoss
from panprivacy.experiments.figures import study
from panprivacy.experiments.figures.study import Frames, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_COMPARED = ("Dwork", "OptBern")


def _counts(scale: Scale) -> list[Cell]:
    return [CoinCount(name, epsilon, scale.coin_users) for name in _COMPARED for epsilon in scale.epsilons]


def _ratios(frames: Frames, scale: Scale) -> pl.DataFrame:  # noqa: ARG001 (every table function takes both)
    """R(0) and R(1), each counted, with a band, beside the theory."""
    rows = []
    for count in frames[CoinCount].iter_rows(named=True):
        name, epsilon = count["algorithm"], count["epsilon"]
        pair = theory.dwork_pair(epsilon) if name == "Dwork" else theory.symmetric_pair(epsilon)
        for bit, expected in enumerate(theory.ratios(pair)):
            ratio = _ratio(count, bit)
            row = {"algorithm": name, "epsilon": epsilon, "bit": bit, "ratio": ratio.estimate}
            rows.append(row | {"low": ratio.low, "high": ratio.high, "theory": float(expected)})
    return pl.DataFrame(rows)


def _ratio(count: dict[str, int], bit: int) -> statistics.Interval:
    """How much more often a bit has this value if its user came."""
    logs, variance = [], 0.0
    for group in ("came", "stayed"):
        users, ones = count[group], count[f"{group}_ones"]
        share = (ones if bit else users - ones) / users
        logs.append(log(share))
        variance += (1 - share) / (share * users)
    return statistics.relative_interval(exp(logs[0] - logs[1]), sqrt(variance), statistics.quantile(statistics.BAND))


def _draw_ratios(table: pl.DataFrame) -> "Figure":
    figure, [axes] = study.panels(1, 1, (6.4, 4.4))
    epsilons = np.linspace(0.001, table["epsilon"].to_numpy().max() * 1.04, 100)
    axes.fill_between(
        epsilons,
        np.exp(-epsilons),
        np.exp(epsilons),
        color="#e8e8e8",
        label=r"allowed: $e^{-\varepsilon}$ to $e^{\varepsilon}$",
    )
    pairs = {"Dwork": theory.dwork_pair(epsilons), "OptBern": theory.symmetric_pair(epsilons)}
    for name, pair in pairs.items():
        for expected in theory.ratios(pair):
            axes.plot(epsilons, np.asarray(expected), **study.drawn_as(name, theory=True))
        study.bars(axes, table.filter(algorithm=name), "epsilon", "ratio", name, label=f"{name}, counted")
    last = epsilons[-1]
    for bit, height in ((1, np.exp(last)), (0, np.exp(-last))):
        axes.annotate(f"R({bit})", (last, height), xytext=(4, -3), textcoords="offset points", color=GREY)
    axes.set(
        xlabel=r"privacy budget of the state $\varepsilon$",
        ylabel=r"$R(b)$ = P(b | came) / P(b | did not)",
        xlim=(0, last * 1.07),
    )
    axes.legend(loc="upper left")
    return figure


RATIOS = Study(
    2,
    "State differential privacy of Dwork and OptBern",
    "How much likelier a bit is 1, or 0, once its user has come: counted in the state of the printed algorithms (95 % "
    "bars, mostly smaller than the markers) on the lines of the theory. OptBern's are the border of what is allowed.",
    _counts,
    _ratios,
    _draw_ratios,
)


def _losses(scale: Scale) -> list[Cell]:
    audits: list[Cell] = [StateLoss("Dwork", epsilon) for epsilon in scale.epsilons]
    return audits + [cell for cell in _counts(scale) if isinstance(cell, CoinCount) and cell.algorithm == "Dwork"]


def _budgets(frames: Frames, scale: Scale) -> pl.DataFrame:
    """The loss of Dwork's state: audited, and counted as ``-ln R(0)``, the larger of its two."""
    counted = _ratios(frames, scale).filter(bit=0)
    losses = counted.select(
        "epsilon", counted=-pl.col("ratio").log(), low=-pl.col("high").log(), high=-pl.col("low").log()
    )
    audited = frames[StateLoss].rename({"loss": "audited"})
    theoretical = -(1 - pl.col("epsilon") / 2).log()
    return audited.join(losses, on="epsilon", maintain_order="left").with_columns(theory=theoretical)


def _draw_budgets(table: pl.DataFrame) -> "Figure":
    figure, [axes] = study.panels(1, 1, (5.4, 4.4))
    epsilons = np.linspace(0, table["epsilon"].to_numpy().max() * 1.04, 100)
    axes.plot(epsilons, epsilons, color=GREY, linestyle=":", label="all of it")
    curve = study.drawn_as("Dwork", theory=True)
    axes.plot(epsilons, -np.log1p(-epsilons / 2), label=r"Dwork: $-\ln(1 - \varepsilon/2)$", **curve)
    dots = study.drawn_as("Dwork") | {"linestyle": ""}
    axes.plot(table["epsilon"], table["audited"], label="Dwork, by the exact auditor", **dots)
    spread = [(table["counted"] - table["low"]).to_numpy(), (table["high"] - table["counted"]).to_numpy()]
    look: dict[str, Any] = {"color": "black", "marker": "_", "linestyle": "", "capsize": 3, "elinewidth": 1}
    axes.errorbar(table["epsilon"], table["counted"], yerr=spread, label="Dwork, counted", **look)
    axes.set(
        xlabel=r"allocated budget of the state $\varepsilon$", ylabel=r"actual budget $\varepsilon_{\mathrm{actual}}$"
    )
    axes.legend(loc="upper left")
    return figure


BUDGETS = Study(
    3,
    "Allocated against actual privacy budget of Dwork",
    "What Dwork's state really loses: exactly, by enumeration of the printed algorithm's coins, and counted in its "
    "bits (95 % bars). It leaves almost half of its budget unused.",
    _losses,
    _budgets,
    _draw_budgets,
)


# --- figure 9 --------------------------------------------------------------------------------------------------------


def _cells(scale: Scale) -> list[Cell]:
    return [TrueLoss(name, 2 * epsilon) for name in ALGORITHMS for epsilon in scale.epsilons]


def _table(frames: Frames, scale: Scale) -> pl.DataFrame:  # noqa: ARG001 (every table function takes both)
    return frames[TrueLoss]


def _draw(table: pl.DataFrame) -> "Figure":
    figure, [axes] = study.panels(1, 1, (7.4, 5.6))
    largest = table.filter(pl.col("loss") < inf)["loss"].to_numpy().max()
    top = 1.15 * largest  # where infinity is drawn
    claims = np.array([0, 1.04 * table["claimed"].to_numpy().max()])
    axes.plot(claims, claims, color=GREY, linestyle=":", label="the claim")
    axes.fill_between(claims, 0, claims, color="#eef3ee")
    sizes = {"FixedLevelPPDS": 10, "Density": 6.5, "DistinctCount": 3.5}  # they lie on each other
    for name in ALGORITHMS:
        part = table.filter(algorithm=name).sort("claimed")
        losses = part["loss"].clip(upper_bound=top)
        look = study.drawn_as(name) | ({"markersize": sizes[name]} if name in sizes else {})
        axes.plot(part["claimed"], losses, label=study.called(name), **look)
    axes.axhline((top + largest) / 2, color=GREY, linewidth=0.8)
    ticks = np.arange(0, largest)
    axes.set_yticks([*ticks, top], [*(f"{tick:g}" for tick in ticks), "∞"])
    axes.set(
        xlabel=r"claimed total: $2\varepsilon$, or the budget",
        ylabel="true loss of state and output together",
        xlim=claims,
    )
    axes.annotate("private", (claims[1], 0), xytext=(-6, 6), textcoords="offset points", ha="right", color=GREY)
    study.legend_below(figure, axes, columns=2)
    return figure


LOSSES = Study(
    9,
    "Claimed against true loss",
    "The worst case over all streams of two events and three users that differ in one user's events, with one reading "
    "of the state at any moment and one output, by the exact auditor, which runs the algorithms' own code under every "
    "outcome of their coins. On the dotted line the claim is exact; above it, it is false. The three private "
    "algorithms lie on the line, and on each other.",
    _cells,
    _table,
    _draw,
)

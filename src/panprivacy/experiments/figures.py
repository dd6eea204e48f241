"""All figures: 1 to 7 are the paper's (coins and budgets, mean squared errors, large errors, sample sizes).

Figure 8 compares the algorithms with the same memory and total budget, figure 9 shows true losses, figure 10 streams
with a structure. On some of those the linear hash of PPDS samples badly, on others suspiciously well.
"""

from math import exp, inf, log, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from panprivacy import theory
from panprivacy.estimates.plots import GREY
from panprivacy.experiments import cells, study
from panprivacy.experiments.cells import (
    ALGORITHMS,
    Cell,
    CoinCount,
    Runs,
    SampleSize,
    Scale,
    StateLoss,
    Trial,
    TrueLoss,
    bits_of_an_id,
)
from panprivacy.experiments.study import Frames, Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BITS = ("Dwork", "OptBern")
_ALL = ("Dwork", "OptBern", "PPDS")


def _counts(scale: Scale) -> list[Cell]:
    return [CoinCount(name, epsilon, scale.coin_users) for name in _BITS for epsilon in scale.epsilons]


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


def _ratio(count: dict[str, int], bit: int) -> study.Interval:
    """How much more often a bit has this value if its user came."""
    logs, variance = [], 0.0
    for group in ("came", "stayed"):
        users, ones = count[group], count[f"{group}_ones"]
        share = (ones if bit else users - ones) / users
        logs.append(log(share))
        variance += (1 - share) / (share * users)
    return study.relative_interval(exp(logs[0] - logs[1]), sqrt(variance), study.quantile(study.BAND))


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


def _loss_cells(scale: Scale) -> list[Cell]:
    return [TrueLoss(name, 2 * epsilon) for name in ALGORITHMS for epsilon in scale.epsilons]


def _loss_table(frames: Frames, scale: Scale) -> pl.DataFrame:  # noqa: ARG001 (every table function takes both)
    return frames[TrueLoss]


def _draw_losses(table: pl.DataFrame) -> "Figure":
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
    _loss_cells,
    _loss_table,
    _draw_losses,
)


_FRACTIONS = (0.001, 0.01)
_EPSILON = 0.2  # the budget of the state in figure 7


def _against_epsilon(scale: Scale, names: tuple[str, ...]) -> list[Cell]:
    settings = [(fraction, epsilon) for fraction in _FRACTIONS for epsilon in scale.epsilons]
    trials = tuple(Trial(name, 2 * epsilon, scale.sample(fraction)) for fraction, epsilon in settings for name in names)
    return cells.runs(study.BOTH_STREAMS, scale, trials, scale.repetitions)


def _against_sample(scale: Scale) -> list[Cell]:
    """Runs of all sample sizes, twice as many of the whole universe, where the paper says that two are equal."""
    trials = tuple(Trial(name, 2 * _EPSILON, scale.sample(f)) for f in scale.fractions for name in _ALL)
    whole = tuple(trial for trial in trials if trial.size == scale.universe)
    parts = tuple(trial for trial in trials if trial.size < scale.universe)
    found: list[Cell] = []
    for name in study.BOTH_STREAMS:
        found += cells.runs([name], scale, parts, scale.repetitions)
        found += cells.runs([name], scale, whole, 2 * scale.repetitions)
    return found


def _mse_table(frames: Frames, scale: Scale) -> pl.DataFrame:
    found = study.mse_table(frames[Runs])
    return found.select(
        "stream",
        "algorithm",
        (pl.col("total") / 2).alias("epsilon"),
        pl.col("size").alias("sample"),
        (pl.col("size") / scale.universe).alias("fraction"),
        pl.exclude("stream", "algorithm", "total", "size"),
    )


def _table_with_theory(frames: Frames, scale: Scale) -> pl.DataFrame:
    """The table with the exact MSE, sampling error included, and the bound of Thm 3.2 and 4.2."""
    table = _mse_table(frames, scale)
    rows = table.select("algorithm", "epsilon", "sample", "density").iter_rows()
    exact, bound = [], []
    for name, epsilon, sample, density in rows:
        exact.append(float(theory.mse(name.lower(), epsilon, sample, density, scale.universe)))
        bound.append(float(theory.mse_bound(name.lower(), epsilon, sample)))
    return table.with_columns(theory=pl.Series(exact), bound=pl.Series(bound))


def _grid(table: pl.DataFrame) -> tuple["Figure", list[tuple["Axes", pl.DataFrame]]]:
    """Panels for the streams, side by side, and the sample sizes, one above the other."""
    samples = sorted(set(table["sample"]))
    figure, grid = study.panels(len(samples), len(study.BOTH_STREAMS), (4.6, 3.3), sharex=True, sharey="row")
    cases = [(sample, stream) for sample in samples for stream in study.BOTH_STREAMS]
    for axes, (sample, stream) in zip(grid, cases, strict=True):
        axes.set(title=f"{study.STREAMS[stream]}, m = {sample:,}", yscale="log")
        if stream == study.BOTH_STREAMS[0]:
            axes.set_ylabel("mean squared error")
        if sample == samples[-1]:
            axes.set_xlabel(r"privacy budget of the state $\varepsilon$")
    parts = [table.filter(sample=sample, stream=stream) for sample, stream in cases]
    return figure, list(zip(grid, parts, strict=True))


def _draw_with_theory(table: pl.DataFrame) -> "Figure":
    figure, cases = _grid(table)
    for axes, part in cases:
        for name in _BITS:
            mine = part.filter(algorithm=name).sort("epsilon")
            epsilons = np.linspace(mine["epsilon"][0], mine["epsilon"][-1], 80)
            universe = round(mine["sample"][0] / mine["fraction"][0])
            curve = theory.mse(name.lower(), epsilons, mine["sample"][0], mine["density"][0], universe)
            axes.plot(epsilons, np.asarray(curve), label=f"{name}, theory", **study.drawn_as(name, theory=True))
            study.bars(axes, mine, "epsilon", "mse", name, label=f"{name}, measured")
    study.legend_below(figure, cases[0][0], columns=4)
    return figure


def _draw_all(table: pl.DataFrame) -> "Figure":
    figure, cases = _grid(table)
    for axes, part in cases:
        for name in _ALL:
            study.band(axes, part.filter(algorithm=name), "epsilon", "mse", name)
    study.legend_below(figure, cases[0][0], columns=3)
    return figure


def _draw_against_sample(table: pl.DataFrame) -> "Figure":
    figure, grid = study.errors_by_stream(table, _ALL, "fraction", "sample size, share of the universe", (4.6, 4.2))
    for axes in grid:
        shares = [10.0**-i for i in range(3, -1, -1)]
        study.plain_ticks(axes.xaxis, shares, [f"{100 * share:g} %" for share in shares])
    grid[0].set_ylabel("mean squared error")
    study.legend_below(figure, grid[0], columns=3)
    return figure


MSE_THEORY = Study(
    5,
    "Theoretical and empirical MSE of Dwork and OptBern against the privacy budget",
    "|U| = T. Markers: measured, with 95 % bars. Lines: the exact mean squared error, sampling without replacement.",
    lambda scale: _against_epsilon(scale, _BITS),
    _table_with_theory,
    _draw_with_theory,
)
MSE_EPSILON = Study(
    6,
    "Empirical MSE of all three algorithms against the privacy budget",
    "|U| = T, with 95 % bands. Dwork's and OptBern's runs are those of figure 5.",
    lambda scale: _against_epsilon(scale, _BITS) + _against_epsilon(scale, ("PPDS",)),
    _mse_table,
    _draw_all,
)
MSE_SAMPLE = Study(
    7,
    "Empirical MSE against the sample size",
    "epsilon = 0.2, |U| = T, with 95 % bands. PPDS advances in steps: its level halves whom it samples.",
    _against_sample,
    _mse_table,
    _draw_against_sample,
)


# --- figure 4 --------------------------------------------------------------------------------------------------------


def _error_cells(scale: Scale) -> list[Cell]:
    size = scale.sample(0.05)
    trials = tuple(Trial(name, 2 * epsilon, size) for name in _BITS for epsilon in scale.epsilons)
    return cells.runs(study.BOTH_STREAMS, scale, trials, scale.tail_repetitions)


def _error_table(frames: Frames, scale: Scale) -> pl.DataFrame:
    rows = []
    for (stream, name, total, size), part in study.settings_of(frames[Runs]).items():
        errors = np.abs(part["estimate"].to_numpy() - part["truth"].to_numpy())
        wrong = int(np.count_nonzero(errors >= scale.alpha))
        found = study.proportion(wrong, len(errors))
        row = {"stream": stream, "algorithm": name, "epsilon": total / 2, "sample": size, "alpha": scale.alpha}
        density = float(part["truth"].to_numpy().mean())
        counts = {"repetitions": len(errors), "errors": wrong, "probability": found.estimate}
        bound = float(theory.error_bound(name.lower(), total / 2, scale.alpha, size))
        rows.append(row | {"density": density} | counts | {"low": found.low, "high": found.high, "bound": bound})
    return pl.DataFrame(rows)


def _draw_errors(table: pl.DataFrame) -> "Figure":
    figure, grid = study.panels(1, 2, (4.6, 4.2), sharey=True)
    for axes, stream in zip(grid, study.BOTH_STREAMS, strict=True):
        for name in _BITS:
            part = table.filter(stream=stream, algorithm=name).sort("epsilon")
            study.band(axes, part, "epsilon", "probability", name, label=f"{name}, measured")
            epsilons = np.linspace(part["epsilon"][0], part["epsilon"][-1], 60)
            bounds = theory.error_bound(name.lower(), epsilons, part["alpha"][0], part["sample"][0])
            look = study.drawn_as(name, theory=True) | {"linestyle": ":"}
            axes.plot(epsilons, np.asarray(bounds), label=f"{name}, bound", **look)
        axes.set(title=study.STREAMS[stream], xlabel=r"privacy budget of the state $\varepsilon$", ylim=(-0.03, 1.05))
    grid[0].set_ylabel(rf"P(|estimate $-$ density| $\geq$ {table['alpha'][0]:g})")
    study.legend_below(figure, grid[0], columns=4)
    return figure


ERROR_PROBABILITY = Study(
    4,
    "Empirical probability of error against the privacy budget",
    "m = 0.05 |U|, |U| = T, alpha = 0.1. Lines: share of the repetitions that erred by alpha or more, with exact 95 % "
    "bands. Dotted: the tightest bound of Thm 3.3 and 4.3, cut at 1.",
    _error_cells,
    _error_table,
    _draw_errors,
)


# --- figure 1 --------------------------------------------------------------------------------------------------------


def _sample_cells(scale: Scale) -> list[Cell]:
    return [SampleSize(name, epsilon, scale.alpha, scale.beta) for name in _BITS for epsilon in scale.epsilons]


def _sample_table(frames: Frames, scale: Scale) -> pl.DataFrame:  # noqa: ARG001 (every table function takes both)
    return frames[SampleSize]


def _draw_samples(table: pl.DataFrame) -> "Figure":
    figure, [axes] = study.panels(1, 1, (6.4, 4))
    for name in _BITS:
        part = table.filter(algorithm=name).sort("epsilon")
        axes.plot(part["epsilon"], part["sample"], label=study.called(name), **study.drawn_as(name))
    alpha, beta = table["alpha"][0], table["beta"][0]
    axes.set(
        yscale="log",
        xlabel=r"privacy budget of the state $\varepsilon$",
        ylabel="proposed sample size $m^*$",
        title=rf"error below $\alpha$ = {alpha:g} with probability $1 - \beta$ = {1 - beta:g}",
    )
    axes.legend()
    return figure


SAMPLE_SIZES = Study(
    1,
    "Proposed sample size of Dwork and OptBern",
    "The first line of Alg. 1 and 2 as the printed algorithms compute it. The paper does not print its alpha and beta.",
    _sample_cells,
    _sample_table,
    _draw_samples,
)


# --- figure 8 --------------------------------------------------------------------------------------------------------


TOTAL = 0.4
GOAL = ("PPDS", "Density")
"""The two algorithms that are compared at `Scale.goal_ids`, with more repetitions than the others."""

GOAL_STREAM = "uniform"
"""The stream on which the goal is to be reached."""

_ONE_BIT_A_USER = ("Dwork", "OptBern", "Density")
_STRUCTURES = ("random half", "even ids", "one block")
_SAMPLED = ("PPDS", "FixedLevelPPDS", "Density")
_STRUCTURED_TOTAL = 1.0


def _trials(scale: Scale) -> dict[Trial, int]:
    """All trials, with the bits that their states take: for a list of ids, or one for each sampled user."""
    trials = {}
    for ids in scale.ids:
        bits = ids * bits_of_an_id(scale.universe)
        for name, algorithm in ALGORITHMS.items():
            size = algorithm.size(scale.universe, bits)
            trials[Trial(name, TOTAL, size)] = size if name in _ONE_BIT_A_USER else bits
    return trials


def _is_goal(trial: Trial, bits: int, scale: Scale) -> bool:
    return trial.algorithm in GOAL and bits == scale.goal_ids * bits_of_an_id(scale.universe)


def _equal_cells(scale: Scale) -> list[Cell]:
    trials = _trials(scale)
    goal = tuple(trial for trial, bits in trials.items() if _is_goal(trial, bits, scale))
    others = tuple(trial for trial in trials if trial not in goal)
    found: list[Cell] = []
    for name in study.BOTH_STREAMS:
        found += cells.runs([name], scale, others, scale.repetitions, block=10)
        repetitions = scale.goal_repetitions if name == GOAL_STREAM else scale.goal_repetitions // 4
        found += cells.runs([name], scale, goal, repetitions, block=100)
    return found


def _equal_table(frames: Frames, scale: Scale) -> pl.DataFrame:
    """The MSE of each algorithm, with its bits, and whether it keeps the total budget that it claims."""
    known = _trials(scale)
    found = study.mse_table(frames[Runs])
    settings = found.select("algorithm", "total", "size").iter_rows()
    bits = [known[Trial(*setting)] for setting in settings]
    private = [ALGORITHMS[name].private for name in found["algorithm"]]
    return found.with_columns(bits=pl.Series(bits), private=pl.Series(private)).sort("stream", "algorithm", "bits")


def advantage(table: pl.DataFrame, stream: str, bits: int, error: float = study.BAND) -> study.Interval:
    """How many times smaller Density's MSE is than PPDS's, with equal bits."""
    rival, mine = (table.filter(stream=stream, algorithm=name, bits=bits) for name in GOAL)
    return study.ratio_interval(rival["mse"][0] / mine["mse"][0], rival["freedom"][0], mine["freedom"][0], error)


def goal_bits(table: pl.DataFrame) -> int:
    """The bits of state for which the goal is set: those with which PPDS was run most often."""
    return int(table.filter(algorithm="PPDS").sort("repetitions", "bits")["bits"][-1])


def _draw_equal_bits(table: pl.DataFrame) -> "Figure":
    figure, grid = study.errors_by_stream(table, ALGORITHMS, "bits", "bits of state", (4.9, 4.7))
    for axes, stream in zip(grid, study.BOTH_STREAMS, strict=True):
        axes.set_ylim(top=min(axes.get_ylim()[1], 1.5))
        _mark_advantage(axes, table, stream)
    grid[0].set_ylabel(f"mean squared error, total budget {TOTAL:g}")
    study.legend_below(figure, grid[0], columns=3)
    return figure


def _mark_advantage(axes: "Axes", table: pl.DataFrame, stream: str) -> None:
    """An arrow from PPDS down to Density, with the factor and its interval: few repetitions leave much open."""
    bits = goal_bits(table)
    rival, mine = (table.filter(stream=stream, algorithm=name, bits=bits)["mse"][0] for name in GOAL)
    arrow = {"arrowstyle": "->", "color": GREY, "lw": 1.2}
    axes.annotate("", (bits, mine * 1.12), (bits, rival / 1.15), arrowprops=arrow, zorder=1)  # behind the lines
    factor = advantage(table, stream, bits)
    text = f"÷ {factor.estimate:.0f} at {bits:,} bits\n(95 % interval: {factor.low:.0f} to {factor.high:.0f})"
    axes.annotate(text, (bits, mine), xytext=(-6, -8), textcoords="offset points", ha="right", va="top", color=GREY)


EQUAL_BITS = Study(
    8,
    "MSE at equal bits of state and equal total budget",
    "Total budget 0.4, |U| = T = 10^5, with 95 % bands. Solid and filled: private, the total is true. Dashed and "
    "hollow: as printed with epsilon = 0.2, which claims a total of 0.4 and loses more (figure 9). Counted are 17 bits "
    "for each id that PPDS and FixedLevelPPDS may hold, and every bit of the others' tables; keys are not. Dwork and "
    "OptBern must also store whom they sample, which is not counted, in their favour: with a list of ids they would "
    "take 18 times the bits. DistinctCount does not know the universe, and pays for that where many have come. "
    "Estimates are not brought into [0, 1], and errors above 1 are cut off.",
    _equal_cells,
    _equal_table,
    _draw_equal_bits,
)


# --- figure 10 -------------------------------------------------------------------------------------------------------


def _structured_cells(scale: Scale) -> list[Cell]:
    bits = scale.goal_ids * bits_of_an_id(scale.universe)
    trials = tuple(Trial(name, _STRUCTURED_TOTAL, ALGORITHMS[name].size(scale.universe, bits)) for name in _SAMPLED)
    return cells.runs(_STRUCTURES, scale, trials, scale.repetitions, block=100)


def _structured_table(frames: Frames, scale: Scale) -> pl.DataFrame:  # noqa: ARG001 (every table function takes both)
    return frames[Runs].with_columns(error=pl.col("estimate") - pl.col("truth"))


def _draw_structured(table: pl.DataFrame) -> "Figure":
    figure, grid = study.panels(1, 3, (3.3, 4.2), sharey=True)
    for axes, stream in zip(grid, _STRUCTURES, strict=True):
        for place, name in enumerate(_SAMPLED):
            part = table.filter(stream=stream, algorithm=name)
            aside = _spread_out(part["repetition"].to_numpy())
            look = study.LOOKS[name]
            face = look.colour if ALGORITHMS[name].private else "white"
            axes.scatter(place + aside, part["estimate"], s=9, facecolor=face, edgecolor=look.colour, linewidth=0.6)
            error = float(np.sqrt(np.mean(part["error"].to_numpy() ** 2)))
            axes.annotate(
                f"RMS error\n{error:.2g}", (place, 1), xycoords=("data", "axes fraction"), ha="center", va="top"
            )
        axes.axhline(table.filter(stream=stream)["truth"][0], color=GREY, linestyle=":", linewidth=1.2)
        axes.set_xticks(range(len(_SAMPLED)), ["PPDS\n(not private)", "Fixed-\nLevelPPDS", "Density"])
        axes.set(title=study.STREAMS[stream], xlim=(-0.5, len(_SAMPLED) - 0.5))
        axes.grid(visible=False, axis="x")
    low, high = grid[0].get_ylim()
    grid[0].set_yticks([tick for tick in grid[0].get_yticks() if low < tick < high])  # none behind the numbers above
    grid[0].set_ylim(low, high + 0.15 * (high - low))
    grid[0].set_ylabel("estimated density (dotted: the truth)")
    return figure


def _spread_out(places: NDArray[np.int64]) -> NDArray[np.float64]:
    """Where dots go so that they hide each other little: multiples of the golden ratio fill any interval evenly."""
    return np.asarray((places * 0.618034 % 1 - 0.5) * 0.6, dtype=np.float64)


STRUCTURED = Study(
    10,
    "Estimates of structured streams",
    "Every dot is one run on a stream of half of the ids, at a total budget of 1 in the bits of 1,000 ids; above, the "
    "root mean squared error. PPDS's linear hash keeps ids in steps of a power of two: of all even ids everyone or "
    "nobody, so that the estimate is 1 or 0 whatever the memory. A block of ids it samples evenly, so there it does "
    "not fail. The keyed permutation treats all alike.",
    _structured_cells,
    _structured_table,
    _draw_structured,
)

STUDIES: dict[int, Study] = {
    study.number: study
    for study in (
        SAMPLE_SIZES,
        RATIOS,
        BUDGETS,
        ERROR_PROBABILITY,
        MSE_THEORY,
        MSE_EPSILON,
        MSE_SAMPLE,
        EQUAL_BITS,
        LOSSES,
        STRUCTURED,
    )
}
"""All figures, by their numbers: 1 to 7 are the paper's, 8 to 10 are what it does not have."""

"""All figures: 1 to 7 are the paper's (coins and budgets, mean squared errors, large errors, sample sizes).

Figure 8 compares the algorithms with the same memory and total budget, figure 9 shows true losses, figure 10 streams
with a structure. On some of those the linear hash of PPDS samples badly, on others suspiciously well.
"""

from collections.abc import Callable, Collection
from math import exp, inf, log, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from panprivacy import theory
from panprivacy.estimates.plots import COLOURS, GREY, NOT_PRIVATE
from panprivacy.experiments import cells
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
from panprivacy.experiments.study import (
    BAND,
    Frames,
    Interval,
    Study,
    mse_table,
    proportion,
    quantile,
    ratio_interval,
    relative_interval,
    settings_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BITS = ("Dwork", "OptBern")
_ALL = ("Dwork", "OptBern", "PPDS")
_BUDGET = r"privacy budget of the state $\varepsilon$"

STUDIES: dict[int, Study] = {}
"""All figures, by their numbers: 1 to 7 are the paper's, 8 to 10 are what it does not have."""


def figure(
    number: int,
    title: str,
    caption: str,
    cells: Callable[[Scale], list[Cell]],
    table: Callable[[Frames, Scale], pl.DataFrame],
) -> Callable[[Callable[[pl.DataFrame], "Figure"]], None]:
    """Make a study of a function that draws a table, and list it."""

    def listed(draw: Callable[[pl.DataFrame], "Figure"]) -> None:
        STUDIES[number] = Study(number, title, caption, cells, table, draw)

    return listed


# --- how algorithms look in all figures -------------------------------------------------------------------------------


BOTH_STREAMS = ("uniform", "zipf")
"""The streams of the paper's experiments."""

_STREAMS = {
    "uniform": "uniform stream",
    "zipf": "Zipf(1) stream",
    "random half": "a random half of the ids",
    "even ids": "all even ids",
    "one block": "one block of ids",
}
_MARKERS = {"Dwork": "o", "OptBern": "s", "PPDS": "^", "FixedLevelPPDS": "D", "Density": "o", "DistinctCount": "v"}


def _called(name: str) -> str:
    """The name of an algorithm in legends; it says if the algorithm is not private."""
    return name if ALGORITHMS[name].private else f"{name}, as printed (not private)"


def _panels(rows: int, columns: int, size: tuple[float, float], **shared: Any) -> tuple["Figure", list["Axes"]]:
    """A figure of equal panels, listed row by row; the size of a panel is in inches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(size[0] * columns, size[1] * rows), layout="constrained")
    return figure, list(figure.subplots(rows, columns, squeeze=False, **shared).flat)


def _drawn_as(name: str, *, theory: bool = False) -> dict[str, Any]:
    """Keywords for an algorithm's line: dashed and hollow if it is not private, solid and filled if it is."""
    colour = COLOURS[name]
    if theory:
        return {"color": colour, "linestyle": "-", "marker": ""}
    private = {"markerfacecolor": colour, "linestyle": "-"}
    return {"color": colour, "marker": _MARKERS[name]} | (private if ALGORITHMS[name].private else NOT_PRIVATE)


def _band(axes: "Axes", part: pl.DataFrame, x: str, y: str, name: str, *, label: str | None = None) -> None:
    """A line through estimates, in its confidence band."""
    part = part.sort(x)
    axes.fill_between(part[x], part["low"], part["high"], color=COLOURS[name], alpha=0.18, linewidth=0)
    axes.plot(part[x], part[y], label=label or _called(name), **_drawn_as(name))


def _bars(axes: "Axes", part: pl.DataFrame, x: str, y: str, **look: Any) -> None:
    """Estimates with error bars and no line, to be put on a line of the theory."""
    part = part.sort(x)
    spread = [(part[y] - part["low"]).to_numpy(), (part["high"] - part[y]).to_numpy()]
    axes.errorbar(part[x], part[y], yerr=spread, **({"capsize": 2, "elinewidth": 1} | look | {"linestyle": ""}))


def _errors_by_stream(
    table: pl.DataFrame, names: Collection[str], x: str, xlabel: str, size: tuple[float, float]
) -> tuple["Figure", list["Axes"]]:
    """Two panels, the uniform and the Zipf stream, with the mean squared error of each algorithm."""
    figure, grid = _panels(1, len(BOTH_STREAMS), size, sharey=True)
    for axes, stream in zip(grid, BOTH_STREAMS, strict=True):
        for name in names:
            _band(axes, table.filter(stream=stream, algorithm=name), x, "mse", name)
        axes.set(title=_STREAMS[stream], xscale="log", yscale="log", xlabel=xlabel)
    return figure, grid


def _legend_below(figure: "Figure", axes: "Axes", columns: int) -> None:
    """One legend for all panels, under them, where it covers nothing."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns)


# --- figures 1 to 3 ---------------------------------------------------------------------------------------------------


@figure(
    1,
    "Proposed sample size of Dwork and OptBern",
    "The first line of Alg. 1 and 2 as the printed algorithms compute it. The paper does not print its alpha and beta.",
    lambda scale: [SampleSize(name, epsilon, scale.alpha, scale.beta) for name in _BITS for epsilon in scale.epsilons],
    lambda frames, _: frames[SampleSize],
)
def _draw_samples(table: pl.DataFrame) -> "Figure":
    figure, [axes] = _panels(1, 1, (6.4, 4))
    for name in _BITS:
        part = table.filter(algorithm=name).sort("epsilon")
        axes.plot(part["epsilon"], part["sample"], label=_called(name), **_drawn_as(name))
    title = rf"error below $\alpha$ = {table['alpha'][0]:g} with probability $1 - \beta$ = {1 - table['beta'][0]:g}"
    axes.set(yscale="log", xlabel=_BUDGET, ylabel="proposed sample size $m^*$", title=title)
    axes.legend()
    return figure


def _counts(scale: Scale, names: Collection[str] = _BITS) -> list[Cell]:
    return [CoinCount(name, epsilon, scale.coin_users) for name in names for epsilon in scale.epsilons]


def _ratios(frames: Frames, _: Scale) -> pl.DataFrame:
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


def _ratio(count: dict[str, int], bit: int) -> Interval:
    """How much more often a bit has this value if its user came."""
    logs, variance = [], 0.0
    for group in ("came", "stayed"):
        users, ones = count[group], count[f"{group}_ones"]
        share = (ones if bit else users - ones) / users
        logs.append(log(share))
        variance += (1 - share) / (share * users)
    return relative_interval(exp(logs[0] - logs[1]), sqrt(variance), quantile(BAND))


@figure(
    2,
    "State differential privacy of Dwork and OptBern",
    "How much likelier a bit is 1, or 0, once its user has come: counted in the state of the printed algorithms (95 % "
    "bars, mostly smaller than the markers) on the lines of the theory. OptBern's are the border of what is allowed.",
    _counts,
    _ratios,
)
def _draw_ratios(table: pl.DataFrame) -> "Figure":
    figure, [axes] = _panels(1, 1, (6.4, 4.4))
    epsilons = np.linspace(0.001, table["epsilon"].to_numpy().max() * 1.04, 100)
    allowed = r"allowed: $e^{-\varepsilon}$ to $e^{\varepsilon}$"
    axes.fill_between(epsilons, np.exp(-epsilons), np.exp(epsilons), color="#e8e8e8", label=allowed)
    pairs = {"Dwork": theory.dwork_pair(epsilons), "OptBern": theory.symmetric_pair(epsilons)}
    for name, pair in pairs.items():
        for expected in theory.ratios(pair):
            axes.plot(epsilons, np.asarray(expected), **_drawn_as(name, theory=True))
        _bars(axes, table.filter(algorithm=name), "epsilon", "ratio", label=f"{name}, counted", **_drawn_as(name))
    last = epsilons[-1]
    for bit, height in ((1, np.exp(last)), (0, np.exp(-last))):
        axes.annotate(f"R({bit})", (last, height), xytext=(4, -3), textcoords="offset points", color=GREY)
    axes.set(xlabel=_BUDGET, ylabel=r"$R(b)$ = P(b | came) / P(b | did not)", xlim=(0, last * 1.07))
    axes.legend(loc="upper left")
    return figure


def _budgets(frames: Frames, scale: Scale) -> pl.DataFrame:
    """The loss of Dwork's state: audited, and counted as ``-ln R(0)``, the larger of its two."""
    counted = _ratios(frames, scale).filter(bit=0)
    losses = counted.select(
        "epsilon", counted=-pl.col("ratio").log(), low=-pl.col("high").log(), high=-pl.col("low").log()
    )
    audited = frames[StateLoss].rename({"loss": "audited"})
    theoretical = -(1 - pl.col("epsilon") / 2).log()
    return audited.join(losses, on="epsilon", maintain_order="left").with_columns(theory=theoretical)


@figure(
    3,
    "Allocated against actual privacy budget of Dwork",
    "What Dwork's state really loses: exactly, by enumeration of the printed algorithm's coins, and counted in its "
    "bits (95 % bars). It leaves almost half of its budget unused.",
    lambda scale: [*(StateLoss("Dwork", epsilon) for epsilon in scale.epsilons), *_counts(scale, ["Dwork"])],
    _budgets,
)
def _draw_budgets(table: pl.DataFrame) -> "Figure":
    figure, [axes] = _panels(1, 1, (5.4, 4.4))
    epsilons = np.linspace(0, table["epsilon"].to_numpy().max() * 1.04, 100)
    axes.plot(epsilons, epsilons, color=GREY, linestyle=":", label="all of it")
    curve = _drawn_as("Dwork", theory=True)
    axes.plot(epsilons, -np.log1p(-epsilons / 2), label=r"Dwork: $-\ln(1 - \varepsilon/2)$", **curve)
    dots = _drawn_as("Dwork") | {"linestyle": ""}
    axes.plot(table["epsilon"], table["audited"], label="Dwork, by the exact auditor", **dots)
    _bars(axes, table, "epsilon", "counted", label="Dwork, counted", color="black", marker="_", capsize=3)
    axes.set(
        xlabel=r"allocated budget of the state $\varepsilon$", ylabel=r"actual budget $\varepsilon_{\mathrm{actual}}$"
    )
    axes.legend(loc="upper left")
    return figure


# --- figure 4 --------------------------------------------------------------------------------------------------------


def _error_cells(scale: Scale) -> list[Cell]:
    trials = tuple(Trial(name, 2 * epsilon, scale.sample(0.05)) for name in _BITS for epsilon in scale.epsilons)
    return cells.runs(BOTH_STREAMS, scale, trials, scale.tail_repetitions)


def _error_table(frames: Frames, scale: Scale) -> pl.DataFrame:
    rows = []
    for (stream, name, total, size), part in settings_of(frames[Runs]).items():
        errors = np.abs(part["estimate"].to_numpy() - part["truth"].to_numpy())
        wrong = int(np.count_nonzero(errors >= scale.alpha))
        found = proportion(wrong, len(errors))
        row = {"stream": stream, "algorithm": name, "epsilon": total / 2, "sample": size, "alpha": scale.alpha}
        density = float(part["truth"].to_numpy().mean())
        counts = {"repetitions": len(errors), "errors": wrong, "probability": found.estimate}
        bound = float(theory.error_bound(name.lower(), total / 2, scale.alpha, size))
        rows.append(row | {"density": density} | counts | {"low": found.low, "high": found.high, "bound": bound})
    return pl.DataFrame(rows)


@figure(
    4,
    "Empirical probability of error against the privacy budget",
    "m = 0.05 |U|, |U| = T, alpha = 0.1. Lines: share of the repetitions that erred by alpha or more, with exact 95 % "
    "bands. Dotted: the tightest bound of Thm 3.3 and 4.3, cut at 1.",
    _error_cells,
    _error_table,
)
def _draw_errors(table: pl.DataFrame) -> "Figure":
    figure, grid = _panels(1, 2, (4.6, 4.2), sharey=True)
    for axes, stream in zip(grid, BOTH_STREAMS, strict=True):
        for name in _BITS:
            part = table.filter(stream=stream, algorithm=name).sort("epsilon")
            _band(axes, part, "epsilon", "probability", name, label=f"{name}, measured")
            epsilons = np.linspace(part["epsilon"][0], part["epsilon"][-1], 60)
            bounds = theory.error_bound(name.lower(), epsilons, part["alpha"][0], part["sample"][0])
            look = _drawn_as(name, theory=True) | {"linestyle": ":"}
            axes.plot(epsilons, np.asarray(bounds), label=f"{name}, bound", **look)
        axes.set(title=_STREAMS[stream], xlabel=_BUDGET, ylim=(-0.03, 1.05))
    grid[0].set_ylabel(rf"P(|estimate $-$ density| $\geq$ {table['alpha'][0]:g})")
    _legend_below(figure, grid[0], columns=4)
    return figure


# --- figures 5 to 7 ---------------------------------------------------------------------------------------------------


def _against_epsilon(scale: Scale, names: tuple[str, ...]) -> list[Cell]:
    settings = [(fraction, epsilon) for fraction in (0.001, 0.01) for epsilon in scale.epsilons]
    trials = tuple(Trial(name, 2 * epsilon, scale.sample(fraction)) for fraction, epsilon in settings for name in names)
    return cells.runs(BOTH_STREAMS, scale, trials, scale.repetitions)


def _against_sample(scale: Scale) -> list[Cell]:
    """Runs of all sample sizes, twice as many of the whole universe, where the paper says that two are equal."""
    trials = [Trial(name, 2 * 0.2, scale.sample(fraction)) for fraction in scale.fractions for name in _ALL]
    whole = tuple(trial for trial in trials if trial.size == scale.universe)
    parts = tuple(trial for trial in trials if trial.size < scale.universe)
    found: list[Cell] = []
    for name in BOTH_STREAMS:
        found += cells.runs([name], scale, parts, scale.repetitions)
        found += cells.runs([name], scale, whole, 2 * scale.repetitions)
    return found


def _mse_table(frames: Frames, scale: Scale) -> pl.DataFrame:
    return mse_table(frames[Runs]).select(
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
    exact, bound = [], []
    for name, epsilon, sample, density in table.select("algorithm", "epsilon", "sample", "density").iter_rows():
        exact.append(float(theory.mse(name.lower(), epsilon, sample, density, scale.universe)))
        bound.append(float(theory.mse_bound(name.lower(), epsilon, sample)))
    return table.with_columns(theory=pl.Series(exact), bound=pl.Series(bound))


def _grid(
    table: pl.DataFrame, columns: int, draw: Callable[["Axes", str, pl.DataFrame], None], names: Collection[str]
) -> "Figure":
    """Panels for the streams, side by side, and the sample sizes, one above the other."""
    samples = sorted(set(table["sample"]))
    figure, grid = _panels(len(samples), len(BOTH_STREAMS), (4.6, 3.3), sharex=True, sharey="row")
    cases = [(sample, stream) for sample in samples for stream in BOTH_STREAMS]
    for axes, (sample, stream) in zip(grid, cases, strict=True):
        axes.set(title=f"{_STREAMS[stream]}, m = {sample:,}", yscale="log")
        if stream == BOTH_STREAMS[0]:
            axes.set_ylabel("mean squared error")
        if sample == samples[-1]:
            axes.set_xlabel(_BUDGET)
        for name in names:
            draw(axes, name, table.filter(sample=sample, stream=stream, algorithm=name).sort("epsilon"))
    _legend_below(figure, grid[0], columns)
    return figure


@figure(
    5,
    "Theoretical and empirical MSE of Dwork and OptBern against the privacy budget",
    "|U| = T. Markers: measured, with 95 % bars. Lines: the exact mean squared error, sampling without replacement.",
    lambda scale: _against_epsilon(scale, _BITS),
    _table_with_theory,
)
def _draw_with_theory(table: pl.DataFrame) -> "Figure":
    def draw(axes: "Axes", name: str, mine: pl.DataFrame) -> None:
        epsilons = np.linspace(mine["epsilon"][0], mine["epsilon"][-1], 80)
        universe = round(mine["sample"][0] / mine["fraction"][0])
        curve = theory.mse(name.lower(), epsilons, mine["sample"][0], mine["density"][0], universe)
        axes.plot(epsilons, np.asarray(curve), label=f"{name}, theory", **_drawn_as(name, theory=True))
        _bars(axes, mine, "epsilon", "mse", label=f"{name}, measured", **_drawn_as(name))

    return _grid(table, 4, draw, _BITS)


@figure(
    6,
    "Empirical MSE of all three algorithms against the privacy budget",
    "|U| = T, with 95 % bands. Dwork's and OptBern's runs are those of figure 5.",
    lambda scale: _against_epsilon(scale, _BITS) + _against_epsilon(scale, ("PPDS",)),
    _mse_table,
)
def _draw_all(table: pl.DataFrame) -> "Figure":
    return _grid(table, 3, lambda axes, name, mine: _band(axes, mine, "epsilon", "mse", name), _ALL)


@figure(
    7,
    "Empirical MSE against the sample size",
    "epsilon = 0.2, |U| = T, with 95 % bands. PPDS advances in steps: its level halves whom it samples.",
    _against_sample,
    _mse_table,
)
def _draw_against_sample(table: pl.DataFrame) -> "Figure":
    from matplotlib.ticker import NullLocator

    figure, grid = _errors_by_stream(table, _ALL, "fraction", "sample size, share of the universe", (4.6, 4.2))
    for axes in grid:
        axes.xaxis.set_ticks([0.001, 0.01, 0.1, 1], ["0.1 %", "1 %", "10 %", "100 %"])
        axes.xaxis.set_minor_locator(NullLocator())
    grid[0].set_ylabel("mean squared error")
    _legend_below(figure, grid[0], columns=3)
    return figure


# --- figure 8 --------------------------------------------------------------------------------------------------------


TOTAL = 0.4
GOAL = ("PPDS", "Density")
"""The two algorithms that are compared at `Scale.goal_ids`, with more repetitions than the others."""

GOAL_STREAM = "uniform"
"""The stream on which the goal is to be reached."""


def _trials(scale: Scale) -> dict[Trial, int]:
    """All trials, with the bits that their states take: for a list of ids, or one for each sampled user."""
    trials = {}
    for ids in scale.ids:
        bits = ids * bits_of_an_id(scale.universe)
        for name, algorithm in ALGORITHMS.items():
            size = algorithm.size(scale.universe, bits)
            trials[Trial(name, TOTAL, size)] = size if name in ("Dwork", "OptBern", "Density") else bits
    return trials


def _equal_cells(scale: Scale) -> list[Cell]:
    trials, compared = _trials(scale), scale.goal_ids * bits_of_an_id(scale.universe)
    goal = tuple(trial for trial, bits in trials.items() if trial.algorithm in GOAL and bits == compared)
    others = tuple(trial for trial in trials if trial not in goal)
    found: list[Cell] = []
    for name in BOTH_STREAMS:
        found += cells.runs([name], scale, others, scale.repetitions, block=10)
        repetitions = scale.goal_repetitions if name == GOAL_STREAM else scale.goal_repetitions // 4
        found += cells.runs([name], scale, goal, repetitions, block=100)
    return found


def _equal_table(frames: Frames, scale: Scale) -> pl.DataFrame:
    """The MSE of each algorithm, with its bits, and whether it keeps the total budget that it claims."""
    known, found = _trials(scale), mse_table(frames[Runs])
    bits = [known[Trial(*setting)] for setting in found.select("algorithm", "total", "size").iter_rows()]
    private = [ALGORITHMS[name].private for name in found["algorithm"]]
    return found.with_columns(bits=pl.Series(bits), private=pl.Series(private)).sort("stream", "algorithm", "bits")


def advantage(table: pl.DataFrame, stream: str, bits: int) -> Interval:
    """How many times smaller Density's MSE is than PPDS's, with equal bits."""
    rival, mine = (table.filter(stream=stream, algorithm=name, bits=bits) for name in GOAL)
    return ratio_interval(rival["mse"][0] / mine["mse"][0], rival["freedom"][0], mine["freedom"][0], BAND)


def goal_bits(table: pl.DataFrame) -> int:
    """The bits of state for which the goal is set: those with which PPDS was run most often."""
    return int(table.filter(algorithm="PPDS").sort("repetitions", "bits")["bits"][-1])


@figure(
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
)
def _draw_equal_bits(table: pl.DataFrame) -> "Figure":
    """An arrow from PPDS down to Density has the factor and its interval: few repetitions leave much open."""
    figure, grid = _errors_by_stream(table, ALGORITHMS, "bits", "bits of state", (4.9, 4.7))
    bits = goal_bits(table)
    for axes, stream in zip(grid, BOTH_STREAMS, strict=True):
        axes.set_ylim(top=min(axes.get_ylim()[1], 1.5))
        rival, mine = (table.filter(stream=stream, algorithm=name, bits=bits)["mse"][0] for name in GOAL)
        arrow = {"arrowstyle": "->", "color": GREY, "lw": 1.2}
        axes.annotate("", (bits, mine * 1.12), (bits, rival / 1.15), arrowprops=arrow, zorder=1)  # behind the lines
        factor = advantage(table, stream, bits)
        text = f"÷ {factor.estimate:.0f} at {bits:,} bits\n(95 % interval: {factor.low:.0f} to {factor.high:.0f})"
        axes.annotate(text, (bits, mine), xytext=(-6, -8), textcoords="offset points", ha="right", va="top", color=GREY)
    grid[0].set_ylabel(f"mean squared error, total budget {TOTAL:g}")
    _legend_below(figure, grid[0], columns=3)
    return figure


# --- figures 9 and 10 -------------------------------------------------------------------------------------------------


@figure(
    9,
    "Claimed against true loss",
    "The worst case over all streams of two events and three users that differ in one user's events, with one reading "
    "of the state at any moment and one output, by the exact auditor, which runs the algorithms' own code under every "
    "outcome of their coins. On the dotted line the claim is exact; above it, it is false. The three private "
    "algorithms lie on the line, and on each other.",
    lambda scale: [TrueLoss(name, 2 * epsilon) for name in ALGORITHMS for epsilon in scale.epsilons],
    lambda frames, _: frames[TrueLoss],
)
def _draw_losses(table: pl.DataFrame) -> "Figure":
    figure, [axes] = _panels(1, 1, (7.4, 5.6))
    largest = table.filter(pl.col("loss") < inf)["loss"].to_numpy().max()
    top = 1.15 * largest  # where infinity is drawn
    claims = np.array([0, 1.04 * table["claimed"].to_numpy().max()])
    axes.plot(claims, claims, color=GREY, linestyle=":", label="the claim")
    axes.fill_between(claims, 0, claims, color="#eef3ee")
    sizes = {"FixedLevelPPDS": 10, "Density": 6.5, "DistinctCount": 3.5}  # they lie on each other
    for name in ALGORITHMS:
        part = table.filter(algorithm=name).sort("claimed")
        losses = part["loss"].clip(upper_bound=top)
        look = _drawn_as(name) | ({"markersize": sizes[name]} if name in sizes else {})
        axes.plot(part["claimed"], losses, label=_called(name), **look)
    axes.axhline((top + largest) / 2, color=GREY, linewidth=0.8)
    ticks = np.arange(0, largest)
    axes.set_yticks([*ticks, top], [*(f"{tick:g}" for tick in ticks), "∞"])
    axes.set(
        xlabel=r"claimed total: $2\varepsilon$, or the budget",
        ylabel="true loss of state and output together",
        xlim=claims,
    )
    axes.annotate("private", (claims[1], 0), xytext=(-6, 6), textcoords="offset points", ha="right", color=GREY)
    _legend_below(figure, axes, columns=2)
    return figure


_STRUCTURES = ("random half", "even ids", "one block")
_SAMPLED = {"PPDS": "PPDS\n(not private)", "FixedLevelPPDS": "Fixed-\nLevelPPDS", "Density": "Density"}


def _structured_cells(scale: Scale) -> list[Cell]:
    bits = scale.goal_ids * bits_of_an_id(scale.universe)
    trials = tuple(Trial(name, 1.0, ALGORITHMS[name].size(scale.universe, bits)) for name in _SAMPLED)
    return cells.runs(_STRUCTURES, scale, trials, scale.repetitions, block=100)


@figure(
    10,
    "Estimates of structured streams",
    "Every dot is one run on a stream of half of the ids, at a total budget of 1 in the bits of 1,000 ids; above, the "
    "root mean squared error. PPDS's linear hash keeps ids in steps of a power of two: of all even ids everyone or "
    "nobody, so that the estimate is 1 or 0 whatever the memory. A block of ids it samples evenly, so there it does "
    "not fail. The keyed permutation treats all alike.",
    _structured_cells,
    lambda frames, _: frames[Runs].with_columns(error=pl.col("estimate") - pl.col("truth")),
)
def _draw_structured(table: pl.DataFrame) -> "Figure":
    figure, grid = _panels(1, 3, (3.3, 4.2), sharey=True)
    for axes, stream in zip(grid, _STRUCTURES, strict=True):
        for place, name in enumerate(_SAMPLED):
            part = table.filter(stream=stream, algorithm=name)
            # Dots hide each other little: multiples of the golden ratio fill any interval evenly.
            aside = (part["repetition"].to_numpy() * 0.618034 % 1 - 0.5) * 0.6
            face = COLOURS[name] if ALGORITHMS[name].private else "white"
            axes.scatter(place + aside, part["estimate"], s=9, facecolor=face, edgecolor=COLOURS[name], linewidth=0.6)
            error = f"RMS error\n{np.sqrt(np.mean(part['error'].to_numpy() ** 2)):.2g}"
            axes.annotate(error, (place, 1), xycoords=("data", "axes fraction"), ha="center", va="top")
        axes.axhline(table.filter(stream=stream)["truth"][0], color=GREY, linestyle=":", linewidth=1.2)
        axes.set_xticks(range(len(_SAMPLED)), list(_SAMPLED.values()))
        axes.set(title=_STREAMS[stream], xlim=(-0.5, len(_SAMPLED) - 0.5))
        axes.grid(visible=False, axis="x")
    low, high = grid[0].get_ylim()
    grid[0].set_yticks([tick for tick in grid[0].get_yticks() if low < tick < high])  # none behind the numbers above
    grid[0].set_ylim(low, high + 0.15 * (high - low))
    grid[0].set_ylabel("estimated density (dotted: the truth)")
    return figure

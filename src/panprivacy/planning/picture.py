"""A picture of a plan: error against memory, or against epsilon where memory is no choice, with the chosen point."""

from dataclasses import replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from panprivacy.display import counted, format_bytes
from panprivacy.errors import CannotPlan
from panprivacy.estimates.plots import COLOURS, GREY, MOST_BARS, NOT_PRIVATE, canvas, label_of, natural
from panprivacy.planning.counts import OPEN_UNIVERSE, Counter, Crowd, counter
from panprivacy.planning.result import DensityPlan, Plan
from panprivacy.planning.search import Terms, about_alpha
from panprivacy.privacy.budget import and_delta
from panprivacy.slots.users import LARGEST_BUCKETS
from panprivacy.theory import sample_size

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DENSITY: dict[str, Any] = {"color": COLOURS["Density"], "linewidth": 2.2}
_WITHOUT_DELTA: dict[str, Any] = {"color": COLOURS["Density"], "linewidth": 1.4, "linestyle": ":"}
_COUNTER: dict[str, Any] = {"color": COLOURS["DistinctCount"], "linewidth": 2.2}
_PAPER: dict[str, dict[str, Any]] = {name: {"color": COLOURS[name]} | NOT_PRIVATE for name in ("OptBern", "Dwork")}
_OF = {
    "active": "the share of active users",
    "returned": "the share that came back",
    "share": 'each share "at least j times"',
    "mean": "the mean",
}
_POINTS = 60
_LEAST_BITS = 64


def draw(plan: Plan[Any], path: str | Path | None = None, ax: "Axes | None" = None) -> "Axes":
    """Draw the error that is exceeded with probability beta, and return Matplotlib's axes; with a path also a file.

    Of a `Density` or a `DistinctCount` it is drawn against memory, of the others against epsilon.
    """
    if plan.parts is not None and plan.parts.groups is not None:
        return _draw_groups(plan, path, ax)
    if plan.estimator in ("Density", "DistinctCount"):
        return _draw_memory(plan, path, ax)
    with canvas(path, ax, (7.2, 4.6)) as made:
        axes = made.panel
        epsilons = plan.epsilon * np.geomspace(0.25, 4.0, 13)
        found = [(epsilon, _planned(plan, float(epsilon))) for epsilon in epsilons]
        worst = inf if plan.of == "mean" else max(1.0, plan.alpha)  # a share that errs by 1 says nothing
        known = [(epsilon, alpha) for epsilon, alpha in found if alpha is not None and alpha <= worst]
        axes.plot(*zip(*known, strict=True), color=COLOURS.get(plan.estimator, COLOURS["Density"]), linewidth=2.2)
        label = f"the plan: epsilon {plan.epsilon:g}, error {plan.alpha:.3g}"
        axes.plot([plan.epsilon], [plan.alpha], "o", ms=9, color=GREY, mfc="white", mew=2, zorder=5, label=label)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.yaxis.set_minor_formatter(lambda value, _: f"{value:g}" if f"{value:e}"[0] in "25" else "")
        axes.set_xlabel("total epsilon" if plan.estimator != "ActiveUsers" else "epsilon of a cycle")
        axes.set_ylabel(f"error of {_OF.get(plan.of, plan.of)},\nexceeded with probability {plan.beta:g}")
        axes.set_title(f"{plan.estimator}: {_title(plan)}")
        axes.legend()
    return axes


def _draw_groups(plan: Plan[Any], path: str | Path | None, ax: "Axes | None") -> "Axes":
    """Draw the error of each group as a bar; of very many groups, those that err most."""
    rows = sorted(plan.groups, key=lambda row: row.alpha, reverse=True)[:MOST_BARS]
    rows.sort(key=lambda row: natural(row.group))
    names = [label_of(row.group) for row in rows]
    each = 0.42 if any("\n" in name for name in names) else 0.32
    with canvas(path, ax, (8, 1.9 + each * len(rows))) as made:
        axes, at = made.panel, range(len(rows))
        axes.barh(at, [row.alpha for row in rows], height=0.62, color=COLOURS["Counts"], alpha=0.75)
        for place, row in zip(at, rows, strict=True):
            users = f" {row.alpha:.3g} ({counted(row.users, 'user')})"
            axes.annotate(users, (row.alpha, place), va="center", fontsize=8, color=GREY)
        axes.set_yticks(at, names)
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_xlim(0, 1.3 * max(row.alpha for row in rows))
        axes.grid(axis="y", visible=False)
        axes.set_xlabel(f"error of {_OF.get(plan.of, 'the density')}, exceeded with probability {plan.beta:g}")
        axes.set_title(f"{plan.estimator}: {_title(plan)}")
        more = len(plan.groups) - len(rows)
        made.note(f"{more:,} more groups, which err less, are not shown" if more else "")
    return axes


def _planned(plan: Plan[Any], epsilon: float) -> float | None:
    """The error of the same plan at another epsilon; None if that cannot be planned."""
    from panprivacy.planning.periods import plan_periods
    from panprivacy.planning.planner import plan as planned

    asked: dict[str, Any] = {"universe": plan.universe, "epsilon": epsilon, "beta": plan.beta}
    asked |= {"delta": plan.delta or None, "releases": plan.split.releases}
    try:
        if plan.estimator == "Counts":
            make: Any = planned
            divided = plan.parts.arguments() if plan.parts else {}
            return float(make(**asked, **divided, up_to=plan.up_to, only=plan.only).alpha)
        asked["releases"] = plan.split.releases - 1 if plan.estimator == "Retention" else 1
        times = {"span": plan.span, "every": plan.every} if plan.span else {}
        shares = {"share": plan.share, "touched": plan.touched}
        given = {name: value for name, value in {**times, **shares}.items() if value is not None}
        return plan_periods(plan.estimator, **asked, **given).alpha  # type: ignore[arg-type]
    except CannotPlan:
        return None


def _draw_memory(plan: DensityPlan, path: str | Path | None, ax: "Axes | None") -> "Axes":
    """Draw the error against memory.

    The point is the plan's own. The curve of `Density` is that at density 1/2 and takes ones for normal, which does
    not show at this scale. The paper's curves are what Thm 3.3 and 4.3 ask for at half the epsilon, a bit to a user.
    """
    terms = Terms(
        population=plan.universe.size if plan.universe else OPEN_UNIVERSE,
        epsilon=plan.epsilon,
        releases=plan.split.releases,
        intrusions=plan.split.intrusions,
        delta=plan.delta or None,
        parts=plan.parts,
    )
    with canvas(path, ax, (7.2, 5.4)) as made:
        axes = made.panel
        _label(axes, plan)
        if plan.universe:
            _draw_density(axes, terms, plan.beta)
        if plan.estimator == "DistinctCount" or plan.density not in (None, 0.5):
            _draw_counter(axes, terms, plan)
        label = f"the plan: {plan.estimator} in {format_bytes(plan.memory)}, error {plan.alpha:.3g}"
        axes.plot([plan.memory], [plan.alpha], "o", ms=9, color=GREY, mfc="white", mew=2, zorder=5, label=label)
        if ax is None:
            made.figure.legend(loc="outside lower left", ncols=2)
        else:
            axes.legend(fontsize=7)
    return axes


def _title(plan: Plan[Any]) -> str:
    """For whom, at what budget, and for how many releases and announced readings."""
    if plan.universe:
        whom = plan.universe.describe() + plan.divided
    else:
        whom = f"Users are not known in advance; {plan.count:,.0f} or more are expected"
    many = counted(plan.split.releases, "release")
    of = f"a cycle of {plan.split.releases} days" if plan.estimator == "ActiveUsers" else many
    made = f"total epsilon {plan.epsilon:g}{and_delta(plan.delta)} for {of}"
    read = f" and {counted(plan.split.intrusions, 'announced reading')}" if plan.split.intrusions else ""
    return f"{whom}\n{made}{read}"


def _label(axes: "Axes", plan: DensityPlan) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda size, _: format_bytes(round(size)).replace(".0 ", " ")))
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda error, _: f"{error:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("memory for the bits")
    axes.set_ylabel(f"{'' if plan.universe else 'relative '}error exceeded with probability {plan.beta:g}")
    axes.set_title(_title(plan))


def _draw_density(axes: "Axes", terms: Terms, beta: float) -> None:
    """Draw the errors of a `Density`; with a delta, also what the same epsilon does without it."""
    sizes = np.unique(np.geomspace(min(_LEAST_BITS, terms.population), terms.population, _POINTS).astype(np.int64))
    sizes = sizes[sizes >= (len(terms.parts) if terms.parts else 0)]
    lines = [(terms, f"Density, {'each category' if terms.parts else 'up to a bit for each user'}", _DENSITY)]
    if terms.delta is not None:
        lines.append((replace(terms, delta=None), "Density with Laplace noise, without delta", _WITHOUT_DELTA))
    for each, label, style in lines:
        designs = [each.possible(size) for size in sizes.tolist()]
        errors = np.array([1.0 if design is None else about_alpha(design, beta) for design in designs])
        told = errors < 1
        if each is terms or told.any():  # else no line, and no name for one in the legend
            axes.plot(sizes[told] / 8, errors[told], label=label, **style)
        if each is terms:
            known = errors[told]
    if terms.releases == 1 and not terms.intrusions and not terms.parts and known.size:
        _draw_paper(axes, terms, beta, known)


def _draw_paper(axes: "Axes", terms: Terms, beta: float, errors: NDArray[np.float64]) -> None:
    """What the paper proves to be enough; it prints bounds for one release and no announced intrusion."""
    alphas = np.geomspace(max(errors.min(), 1e-5), errors.max(), _POINTS // 2)
    for name, style in _PAPER.items():
        if name == "Dwork" and terms.epsilon >= 4:
            continue  # its pair needs an epsilon below 2, and the paper gives half the total to the state
        needed = np.asarray(sample_size(name.lower(), terms.epsilon / 2, alphas, beta))
        fits = needed <= terms.population
        if not fits.any():  # no line, and no name for one in the legend
            continue
        axes.plot(needed[fits] / 8, alphas[fits], label=f"{name} by the paper's bound (not private)", **style)


def _draw_counter(axes: "Axes", terms: Terms, plan: DensityPlan) -> None:
    if plan.universe:
        crowd = Crowd((plan.density or 0.5) * plan.universe.size, plan.universe.size)
        label = f"DistinctCount, densities up to {plan.density:g}"
    else:
        crowd = Crowd(plan.count or OPEN_UNIVERSE, None)
        label = f"DistinctCount, {crowd.count:,.0f} users or more"
    most = max(min(terms.population // 2, LARGEST_BUCKETS), _LEAST_BITS)
    found = [counter(terms, crowd, int(width)) for width in np.geomspace(_LEAST_BITS, most, _POINTS)]
    best: list[Counter] = []
    for each in found:  # more buckets than are of use only add noise: leave them out
        if each.sound and (not best or each.stderr < best[-1].stderr):
            best.append(each)
    axes.plot([each.size / 8 for each in best], [each.alpha(plan.beta) for each in best], label=label, **_COUNTER)

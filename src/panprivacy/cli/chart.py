"""A series of releases as a picture, with the curve through them, and the line under it that says what it cost."""

from collections.abc import Mapping, Sequence
from itertools import chain
from math import ceil, isfinite
from statistics import median, quantiles
from textwrap import fill
from typing import TYPE_CHECKING, Any

from panprivacy.cli.divided import ALL, Alone, by_group
from panprivacy.density import Density
from panprivacy.drawing import COLOURS, GREY, look, save
from panprivacy.estimator import Estimator
from panprivacy.periods import DAY
from panprivacy.privacy.budget import and_delta
from panprivacy.privacy.coins import Coins
from panprivacy.privacy.ledger import Ledger
from panprivacy.release import MonotoneCurve
from panprivacy.sizes import counted
from panprivacy.slots import Every
from panprivacy.table import Table
from panprivacy.universe import Edges, Range

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from panprivacy.cli.published import Dated
    from panprivacy.privacy.budget import Split

_MOST_ENUMERATED = 10  # releases; the outcomes to compare double with each
_LETTERS = 18  # of a line under a picture, an inch
_MOST_SINGLE = 150  # releases that are seen one by one; more are a cloud


class Audited(dict[str, Any]):
    """How much epsilon any one user can have lost so far, and whether the auditor agrees: as JSON, and as a line.

    The exact auditor runs the bit of one user under the plan of this estimator, through every outcome of its coins. A
    user touches no other bit, so what the auditor finds for one user holds for each of many.
    """

    def __init__(self, est: Estimator[Any]) -> None:
        budget, split = est.budget, est._ledger.split
        super().__init__(epsilon=budget.epsilon, epsilon_spent=budget.spent, epsilon_total=budget.total)
        self.update(delta=budget.delta, delta_spent=budget.delta_spent)
        self.made = f"{budget.releases_made} of {budget.releases} releases"
        enumerable = split.releases <= _MOST_ENUMERATED and not split.intrusions and not split.delta
        self["exact_total"] = _exact_total(split) if enumerable else None
        self["holds"] = budget.total <= budget.epsilon and (self["exact_total"] or 0.0) <= budget.total * (1 + 1e-12)

    def __str__(self) -> str:
        found = self["exact_total"]
        by = "by the exact formula" if found is None else f"by enumeration {found:.6f} in all"
        by = "by a proven bound" if self["delta"] else by
        verdict = "holds" if self["holds"] else "DOES NOT HOLD"
        return (
            f"audit: {self.made}, one reading of the state: nobody has lost more than {self['epsilon_spent']:.6f} "
            f"of epsilon {self['epsilon']:g}{and_delta(self['delta'])} ({by}): {verdict}"
        )

    __rich__ = __str__


def _exact_total(split: "Split") -> float:
    from panprivacy import audit

    return audit.exact(lambda coins: _one_bit(split, coins), users=1, length=2, releases=split.releases).worst_loss


def _one_bit(split: "Split", coins: Coins) -> Density:
    table = Table.drawn(1, split.pair, coins)
    return Density._of_parts(Range(1), Every(1, 0, 1), Ledger(split), table, coins, secure=coins.secure)


def draw(
    rows: "Sequence[Dated]",
    fitted: Mapping[str | None, MonotoneCurve[Any]],
    path: str,
    est: Estimator[Any],
    audited: Audited,
    *,
    falls: bool = False,
) -> None:
    """Draw what was released, each with its interval, and the curve through it; the line of the audit is under them.

    Releases are points that no line joins, since by their noise some are lower than those before, and those who have
    ever appeared never get fewer. Only where users were deleted, there is no curve, and the points are joined.
    Groups have a panel each, and a curve each.
    """
    from matplotlib.figure import Figure

    scale = _Scale(est, falls=falls)
    series = by_group([row.release for row in rows])
    curves = {name: () if falls else scale.curve(fitted[name]) for name in series}
    top = max(_top(releases, curves[name], scale) for name, releases in series.items())
    across = 1 if len(series) == 1 else 2 if len(series) in (2, 4) else 3
    down = ceil(len(series) / across)
    with look():
        wide, high = (8, 4.6) if across == 1 else (3 * across + 1, 2.2 * down + 1.8)
        figure = Figure(figsize=(wide, high), layout="constrained")
        panels = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False).ravel()
        when = [row.moment / DAY for row in rows]  # Matplotlib counts days since 1970, too
        for panel, (name, releases) in zip(panels, series.items(), strict=False):
            _draw_releases(panel, when, releases, scale, top, joined=falls)
            if not falls:
                panel.plot(when, curves[name], color=scale.colour, label="monotone curve fitted to them", zorder=3)
            if across > 1:
                title = "all users" if name is ALL else name
                panel.set_title(title if len(title) <= 30 else title[:29] + "…", fontsize=9)
        panels[0].set_ylim(0, top)
        panels[0].yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}" if scale.counts else f"{100 * value:g} %")
        panels[0].xaxis_date()
        figure.autofmt_xdate(rotation=30, ha="right")
        for panel in panels[len(series) :]:
            panel.set_visible(False)
        for panel in panels[len(series) - across : len(series)]:  # the lowest that are to be seen
            panel.tick_params(axis="x", labelbottom=True, labelrotation=30)
            panel.set_xlabel("end of the period (UTC)" if rows[0].named == "until" else "time of the release (UTC)")
        spent = f"{counted(len(rows), 'release')}, epsilon {est.epsilon:g}{and_delta(est.delta)} in all"
        _label(figure, panels, scale, spent, many=len(rows) > _MOST_SINGLE)
        under = [*_beyond(list(chain(*series.values())), scale, top), _wrapped(str(audited), wide * _LETTERS)]
        figure.supxlabel("\n".join(under), fontsize=7.5, color=GREY)
        save(figure, path)


def _label(figure: "Figure", panels: Any, scale: "_Scale", spent: str, *, many: bool) -> None:
    """Say what is drawn: at the one panel, or once for all of them."""
    title = f"{scale.what[0].upper()}{scale.what[1:]}: {spent}"
    if len(panels) == 1:
        panels[0].set_title(title)
        panels[0].set_ylabel(scale.unit)
        where = "upper left" if many else "best" if scale.falls else "lower right"  # where nothing is, below what rises
        panels[0].legend(loc=where, frameon=many, markerscale=3 if many else 1)
    else:
        figure.supylabel(scale.unit_of_groups, fontsize=10)
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, title=title, title_fontsize=10.5, loc="outside upper center", ncols=2)


def _beyond(releases: Sequence[Any], scale: "_Scale", top: float) -> list[str]:
    """What is said of releases for which the picture has no room."""
    points = sum(scale.value(release) > top for release in releases)
    ends = sum(scale.interval(release)[1] > top for release in releases)
    if not ends:
        return []
    return [f"above the picture: {counted(points, 'release')}, and the ends of {counted(ends, 'interval')}"]


def _wrapped(text: str, width: int) -> str:
    """A text in lines of about the same length."""
    lines = ceil(len(text) / width)
    return fill(text, min(ceil(len(text) / lines) + 10, width))


def _top(releases: Sequence[Any], curve: Sequence[float], scale: "_Scale") -> float:
    """Where the upright axis ends: above all that is drawn, unless wild counts alone reach so far.

    Then it is three times as far up as the curve and three of four releases, whatever their intervals.
    """
    values = [scale.value(release) for release in releases]
    highs = [high for _, high in map(scale.interval, releases) if isfinite(high)]  # some have no upper end
    highest = 1.05 * max(*values, *highs, *curve, 0.0)
    usual = max(*curve, quantiles([*values, values[-1]], n=4)[-1], 0.0) or median(highs or [1.0])
    return (min(highest, 3 * usual) if scale.counts else highest) or 1.0


class _Scale:
    """What the upright axis shows: shares of a universe, or numbers of users if nobody knows who could appear."""

    def __init__(self, est: Estimator[Any], *, falls: bool) -> None:
        self.counts = not isinstance(est, Density)
        self.falls = falls
        self.colour = COLOURS[type(est).__name__]
        users = "edges that" if isinstance(est.universe, Edges) else "users who"
        self.what = f"{users} have {'appeared and were not deleted since' if falls else 'ever appeared'}"
        self.unit = f"different {self.what}" if self.counts else f"{self.what}\n(% of {est.universe.size:,})"
        of_groups = isinstance(est, Density) and est.categories is None
        self.unit_of_groups = f"{self.what}\n(% of a group)" if of_groups else self.unit

    def curve(self, fitted: MonotoneCurve[Any]) -> tuple[float, ...]:
        """Where the line of a curve is."""
        return fitted.counts if self.counts else fitted.densities

    def value(self, release: Any) -> float:
        """Where the point of a release is."""
        return float(release.count if self.counts else release.density)

    def interval(self, release: Any) -> tuple[float, float]:
        """From where to where its bar goes."""
        low, high = release.count_interval if self.counts else release.density_interval
        return low, high


def _draw_releases(
    panel: "Axes", when: list[float], releases: list[Alone], scale: _Scale, top: float, *, joined: bool
) -> None:
    few = len(releases) <= _MOST_SINGLE
    values = [scale.value(release) for release in releases]
    bars = list(map(scale.interval, releases))
    panel.errorbar(
        when,
        values,
        yerr=[
            [max(value - low, 0.0) for value, (low, _) in zip(values, bars, strict=True)],
            [max(min(high, 2 * top) - value, 0.0) for value, (_, high) in zip(values, bars, strict=True)],
        ],
        fmt="o-" if joined else "o",
        color=scale.colour if joined else GREY if few else f"{GREY}60",
        ecolor=f"{GREY}80" if few else f"{GREY}18",
        elinewidth=1.2 if few else 0.6,
        markersize=4 if few else 1.5,
        label=f"released, with {100 * releases[0].level:g} % interval",
        zorder=4 if few else 2,
    )

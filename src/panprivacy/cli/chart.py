"""A series of releases as a picture, with the curve through them, and the line under it that says what it cost."""

from collections.abc import Sequence
from math import isfinite
from textwrap import fill
from typing import TYPE_CHECKING, Any

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

    from panprivacy.cli.published import Dated
    from panprivacy.privacy.budget import Split

_MOST_ENUMERATED = 10  # releases; the outcomes to compare double with each
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
    rows: "Sequence[Dated]", curve: MonotoneCurve[Any] | None, path: str, est: Estimator[Any], audited: Audited
) -> None:
    """Draw what was released, each with its interval, and the curve through it; the line of the audit is under them.

    Releases are points that no line joins, since by their noise some are lower than those before, and those who have
    ever appeared never get fewer. Only where users were deleted, there is no curve, and the points are joined.
    """
    from matplotlib.figure import Figure

    scale = _Scale(est, falls=curve is None)
    with look():
        figure = Figure(figsize=(8, 4.6), layout="constrained")
        panel = figure.subplots()
        when = [row.moment / DAY for row in rows]  # Matplotlib counts days since 1970, too
        _draw_releases(panel, when, [row.release for row in rows], scale, joined=curve is None)
        if curve is not None:
            values = curve.counts if scale.counts else curve.densities
            panel.plot(when, values, color=scale.colour, label="monotone curve fitted to them", zorder=3)
        panel.xaxis_date()
        panel.set_ylim(bottom=0)
        spent = f"{counted(len(rows), 'release')}, epsilon {est.epsilon:g} in all"
        panel.set_title(f"{scale.what[0].upper()}{scale.what[1:]}: {spent}")
        panel.set_xlabel("end of the period (UTC)" if rows[0].named == "until" else "time of the release (UTC)")
        panel.set_ylabel(scale.unit)
        panel.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}" if scale.counts else f"{100 * value:g} %")
        panel.legend(loc="best" if curve is None else "lower right")  # where nothing is, below what rises
        figure.autofmt_xdate(rotation=30, ha="right")
        figure.supxlabel(fill(str(audited), 140), fontsize=7.5, color=GREY)
        save(figure, path)


class _Scale:
    """What the upright axis shows: shares of a universe, or numbers of users if nobody knows who could appear."""

    def __init__(self, est: Estimator[Any], *, falls: bool) -> None:
        self.counts = not isinstance(est, Density)
        self.colour = COLOURS[type(est).__name__]
        users = "edges that" if isinstance(est.universe, Edges) else "users who"
        self.what = f"{users} have {'appeared and were not deleted since' if falls else 'ever appeared'}"
        self.unit = f"different {self.what}" if self.counts else f"{self.what}\n(% of {est.universe.size:,})"

    def value(self, release: Any) -> float:
        """Where the point of a release is."""
        return float(release.count if self.counts else release.density)

    def interval(self, release: Any) -> tuple[float, float]:
        """From where to where its bar goes."""
        low, high = release.count_interval if self.counts else release.density_interval
        return low, high


def _draw_releases(panel: "Axes", when: list[float], releases: list[Any], scale: _Scale, *, joined: bool) -> None:
    few = len(releases) <= _MOST_SINGLE
    values = [scale.value(release) for release in releases]
    bars = list(map(scale.interval, releases))
    top = 1.05 * max(end for end in (*values, *(high for _, high in bars)) if isfinite(end))  # some have no upper end
    panel.errorbar(
        when,
        values,
        yerr=[
            [max(value - low, 0.0) for value, (low, _) in zip(values, bars, strict=True)],
            [max(min(high, top) - value, 0.0) for value, (_, high) in zip(values, bars, strict=True)],
        ],
        fmt="o-" if joined else "o",
        color=scale.colour if joined else GREY if few else f"{GREY}60",
        ecolor=f"{GREY}80" if few else f"{GREY}18",
        elinewidth=1.2 if few else 0.6,
        markersize=4 if few else 1.5,
        label=f"released, with {100 * releases[0].level:g} % interval",
        zorder=4 if few else 2,
    )

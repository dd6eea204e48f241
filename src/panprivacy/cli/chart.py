"""A series of releases as a picture with its band, and the line under it that says what it cost."""

from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

from panprivacy.density import Density
from panprivacy.drawing import COLOURS, GREY, look, save
from panprivacy.estimator import Estimator
from panprivacy.periods import DAY
from panprivacy.privacy.budget import and_delta
from panprivacy.privacy.coins import Coins
from panprivacy.privacy.ledger import Ledger
from panprivacy.slots import Every
from panprivacy.table import Table
from panprivacy.universe import Range

if TYPE_CHECKING:
    from panprivacy.cli.series import Dated
    from panprivacy.privacy.budget import Split

_MOST_ENUMERATED = 10  # releases; the outcomes to compare double with each


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


def draw(series: "Sequence[Dated]", path: str, line: str) -> None:
    """Draw the released densities over time with their band, and the line of the audit under them."""
    from matplotlib.figure import Figure

    with look():
        figure = Figure(figsize=(8, 4.4), layout="constrained")
        panel = figure.subplots()
        until = [dated.until / DAY for dated in series]  # Matplotlib counts days since 1970, too
        releases = [dated.release for dated in series]
        low, high = zip(*(r.density_interval for r in releases), strict=True)
        level = f"{100 * releases[0].level:g} % interval"
        colour = COLOURS["Density"]
        panel.fill_between(until, low, high, color=colour, alpha=0.2, linewidth=0, label=level)
        panel.plot(until, [r.density for r in releases], "o-", color=colour, markersize=4, label="released")
        panel.xaxis_date()
        panel.set_ylim(bottom=0)
        panel.set_title(f"Share of {releases[0].universe:,} users who have appeared by then")
        panel.set_xlabel("until (UTC)")
        panel.set_ylabel("share of the users")
        panel.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
        panel.legend()
        figure.autofmt_xdate(rotation=30, ha="right")
        figure.supxlabel(fill(line, 140), fontsize=7.5, color=GREY)
        save(figure, path)

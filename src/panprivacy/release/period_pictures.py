"""Pictures of answers about periods: who came back by each release, and who was active in the last days."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from panprivacy.drawing import BLUE, GREEN, GREY, ORANGE, check_picture, look, save
from panprivacy.errors import PanPrivacyError
from panprivacy.privacy.budget import and_delta

if TYPE_CHECKING:
    from panprivacy.release.actives import ActivesRelease
    from panprivacy.release.retention import RetentionRelease

_DATES = 60  # releases beyond which a marker for each would hide the line


def draw_retention(released: "RetentionRelease", path: str | Path) -> None:
    """Draw the curve of a retention beside its cohort, all with intervals of the level of the release."""
    check_picture(path)
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    with look():
        figure = Figure(figsize=(7, 4.2), layout="constrained")
        panel = figure.subplots()
        numbers = range(1, len(released.curve) + 1)
        what = "came back" if released.asked == "returned" else "are new"
        interval = f"{100 * released.level:g} % interval"
        low, high = released.cohort_interval
        panel.axhspan(low, high, color=GREY, alpha=0.25, linewidth=0, label=f"cohort, {interval}")
        panel.plot(numbers, released.curve, color=BLUE, label=f"{what} by then")
        raw = [min(max(point, 0.0), 1.0) for point in released.raw_curve]
        arms = [(point - low, high - point) for point, (low, high) in zip(raw, released.curve_interval, strict=True)]
        style: dict[str, Any] = {"fmt": "o", "color": BLUE, "markersize": 4, "capsize": 3, "elinewidth": 1.2}
        panel.errorbar(numbers, raw, [*zip(*arms, strict=True)], label=f"released, with {interval}", **style)
        panel.set_xlabel("release of the second period")
        panel.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))  # else one release has ticks around it
        panel.set_xlim(0.5, len(released.curve) + 0.5)
        panel.set_ylim(0, 1.3 * max(released.cohort_interval[1], *(high for _, high in released.curve_interval)))
        panel.set_title(f"Users of the first period, and who {what} in the second")
        panel.legend(loc="upper left")
        spent = f"epsilon {released.epsilon_spent:.3g} spent, {released.epsilon_remaining:.3g} left"
        _finish(figure, panel, released, spent)
        save(figure, path)


def draw_actives(released: "Sequence[ActivesRelease]", path: str | Path) -> None:
    """Draw who was active in the last day, the last week and the whole span, over time."""
    check_picture(path)
    if not released:
        raise PanPrivacyError("there is nothing to draw before a day is over")
    from matplotlib.figure import Figure

    days = max(len(r.active) for r in released)
    last, every = released[-1], released[0].end - released[0].start
    with look():
        figure = Figure(figsize=(8, 4.4), layout="constrained")
        panel = figure.subplots()
        for k, colour in zip(sorted({1, min(7, days), days}), (GREEN, ORANGE, BLUE), strict=False):
            known = [r for r in released if len(r.active) >= k]
            until: Any = [r.end for r in known]  # of which Matplotlib's types know only numbers
            low, high = zip(*(r.active_interval[k - 1] for r in known), strict=True)
            panel.fill_between(until, low, high, color=colour, alpha=0.2, linewidth=0)
            style = "o-" if len(known) <= _DATES else "-"
            panel.plot(
                until, [r.active[k - 1] for r in known], style, color=colour, markersize=3, label=_last(k, every)
            )
        panel.set_ylim(bottom=0)
        panel.set_title(f"Who was active, with {100 * last.level:g} % intervals")
        panel.set_xlabel("until (UTC)")
        panel.legend(loc="best")
        figure.autofmt_xdate(rotation=30, ha="right")
        _finish(figure, panel, last, f"epsilon {last.epsilon_spent:.3g} spent in a cycle")
        save(figure, path)


def _finish(figure: Any, panel: Any, released: "ActivesRelease | RetentionRelease", spent: str) -> None:
    """Shares on the left, users on the right, and under it all what it cost."""
    users = released.universe
    panel.set_ylabel(f"share of {users:,} users")
    panel.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
    right = panel.secondary_yaxis("right", functions=(lambda share: share * users, lambda count: count / users))
    right.set_ylabel("users")
    right.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    insecure = "" if released.secure else "; NOT PRIVATE: seeded coins"
    figure.supxlabel(f"{spent}{and_delta(released.delta_spent)}{insecure}", fontsize=8, color=GREY)


def _last(days: int, every: timedelta) -> str:
    """What the last so many days are called.

    >>> _last(1, timedelta(days=1)), _last(7, timedelta(days=1)), _last(4, timedelta(hours=6))
    ('in the last day', 'in the last 7 days', 'in the last 4 x 6:00:00')
    """
    if every != timedelta(days=1):
        return f"in the last {days} x {every}"
    return "in the last day" if days == 1 else f"in the last {days} days"

"""Pictures of answers about periods: who came back by each release, and who was active in the last days."""

from collections.abc import Sequence
from datetime import timedelta

from panprivacy.drawing import BLUE, GREEN, GREY, ORANGE, look, save
from panprivacy.errors import PanPrivacyError
from panprivacy.release.actives import ActivesRelease
from panprivacy.release.retention import RetentionRelease


def draw_retention(released: object, path: str) -> None:
    """Draw the curve of a retention beside its cohort."""
    if not isinstance(released, RetentionRelease):
        raise PanPrivacyError("there is nothing to draw before a release of the second period")
    from matplotlib.figure import Figure

    with look():
        figure = Figure(figsize=(7, 4.2), layout="constrained")
        panel = figure.subplots()
        numbers = range(1, len(released.curve) + 1)
        bars = [2 * error for error in released.curve_stderr]
        what = "came back" if released.asked == "returned" else "are new"
        low, high = released.cohort_interval
        panel.axhspan(
            low, high, color=GREY, alpha=0.25, linewidth=0, label=f"cohort, {100 * released.level:g} % interval"
        )
        panel.errorbar(
            numbers, released.raw_curve, bars, fmt="o", color=BLUE, capsize=3, label="released ± 2 standard errors"
        )
        panel.plot(numbers, released.curve, color=BLUE, label=f"{what} by then")
        panel.set_xlabel("release of the second period")
        panel.set_xticks(list(numbers))
        panel.set_ylabel(f"share of {released.universe:,} users")
        panel.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
        panel.set_ylim(bottom=0)
        panel.set_title(f"Users of the first period, and who {what} in the second")
        panel.legend(loc="best")
        save(figure, path)


def draw_actives(released: Sequence[ActivesRelease], path: str) -> None:
    """Draw who was active in the last day, the last week and the whole span, over time."""
    if not released:
        raise PanPrivacyError("there is nothing to draw before a day is over")
    from matplotlib.figure import Figure

    days = max(len(r.active) for r in released)
    every = released[0].end - released[0].start
    with look():
        figure = Figure(figsize=(8, 4.4), layout="constrained")
        panel = figure.subplots()
        for k, colour in zip(sorted({1, min(7, days), days}), (GREEN, ORANGE, BLUE), strict=False):
            known = [r for r in released if len(r.active) >= k]
            until = [r.end for r in known]
            low, high = zip(*(r.active_interval[k - 1] for r in known), strict=True)
            panel.fill_between(until, low, high, color=colour, alpha=0.2, linewidth=0)  # type: ignore[arg-type]
            panel.plot(until, [r.active[k - 1] for r in known], "o-", color=colour, markersize=3, label=_last(k, every))  # type: ignore[arg-type]
        panel.set_ylim(bottom=0)
        panel.set_title(
            f"Share of {released[0].universe:,} users who were active, with {100 * released[0].level:g} % intervals"
        )
        panel.set_xlabel("until (UTC)")
        panel.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
        panel.legend(loc="best")
        figure.autofmt_xdate(rotation=30, ha="right")
        save(figure, path)


def _last(days: int, every: timedelta) -> str:
    """What the last so many days are called.

    >>> _last(1, timedelta(days=1)), _last(7, timedelta(days=1)), _last(4, timedelta(hours=6))
    ('in the last day', 'in the last 7 days', 'in the last 4 x 6:00:00')
    """
    if every != timedelta(days=1):
        return f"in the last {days} x {every}"
    return "in the last day" if days == 1 else f"in the last {days} days"

"""Pictures over time: windows, curves and series, who came back, who was active.

All users have a panel, and so has each of the first groups, in their natural order. Axes that somebody else placed have
room for one panel: that of all users.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain
from math import isfinite
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from panprivacy.display import counted
from panprivacy.errors import PanPrivacyError
from panprivacy.estimates.estimate import NOT_ENOUGH
from panprivacy.estimates.plots import (
    BLACK,
    BLUE,
    COLOURS,
    GREEN,
    GREY,
    NOISY,
    ORANGE,
    PINK,
    RED,
    SKY,
    arms,
    canvas,
    check_picture,
    largest_of,
    limit,
    natural,
    percent,
    period_name,
    scale_of,
    spent,
    unit_of,
    users_axis,
    zone_name,
)

if TYPE_CHECKING:
    from datetime import date

    from matplotlib.axes import Axes

    from panprivacy.estimates.actives import ActivesRelease
    from panprivacy.estimates.release import AnyRelease
    from panprivacy.estimates.retention import RetentionRelease
    from panprivacy.estimates.smoothing import MonotoneCurve

T = TypeVar("T")

_MOST_MARKED = 60  # releases beyond which a marker for each would hide the line
_MOST_SINGLE = 150  # releases that are seen one by one; more are a cloud
_LINES = (BLUE, ORANGE, GREEN, RED, PINK, SKY, BLACK)
_PALE = 0.35  # of what is mostly noise


def in_order(series: Mapping[Any, T], *, by_category: bool) -> dict[Any, T]:
    """All users, then groups in their natural order; categories stay in the order in which they were given."""
    if by_category:
        return dict(series)
    labels = sorted(series, key=lambda label: (label is not None, [] if label is None else natural(label)))
    return {label: series[label] for label in labels}


def _rows_by_label(releases: "Sequence[Any]") -> dict[Any, list[Any]]:
    """The releases of all users and of each group; of categories, which have no total, those alone."""
    found: dict[Any, list[Any]] = {} if releases[0].by_category else {None: list(releases)}
    for place, row in enumerate(releases[0].groups):
        found[row.group] = [release.groups[place] for release in releases]
    return in_order(found, by_category=releases[0].by_category)


def _any(dates: "Sequence[datetime | date]") -> Any:
    """Times on the clocks of their zone, and days, as Matplotlib takes them; its types know only numbers."""
    return [time.replace(tzinfo=None) if isinstance(time, datetime) else time for time in dates]


def _mostly_noise(releases: "Sequence[AnyRelease]") -> bool:
    """Whether more than half of some releases are mostly noise."""
    return 2 * sum(release.mostly_noise for release in releases) > len(releases)


def _noisy(releases: "Sequence[AnyRelease]", what: str) -> str:
    noisy = sum(release.mostly_noise for release in releases)
    return f"{noisy} of {len(releases)} {what} are {NOISY}" if noisy else ""


def _said_noisy(title: str, releases: "Sequence[AnyRelease]") -> str:
    """A title that says it, if more than half of the releases are mostly noise."""
    return f"{title}: mostly noise" if _mostly_noise(releases) else title


def _no_data(panel: "Axes") -> None:
    panel.text(0.5, 0.5, NOT_ENOUGH, transform=panel.transAxes, ha="center", va="center", color=GREY, fontsize=9)


# --- windows --------------------------------------------------------------------------------------------------------

Dated: TypeAlias = "tuple[datetime, AnyRelease]"
"""When the window of a release ended, and the release."""


def draw_windows(
    closed: "Sequence[Dated]", path: str | Path | None = None, ax: "Axes | None" = None, *, unfinished: bool = False
) -> "Axes":
    """Draw the release of each window where the window ends, with its interval.

    Each group has a panel, and each category a line. `unfinished` says that the last window is not over: its point is
    hollow.
    """
    check_picture(path)
    if not closed:
        raise PanPrivacyError("before a window is over, there is nothing of it to show", code="no-windows")
    releases: list[Any] = [release for _, release in closed]
    first, until = releases[0], _any([end for end, _ in closed])
    series = _rows_by_label(releases)
    some: AnyRelease = next(iter(series.values()))[0]
    scale = scale_of(some)
    lines = dict(zip(series, _LINES, strict=False)) if first.by_category else {}
    top = 1.1 * largest_of([row.main for rows in series.values() for row in rows])
    with canvas(path, ax, (8, 4.4), [None] if first.by_category else list(series)) as made:
        for label, rows in series.items():
            panel = made.panel if first.by_category else made.by_label.get(label)
            if panel is None or (lines and label not in lines):
                continue
            colour = lines.get(label, scale.colour)
            name = str(label) if lines else ""
            _draw_line(panel, until, rows, colour, top=top, label=name, unfinished=unfinished)
            if not lines:
                made.name(label, _mostly_noise(rows))
        made.dates(until)
        left = len(first.groups) - len(lines) if first.by_category else 0
        notes = (
            "hollow: the last window is not over" if unfinished else "",
            _noisy(list(chain(*series.values())) if lines else releases, "points" if lines else "windows"),
            f"{left:,} more categories are not shown" if left > 0 else "",
            spent(some).replace(" spent, 0 left", " in each window"),
        )
        title = _said_noisy(f"{scale.title} in each window", list(chain(*series.values())) if lines else releases)
        title = f"{title}, with {100 * first.level:g} % intervals"
        when = f"end of the window ({zone_name(closed[-1][0])})"
        made.finish(title, scale.unit, when, scale.number, limit(top, scale.most), notes=notes)
        return made.panel


def _draw_line(
    panel: "Axes", until: Any, rows: "Sequence[AnyRelease]", colour: str, *, top: float, label: str, unfinished: bool
) -> None:
    """Draw estimates as points that are joined, each with its interval; what is mostly noise is pale."""
    known = [(end, row.main) for end, row in zip(until, rows, strict=True) if isfinite(row.main.value)]
    if not known:
        _no_data(panel)
        return
    ends, mains = [end for end, _ in known], [main for _, main in known]
    style: dict[str, Any] = {"color": colour, "alpha": _PALE if _mostly_noise(rows) else 1.0}
    values = [main.value for main in mains]
    if len(mains) > _MOST_MARKED:  # whiskers would hide each other
        below, above = arms(mains, 2 * top)
        low, high = (
            [value + sign * arm for value, arm in zip(values, side, strict=True)]
            for sign, side in ((-1, below), (1, above))
        )
        panel.fill_between(ends, low, high, color=colour, alpha=0.2 * style["alpha"], linewidth=0)
        panel.plot(ends, values, linewidth=1.0, label=label, **style)
    else:
        whiskers: dict[str, Any] = {"fmt": "o-", "markersize": 4, "capsize": 3, "elinewidth": 1.2}
        panel.errorbar(ends, values, arms(mains, 2 * top), label=label, **whiskers, **style)
    if unfinished:
        panel.plot(ends[-1:], values[-1:], "o", markersize=4, color=colour, markerfacecolor="white", zorder=6)


# --- curves ---------------------------------------------------------------------------------------------------------


def draw_curve(curve: "MonotoneCurve[Any]", path: str | Path | None = None, ax: "Axes | None" = None) -> "Axes":
    """Draw the releases of a series with their intervals, and the curve through them that never falls."""
    from matplotlib.ticker import MaxNLocator

    if not curve.releases:
        raise PanPrivacyError("there is nothing to draw before a release", code="nothing-released")
    by_category = curve.releases[0].by_category
    found = {} if by_category else {None: curve}
    series = in_order(found | {each.group: each for each in curve.groups}, by_category=by_category)
    some: MonotoneCurve[Any] = next(iter(series.values()))
    last = some.releases[-1]
    shares, scale = last.main_name == "density", scale_of(last)
    line_of = {label: each.densities if shares else each.counts for label, each in series.items()}
    mains_of = {label: [release.main for release in each.releases] for label, each in series.items()}
    usual = max(chain(*line_of.values(), (main.value for main in chain(*mains_of.values())))) or 1.0
    with canvas(path, ax, (8, 4.4), list(series)) as made:
        for label, panel in made.by_label.items():
            each, mains = series[label], mains_of[label]
            numbers, few = [release.number for release in each.releases], len(mains) <= _MOST_MARKED
            style: dict[str, Any] = {"color": GREY, "ecolor": f"{GREY}80" if few else f"{GREY}18", "elinewidth": 1.0}
            said = f"released, with {100 * last.level:g} % interval"
            values, size = [main.value for main in mains], 4 if few else 1.5
            panel.errorbar(numbers, values, arms(mains, 6 * usual), fmt="o", markersize=size, label=said, **style)
            noisy = _mostly_noise(each.releases)
            colour, pale = COLOURS["Density"] if shares else scale.colour, _PALE if noisy else 1.0
            panel.plot(numbers, line_of[label], color=colour, alpha=pale, zorder=4, label="smoothed: never falls")
            panel.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
            made.name(label, noisy)
        top = 1.05 * largest_of(list(chain(*mains_of.values())))
        top = limit(top, scale.most) if shares else min(top, 3 * usual)
        releases = list(chain(*(series[label].releases for label in made.by_label)))
        notes = (_noisy(releases, "releases"), spent(last))
        unit = scale.unit if made.many else unit_of(scale, last.universe)
        title = _said_noisy("Who has ever appeared", releases)
        made.finish(title, unit, "release", scale.number, top, notes=notes)
        return made.panel


# --- series ---------------------------------------------------------------------------------------------------------


class SeriesWords(NamedTuple):
    """The texts and the colour of a picture of a series."""

    title: str
    unit: str
    """What the upright axis shows."""
    when: str
    """What the times are of."""
    colour: str
    joined: bool = False
    """Whether lines join the releases. Else they are points, since by their noise some are lower than those before."""


def draw_series(
    series: "Mapping[str | None, Sequence[AnyRelease]]",
    curves: "Mapping[str | None, MonotoneCurve[Any]]",
    ends: "Sequence[datetime]",
    words: SeriesWords,
    path: str | Path,
) -> None:
    """Draw the releases of a series, each with its interval, and the curves through them, into a file.

    Groups have a panel each; the releases of all users have the key None. A curve is drawn where there is one.
    """
    ordered = in_order(series, by_category=None not in series)
    shares, when = next(iter(ordered.values()))[0].main_name == "density", _any(ends)
    lines = {name: curve.densities if shares else curve.counts for name, curve in curves.items()}
    top = max(_top(releases, lines.get(name, ())) for name, releases in ordered.items())
    with canvas(path, None, (8, 4.6), list(ordered)) as made:
        for name, panel in made.by_label.items():
            releases, noisy, few = ordered[name], _mostly_noise(ordered[name]), len(ordered[name]) <= _MOST_SINGLE
            mains = [release.main for release in releases]
            panel.errorbar(
                when,
                [main.value for main in mains],
                yerr=arms(mains, 2 * top),
                fmt="o-" if words.joined else "o",
                color=words.colour if words.joined else GREY if few else f"{GREY}60",
                ecolor=f"{GREY}80" if few else f"{GREY}18",
                elinewidth=1.2 if few else 0.6,
                markersize=4 if few else 1.5,
                label=f"released, with {100 * releases[0].level:g} % interval",
                zorder=4 if few else 2,
            )
            if name in lines:
                style: dict[str, Any] = {"color": words.colour, "alpha": _PALE if noisy else 1.0, "zorder": 3}
                panel.plot(when, lines[name], label="smoothed: never falls", **style)
            made.name(name, noisy)
        made.dates(when)
        shown = list(chain(*(ordered[name] for name in made.by_label)))
        beyond = sum(release.main.value > top for release in shown)
        cut = sum(release.main.interval[1] > top for release in shown)
        above = f"above the picture: {counted(beyond, 'release')}, and the ends of {counted(cut, 'interval')}"
        notes = (_noisy(shown, "points"), above if cut else "")
        made.finish(words.title, words.unit, words.when, scale_of(shown[0]).number, top, notes=notes)


def _top(releases: "Sequence[AnyRelease]", curve: Sequence[float]) -> float:
    """Where the upright axis ends: above all that is drawn, unless wild counts alone reach so far.

    Then it is three times as far up as the curve and three of four releases, whatever their intervals.
    """
    values = [release.main.value for release in releases]
    highs = [release.main.interval[1] for release in releases if isfinite(release.main.interval[1])]
    highest = 1.05 * max(*values, *highs, *curve, 0.0)
    usual = max(*curve, quantiles([*values, values[-1]], n=4)[-1], 0.0) or median(highs or [1.0])
    return (highest if releases[0].main_name == "density" else min(highest, 3 * usual)) or 1.0


# --- who came back --------------------------------------------------------------------------------------------------


def draw_retention(
    released: "RetentionRelease",
    path: str | Path | None = None,
    ax: "Axes | None" = None,
    ends: "Sequence[datetime] | None" = None,
) -> "Axes":
    """Draw the curve of a retention beside its cohort; each group has a panel.

    `ends` are the times of the releases of the second period, if they are known; else releases are numbered.
    """
    from matplotlib.ticker import MaxNLocator

    rows: dict[Any, RetentionRelease] = in_order(
        {None: released} | {row.group: row for row in released.groups}, by_category=False
    )
    places: Any = list(range(1, len(released.curve) + 1)) if ends is None else _any(list(ends))
    what = "came back" if released.asked == "returned" else "new"
    with canvas(path, ax, (8, 4.4), list(rows)) as made:
        for label, panel in made.by_label.items():
            _draw_return(panel, rows[label], places, what)
            made.name(label, rows[label].mostly_noise)
            if ends is None:
                panel.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))  # else one has many ticks
                panel.set_xlim(0.5, len(released.curve) + 0.5)
        shown = [rows[label] for label in made.by_label]
        shares = [each for row in shown for each in (row.singles()["cohort"], *row.estimates["curve"].each())]  # type: ignore[union-attr]
        if ends is not None:
            made.dates(places)
        if not made.many:
            users_axis(made.panel, released.universe)
        rate = released.singles()["rate"]
        told = f"{100 * rate.value:.1f} % ({100 * rate.interval[0]:.1f} to {100 * rate.interval[1]:.1f})"
        share = f"share of the cohort that came back: {told if rate.tells else rate.shown('')}"
        when = "release of the second period" if ends is None else f"until ({zone_name(ends[-1])})"
        unit = "share of the group" if made.many else f"share of {released.universe:,} users"
        asked = "who came back" if released.asked == "returned" else "who is new"
        title = _said_noisy(f"Users of the first period, and {asked} in the second", [released])
        noisy = NOISY if released.mostly_noise else ""
        made.finish(title, unit, when, percent, limit(1.08 * largest_of(shares)), notes=(noisy, share, spent(released)))
        return made.panel


def _draw_return(panel: "Axes", row: "RetentionRelease", places: Any, what: str) -> None:
    """Draw the curve of some users beside their cohort; pale if it is mostly noise."""
    points = row.estimates["curve"].each()  # type: ignore[union-attr]
    if not isfinite(row.cohort):
        _no_data(panel)
        return
    interval, pale = f"{100 * row.level:g} % interval", _PALE if row.mostly_noise else 1.0
    low, high = row.cohort_interval
    panel.axhspan(low, high, color=GREY, alpha=0.25 * pale, linewidth=0, label=f"cohort, {interval}")
    if len(points) > 1:
        panel.plot(places, row.smoothed_curve, color=BLUE, alpha=pale, label="smoothed: never falls")
    style: dict[str, Any] = {"fmt": "o", "color": BLUE, "markersize": 4, "elinewidth": 1.2, "alpha": pale}
    values = [point.value for point in points]
    cap = 3 if len(points) <= _MOST_MARKED else 0
    panel.errorbar(places, values, arms(points), capsize=cap, label=f"{what} by then, {interval}", **style)


# --- who was active -------------------------------------------------------------------------------------------------


def draw_actives(
    released: "Sequence[ActivesRelease]", path: str | Path | None = None, ax: "Axes | None" = None
) -> "Axes":
    """Draw who was active in the last day, the last week and the whole span, over time; smoothed shares are lines.

    Each group has a panel.
    """
    check_picture(path)
    if not released:
        raise PanPrivacyError("there is nothing to draw before a day is over", code="no-days")
    series: dict[Any, list[ActivesRelease]] = _rows_by_label(released)
    last, smooth = released[-1], "smoothed" in released[-1].estimates
    with canvas(path, ax, (8, 4.6), list(series)) as made:
        for label, panel in made.by_label.items():
            _draw_days(panel, series[label])
            made.name(label, _mostly_noise(series[label]))
        top = max(panel.get_ylim()[1] for panel in made.by_label.values())
        made.dates(_any([release.end for release in released]))
        if not made.many:
            users_axis(made.panel, last.universe)
        title = f"Who was active{', smoothed over days' if smooth else ''}"
        title = _said_noisy(title, released)
        sticky = last.singles().get("stickiness")
        dots = "dots: released" if smooth else ""
        named = f"stickiness {sticky.short}" if sticky else ""
        notes = (_noisy(released, "days"), "; ".join(filter(None, (dots, named))), spent(last))
        unit = "share of the group" if made.many else f"share of {last.universe:,} users"
        title, when = f"{title}, with {100 * last.level:g} % intervals", f"until ({zone_name(last.end)})"
        made.finish(title, unit, when, percent, limit(1.05 * max(top, 1e-9)), notes=notes)
        return made.panel


def _draw_days(panel: "Axes", released: "Sequence[ActivesRelease]") -> None:
    """Draw the shares of some users: of the last day, the last seven and the whole span."""
    days = max(len(r.active) for r in released)
    every, smooth = released[0].end - released[0].start, "smoothed" in released[-1].estimates
    pale, wide = _PALE if _mostly_noise(released) else 1.0, 1.6 if len(released) <= _MOST_MARKED else 1.0
    for k, colour in zip(sorted({1, min(7, days), days}), (GREEN, ORANGE, BLUE), strict=False):
        known = [r for r in released if len(r.active) >= k]
        until, values = _any([r.end for r in known]), [r.active[k - 1] for r in known]
        low, high = zip(*((r.smoothed_interval if smooth else r.active_interval)[k - 1] for r in known), strict=True)
        if len(known) > 1:
            panel.fill_between(until, low, high, color=colour, alpha=0.2 * pale, linewidth=0)
        else:
            ends = [[values[0] - low[0]], [high[0] - values[0]]]
            panel.errorbar(until, values, ends, fmt="o", color=colour, markersize=3, capsize=3)
        if smooth:
            panel.plot(until, values, ".", color=colour, markersize=3, alpha=0.5 * pale)
            line = [r.smoothed[k - 1] for r in known]
            panel.plot(until, line, color=colour, alpha=pale, linewidth=wide, label=_last(k, every))
        else:
            style = "o-" if len(released) <= _MOST_MARKED else "-"
            said: dict[str, Any] = {"label": _last(k, every), "alpha": pale, "linewidth": wide}
            panel.plot(until, values, style, color=colour, markersize=3, **said)


def _last(days: int, every: timedelta) -> str:
    """What the last days are called.

    >>> _last(1, timedelta(days=1)), _last(7, timedelta(days=1)), _last(24, timedelta(hours=1))
    ('in the last day', 'in the last 7 days', 'in the last 24 hours')
    >>> _last(4, timedelta(hours=6))
    'in the last 4 x 6 hours'
    """
    unit = period_name(every)
    if unit[0].isdigit():
        return f"in the last {days} x {unit}"
    return f"in the last {unit}" if days == 1 else f"in the last {days} {unit}s"

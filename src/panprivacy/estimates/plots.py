"""Pictures of releases, windows, series and curves, and the look that all pictures share.

Whatever has a picture has ``plot(path=None, ax=None)``, which returns Matplotlib's axes: those given, or those of a new
figure. With a path the picture is written there. Without, the figure is pyplot's, which notebooks show by themselves.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from importlib.util import find_spec
from itertools import chain
from math import ceil, inf, isfinite
from pathlib import Path
from re import split
from statistics import median, quantiles
from textwrap import fill
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

from panprivacy.errors import InvalidValue, PanPrivacyError
from panprivacy.units import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from panprivacy.estimates.actives import ActivesRelease
    from panprivacy.estimates.curve import MonotoneCurve
    from panprivacy.estimates.estimate import Estimate
    from panprivacy.estimates.frequency import FrequencyRelease
    from panprivacy.estimates.release import AnyRelease
    from panprivacy.estimates.retention import RetentionRelease

FORMATS = (".png", ".svg", ".pdf")
"""Endings of the files that a picture can be written to."""

BLACK, BLUE, SKY, GREEN = "#000000", "#0072B2", "#56B4E9", "#009E73"
ORANGE, RED, PINK, GREY = "#E69F00", "#D55E00", "#CC79A7", "#6b6b6b"
"""The colours of Okabe and Ito, which all kinds of eyes tell apart, and a grey for everything but data."""

COLOURS = {
    "Dwork": RED,
    "OptBern": BLUE,
    "PPDS": GREEN,
    "FixedLevelPPDS": PINK,
    "Density": BLACK,
    "DistinctCount": ORANGE,
    "Continual": RED,
    "Counts": SKY,
}
"""An algorithm has the same colour in every picture. `Continual` and `Dwork` are never in one picture."""

NOT_PRIVATE: dict[str, Any] = {"linestyle": (0, (4, 1.5)), "markerfacecolor": "white"}
"""The line of an algorithm that is not private, in every picture: dashed, with hollow markers."""

_LOOK: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "axes.labelsize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "lines.linewidth": 1.6,
    "lines.markersize": 5.5,
    "figure.dpi": 100,
    "savefig.dpi": 160,
    "svg.hashsalt": "panprivacy",  # the same picture is the same file
}


class CannotDraw(PanPrivacyError):
    """Matplotlib, which draws the pictures, is not installed; the message says how to install it."""

    CODE: ClassVar[str] = "cannot-draw"


def check_installed() -> None:
    """Raise before anything is read or spent, if Matplotlib is not installed."""
    if find_spec("matplotlib") is None:
        raise CannotDraw(
            "pictures need matplotlib: pip install 'panprivacy[plot]', or pip install '.[plot]' in a checkout"
        )


def check_picture(path: str | Path) -> None:
    """Raise before anything is read or spent, if a picture cannot be drawn or written.

    >>> check_picture("plan.doc")
    Traceback (most recent call last):
        ...
    panprivacy.errors.InvalidValue: cannot draw plan.doc: use a name that ends in .png, .svg or .pdf
    """
    where = Path(path)
    if where.suffix.lower() not in FORMATS:
        raise InvalidValue(
            f"cannot draw {path}: use a name that ends in {', '.join(FORMATS[:-1])} or {FORMATS[-1]}",
            code="picture-format",
        )
    if not where.parent.is_dir():
        raise InvalidValue(f"cannot draw {path}: there is no folder {where.parent}", code="picture-folder")
    check_installed()


@contextmanager
def look() -> Iterator[None]:
    """Draw and save in the look of all pictures."""
    check_installed()
    import matplotlib as mpl

    with mpl.rc_context(_LOOK):
        yield


def save(figure: "Figure", path: str | Path) -> None:
    """Write a picture; the same picture is the same file, whenever it is drawn, and an error names the file."""
    where = Path(path)
    dated = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    try:
        figure.savefig(where, metadata=dated.get(where.suffix.lower()))
    except OSError as error:
        error.filename = error.filename or str(where)  # a full disk does not say whose file it cut short
        raise


# --- where a picture is drawn ---------------------------------------------------------------------------------------

_LETTERS = 18  # of a small line, an inch


class Canvas:
    """Axes to draw on, and what becomes of them."""

    def __init__(self, panel: "Axes", path: str | Path | None, *, own: bool) -> None:
        self.panel = panel
        self._path = path
        self._own = own

    @property
    def figure(self) -> "Figure":
        """The figure of the axes."""
        return self.panel.get_figure(root=True)  # type: ignore[return-value]

    def dates(self) -> None:
        """Write dates below the axes, aslant."""
        self.panel.tick_params(axis="x", labelrotation=30)
        for label in self.panel.get_xticklabels():
            label.set_horizontalalignment("right")

    def note(self, *lines: str) -> None:
        """Say something in small print below: under the figure, or under axes that somebody else placed."""
        share = 1.0 if self._own else self.panel.get_position().width
        width = round(self.figure.get_figwidth() * share * _LETTERS)
        text = "\n".join(fill(line, width) for line in lines if line)
        if not text:
            return
        if self._own:
            self.figure.supxlabel(text, fontsize=8, color=GREY)
        else:
            self.panel.set_xlabel(f"{self.panel.get_xlabel()}\n{text}".strip(), fontsize=8)


@contextmanager
def canvas(path: str | Path | None, ax: "Axes | None", size: tuple[float, float]) -> "Iterator[Canvas]":
    """Axes to draw on: those given, or those of a new figure of this size. At the end the file is written, if any."""
    if path is not None:
        check_picture(path)
    with look():
        if ax is not None:
            panel = ax
        elif path is not None:
            from matplotlib.figure import Figure

            panel = Figure(figsize=size, layout="constrained").subplots()
        else:
            from matplotlib import pyplot

            panel = pyplot.figure(figsize=size, layout="constrained").subplots()
        made = Canvas(panel, path, own=ax is None)
        yield made
        if path is not None:
            save(made.figure, path)


def _percent(value: float, _: Any = None) -> str:
    return f"{100 * value:g} %"


def _whole(panel: "Axes") -> None:
    """Draw points at the ends of the axes whole."""
    for line in panel.lines:
        if line.get_marker() not in (None, "None", "", "none"):
            line.set_clip_on(False)


def _limit(largest: float, most: float = 1.0) -> float:
    """The end of an axis: `largest`, or a hair beyond `most`, so that what ends there is drawn whole."""
    return min(largest, 1.015 * most) or 1.0


# --- groups and windows ---------------------------------------------------------------------------------------------

MOST_BARS = 40  # groups that a picture has room for
_MOST_DATES = 10  # windows whose ends are all written below the axis
_NOISY = "mostly noise: the error is larger than what it measures"


class _Scale(NamedTuple):
    """How the main estimate of a release is drawn."""

    title: str
    unit: str
    number: Callable[[float], str]
    colour: str
    most: float = inf


def _scale_of(release: "AnyRelease") -> _Scale:
    match release.main_name:
        case "mean":
            up_to = getattr(release, "up_to", None)
            unit = f"appearances of a user on average,\nmore than {up_to} counting as {up_to}"
            return _Scale("How often users appeared", unit, lambda value: f"{value:g}", COLOURS["Counts"])
        case "daily" | "last 1":
            return _Scale("Who was active in the last day", "share of the users", _percent, GREEN, 1.0)
        case "returned" | "newcomers" as asked:
            title = "Who came back" if asked == "returned" else "Who is new"
            return _Scale(title, "share of the users", _percent, BLUE, 1.0)
        case "density":
            return _Scale("Who has appeared", "share of the users", _percent, SKY, 1.0)
        case _:
            users = COLOURS["DistinctCount"]
            return _Scale("Who has appeared", "different users", lambda value: f"{value:,.0f}", users)


def draw_groups(
    release: "AnyRelease", column: str | None = None, path: str | Path | None = None, ax: "Axes | None" = None
) -> "Axes":
    """Draw a bar for each group, in order, and its interval; the total, if there is one, is a line across."""
    rows = release.checked_groups()
    if not release.by_category:  # categories are in the order in which they were given
        rows = tuple(sorted(rows, key=lambda row: natural(row.group)))
    column = column or ("category" if release.by_category else "group")
    scale, level, shown = _scale_of(rows[0]), rows[0].level, rows[:MOST_BARS]
    mains, at = [row.main for row in shown], range(len(shown))
    main_unit = mains[0].unit
    with canvas(path, ax, (8, 1.6 + 0.32 * len(shown))) as made:
        panel = made.panel
        bars = panel.barh(at, [main.value for main in mains], height=0.62, color=scale.colour)
        for bar, row in zip(bars, shown, strict=True):
            bar.set_alpha(0.25 if row.mostly_noise else 0.75)
        total = () if release.by_category or main_unit == "users" else (release.main,)  # numbers of users add up
        largest = _largest([*mains, *total]) or 1.0
        for place, (low, high) in enumerate(main.interval for main in mains):
            panel.plot([low, min(high, 2 * largest)], [place, place], color=BLACK, linewidth=1.4, solid_capstyle="butt")
        panel.plot([main.value for main in mains], at, "o", color=BLACK, markersize=4, zorder=5)
        for each in total:
            panel.axvline(each.value, color=GREY, linestyle="--", linewidth=1.2, label="all users")
            panel.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), borderpad=0)
        names = [str(row.group) for row in shown]
        panel.set_yticks(at, [name if len(name) <= 24 else name[:23] + "…" for name in names])
        panel.set_ylim(len(shown) - 0.4, -0.6)
        panel.grid(axis="y", visible=False)
        panel.set_xlim(0, _limit(1.05 * largest, scale.most))
        panel.set_xlabel(scale.unit.replace("\n", " "))
        panel.set_ylabel(column)
        panel.xaxis.set_major_formatter(lambda value, _: scale.number(value))
        panel.set_title(f"{scale.title}, by {column}, with {100 * level:g} % intervals")
        _whole(panel)
        more = f"{len(rows) - MOST_BARS:,} more groups are not shown" if len(rows) > MOST_BARS else ""
        noisy = f"pale bars are {_NOISY}" if any(row.mostly_noise for row in shown) else ""
        made.note("; ".join(each for each in (more, noisy) if each), spent(release))
    return panel


def natural(label: Any) -> list[tuple[int, int, str]]:
    """A key for sorting labels as people do: numbers in them by their size.

    >>> sorted(["10-19", "100+", "0-9", "other"], key=natural)
    ['0-9', '10-19', '100+', 'other']
    """
    parts = split(r"(\d+)", str(label))
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part.casefold()) for part in parts if part]


def draw_single(release: "AnyRelease", path: str | Path | None = None, ax: "Axes | None" = None) -> "Axes":
    """Draw the main estimate of a release as one bar with its interval."""
    scale, main = _scale_of(release), release.main
    with canvas(path, ax, (8, 2.4)) as made:
        panel = made.panel
        largest = _largest([main]) or 1.0
        panel.barh([0], [main.value], height=0.5, color=scale.colour, alpha=0.25 if release.mostly_noise else 0.75)
        panel.plot(
            [main.interval[0], min(main.interval[1], 2 * largest)],
            [0, 0],
            color=BLACK,
            linewidth=1.6,
            solid_capstyle="butt",
        )
        panel.plot([main.value], [0], "o", color=BLACK, markersize=6, zorder=5)
        panel.set_yticks([])
        panel.set_ylim(-0.6, 0.6)
        panel.set_xlim(0, _limit(1.15 * largest, scale.most))
        unit = scale.unit.replace("\n", " ")
        panel.set_xlabel(unit.replace("the users", f"{release.universe:,} users") if release.universe else unit)
        panel.xaxis.set_major_formatter(lambda value, _: scale.number(value))
        value, low, high = (scale.number(float(f"{each:.4g}")) for each in (main.value, *main.interval))
        panel.set_title(f"{scale.title}: {value}, {100 * release.level:g} % interval {low} to {high}")
        panel.grid(axis="y", visible=False)
        _whole(panel)
        made.note(_NOISY if release.mostly_noise else "", spent(release))
    return panel


def spent(release: "AnyRelease") -> str:
    """The text below a picture: the cost, and a warning of coins that protect no one."""
    insecure = "" if release.secure else "; NOT PRIVATE: seeded coins"
    return f"epsilon {release.cost}{insecure}"


def _largest(estimates: "Sequence[Estimate]") -> float:
    """The largest number that is finite among estimates that are known, and the ends of their intervals."""
    known = [each for each in estimates if isfinite(each.value)]
    return max((end for each in known for end in (each.value, each.interval[1]) if isfinite(end)), default=0.0)


Dated: TypeAlias = "tuple[datetime, AnyRelease]"
"""When the window of a release ended, and the release."""


def draw_windows(closed: "Sequence[Dated]", path: str | Path | None = None, ax: "Axes | None" = None) -> "Axes":
    """Draw the release of each window where the window ends, with its interval; each category has a line."""
    if path is not None:
        check_picture(path)
    if not closed:
        raise PanPrivacyError("before a window is over, there is nothing of it to show", code="no-windows")
    first = closed[0][1]
    by_label: dict[Any, list[Any]] = {None: [release for _, release in closed]}
    if first.by_category:
        places = range(min(len(first.groups), len(_LINES)))
        by_label = {first.groups[i].group: [release.groups[i] for _, release in closed] for i in places}
    some: AnyRelease = next(iter(by_label.values()))[0]
    scale, until = _scale_of(some), _any([end for end, _ in closed])
    top = 1.1 * _largest([release.main for releases in by_label.values() for release in releases])
    with canvas(path, ax, (8, 4.4)) as made:
        panel = made.panel
        for (label, releases), colour in zip(by_label.items(), _LINES, strict=False):
            mains = [release.main for release in releases]
            values, arms = [main.value for main in mains], _arms(mains, 2 * top)
            style: dict[str, Any] = {"color": colour if first.by_category else scale.colour, "label": str(label)}
            panel.errorbar(until, values, arms, fmt="o-", markersize=4, capsize=3, elinewidth=1.2, **style)
        panel.set_ylim(0, _limit(top, scale.most))
        panel.yaxis.set_major_formatter(lambda value, _: scale.number(value))
        panel.set_ylabel(scale.unit)
        panel.set_xlabel(f"end of the window ({zone_name(closed[-1][0])})")
        panel.set_title(f"{scale.title} in each window, with {100 * first.level:g} % intervals")
        made.dates()
        if len(closed) <= _MOST_DATES:
            panel.set_xticks(until)
        _whole(panel)
        if first.by_category:
            panel.legend()
        noisy = sum(release.mostly_noise for _, release in closed)
        more = len(first.groups) - len(by_label) if first.by_category else 0
        made.note(
            f"{noisy} of {len(closed)} windows are {_NOISY}" if noisy else "",
            f"{more:,} more categories are not shown" if more > 0 else "",
        )
    return panel


_LINES = (BLUE, ORANGE, GREEN, RED, PINK, SKY, BLACK)


def _arms(estimates: "Sequence[Estimate]", top: float = inf) -> list[list[float]]:
    """Lengths of error bars, below and above; those that would end above `top` end there."""
    below = [max(each.value - each.interval[0], 0.0) for each in estimates]
    return [below, [max(min(each.interval[1], top) - each.value, 0.0) for each in estimates]]


def _any(dates: "Sequence[datetime | date]") -> Any:
    """Times on the clocks of their zone, and days, as Matplotlib takes them; its types know only numbers."""
    return [time.replace(tzinfo=None) if isinstance(time, datetime) else time for time in dates]


def zone_name(time: "datetime | date") -> str:
    """The name of the time zone of a time; a day is one of UTC."""
    return getattr(getattr(time, "tzinfo", None), "key", "UTC")


# --- curves ---------------------------------------------------------------------------------------------------------


def draw_curve(curve: "MonotoneCurve[Any]", path: str | Path | None = None, ax: "Axes | None" = None) -> "Axes":
    """Draw the releases of a series with their intervals, and the curve through them that never falls."""
    releases = curve.releases
    if not releases:
        raise PanPrivacyError("there is nothing to draw before a release", code="nothing-released")
    last, numbers = releases[-1], [release.number for release in releases]
    shares = last.main_name == "density"
    scale = _scale_of(last)
    mains, line = [release.main for release in releases], curve.densities if shares else curve.counts
    usual = max(*line, *(main.value for main in mains)) or 1.0
    with canvas(path, ax, (8, 4.4)) as made:
        panel = made.panel
        few = len(releases) <= _MOST_MARKED
        style: dict[str, Any] = {"color": GREY, "ecolor": f"{GREY}80" if few else f"{GREY}18", "elinewidth": 1.0}
        label = f"released, with {100 * last.level:g} % interval"
        values, arms = [main.value for main in mains], _arms(mains, 6 * usual)
        panel.errorbar(numbers, values, arms, fmt="o", markersize=4 if few else 1.5, label=label, **style)
        panel.plot(numbers, line, color=COLOURS["Density"] if shares else scale.colour, label="smoothed: never falls")
        top = min(1.05 * _largest(mains), scale.most if shares else 3 * usual)
        panel.set_ylim(0, top)
        panel.yaxis.set_major_formatter(lambda value, _: scale.number(value))
        panel.set_ylabel(scale.unit)
        panel.set_xlabel("release")
        panel.set_title("Who has ever appeared")
        panel.legend(loc="best")
        _whole(panel)
        noisy = sum(release.mostly_noise for release in releases)
        made.note(f"{noisy} of {len(releases)} releases are {_NOISY}" if noisy else "", spent(last))
    return panel


# --- series ---------------------------------------------------------------------------------------------------------

_MOST_SINGLE = 150  # releases that are seen one by one; more are a cloud


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
    notes: tuple[str, ...] = ()
    """Lines that stand below the picture."""


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
    from matplotlib.dates import AutoDateLocator
    from matplotlib.figure import Figure

    lines = {name: _line_of(curves.get(name), releases[0]) for name, releases in series.items()}
    top = max(_top(releases, lines[name]) for name, releases in series.items())
    across = 1 if len(series) == 1 else 2 if len(series) in (2, 4) else 3
    down = ceil(len(series) / across)
    with look():
        wide, high = (8, 4.6) if across == 1 else (3 * across + 1, 2.2 * down + 1.8)
        figure = Figure(figsize=(wide, high), layout="constrained")
        panels = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False).ravel()
        for panel, (name, releases) in zip(panels, series.items(), strict=False):
            _draw_releases(panel, _any(ends), releases, words, top)
            if lines[name]:
                panel.plot(_any(ends), lines[name], color=words.colour, label="monotone curve fitted to them", zorder=3)
            panel.xaxis.set_major_locator(AutoDateLocator(maxticks=6 if across > 1 else 10))  # type: ignore[no-untyped-call]
            if across > 1:
                title = "all users" if name is None else name
                panel.set_title(title if len(title) <= 30 else title[:29] + "…", fontsize=9)
        panels[0].set_ylim(0, top)
        scale = _scale_of(next(iter(series.values()))[0])
        panels[0].yaxis.set_major_formatter(lambda value, _: scale.number(value))
        figure.autofmt_xdate(rotation=30, ha="right")
        for panel in panels[len(series) :]:
            panel.set_visible(False)
        for panel in panels[len(series) - across : len(series)]:  # the lowest that are to be seen
            panel.tick_params(axis="x", labelbottom=True, labelrotation=30)
            panel.set_xlabel(words.when)
        _label_series(figure, panels, words, many=len(ends) > _MOST_SINGLE)
        releases = list(chain(*series.values()))
        noisy = sum(release.mostly_noise for release in releases)
        said = f"{noisy} of {len(releases)} points are {_NOISY}" if noisy else ""
        under = [_in_lines(line, wide * _LETTERS) for line in (said, _beyond(releases, top), *words.notes) if line]
        figure.supxlabel("\n".join(under), fontsize=7.5, color=GREY)
        save(figure, path)


def _line_of(curve: "MonotoneCurve[Any] | None", some: "AnyRelease") -> tuple[float, ...]:
    if curve is None:
        return ()
    return curve.densities if some.main_name == "density" else curve.counts


def _label_series(figure: "Figure", panels: Any, words: SeriesWords, *, many: bool) -> None:
    """Add the legend: at the one panel, or once for all of them."""
    if len(panels) == 1:
        panels[0].set_title(words.title)
        panels[0].set_ylabel(words.unit)
        where = "upper left" if many else "best" if words.joined else "lower right"  # below what rises
        panels[0].legend(loc=where, frameon=many, markerscale=3 if many else 1)
    else:
        figure.supylabel(words.unit, fontsize=10)
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, title=words.title, title_fontsize=10.5, loc="outside upper center", ncols=2)


def _beyond(releases: "Sequence[AnyRelease]", top: float) -> str:
    """The note about releases for which the picture has no room."""
    points = sum(release.main.value > top for release in releases)
    ends = sum(release.main.interval[1] > top for release in releases)
    if not ends:
        return ""
    return f"above the picture: {counted(points, 'release')}, and the ends of {counted(ends, 'interval')}"


def _in_lines(text: str, width: float) -> str:
    """A text in lines of about the same length."""
    lines = ceil(len(text) / width)
    return fill(text, min(ceil(len(text) / lines) + 10, round(width)))


def _top(releases: "Sequence[AnyRelease]", curve: Sequence[float]) -> float:
    """Where the upright axis ends: above all that is drawn, unless wild counts alone reach so far.

    Then it is three times as far up as the curve and three of four releases, whatever their intervals.
    """
    values = [release.main.value for release in releases]
    highs = [release.main.interval[1] for release in releases if isfinite(release.main.interval[1])]
    highest = 1.05 * max(*values, *highs, *curve, 0.0)
    usual = max(*curve, quantiles([*values, values[-1]], n=4)[-1], 0.0) or median(highs or [1.0])
    return (highest if releases[0].main_name == "density" else min(highest, 3 * usual)) or 1.0


def _draw_releases(panel: "Axes", when: Any, releases: "Sequence[AnyRelease]", words: SeriesWords, top: float) -> None:
    few, mains = len(releases) <= _MOST_SINGLE, [release.main for release in releases]
    panel.errorbar(
        when,
        [main.value for main in mains],
        yerr=_arms(mains, 2 * top),
        fmt="o-" if words.joined else "o",
        color=words.colour if words.joined else GREY if few else f"{GREY}60",
        ecolor=f"{GREY}80" if few else f"{GREY}18",
        elinewidth=1.2 if few else 0.6,
        markersize=4 if few else 1.5,
        label=f"released, with {100 * releases[0].level:g} % interval",
        zorder=4 if few else 2,
    )


# --- frequencies ----------------------------------------------------------------------------------------------------


def draw_frequency(release: "FrequencyRelease", path: str | Path | None = None, ax: "Axes | None" = None) -> "Axes":
    """Draw the shares of a release of `Counts` as bars with their intervals, and under them the mean and the cost."""
    shares = release.shares("at_least").each()
    if not shares:
        return draw_single(release, path, ax)
    with canvas(path, ax, (8, 4.2)) as made:
        panel = made.panel
        times, values = range(1, release.up_to + 1), [share.value for share in shares]
        alpha = 0.3 if release.mostly_noise else 1.0
        panel.bar(times, values, color=COLOURS["Counts"], width=0.75, alpha=alpha)
        panel.errorbar(times, values, _arms(shares), fmt="none", ecolor="black", capsize=3)
        if release.up_to <= 32:
            panel.set_xticks(list(times))
        panel.grid(visible=False, axis="x")
        panel.set_title(f"How often {release.universe:,} users appeared, with {100 * release.level:g} % intervals")
        panel.set_xlabel("at least this many times")
        panel.set_ylabel("share of the users")
        panel.yaxis.set_major_formatter(_percent)
        panel.set_ylim(0, _limit(1.05 * _largest(shares)))
        low, high = release.mean_interval
        most = f"more than {release.up_to} counting as {release.up_to}"
        mean = f"mean {release.mean:.3f} ({low:.3f} to {high:.3f}), {most}"
        made.note(_NOISY if release.mostly_noise else "", f"{mean}; {spent(release)}")
    return panel


# --- periods --------------------------------------------------------------------------------------------------------

_MOST_MARKED = 60  # releases beyond which a marker for each would hide the line


def draw_retention(
    released: "RetentionRelease",
    path: str | Path | None = None,
    ax: "Axes | None" = None,
    ends: "Sequence[datetime] | None" = None,
) -> "Axes":
    """Draw the curve of a retention beside its cohort, with the rate on the right.

    `ends` are the times of the releases of the second period, if they are known; else releases are numbered.
    """
    from matplotlib.ticker import MaxNLocator

    with canvas(path, ax, (8, 4.4)) as made:
        panel = made.panel
        places: Any = range(1, len(released.curve) + 1) if ends is None else _any(list(ends))
        what = "came back" if released.asked == "returned" else "are new"
        interval = f"{100 * released.level:g} % interval"
        low, high = released.cohort_interval
        panel.axhspan(low, high, color=GREY, alpha=0.25, linewidth=0, label=f"cohort, {interval}")
        if len(released.curve) > 1:
            panel.plot(places, released.smoothed_curve, color=BLUE, label="smoothed: never falls")
        points = released.estimates["curve"].each()  # type: ignore[union-attr]
        style: dict[str, Any] = {"fmt": "o", "color": BLUE, "markersize": 4, "capsize": 3, "elinewidth": 1.2}
        label = f"{what} by then, {interval}"
        panel.errorbar(places, [point.value for point in points], _arms(points), label=label, **style)
        for row, colour in zip(released.groups, _LINES[1:], strict=False):
            panel.plot(places, row.curve, ".--", color=colour, linewidth=1, label=f"{row.group}, of its users")
        rows = [row.estimates["curve"].each() for row in released.groups]  # type: ignore[union-attr]
        room = 1.25 + 0.1 * ceil(len(rows) / 2)  # for the legend
        panel.set_ylim(0, room * max(high, _largest([*points, *chain(*rows)])))
        panel.set_title(f"Users of the first period, and who {what} in the second")
        if ends is None:
            panel.set_xlabel("release of the second period")
            panel.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))  # else one release has many ticks
            panel.set_xlim(0.5, len(released.curve) + 0.5)
        else:
            panel.set_xlabel(f"until ({zone_name(ends[-1])})")
            made.dates()
        panel.legend(loc="upper left", ncols=2)
        rate = released.singles()["rate"]
        told = f"{100 * rate.value:.1f} % ({100 * rate.interval[0]:.1f} to {100 * rate.interval[1]:.1f})"
        share = f"share of the cohort that came back: {told if rate.tells else rate.shown('')}"
        _finish(made, released, share)
    return panel


def draw_day(release: "ActivesRelease", path: str | Path | None = None, ax: "Axes | None" = None) -> "Axes":
    """Draw the shares of one day: who was active in the last 1, 2, ... days."""
    from matplotlib.ticker import MaxNLocator

    shares = release.estimates["active"].each()  # type: ignore[union-attr]
    every = release.end - release.start
    with canvas(path, ax, (8, 4.4)) as made:
        panel = made.panel
        places = range(1, len(shares) + 1)
        values = [share.value for share in shares]
        style: dict[str, Any] = {"fmt": "o", "color": BLUE, "markersize": 4, "capsize": 3, "elinewidth": 1.2}
        panel.errorbar(places, values, _arms(shares), **style)
        panel.set_xlim(0.5, len(shares) + 0.5)
        panel.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        panel.set_ylim(0, _limit(1.08 * _largest(shares)))
        if every == timedelta(days=1) and len(shares) > 7:
            panel.set_xticks([1, *range(7, len(shares) + 1, 7 * ceil(len(shares) / 70))])
        panel.set_xlabel("active in the last ... days" if every == timedelta(days=1) else f"in the last ... x {every}")
        until = f"until {release.end:%Y-%m-%d %H:%M} ({zone_name(release.end)})"
        panel.set_title(f"Who was active, {until}, with {100 * release.level:g} % intervals")
        _finish(made, release, _NOISY if release.mostly_noise else "")
    return panel


def draw_actives(
    released: "Sequence[ActivesRelease]", path: str | Path | None = None, ax: "Axes | None" = None
) -> "Axes":
    """Draw who was active in the last day, the last week and the whole span, over time; smoothed shares are lines."""
    if path is not None:
        check_picture(path)
    if not released:
        raise PanPrivacyError("there is nothing to draw before a day is over", code="no-days")
    days = max(len(r.active) for r in released)
    last, every = released[-1], released[0].end - released[0].start
    smooth = "smoothed" in last.estimates
    with canvas(path, ax, (8, 4.6)) as made:
        panel = made.panel
        for k, colour in zip(sorted({1, min(7, days), days}), (GREEN, ORANGE, BLUE), strict=False):
            known = [r for r in released if len(r.active) >= k]
            until, values = _any([r.end for r in known]), [r.active[k - 1] for r in known]
            low, high = zip(
                *((r.smoothed_interval if smooth else r.active_interval)[k - 1] for r in known), strict=True
            )
            if len(known) > 1:
                panel.fill_between(until, low, high, color=colour, alpha=0.2, linewidth=0)
            else:
                arms = [[values[0] - low[0]], [high[0] - values[0]]]
                panel.errorbar(until, values, arms, fmt="none", ecolor=colour, capsize=3)
            if smooth:
                panel.plot(until, values, ".", color=colour, markersize=3, alpha=0.5)
                panel.plot(until, [r.smoothed[k - 1] for r in known], color=colour, label=_last(k, every))
            else:
                style = "o-" if len(released) <= _MOST_MARKED else "-"
                panel.plot(until, values, style, color=colour, markersize=3, label=_last(k, every))
        panel.set_ylim(0, _limit(1.05 * max(panel.get_ylim()[1], 1e-9)))
        noisy = sum(r.mostly_noise for r in released)
        title = f"Who was active{', smoothed over days' if smooth else ''}"
        title += ": mostly noise" if 2 * noisy > len(released) else ""
        panel.set_title(f"{title}, with {100 * last.level:g} % intervals")
        panel.set_xlabel(f"until ({zone_name(last.end)})")
        _draw_groups_of_days(panel, released, days, every)
        panel.legend(loc="best")
        made.dates()
        sticky = last.singles().get("stickiness")
        named = f"stickiness {sticky.short}" if sticky else ""
        dots = "dots: released" if smooth else ""
        said = f"{noisy} of {len(released)} days are {_NOISY}" if noisy else ""
        _finish(made, last, *(each for each in (said, "; ".join(filter(None, (dots, named)))) if each))
    return panel


def _draw_groups_of_days(panel: "Axes", released: "Sequence[ActivesRelease]", days: int, every: timedelta) -> None:
    """Draw the shares of the first groups over time: of the whole span, each with a line of its own."""
    known = [release for release in released if len(release.active) >= days]
    for i, colour in zip(range(len(released[-1].groups)), _LINES[3:] + _LINES[:3], strict=False):
        rows = [release.groups[i] for release in known]
        values = [(row.smoothed if "smoothed" in row.estimates else row.active)[days - 1] for row in rows]
        label = f"{rows[-1].group}, {_last(days, every)}"
        panel.plot(_any([row.end for row in rows]), values, ":", color=colour, linewidth=1.2, label=label)


def _finish(made: Canvas, released: "ActivesRelease | RetentionRelease", *notes: str) -> None:
    """Put shares on the left, users on the right, and the cost below."""
    users, panel = released.universe, made.panel
    panel.set_ylabel(f"share of {users:,} users")
    panel.yaxis.set_major_formatter(_percent)
    scales: Any = (lambda share: share * users, lambda count: count / users)
    right = panel.secondary_yaxis("right", functions=scales)
    right.set_ylabel("users")
    right.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    _whole(panel)
    in_cycles = released.cost.epsilon_remaining is None
    made.note(*notes, spent(released).replace("spent", "spent in a cycle") if in_cycles else spent(released))


def _last(days: int, every: timedelta) -> str:
    """What the last days are called.

    >>> _last(1, timedelta(days=1)), _last(7, timedelta(days=1)), _last(4, timedelta(hours=6))
    ('in the last day', 'in the last 7 days', 'in the last 4 x 6:00:00')
    """
    if every != timedelta(days=1):
        return f"in the last {days} x {every}"
    return "in the last day" if days == 1 else f"in the last {days} days"

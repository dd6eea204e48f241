"""Pictures of single releases, and the look that all pictures share; `timelines` has pictures over time.

Whatever has a picture has ``plot(path=None, ax=None)``, which returns Matplotlib's axes: those given, or those of a new
figure. With a path the picture is written there. Without, the figure is pyplot's, which notebooks show by themselves.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from functools import lru_cache
from importlib.util import find_spec
from math import ceil, inf, isfinite
from pathlib import Path
from re import split
from textwrap import fill, wrap
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from panprivacy.display import counted
from panprivacy.errors import InvalidValue, PanPrivacyError
from panprivacy.estimates.estimate import NOT_ENOUGH

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from panprivacy.estimates.actives import ActivesRelease
    from panprivacy.estimates.estimate import Estimate
    from panprivacy.estimates.frequency import FrequencyRelease
    from panprivacy.estimates.release import AnyRelease

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

_FONT = "DejaVu Sans"
_MORE_FONTS = ("Noto Sans CJK JP", "Noto Sans CJK SC", "Hiragino Sans", "PingFang SC", "Yu Gothic", "Microsoft YaHei")
"""Fonts of systems that have letters which the first one lacks: names of groups are of any language."""
_LOOK: dict[Any, Any] = {
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
    "date.autoformatter.hour": "%m-%d %H:%M",
    "figure.dpi": 100,
    "figure.constrained_layout.h_pad": 0.1,  # inches: what is pasted into a page needs a margin
    "figure.constrained_layout.w_pad": 0.1,
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


def check_picture(path: str | Path | None) -> None:
    """Raise before anything is read or spent, if a picture is asked for that cannot be drawn or written.

    >>> check_picture("plan.doc")
    Traceback (most recent call last):
        ...
    panprivacy.errors.InvalidValue: cannot draw plan.doc: use a name that ends in .png, .svg or .pdf
    """
    if path is None:
        return
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

    with mpl.rc_context({**_LOOK, "font.family": _fonts()}):
        yield


@lru_cache
def _fonts() -> list[str]:
    """The font of all pictures, and installed ones for letters that it lacks."""
    from matplotlib.font_manager import fontManager

    installed = {font.name for font in fontManager.ttflist}
    return [_FONT, *(name for name in _MORE_FONTS if name in installed)]


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

_UNITS = ((86400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))
_LETTERS = 18  # of a small line, an inch
MOST_PANELS = 8
"""Groups that a picture over time has room for."""
_MOST_DATES = 10  # windows whose ends are all written below the axis


class Canvas:
    """The panels of a picture: one, or one for all users, whose label is None, and one for each group."""

    def __init__(self, panels: "dict[Any, Axes]", *, own: bool, left_out: int = 0) -> None:
        self.by_label = panels
        self.panel = next(iter(panels.values()))
        """The panel that stands for the picture."""
        self.many = len(panels) > 1
        self._own = own
        self._left_out = left_out

    @property
    def figure(self) -> "Figure":
        """The figure of the axes."""
        return self.panel.get_figure(root=True)  # type: ignore[return-value]

    def name(self, label: Any, noisy: bool) -> None:
        """Write the name of its users above a panel, and whether what it shows is mostly noise."""
        if self.many:
            title = "all users" if label is None else shortened(str(label), 30)
            self.by_label[label].set_title(f"{title}{': mostly noise' if noisy else ''}", fontsize=9)

    def finish(
        self, title: str, unit: str, when: str, number: Callable[[float], str], top: float, *, notes: Sequence[str]
    ) -> None:
        """Write titles, units, the legend and the small print of a picture over time."""
        self.panel.set_ylim(0, top)
        self.panel.yaxis.set_major_formatter(lambda value, _: number(value))
        for panel in self.by_label.values():
            whole(panel, top)
        if self.many:
            self.figure.supylabel(unit, fontsize=10)
        else:
            self.panel.set_title(title)
            self.panel.set_ylabel(unit)
        self.legend(title if self.many else None)
        for panel in self._lowest():
            panel.tick_params(axis="x", labelbottom=True)
            panel.set_xlabel(when)
        self.note(*notes, f"{counted(self._left_out, 'group')} not shown here" if self._left_out else "")

    def _lowest(self) -> "list[Axes]":
        """The panels that have no other one below."""
        panels = list(self.by_label.values())
        return panels[-_across(len(panels)) :]

    def dates(self, ends: Sequence[Any]) -> None:
        """Write dates below the lowest panels, aslant; one date alone has its own tick and no other."""
        from matplotlib.dates import AutoDateLocator

        for panel in self.by_label.values():
            if len(ends) == 1:
                panel.set_xlim(ends[0] - timedelta(days=1), ends[0] + timedelta(days=1))
            if len(ends) <= (3 if self.many else _MOST_DATES):
                panel.set_xticks(ends)
            else:
                panel.xaxis.set_major_locator(AutoDateLocator(maxticks=5 if self.many else 10))  # type: ignore[no-untyped-call]
        for panel in self._lowest():
            panel.tick_params(axis="x", labelrotation=30)
            for label in panel.get_xticklabels():
                label.set_horizontalalignment("right")

    def legend(self, title: str | None = None) -> None:
        """Explain lines and points: above a figure of ours, where nothing is hidden, or within axes that were given."""
        handles, labels = self.panel.get_legend_handles_labels()
        if not any(labels):
            if title is not None:
                self.figure.suptitle(title, fontsize=10.5)
        elif self._own:
            where: Any = "outside upper center" if title else "outside upper right"
            wide = sum(len(label) + 6 for label in labels) < self.figure.get_figwidth() * 12
            columns = len(labels) if wide else 2
            self.figure.legend(handles, labels, title=title, title_fontsize=10.5, loc=where, ncols=columns)
        else:
            self.panel.legend(loc="best", frameon=True, framealpha=0.8, edgecolor="none", title=title)

    def note(self, *lines: str) -> None:
        """Say something in small print below: under the figure, or under axes that somebody else placed."""
        share = 1.0 if self._own else self.panel.get_position().width
        width = round(self.figure.get_figwidth() * share * _LETTERS)
        text = "\n".join(fill(line, width) for line in lines if line)
        if text and self._own:
            self.figure.supxlabel(text, fontsize=8, color=GREY)
        elif text:
            self.panel.set_xlabel(f"{self.panel.get_xlabel()}\n{text}".strip(), fontsize=8)


def _across(panels: int) -> int:
    return 1 if panels == 1 else 2 if panels in (2, 4) else 3


def _new_figure(path: str | Path | None, size: tuple[float, float]) -> "Figure":
    if path is None:
        from matplotlib import pyplot

        return pyplot.figure(figsize=size, layout="constrained")
    from matplotlib.figure import Figure

    return Figure(figsize=size, layout="constrained")


@contextmanager
def canvas(
    path: str | Path | None, ax: "Axes | None", size: tuple[float, float], labels: Sequence[Any] = (None,)
) -> Iterator[Canvas]:
    """Panels for these labels; on axes that are given, the first one alone. At the end the file is written, if any.

    One panel has a figure of this size. A figure without a path is pyplot's.
    """
    check_picture(path)
    with look():
        groups = sum(label is not None for label in labels)
        if ax is not None:
            made = Canvas({labels[0]: ax}, own=False, left_out=groups - (labels[0] is not None))
        else:
            shown = labels[: MOST_PANELS + (labels[0] is None)]
            across = _across(len(shown))
            down = ceil(len(shown) / across)
            size = size if len(shown) == 1 else (3 * across + 1, 2.2 * down + 1.8)
            axes = _new_figure(path, size).subplots(down, across, sharex=True, sharey=True, squeeze=False).ravel()
            for panel in axes[len(shown) :]:
                panel.set_visible(False)
            left_out = groups - sum(label is not None for label in shown)
            made = Canvas(dict(zip(shown, axes, strict=False)), own=True, left_out=left_out)
        yield made
        if path is not None:
            save(made.figure, path)


def shortened(text: str, most: int) -> str:
    """A text of at most this many letters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def label_of(group: Any) -> str:
    """The name of a group beside its bar, in two lines if it is long.

    >>> label_of("Department of Cardiology and Vascular Medicine, Building 4")
    'Department of Cardiology\\nand Vascular Medicine,…'
    """
    return "\n".join(wrap(str(group), 26, max_lines=2, placeholder="…")) or str(group)


def percent(value: float, _: Any = None) -> str:
    """A share as people read it."""
    return f"{100 * value:g} %"


def whole(panel: "Axes", top: float = inf) -> None:
    """Draw points at the ends of the axes whole, unless some are beyond `top`."""
    for line in panel.lines:
        heights: Any = line.get_ydata()
        if line.get_marker() not in (None, "None", "", "none") and max(heights, default=0.0) <= top:
            line.set_clip_on(False)


def limit(largest: float, most: float = 1.0) -> float:
    """The end of an axis: `largest`, or a hair beyond `most`, so that what ends there is drawn whole."""
    return min(largest, 1.015 * most) or 1.0


# --- groups ---------------------------------------------------------------------------------------------------------

MOST_BARS = 40  # groups that a picture has room for
NOISY = "mostly noise: the error is larger than what it measures"


class _Scale(NamedTuple):
    """How the main estimate of a release is drawn."""

    title: str
    unit: str
    number: Callable[[float], str]
    colour: str
    most: float = inf
    after: str = ""
    """What stands after the number in a title."""


def scale_of(release: "AnyRelease") -> _Scale:
    match release.main_name:
        case "mean":
            up_to = getattr(release, "up_to", None)
            unit = f"appearances of a user on average,\nmore than {up_to} counting as {up_to}"
            often = " times on average"
            return _Scale("How often users appeared", unit, lambda value: f"{value:g}", COLOURS["Counts"], after=often)
        case "daily" | "last 1":
            return _Scale("Who was active in the last day", "share of the users", percent, GREEN, 1.0)
        case "returned" | "newcomers" as asked:
            title = "Who came back" if asked == "returned" else "Who is new"
            return _Scale(title, "share of the users", percent, BLUE, 1.0)
        case "density":
            return _Scale("Who has appeared", "share of the users", percent, SKY, 1.0)
        case _:
            users = COLOURS["DistinctCount"]
            return _Scale("Who has appeared", "different users", lambda value: f"{value:,.0f}", users, after=" users")


def draw_groups(
    release: "AnyRelease", column: str | None = None, path: str | Path | None = None, ax: "Axes | None" = None
) -> "Axes":
    """Draw a bar for each group, in order, and its interval; the total, if there is one, is a line across."""
    rows = release.groups
    if not rows:
        raise PanPrivacyError(
            "this release has no groups: pp.Users(ids, groups=...) and categories=[...] make releases that have them",
            code="no-groups",
        )
    if not release.by_category:  # categories are in the order in which they were given
        rows = tuple(sorted(rows, key=lambda row: natural(row.group)))
    column = column or ("category" if release.by_category else "group")
    scale, level, shown = scale_of(rows[0]), rows[0].level, rows[:MOST_BARS]
    mains, at = [row.main for row in shown], range(len(shown))
    main_unit = mains[0].unit
    names = [label_of(row.group) for row in shown]
    each = 0.42 if any("\n" in name for name in names) else 0.32
    with canvas(path, ax, (8, 1.6 + each * len(shown))) as made:
        panel = made.panel
        total = () if release.by_category or main_unit == "users" else (release.main,)  # numbers of users add up
        largest = largest_of([*mains, *total]) or 1.0
        _draw_bars(panel, shown, scale, largest, (0.62, 1.4, 4))
        for line in total:
            panel.axvline(line.value, color=GREY, linestyle="--", linewidth=1.2, label="all users")
            panel.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), borderpad=0)
        panel.set_yticks(at, names)
        panel.set_ylim(len(shown) - 0.4, -0.6)
        panel.set_xlim(0, limit(1.05 * largest, scale.most))
        unit = scale.unit.replace("\n", " ")
        panel.set_xlabel(unit if release.by_category else unit.replace("of the users", "of the users in each group"))
        panel.set_ylabel(column)
        panel.set_title(f"{scale.title}, by {column}, with {100 * level:g} % intervals")
        whole(panel)
        more = f"{len(rows) - MOST_BARS:,} more groups are not shown" if len(rows) > MOST_BARS else ""
        pale = any(row.mostly_noise and isfinite(row.main.value) for row in shown)
        noisy = f"pale bars are {NOISY}" if pale else ""
        made.note("; ".join(each for each in (more, noisy) if each), spent(release))
    return panel


def _draw_bars(
    panel: "Axes", rows: "Sequence[AnyRelease]", scale: _Scale, largest: float, sizes: tuple[float, float, int]
) -> None:
    """Draw a bar for each release, pale if it is mostly noise, and its interval; in sizes of bars, lines and points."""
    mains, at, (height, width, point) = [row.main for row in rows], range(len(rows)), sizes
    bars = panel.barh(at, [main.value for main in mains], height=height, color=scale.colour)
    for place, (bar, row, main) in enumerate(zip(bars, rows, mains, strict=True)):
        bar.set_alpha(0.25 if row.mostly_noise else 0.75)
        if not isfinite(main.value):
            panel.text(0, place, f"  {NOT_ENOUGH}", va="center", fontsize=9, color=GREY)
            continue
        ends = [main.interval[0], min(main.interval[1], 2 * largest)]
        panel.plot(ends, [place, place], color=BLACK, linewidth=width, solid_capstyle="butt")
    panel.plot([main.value for main in mains], at, "o", color=BLACK, markersize=point, zorder=5)
    panel.grid(axis="y", visible=False)
    panel.xaxis.set_major_formatter(lambda value, _: scale.number(value))


def natural(label: Any) -> list[tuple[int, int, str]]:
    """A key for sorting labels as people do: numbers in them by their size.

    >>> sorted(["10-19", "100+", "0-9", "other"], key=natural)
    ['0-9', '10-19', '100+', 'other']
    """
    parts = split(r"(\d+)", str(label))
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part.casefold()) for part in parts if part]


def draw_single(release: "AnyRelease", path: str | Path | None = None, ax: "Axes | None" = None) -> "Axes":
    """Draw the main estimate of a release as one bar with its interval."""
    scale, main = scale_of(release), release.main
    with canvas(path, ax, (8, 2.4)) as made:
        panel = made.panel
        largest = largest_of([main]) or 1.0
        _draw_bars(panel, [release], scale, largest, (0.5, 1.6, 6))
        panel.set_yticks([])
        panel.set_ylim(-0.6, 0.6)
        panel.set_xlim(0, limit(1.15 * largest, scale.most))
        panel.set_xlabel(unit_of(scale, release.universe))
        value, low, high = (scale.number(float(f"{each:.4g}")) for each in (main.value, *main.interval))
        told = "mostly noise" if release.mostly_noise else f"{value}{scale.after}"
        panel.set_title(f"{scale.title}: {told}, {100 * release.level:g} % interval {low} to {high}")
        whole(panel)
        made.note(NOISY if release.mostly_noise else "", spent(release))
    return panel


def unit_of(scale: _Scale, universe: int | None) -> str:
    """What the axis of one release shows, with the number of all users, if that is known."""
    unit = scale.unit.replace("\n", " ")
    if universe is None or unit not in ("share of the users", "different users"):
        return unit
    return f"share of {universe:,} users" if scale.most == 1 else f"{unit}, of {universe:,}"


def spent(release: "AnyRelease") -> str:
    """The text below a picture: the cost, and a warning of coins that protect no one."""
    insecure = "" if release.secure else "; NOT PRIVATE: seeded coins"
    cost = str(release.cost)
    if release.cost.epsilon_remaining is None:
        cost = cost.replace("spent", "spent in a cycle")
    return f"epsilon {cost}{insecure}"


def largest_of(estimates: "Sequence[Estimate]") -> float:
    """The largest number that is finite among estimates that are known, and the ends of their intervals."""
    known = [each for each in estimates if isfinite(each.value)]
    return max((end for each in known for end in (each.value, each.interval[1]) if isfinite(end)), default=0.0)


def arms(estimates: "Sequence[Estimate]", top: float = inf) -> list[list[float]]:
    """Lengths of error bars, below and above; those that would end above `top` end there."""
    below = [max(each.value - each.interval[0], 0.0) for each in estimates]
    return [below, [max(min(each.interval[1], top) - each.value, 0.0) for each in estimates]]


def period_name(length: timedelta) -> str:
    """A length of time as people say it.

    >>> period_name(timedelta(days=1)), period_name(timedelta(hours=6)), period_name(timedelta(seconds=90))
    ('day', '6 hours', '90 seconds')
    """
    seconds = round(length.total_seconds())
    size, name = next(each for each in _UNITS if not seconds % each[0])
    return name if seconds == size else f"{seconds // size} {name}s"


def zone_name(time: "datetime | date") -> str:
    """The name of the time zone of a time; a day is one of UTC."""
    zone = getattr(time, "tzinfo", None)
    return "UTC" if zone is None else getattr(zone, "key", str(zone))


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
        panel.errorbar(times, values, arms(shares), fmt="none", ecolor="black", capsize=3)
        if release.up_to <= 32:
            panel.set_xticks(list(times))
        panel.set_xlim(0.3, release.up_to + 0.7)
        panel.grid(visible=False, axis="x")
        noisy = ": mostly noise" if release.mostly_noise else ""
        title = f"How often {release.universe:,} users appeared{noisy}"
        panel.set_title(f"{title}, with {100 * release.level:g} % intervals")
        panel.set_xlabel("at least this many times")
        panel.set_ylabel("share of the users")
        panel.yaxis.set_major_formatter(percent)
        panel.set_ylim(0, limit(1.05 * largest_of(shares)))
        low, high = release.mean_interval
        most = f"more than {release.up_to} counting as {release.up_to}"
        mean = f"mean {release.mean:.3f} ({low:.3f} to {high:.3f}), {most}"
        made.note(NOISY if release.mostly_noise else "", f"{mean}; {spent(release)}")
    return panel


# --- one day ----------------------------------------------------------------------------------------------------------


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
        panel.errorbar(places, values, arms(shares), **style)
        panel.set_xlim(0.5, len(shares) + 0.5)
        panel.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        panel.set_ylim(0, limit(1.08 * largest_of(shares)))
        if every == timedelta(days=1) and len(shares) > 7:
            panel.set_xticks([1, *range(7, len(shares) + 1, 7 * ceil(len(shares) / 70))])
        unit = period_name(every)
        panel.set_xlabel(f"active in the last ... {f'x {unit}' if unit[0].isdigit() else f'{unit}s'}")
        until = f"until {release.end:%Y-%m-%d %H:%M} ({zone_name(release.end)})"
        until += ": mostly noise" if release.mostly_noise else ""
        panel.set_title(f"Who was active, {until}, with {100 * release.level:g} % intervals")
        panel.set_ylabel(f"share of {release.universe:,} users")
        panel.yaxis.set_major_formatter(percent)
        users_axis(panel, release.universe)
        whole(panel)
        made.note(NOISY if release.mostly_noise else "", spent(release))
    return panel


def users_axis(panel: "Axes", users: int) -> None:
    """Put the number of users on the right of a share."""
    scales: Any = (lambda share: share * users, lambda count: count / users)
    right = panel.secondary_yaxis("right", functions=scales)
    right.set_ylabel("users")
    right.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")

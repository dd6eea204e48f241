"""What a series has released: its rows, and the curve through them that never falls."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from panprivacy.cli.notes import note_noise
from panprivacy.cli.output import Output, as_fields, csv_rows, lines_of
from panprivacy.display import counted
from panprivacy.estimates import MonotoneCurve, monotone
from panprivacy.estimates.actives import ActivesRelease
from panprivacy.estimates.estimate import NOT_ENOUGH, Estimate
from panprivacy.estimates.plots import COLOURS, zone_name
from panprivacy.estimates.release import MOST_SHOWN
from panprivacy.estimates.retention import RetentionRelease
from panprivacy.estimates.timelines import SeriesWords, draw_actives, draw_retention, draw_series, draw_windows
from panprivacy.estimators.base import Estimator
from panprivacy.periods import as_datetime, told_time
from panprivacy.privacy.budget import and_delta

if TYPE_CHECKING:
    from rich.table import Table

_OPEN = " (open)"  # of a period that is not over
_NAMED = ("daily", "weekly", "monthly")
_OF_RETENTION = ("cohort", "returned", "newcomers", "rate")

AT, UNTIL = "at", "until"
"""What the time of a row is: when the release was made, or until when events count."""

ALL = None
"""Stands for all users, where groups stand by their labels: a group may be called anything."""


class Dated(dict[str, Any]):
    """A release with its moment: its fields, as JSON has them, and lines for people, one for each group.

    The last period of a series may not be over when the events end. When the last of them came is about a person, so
    nothing but the period is shown.
    """

    def __init__(self, named: str, moment: int, release: Any, *, over: bool | None = None, zone: str = "UTC") -> None:
        period = {} if over is None else {"period_over": over}
        self.time = as_datetime(moment, zone)
        super().__init__({named: self.time.isoformat()} | period | as_fields(release))
        self.named = named
        self.over = over
        self.release = release

    @property
    def when(self) -> str:
        """The moment as people read it."""
        if self.named == AT:
            return str(self[AT])
        until = told_time(self.time)
        return f"until the events end, in the period to {until}" if self.over is False else f"until {until}"

    def __str__(self) -> str:
        return "\n".join(f"{self.when}: {line}" for line in lines_of(self.release))

    def frame_rows(self) -> list[dict[str, Any]]:
        """The rows of the release's frame, with the moment. Rows of earlier releases, of a retention, have none."""
        found = csv_rows(self.release)
        if "end" in found[-1]:  # each row has its times
            return found
        when = {name: self[name] for name in (self.named, "period_over") if name in self}
        last = found[-1].get("release")  # of a retention, whose frame has its earlier releases, too
        return [(when if row.get("release") == last else dict.fromkeys(when)) | row for row in found]

    def cells(self) -> list[dict[str, str]]:
        """A row for a terminal, or one for each of the first groups, and one for all users."""
        is_open = {None: "", True: " " * len(_OPEN), False: _OPEN}[self.over]  # spaces, so that columns stay as wide
        when = {self.named: str(self[AT]) if self.named == AT else told_time(self.time) + is_open}
        groups = self.release.groups
        if not groups:
            return [when | _cells(self.release)]
        rows = [{"group": str(row.group)} | _cells(row) for row in groups[:MOST_SHOWN]]
        if len(groups) > MOST_SHOWN:
            rows.append({"group": f"... and {len(groups) - MOST_SHOWN:,} more"} | dict.fromkeys(_cells(groups[0]), ""))
        if self.release.estimates:
            rows.append({"group": "all users"} | _cells(self.release))
        return [when | row for row in rows]


def _cells(release: Any) -> dict[str, str]:
    """What a row of a table shows of a release: its shares that have names, or its main estimate with an interval.

    Of a day, these are the shares that are known by then; without any, the first and the last.
    """
    found: dict[str, Estimate] = release.singles()
    if isinstance(release, RetentionRelease):
        return {name: found[name].short for name in _OF_RETENTION}
    if not isinstance(release, ActivesRelease):
        main = release.main
        name = "users" if release.main_name == "count" else release.main_name
        cells = {name: main.short, release.interval_name: main.bounds}
        return cells | ({"users": found["count"].short} if release.main_name == "density" else {})
    cells, shares = {name: found[name].short for name in _NAMED if name in found}, release.each_share()
    if not cells:
        return {"last 1": shares[0].short, "longest": f"{shares[-1].short} ({len(shares)})"}
    if {"daily", "monthly"} <= cells.keys():
        cells["stickiness"] = found["stickiness"].short if "stickiness" in found else NOT_ENOUGH
    return cells


def by_group(releases: Sequence[Any]) -> dict[str | None, list[Any]]:
    """The releases of each group by its label, after the releases of all users, which a series by category lacks."""
    found: dict[str | None, list[Any]] = {} if releases and releases[0].by_category else {ALL: list(releases)}
    for place, row in enumerate(releases[0].groups if releases else ()):
        found[str(row.group)] = [release.groups[place] for release in releases]
    return found


class Curve(dict[str, Any]):
    """The curve through the releases of some rows, or of one group of them.

    As JSON it has each point beside what was released, and it is a table for people.
    """

    def __init__(self, rows: Sequence[Dated], releases: Sequence[Any], group: str | None) -> None:
        self.fitted: MonotoneCurve[Any] = monotone(releases)
        super().__init__({} if group is ALL else {"group": group})
        self._title = f"{'' if group is ALL else f'{group}: '}monotone curve through {counted(len(rows), 'release')}"
        self._lines: list[tuple[str, ...]] = []
        self["monotone"] = points = []
        known = all(release.universe for release in releases)
        densities = self.fitted.densities if known else [None] * len(rows)
        for row, release, density, count in zip(rows, releases, densities, self.fitted.counts, strict=True):
            released = {name: getattr(release, name, None) for name in ("number", "density", "count")}
            fitted = {"monotone_density": density, "monotone_count": count}
            points.append({row.named: row[row.named]} | released | fitted)
            share = () if density is None else (f"density {density:.4f}",)
            self._lines.append((row.when, *share, f"users {count:,.0f}"))

    def __str__(self) -> str:
        lines = (f"{when}: {'; '.join(said)}" for when, *said in self._lines)
        return "\n".join([f"{self._title}, at no cost of epsilon:", *lines])

    def __rich__(self) -> "Table":
        from rich.table import Table

        table = Table(title=self._title, show_header=False)
        for line in self._lines:
            table.add_row(*line)
        return table


@dataclass
class Published:
    """Collects what a series releases; when it is over, shows the curve through it, and draws both if that was asked.

    The curve is fitted to all releases of this command: the next one moves earlier points, so it is shown at the end.
    Groups have a curve each, of which people see some. Where events are read that delete users, the truth may fall, and
    there is no curve. Nor is there a curve through periods that were counted anew, through a cohort and its users who
    came back, or through means of `Counts`.
    """

    output: Output
    picture: str | None = None
    deletions: bool = False
    anew: bool = False
    """Whether each period was counted anew."""
    rows: list[Dated] = field(default_factory=list)

    def close(self, est: Estimator[Any]) -> None:
        """Show the curve, and what ends the series if something does; draw the picture."""
        may_fall = self.deletions or self.anew or est.TRAITS.own_periods or not est.REPEATABLE
        curves, left_out = ({}, 0) if may_fall else self._curves()
        if self.output.as_json or (len(self.rows) > 1 and not self.output.as_csv):
            for curve in curves.values():
                self.output.answer(curve)
            if left_out:
                self.output.note(f"{counted(left_out, 'more group')}, whose curves --json prints")
        note_noise([row.release for row in self.rows], self.output)
        if self.picture is not None:
            self._draw(self.picture, est, {group: curve.fitted for group, curve in curves.items()})

    def _draw(self, picture: str, est: Estimator[Any], fitted: dict[str | None, MonotoneCurve[Any]]) -> None:
        """Draw what was released. Of a retention, it is who came back, at the ends of periods if all are known."""
        if not self.rows:
            self.output.note(f"no release was made, so {picture} is not drawn")
            return
        last = self.rows[-1].release
        ends = [row.time for row in self.rows if isinstance(row.release, type(last))]
        if self.anew:
            unfinished = self.rows[-1].over is False
            draw_windows([(row.time, row.release) for row in self.rows], picture, unfinished=unfinished)
        elif isinstance(last, ActivesRelease):
            draw_actives([row.release for row in self.rows], picture)
        elif isinstance(last, RetentionRelease) and len(ends) == len(last.curve):
            draw_retention(last, picture, ends=ends)
        elif est.TRAITS.own_periods:
            last.plot(picture)
        else:
            draw_rows(self.rows, fitted, picture, est, falls=self.deletions)

    def _curves(self) -> tuple[dict[str | None, Curve], int]:
        """The curves of groups, then the curve of all users; and how many groups a person is not shown."""
        series = by_group([row.release for row in self.rows])
        groups = [group for group in series if group is not ALL]
        fitted = groups if self.output.as_json else groups[:MOST_SHOWN]
        curves = {group: Curve(self.rows, series[group], group) for group in [*fitted, ALL] if group in series}
        return curves, len(groups) - len(fitted)


def draw_rows(
    rows: Sequence[Dated],
    fitted: Mapping[str | None, MonotoneCurve[Any]],
    path: str,
    est: Estimator[Any],
    *,
    falls: bool = False,
) -> None:
    """Draw what was released, and the curves through it.

    Where users were deleted, and for means of `Counts`, there is no curve, and the points are joined.
    """
    from panprivacy.estimators.counts import Counts
    from panprivacy.estimators.density import Density
    from panprivacy.universe import Edges

    series = by_group([row.release for row in rows])
    users = "edges that" if isinstance(est.universe, Edges) else "users who"
    what = f"{users} have {'appeared and were not deleted since' if falls else 'ever appeared'}"
    unit = f"different {what}"
    if isinstance(est, Counts):
        what = "appearances of a user on average"
        unit = f"{what},\nmore than {est.up_to} counting as {est.up_to}"
    if isinstance(est, Density):
        of_groups = len(series) > 1 and est.categories is None
        unit = f"{what}\n(% of {'a group' if of_groups else f'{est.universe.size:,}'})"
    spent = f"{counted(len(rows), 'release')}, epsilon {est.epsilon:g}{and_delta(est.delta)} in all"
    when = "end of the period" if rows[0].named == UNTIL else "time of the release"
    words = SeriesWords(
        title=f"{what[0].upper()}{what[1:]}: {spent}",
        unit=unit,
        when=f"{when} ({zone_name(rows[0].time)})",
        colour=COLOURS[type(est).__name__],
        joined=not fitted,
    )
    draw_series(series, fitted, [row.time for row in rows], words, path)

"""What a series has released: its rows as they came, and, when it is over, the curve through them that never falls."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from panprivacy.cli.chart import Audited, draw
from panprivacy.cli.divided import ALL, by_group
from panprivacy.cli.noisy import note_noise_of_series
from panprivacy.cli.plainly import Speaker, as_fields, lines_of
from panprivacy.periods import as_datetime
from panprivacy.release import MonotoneCurve, monotone
from panprivacy.release.groups import MOST_SHOWN
from panprivacy.retention import Retention
from panprivacy.sizes import counted

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from panprivacy.estimator import Estimator

AT, UNTIL = "at", "until"
"""What the time of a row is: that of the release by the clock, or that until which events count."""


class Dated(dict[str, Any]):
    """A release with its moment: its fields, as JSON has them, and lines for people, one for each group.

    The last period of a series may not be over when the events end. When the last of them came is about a person, so
    nothing but the period is shown.
    """

    def __init__(self, named: str, moment: int, release: Any, *, over: bool | None = None) -> None:
        period = {} if over is None else {"period_over": over}
        super().__init__({named: as_datetime(moment).isoformat()} | period | as_fields(release))
        self.named = named
        self.moment = moment
        self.over = over
        self.release = release

    @property
    def when(self) -> str:
        """The moment as people read it."""
        if self.named == AT:
            return str(self[AT])
        until = shown(self.moment)
        return f"until the events end, in the period to {until}" if self.over is False else f"until {until}"

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def __rich__(self) -> "Text":
        from rich.text import Text

        head, *groups = self._lines()
        more = [f"... and {len(groups) - MOST_SHOWN:,} more"] if len(groups) > MOST_SHOWN else []
        return Text("\n".join([head, *groups[:MOST_SHOWN], *more]))

    def _lines(self) -> list[str]:
        return [f"{self.when}: {line}" for line in lines_of(self.release)]


class Curve(dict[str, Any]):
    """The curve through the releases of some rows, or of one group of them.

    As JSON it has each point beside what was released, and it is a table for people.
    """

    def __init__(self, rows: Sequence[Dated], releases: Sequence[Any], group: str | None) -> None:
        self.fitted: MonotoneCurve[Any] = monotone(releases)
        known = all(release.universe for release in releases)
        densities = self.fitted.densities if known else [None] * len(rows)
        points = list(zip(rows, releases, densities, self.fitted.counts, strict=True))
        super().__init__({} if group is ALL else {"group": group})
        self["monotone"] = [_point(*point) for point in points]
        self._title = f"{'' if group is ALL else f'{group}: '}monotone curve through {counted(len(rows), 'release')}"
        self._lines = [(row.when, *_shown_point(density, count)) for row, _, density, count in points]

    def __str__(self) -> str:
        lines = (f"{when}: {'; '.join(said)}" for when, *said in self._lines)
        return "\n".join([f"{self._title}, at no cost of epsilon:", *lines])

    def __rich__(self) -> "Table":
        from rich.table import Table

        table = Table(title=self._title, show_header=False)
        for line in self._lines:
            table.add_row(*line)
        return table


def _point(row: Dated, release: Any, density: float | None, count: float) -> dict[str, Any]:
    released = as_fields(release)
    raw = {row.named: row[row.named]} | {name: released[name] for name in ("number", "density", "count")}
    return raw | {"monotone_density": density, "monotone_count": count}


def _shown_point(density: float | None, count: float) -> list[str]:
    users = f"users {count:,.0f}"
    return [users] if density is None else [f"density {density:.4f}", users]


@dataclass
class Published:
    """Collects what a series releases; when it is over, shows the curve through it, and draws both if that was asked.

    The curve is fitted to all releases of this command: the next one moves earlier points, so it is shown at the end.
    Groups have a curve each, of which people see some. Where events are read that delete users, the truth may fall, and
    there is no curve; nor is there one through a cohort and those of it who came back.
    """

    speaker: Speaker
    picture: str | None = None
    deletions: bool = False
    rows: list[Dated] = field(default_factory=list)

    def close(self, est: "Estimator[Any]", audited: Audited | None = None) -> None:
        """Show the curve, and what ends the series if something does; draw the picture."""
        curves, left_out = ({}, 0) if self.deletions or isinstance(est, Retention) else self._curves()
        if self.speaker.as_json or len(self.rows) > 1:
            for curve in curves.values():
                self.speaker.answer(curve)
            if left_out:
                self.speaker.note(f"{counted(left_out, 'more group')}, whose curves --json prints")
        if audited is not None:
            self.speaker.close(audited)
        note_noise_of_series([row.release for row in self.rows], self.speaker)
        if self.picture is not None and self.rows:
            fitted = {group: curve.fitted for group, curve in curves.items()}
            draw(self.rows, fitted, self.picture, est, audited or Audited(est), falls=self.deletions)

    def _curves(self) -> tuple[dict[str | None, Curve], int]:
        """Those of groups, and at last that of all; of many groups people see some, and how many were left out."""
        series = by_group([row.release for row in self.rows])
        groups = [group for group in series if group is not ALL]
        fitted = groups if self.speaker.as_json else groups[:MOST_SHOWN]
        curves = {group: Curve(self.rows, series[group], group) for group in [*fitted, ALL] if group in series}
        return curves, len(groups) - len(fitted)


def shown(moment: int) -> str:
    """A moment as people read it, without its midnight.

    >>> shown(0), shown(1_000_000)
    ('1970-01-01', '1970-01-01 00:00:01')
    """
    return f"{as_datetime(moment):%Y-%m-%d %H:%M:%S}".removesuffix(" 00:00:00")

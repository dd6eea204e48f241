"""A series of releases as a picture: its words, and the line under it that says what it cost."""

from collections.abc import Mapping, Sequence
from typing import Any

from panprivacy.cli.published import UNTIL, Audited, Dated, by_group
from panprivacy.estimates import MonotoneCurve
from panprivacy.estimates.plots import COLOURS, SeriesWords, draw_series, zone_name
from panprivacy.estimators.base import Estimator
from panprivacy.estimators.counts import Counts
from panprivacy.estimators.density import Density
from panprivacy.privacy.budget import and_delta
from panprivacy.units import counted
from panprivacy.universe import Edges


def draw(
    rows: Sequence[Dated],
    fitted: Mapping[str | None, MonotoneCurve[Any]],
    path: str,
    est: Estimator[Any],
    audited: Audited,
    *,
    falls: bool = False,
) -> None:
    """Draw what was released, and the curves through it; the line of the audit is under them.

    Where users were deleted, and for means of `Counts`, there is no curve, and the points are joined.
    """
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
        notes=(str(audited),),
    )
    draw_series(series, fitted, [row.time for row in rows], words, path)

"""`panprivacy actives`: how many users were active in the last day, week and month, every day?"""

from typing import Annotated, Any

import typer

from panprivacy.actives import ActiveUsers
from panprivacy.cli import options as opt
from panprivacy.cli.days import Days
from panprivacy.cli.plainly import Speaker, plain_errors
from panprivacy.cli.rows import TimeOptions
from panprivacy.cli.run import Run, continued_or_new, kept_in, planned, prepare, refuse_another
from panprivacy.cli.source import source_of
from panprivacy.cli.timed import parsed_moment
from panprivacy.cli.universe import Asked, which_column
from panprivacy.drawing import check_picture
from panprivacy.events import STDIN, Layout
from panprivacy.periods import SECOND, as_datetime, length_of, told_length
from panprivacy.release.period_pictures import draw_actives
from panprivacy.state import StateFile
from panprivacy.universe import Universe


def actives(
    files: opt.Files,
    column: opt.Column = None,
    time: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Column of times, by which days go; a pipe without one goes by the clock.",
            rich_help_panel=opt.EVENTS,
        ),
    ] = None,
    late: opt.Late = None,
    early: opt.Early = None,
    ahead: opt.Ahead = None,
    skip_missing: opt.SkipMissing = False,
    skip_outside: opt.SkipOutside = False,
    format_: opt.FileFormat = None,
    separator: opt.Separator = ",",
    no_header: opt.NoHeader = False,
    missing: opt.Missing = None,
    universe: opt.Universe = None,
    universe_file: opt.UniverseFile = None,
    epsilon: Annotated[
        float | None,
        typer.Option(
            "--epsilon",
            "-e",
            help="Privacy budget of a cycle, which is as long as the span; 1 is usual, less is safer.",
            rich_help_panel=opt.BUDGET,
        ),
    ] = None,
    delta: opt.Delta = None,
    span: Annotated[
        str | None,
        typer.Option(
            metavar="28d", help="The longest time that is asked about. Default: 28d.", rich_help_panel=opt.BUDGET
        ),
    ] = None,
    every: Annotated[
        str | None,
        typer.Option(metavar="1d", help="How long a day lasts: 1d, 12h, 1h. Default: 1d.", rich_help_panel=opt.BUDGET),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="When the first day starts, such as 2026-01-05; without --time, by default, last midnight (UTC).",
            rich_help_panel=opt.BUDGET,
        ),
    ] = None,
    state: opt.State = None,
    release: Annotated[
        bool | None,
        typer.Option(
            "--release/--no-release",
            help="End the last day when all events are counted, or not. Default: yes, but no with --state.",
        ),
    ] = None,
    plot: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Draw the shares over time as a picture: .png, .svg or .pdf."),
    ] = None,
    level: opt.Level = 0.95,
    as_json: opt.Json = False,
    threads: opt.Threads = None,
    quiet: opt.Quiet = False,
) -> None:
    """Estimate at the end of every day how many users were active in the last 1, 2, ... days.

    Example: [bold]panprivacy actives visits.csv -c patient --time when --start 2026-01-05 -n 1000000 -e 1[/bold]

    FILE is one file or more, a glob in quotes, or - for standard input. Rows of files come in order of days, and in any
    order within a day. Of a pipe the clock ends days, unless --ahead says that rows do.
    """
    asked = Asked(column, None, universe, universe_file, None, False)
    prepare(files, quiet=quiet, threads=threads)
    with plain_errors(), kept_in(state) as kept:
        if plot is not None:
            check_picture(plot)
        if time is None and files != [STDIN]:
            raise ValueError("which column holds the times? Say --time NAME")
        users, kind = asked.universe()
        wanted = {
            "estimator": "ActiveUsers",
            "universe": users and users.describe(),
            "epsilon": epsilon,
            "delta": delta,
        }
        more = {"epsilon": epsilon, "delta": delta, "span": span, "every": every}
        first = None if start is None else parsed_moment("--start", start)
        est = continued_or_new(kept, users, wanted, lambda: _new(users, more, first, level, clock=time is None))
        assert isinstance(est, ActiveUsers)
        _check_days(kept, est, span, every, first)
        run = Run(est, kept, level, Speaker(as_json=as_json, quiet=quiet), delta=delta)
        layout = Layout(separator, not no_header, tuple(missing or ()))
        columns = asked.columns(est.universe, kind, None, lambda: which_column(files, format_, layout))
        source = source_of(files, columns, format_, layout, skip_missing, skip_outside)
        times = TimeOptions(late, early, ahead)
        if time is None and times.given:
            raise ValueError(f"{' and '.join(times.given)}: about the times of rows; say --time NAME")
        days = Days(run, est, times.policy(live=files == [STDIN], in_own_period=True))
        days.feed(source, time, end=release if release is not None else kept is None)
        if plot is not None:
            draw_actives(days.released, plot)


def _check_days(
    kept: StateFile | None, est: ActiveUsers, span: str | None, every: str | None, start: int | None
) -> None:
    """Refuse to go on with a state whose days are others than those asked for, however they are spelled."""
    length = length_of(est.every)
    found = {"span": told_length(est.days * length), "every": told_length(length), "start": est.start}
    asked = {
        "span": None if span is None else told_length(length_of(span)),
        "every": None if every is None else told_length(length_of(every)),
        "start": None if start is None else as_datetime(start),
    }
    refuse_another(kept, found, asked)


def _new(users: Universe | None, more: dict[str, Any], start: int | None, level: float, *, clock: bool) -> ActiveUsers:
    if users is None:
        raise ValueError("who could appear? Say --universe N, or --universe-file FILE")
    if start is None:
        if not clock:
            raise ValueError("when does the first day start? Say --start YYYY-MM-DD, the day of the first event")
        start = Days.last_midnight()
    return ActiveUsers(users, **planned(more), start=start / SECOND, level=level)

"""`panprivacy retention`: how many of those in these files are in later files again?"""

from dataclasses import replace
from typing import Annotated, Any

import typer

from panprivacy.cli import options as opt
from panprivacy.cli.plainly import Speaker, plain_errors
from panprivacy.cli.rows import TimeOptions
from panprivacy.cli.run import Run, continued_or_new, kept_in, planned, prepare, refuse_another
from panprivacy.cli.series import feed_series
from panprivacy.cli.source import Events, Files, source_of
from panprivacy.cli.universe import Asked, which_column
from panprivacy.drawing import check_picture
from panprivacy.errors import PanPrivacyError
from panprivacy.events import Layout
from panprivacy.retention import Retention
from panprivacy.universe import Universe


def retention(
    files: opt.Files,
    then: Annotated[
        list[str] | None,
        typer.Option(
            "--then",
            metavar="FILE",
            help="Events of the second period. Given again, later ones of it: each is followed by a release.",
        ),
    ] = None,
    column: opt.Column = None,
    skip_missing: opt.SkipMissing = False,
    skip_outside: opt.SkipOutside = False,
    format_: opt.FileFormat = None,
    separator: opt.Separator = ",",
    no_header: opt.NoHeader = False,
    missing: opt.Missing = None,
    universe: opt.Universe = None,
    universe_file: opt.UniverseFile = None,
    epsilon: opt.Epsilon = None,
    delta: opt.Delta = None,
    releases: Annotated[
        int | None,
        typer.Option(
            help="How many releases of the second period are planned. Default: as many as there are --then, or 1.",
            rich_help_panel=opt.BUDGET,
        ),
    ] = None,
    newcomers: Annotated[
        bool,
        typer.Option(
            "--newcomers",
            help="Ask rather who is in the second period only: the smaller error is then theirs.",
            rich_help_panel=opt.BUDGET,
        ),
    ] = False,
    state: opt.State = None,
    release: opt.MakeRelease = None,
    release_every: opt.ReleaseEvery = None,
    time: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[@START]",
            help="Column of times, which cut the events into periods of --release-every: the first, from START on, is "
            "that of the cohort, and each later one ends with a release.",
        ),
    ] = None,
    late: opt.Late = None,
    early: opt.Early = None,
    ahead: opt.Ahead = None,
    plot: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Draw who came back by each release as a picture: .png, .svg or .pdf."),
    ] = None,
    level: opt.Level = 0.95,
    as_json: opt.Json = False,
    threads: opt.Threads = None,
    quiet: opt.Quiet = False,
) -> None:
    """Estimate how many users of a first period came back in a second one.

    Example: [bold]panprivacy retention january.csv --then february.csv -c patient -n 1000000 -e 1[/bold]

    From times: [bold]panprivacy retention visits.csv --time visited@2026-01-05 --release-every 7d -c patient ...[/bold]

    FILE is one file or more, a glob in quotes, or - for standard input. With --state, a release in the first period
    is of the cohort and ends it: what comes after it is of the second.
    """
    asked = Asked(column, None, universe, universe_file, None, False)
    prepare(files, quiet=quiet, threads=threads)
    with plain_errors(), kept_in(state) as kept:
        if plot is not None:
            check_picture(plot)
        users, kind = asked.universe()
        plan: dict[str, Any] = {"epsilon": epsilon, "releases": releases or (len(then) if then else None)}
        wanted = {"estimator": "Retention", "universe": users and users.describe(), "epsilon": epsilon, "delta": delta}
        more = {"delta": delta, "newcomers": newcomers}
        est = continued_or_new(kept, users, wanted, lambda: _new(users, plan, more))
        assert isinstance(est, Retention)
        refuse_another(kept, {"releases": est.budget.releases - 1}, {"releases": releases})  # the cohort has one more
        if newcomers and est.asked == "returned":
            raise PanPrivacyError(f"{state}: this state asks who came back: leave --newcomers out")
        run = Run(est, kept, level, Speaker(as_json=as_json, quiet=quiet), delta=delta)
        layout = Layout(separator, not no_header, tuple(missing or ()))
        columns = asked.columns(est.universe, kind, None, lambda: which_column(files, format_, layout))
        source = source_of(files, columns, format_, layout, skip_missing, skip_outside)
        if then:
            if time is not None or release_every is not None:
                raise ValueError("--then FILE is the second period: leave --time and --release-every out")
            _both_periods(run, source, then, closed=est.closed)
        elif kept is None and isinstance(source, Files) and time is None:
            raise ValueError(
                "what is the second period? Say --then FILE, or --time NAME@START --release-every 7d, or keep the "
                "first in a --state FILE"
            )
        else:
            times = TimeOptions(late, early, ahead)
            feed_series(run, source, release, time=time, every=release_every, picture=None, rows=times)
        if plot is not None:
            est.plot(plot)


def _both_periods(run: Run, first: Events, then: list[str], *, closed: bool) -> None:
    """Count the first period and end it; then count each part of the second, and release after it."""
    if closed:
        raise PanPrivacyError("the first period of this state is over: name the files of the second without --then")
    if not isinstance(first, Files):
        raise PanPrivacyError("from a pipe, a release ends the first period: leave --then out")
    if run.left <= len(then):
        raise ValueError(f"{len(then)} times --then take as many planned releases: say --releases {len(then)}")
    run.count(first)
    run.spend()  # the cohort is shown with those who came back
    for file in then:
        run.count(replace(first, files=[file]))
        run.release()


def _new(users: Universe | None, plan: dict[str, Any], more: dict[str, Any]) -> Retention:
    if users is None:
        raise ValueError("who could appear? Say --universe N, or --universe-file FILE")
    return Retention(users, **planned(plan), **more)

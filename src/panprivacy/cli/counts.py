"""`panprivacy counts`: how often do the users of a known universe appear in these files?"""

from typing import Annotated, Any, Literal

import typer

from panprivacy.cli import options as opt
from panprivacy.cli.plainly import Speaker, plain_errors
from panprivacy.cli.run import Run, continued_or_new, kept_in, planned, prepare
from panprivacy.cli.source import Source
from panprivacy.cli.universe import Asked, which_column
from panprivacy.counts import Counts
from panprivacy.drawing import check_picture
from panprivacy.errors import PanPrivacyError
from panprivacy.estimator import Estimator
from panprivacy.events import Layout
from panprivacy.universe import Universe


def counts(
    files: opt.Files,
    column: opt.Column = None,
    skip_missing: opt.SkipMissing = False,
    skip_outside: Annotated[
        bool,
        typer.Option(
            "--skip-outside",
            help="Leave out rows whose user is not in the universe; they are not counted anywhere.",
            rich_help_panel=opt.EVENTS,
        ),
    ] = False,
    format_: opt.FileFormat = None,
    separator: opt.Separator = ",",
    no_header: opt.NoHeader = False,
    missing: opt.Missing = "",
    universe: Annotated[
        int | None,
        typer.Option(
            "--universe",
            "-n",
            metavar="N",
            help="The universe is N users, whose ids are the numbers 0 to N-1.",
            rich_help_panel=opt.BUDGET,
        ),
    ] = None,
    universe_file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE[:COLUMN]",
            help="The universe is the users listed in this file, whose ids may be numbers or text.",
            rich_help_panel=opt.BUDGET,
        ),
    ] = None,
    epsilon: opt.Epsilon = None,
    up_to: Annotated[
        int | None,
        typer.Option(
            metavar="T",
            help="How many appearances of a user count, 2 to 256; more of them err more. Default: 8.",
            rich_help_panel=opt.BUDGET,
        ),
    ] = None,
    only: Annotated[
        Literal["mean"] | None,
        typer.Option(
            metavar="mean",
            help="Release the mean alone, which errs less in small universes.",
            rich_help_panel=opt.BUDGET,
        ),
    ] = None,
    releases: opt.Releases = None,
    delta: opt.Delta = None,
    state: opt.State = None,
    release: opt.MakeRelease = None,
    release_every: opt.ReleaseEvery = None,
    plot: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Draw the last released shares as a picture: .png, .svg or .pdf."),
    ] = None,
    level: opt.Level = 0.95,
    as_json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Estimate how often users appear in events: at least once, twice, ... T times, and on average.

    Example: [bold]panprivacy counts visits.csv --column patient --universe 1000000 --epsilon 1 --up-to 4[/bold]

    FILE is one file or more, a glob in quotes, such as 'visits/*.parquet', or - for standard input. Rows that are
    fed twice count twice: a state file has all rows of a command, or none if it fails.
    """
    asked = Asked(column, None, universe, universe_file, None, False)
    prepare(files, quiet=quiet)
    with plain_errors(), kept_in(state) as kept:
        if plot is not None:
            _check_plot(plot, only)
        users, kind = asked.universe()
        plan = {"epsilon": epsilon, "releases": releases, "delta": delta}
        wanted = {"estimator": "Counts", "universe": users and users.describe(), **plan}
        size: dict[str, Any] = {"up_to": up_to, "only": only}
        est = continued_or_new(kept, users, wanted, lambda: _new(users, plan, size))
        _check_size(est, size)
        run = Run(est, kept, level, Speaker(as_json=as_json, quiet=quiet))
        layout = Layout(separator, not no_header, missing)
        columns = asked.columns(est.universe, kind, None, lambda: which_column(files, format_, layout))
        run.feed(Source(files, columns, format_, layout, skip_missing, skip_outside), release_every, release)
        if plot is not None:
            _draw(est, plot)


def _new(users: Universe | None, plan: dict[str, Any], size: dict[str, Any]) -> Counts:
    if users is None:
        raise ValueError("who could appear? Say --universe N, or --universe-file FILE")
    return Counts(users, **planned(plan), **{name: value for name, value in size.items() if value is not None})


def _check_size(est: Estimator[Any], size: dict[str, Any]) -> None:
    """Refuse to go on with a state that counts otherwise than was asked for."""
    for name, wanted in size.items():
        found = getattr(est, name)
        if wanted is not None and wanted != found:
            raise PanPrivacyError(f"this state has {name} {found}, and {wanted} was asked for")


def _check_plot(plot: str, only: str | None) -> None:
    check_picture(plot)
    if only:
        raise ValueError("--plot draws shares, and --only mean releases none")


def _draw(est: Estimator[Any], plot: str) -> None:
    from panprivacy.cli.bars import draw

    if est.last is None or not est.last.at_least:
        raise PanPrivacyError(f"there is no release of shares to draw in {plot}; --release makes one")
    draw(est.last, plot)

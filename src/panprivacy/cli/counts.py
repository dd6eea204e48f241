"""`panprivacy counts`: how often do the users of a known universe appear in these files?"""

from dataclasses import replace
from typing import Annotated, Any, Literal

import typer

from panprivacy.cli import options as opt
from panprivacy.cli.folders import name_batch
from panprivacy.cli.groups import ByCategory
from panprivacy.cli.plainly import Speaker, plain_errors
from panprivacy.cli.regularly import Regularly
from panprivacy.cli.run import Run, continued_or_new, kept_anywhere, planned, prepare, refuse_another
from panprivacy.cli.source import source_of
from panprivacy.cli.universe import Asked, which_column
from panprivacy.counts import Counts
from panprivacy.drawing import check_picture
from panprivacy.errors import PanPrivacyError
from panprivacy.events import Layout
from panprivacy.universe import Universe


def counts(
    files: opt.Files,
    column: opt.Column = None,
    by: opt.By = None,
    categories: opt.CategoryList = None,
    other: opt.Other = False,
    skip_missing: opt.SkipMissing = False,
    skip_outside: opt.SkipOutside = False,
    unlisted: opt.Unlisted = None,
    format_: opt.FileFormat = None,
    separator: opt.Separator = ",",
    no_header: opt.NoHeader = False,
    missing: opt.Missing = None,
    universe: opt.Universe = None,
    universe_file: opt.UniverseFile = None,
    group: opt.Group = None,
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
    shards: opt.Shards = None,
    batch: opt.Batch = None,
    release: opt.MakeReleaseUntimed = None,
    release_every: opt.ReleaseEvery = None,
    plot: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Draw the last released shares, or the means of groups: .png, .svg or .pdf."),
    ] = None,
    level: opt.Level = 0.95,
    as_json: opt.Json = False,
    threads: opt.Threads = None,
    quiet: opt.Quiet = False,
) -> None:
    """Estimate how often users appear in events: at least once, twice, ... T times, and on average.

    Example: [bold]panprivacy counts visits.csv --column patient --universe 1000000 --epsilon 1 --up-to 4[/bold]

    Groups: [bold]--by clinic --categories north,south[/bold], or [bold]--universe-file FILE:ID --group region[/bold].

    FILE is one file or more, a glob in quotes, such as 'visits/*.parquet', or - for standard input. Rows that are
    fed twice count twice: a state file has all rows of a command, or none if it fails. In a state folder, say --batch.
    """
    asked = Asked(column, None, universe, universe_file, None, False, group)
    prepare(files, quiet=quiet, threads=threads)
    with plain_errors(), kept_anywhere(state, shards) as kept:
        if plot is not None:
            check_picture(plot)
        users, kind = asked.universe()
        plan = {"epsilon": epsilon, "releases": releases, "delta": delta}
        wanted = {"estimator": "Counts", "universe": users and users.describe(), **plan}
        size: dict[str, Any] = {"up_to": up_to, "only": only}
        kinds = ByCategory(by, categories, other)
        series = Regularly(release_every, files=files)
        est = continued_or_new(kept, users, wanted, lambda: _new(users, series.planned(plan), size | kinds.arguments()))
        assert isinstance(est, Counts)
        kinds.check(est)
        refuse_another(kept, {"up_to": est.up_to, "only": est.only or "nothing"}, size)
        if plot is not None and est.only and not est.groups:
            raise ValueError("--plot draws shares, and --only mean releases none")
        run = Run(est, kept, level, Speaker(as_json=as_json, quiet=quiet), delta=delta)
        name_batch(kept, batch, files, run.speaker)
        layout = Layout(separator, not no_header, tuple(missing or ()))
        named = asked.columns(est.universe, kind, None, lambda: which_column(files, format_, layout))
        columns = replace(named, category=by)
        run.feed(
            source_of(files, columns, format_, layout, skip_missing, skip_outside, unlisted), release_every, release
        )
        if plot is not None:
            _draw(est, plot)


def _new(users: Universe | None, plan: dict[str, Any], size: dict[str, Any]) -> Counts:
    if users is None:
        raise ValueError("who could appear? Say --universe N, or --universe-file FILE")
    return Counts(users, **planned(plan), **{name: value for name, value in size.items() if value is not None})


def _draw(est: Counts, plot: str) -> None:
    """Draw the last release: the means of its groups, or, where there are none, its shares."""
    from panprivacy.cli.bars import draw

    if est.last is None:
        raise PanPrivacyError(f"there is no release to draw in {plot}; --release makes one")
    if est.groups:
        est.last.plot(plot)
    else:
        draw(est.last, plot)

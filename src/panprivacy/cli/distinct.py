"""`panprivacy distinct`: how many different users are in these files, whoever they are?"""

from typing import Annotated, Any

import typer

from panprivacy.cli import options as opt
from panprivacy.cli.groups import ByCategory
from panprivacy.cli.plainly import Speaker, plain_errors
from panprivacy.cli.regularly import Regularly
from panprivacy.cli.rows import TimeOptions
from panprivacy.cli.run import Run, continued_or_new, kept_anywhere, prepare
from panprivacy.cli.series import feed_series
from panprivacy.cli.sizing import Buckets, DistinctSize, Error, Key
from panprivacy.cli.source import source_of
from panprivacy.cli.universe import which_column
from panprivacy.events import STDIN, Columns, Kind, Layout


def distinct(
    files: opt.Files,
    column: opt.Column = None,
    ids: Annotated[
        Kind | None,
        typer.Option(
            metavar="KIND",
            help="What ids are: integers or text. Default: what the first file has; a pipe must be told.",
            rich_help_panel=opt.EVENTS,
        ),
    ] = None,
    by: opt.By = None,
    categories: opt.CategoryList = None,
    other: opt.Other = False,
    skip_missing: opt.SkipMissing = False,
    unlisted: opt.Unlisted = None,
    format_: opt.FileFormat = None,
    separator: opt.Separator = ",",
    no_header: opt.NoHeader = False,
    missing: opt.Missing = None,
    epsilon: opt.Epsilon = None,
    error: Error = None,
    buckets: Buckets = None,
    releases: opt.Releases = None,
    intrusions: opt.Intrusions = None,
    delta: opt.Delta = None,
    key: Key = None,
    state: opt.State = None,
    shards: opt.Shards = None,
    release: opt.MakeRelease = None,
    release_every: opt.ReleaseEvery = None,
    time: opt.Time = None,
    late: opt.Late = None,
    early: opt.Early = None,
    ahead: opt.Ahead = None,
    plot: opt.Plot = None,
    level: opt.Level = 0.95,
    as_json: opt.Json = False,
    threads: opt.Threads = None,
    quiet: opt.Quiet = False,
) -> None:
    """Estimate how many different users appear in events; nobody has to know beforehand who they could be.

    Example: [bold]panprivacy distinct visits.csv --column patient --epsilon 1 --error 0.02[/bold]

    Groups: [bold]--by clinic --categories north,south[/bold].
    For a series, add: [bold]--releases 52 --release-every 7d --time visited --plot series.png[/bold]

    FILE is one file or more, a glob in quotes, such as 'visits/*.parquet', or - for standard input.
    """
    prepare(files, quiet=quiet, threads=threads)
    with plain_errors(), kept_anywhere(state, shards) as kept:
        layout = Layout(separator, not no_header, tuple(missing or ()))
        if column is None:
            raise which_column(files, format_, layout)
        plan = {"epsilon": epsilon, "releases": releases, "intrusions": intrusions, "delta": delta}
        size = DistinctSize(error, buckets, key)
        kinds = ByCategory(by, categories, other)
        series = Regularly(release_every, time, files, format_, layout)
        est = continued_or_new(
            kept,
            None,
            {"estimator": "DistinctCount", **plan},
            lambda: size.new(series.planned(plan), kinds.arguments()),
        )
        kinds.check(est)
        if kept is not None:
            size.check(est)
        kind = declared(est, ids)
        if kind is None and files == [STDIN]:
            raise ValueError(
                "are ids integers or text? No row of a pipe decides that: say --ids integers, or --ids text"
            )
        columns = Columns((column,), kind, category=by)
        source = source_of(files, columns, format_, layout, skip_missing, unlisted=unlisted)
        picture = kinds.picture(plot, release_every)
        run = Run(est, kept, level, Speaker(as_json=as_json, quiet=quiet), picture, by, delta)
        feed_series(
            run,
            source,
            release,
            time=time,
            every=release_every,
            picture=plot if release_every else None,
            rows=TimeOptions(late, early, ahead),
        )


def declared(est: Any, asked: Kind | None) -> Kind | None:
    """What ids are, if --ids or the state says it; the state keeps what --ids says."""
    if asked is not None:
        est.declare_ids(asked.value)
    return Kind(est.ids) if est.ids is not None else None

"""`panprivacy distinct`: how many different users are in these files, whoever they are?"""

import re
from typing import Annotated, Any

import typer

from panprivacy.cli import options as opt
from panprivacy.cli.groups import ByCategory
from panprivacy.cli.plainly import Speaker, plain_errors
from panprivacy.cli.run import Run, continued_or_new, kept_anywhere, plan_of, planned, prepare
from panprivacy.cli.series import feed_series
from panprivacy.cli.source import Source
from panprivacy.cli.universe import which_column
from panprivacy.distinct import DistinctCount
from panprivacy.errors import PanPrivacyError
from panprivacy.events import Columns, Kind, Layout


def distinct(
    files: opt.Files,
    column: opt.Column = None,
    ids: Annotated[
        Kind | None,
        typer.Option(
            metavar="KIND",
            help="What ids are: integers or text. Default: what the first file has.",
            rich_help_panel=opt.EVENTS,
        ),
    ] = None,
    by: opt.By = None,
    categories: opt.CategoryList = None,
    other: opt.Other = False,
    skip_missing: opt.SkipMissing = False,
    format_: opt.FileFormat = None,
    separator: opt.Separator = ",",
    no_header: opt.NoHeader = False,
    missing: opt.Missing = "",
    epsilon: opt.Epsilon = None,
    error: Annotated[
        float | None,
        typer.Option(
            help="Relative standard error to reach, such as 0.02; the smaller, the more memory.",
            rich_help_panel=opt.BUDGET,
        ),
    ] = None,
    buckets: Annotated[
        int | None,
        typer.Option(
            help="Buckets in each level of the sketch, instead of --error. Default: 4096.", rich_help_panel=opt.BUDGET
        ),
    ] = None,
    releases: opt.Releases = None,
    intrusions: opt.Intrusions = None,
    delta: opt.Delta = None,
    key: Annotated[
        str | None,
        typer.Option(
            metavar="HEX",
            help="Key of 32 hexadecimal digits; states can be merged if they were made with the same key.",
            rich_help_panel=opt.BUDGET,
        ),
    ] = None,
    state: opt.State = None,
    shards: opt.Shards = None,
    release: opt.MakeRelease = None,
    release_every: opt.ReleaseEvery = None,
    time: opt.Time = None,
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
        if column is None:
            raise which_column(files, format_, Layout(separator, not no_header, missing))
        plan = {"epsilon": epsilon, "releases": releases, "intrusions": intrusions, "delta": delta}
        size: dict[str, Any] = {"error": error, "buckets": buckets, "key": _parse_key(key)}
        kinds = ByCategory(by, categories, other)
        est = continued_or_new(
            kept,
            None,
            {"estimator": "DistinctCount", **plan},
            lambda: DistinctCount(**planned(plan), **size, **kinds.arguments()),
        )
        kinds.check(est)
        if kept is not None:
            _check_size(est, size)
        columns = Columns((column,), declared(est, ids), category=by)
        source = Source(files, columns, format_, Layout(separator, not no_header, missing), skip_missing)
        run = Run(est, kept, level, Speaker(as_json=as_json, quiet=quiet), kinds.picture(plot, release_every), by)
        feed_series(run, source, release, time=time, every=release_every, picture=plot if release_every else None)


def declared(est: Any, asked: Kind | None) -> Kind | None:
    """What ids are, if --ids or the state says it; the state keeps what --ids says."""
    if asked is not None:
        est.declare_ids(asked.value)
    return Kind(est.ids) if est.ids is not None else None


def _parse_key(text: str | None) -> bytes | None:
    if text is not None and not re.fullmatch("[0-9a-fA-F]{32}", text):
        raise ValueError(f"key {text!r} is not 32 hexadecimal digits; make one with: openssl rand -hex 16")
    return bytes.fromhex(text) if text is not None else None


def _check_size(est: Any, size: dict[str, Any]) -> None:
    """Refuse to go on with a state that has other buckets, or another key, than was asked for."""
    if size["error"] is not None or size["buckets"] is not None:
        fresh = DistinctCount(**planned(plan_of(est)), **size)
        if fresh.buckets != est.buckets:
            raise PanPrivacyError(f"this state has {est.buckets:,} buckets, and {fresh.buckets:,} were asked for")
    if size["key"] not in (None, est.universe.key):
        raise PanPrivacyError("this state has another key than was asked for")

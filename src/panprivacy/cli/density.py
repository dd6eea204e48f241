"""`panprivacy density`: which share of a known universe is in these files?"""

import re
from dataclasses import replace
from typing import Annotated, Any

import typer

from panprivacy.cli import options as opt
from panprivacy.cli.groups import ByCategory
from panprivacy.cli.plainly import Speaker, plain_errors
from panprivacy.cli.run import Run, continued_or_new, kept_anywhere, plan_of, planned, prepare
from panprivacy.cli.series import feed_series
from panprivacy.cli.source import Source
from panprivacy.cli.universe import Asked, which_column
from panprivacy.density import Density
from panprivacy.errors import PanPrivacyError
from panprivacy.events import Layout
from panprivacy.universe import Universe


def density(
    files: opt.Files,
    column: opt.Column = None,
    edges: Annotated[
        str | None,
        typer.Option(
            metavar="SRC,DST",
            help="Columns of the two ends of an edge, instead of --column: the users are edges of a graph.",
            rich_help_panel=opt.EVENTS,
        ),
    ] = None,
    action: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Column that says of each row whether it inserts or deletes the user.",
            rich_help_panel=opt.EVENTS,
        ),
    ] = None,
    by: opt.By = None,
    categories: opt.CategoryList = None,
    other: opt.Other = False,
    skip_missing: opt.SkipMissing = False,
    skip_outside: opt.SkipOutside = False,
    format_: opt.FileFormat = None,
    separator: opt.Separator = ",",
    no_header: opt.NoHeader = False,
    missing: opt.Missing = "",
    universe: opt.Universe = None,
    universe_file: opt.UniverseFile = None,
    group: opt.Group = None,
    nodes: Annotated[
        str | None,
        typer.Option(
            metavar="N|FILE",
            help="The universe is all edges between the nodes 0 to N-1, or between the nodes listed in a file.",
            rich_help_panel=opt.BUDGET,
        ),
    ] = None,
    directed: Annotated[
        bool,
        typer.Option(
            "--directed", help="Edges have a direction: 1,2 and 2,1 are two of them.", rich_help_panel=opt.BUDGET
        ),
    ] = False,
    epsilon: opt.Epsilon = None,
    sample: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Track a random sample of N users. Default: all of them.", rich_help_panel=opt.BUDGET
        ),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help='Track a random sample of as many users as fit in this, such as "16 KiB".',
            rich_help_panel=opt.BUDGET,
        ),
    ] = None,
    releases: opt.Releases = None,
    intrusions: opt.Intrusions = None,
    delta: opt.Delta = None,
    shard: Annotated[
        str | None,
        typer.Option(
            metavar="I/N[:KEY]",
            help="Count only part I of the users, who are cut into parts 0 to N-1; merge joins the parts.",
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
    quiet: opt.Quiet = False,
) -> None:
    """Estimate which share of the users that there could be appears in events.

    Example: [bold]panprivacy density visits.csv --column patient --universe 1000000 --epsilon 1[/bold]

    Groups: [bold]--by clinic --categories north,south[/bold], or [bold]--universe-file FILE:ID --group region[/bold].
    For a series, add: [bold]--releases 52 --release-every 7d --time visited --plot series.png[/bold]

    FILE is one file or more, a glob in quotes, such as 'visits/*.parquet', or - for standard input.
    """
    asked = Asked(column, edges, universe, universe_file, nodes, directed, group)
    prepare(files, quiet=quiet)
    with plain_errors(), kept_anywhere(state, shards) as kept:
        users, kind = asked.universe()
        plan = {"epsilon": epsilon, "releases": releases, "intrusions": intrusions, "delta": delta}
        wanted = {"estimator": "Density", "universe": users and users.describe(), **plan}
        part, key = _parse_shard(shard)
        size = {"sample": sample, "memory": memory, "shard": part, "key": key}
        kinds = ByCategory(by, categories, other)
        est = continued_or_new(kept, users, wanted, lambda: _new(users, plan, size | kinds.arguments()))
        kinds.check(est)
        if kept is not None:
            _check_size(est, size)
        run = Run(
            est, kept, level, Speaker(as_json=as_json, quiet=quiet), kinds.picture(plot, release_every), by or group
        )
        layout = Layout(separator, not no_header, missing)
        named = asked.columns(est.universe, kind, action, lambda: which_column(files, format_, layout))
        columns = replace(named, category=by)
        source = Source(files, columns, format_, layout, skip_missing, skip_outside)
        feed_series(run, source, release, time=time, every=release_every, picture=plot if release_every else None)


def _new(users: Universe | None, plan: dict[str, Any], size: dict[str, Any]) -> Density:
    if users is None:
        raise ValueError("who could appear? Say --universe N, --universe-file FILE, or --edges SRC,DST --nodes N")
    return Density(users, **planned(plan), **size)


def _check_size(est: Any, size: dict[str, Any]) -> None:
    """Refuse to go on with a state that has another sample or shard than was asked for."""
    if any(value is not None for value in size.values()):
        kinds = est.categories
        listed = {} if kinds is None else {"categories": kinds.labels}
        fresh = Density(est.universe, **planned(plan_of(est)), **size, **listed)
        if (fresh._slots.first, fresh._slots.size) != (est._slots.first, est._slots.size):
            raise PanPrivacyError(
                f"this state has bits {est._slots.first}..{est._slots.first + est._slots.size - 1}, and a table of "
                f"{fresh._slots.size:,} bits from {fresh._slots.first} on was asked for"
            )


def _parse_shard(text: str | None) -> tuple[tuple[int, int] | None, bytes | None]:
    """Read ``0/4`` or ``0/4:`` and the 32 hexadecimal digits of a key."""
    if text is None:
        return None, None
    match = re.fullmatch(r"([0-9]+)/([0-9]+)(?::([0-9a-fA-F]{32}))?", text)
    if not match:
        raise ValueError(f"shard {text!r} is not understood; write it like 0/4, or 0/4:KEY with 32 hexadecimal digits")
    return (int(match[1]), int(match[2])), bytes.fromhex(match[3]) if match[3] else None

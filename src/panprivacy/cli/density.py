"""`panprivacy density`: which share of a known universe is in these files?"""

import re
from typing import Annotated, Any

import typer

from panprivacy.cli import options as opt
from panprivacy.cli.plainly import Speaker, plain_errors
from panprivacy.cli.run import Run, Source, continued_or_new, kept_in, planned, prepare
from panprivacy.cli.series import series_of
from panprivacy.cli.universe import Asked
from panprivacy.density import Density
from panprivacy.errors import PanPrivacyError
from panprivacy.events import Layout
from panprivacy.universe import Universe


def density(
    files: opt.Files,
    column: opt.Column = None,
    edges: Annotated[
        str | None,
        typer.Option(metavar="SRC,DST", help="Two columns instead, for a graph.", rich_help_panel=opt.EVENTS),
    ] = None,
    action: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Column that says insert or delete.", rich_help_panel=opt.EVENTS),
    ] = None,
    skip_missing: opt.SkipMissing = False,
    skip_outside: Annotated[
        bool,
        typer.Option("--skip-outside", help="Leave out users who are none, uncounted.", rich_help_panel=opt.EVENTS),
    ] = False,
    format_: opt.FileFormat = None,
    separator: opt.Separator = ",",
    no_header: opt.NoHeader = False,
    missing: opt.Missing = "",
    universe: Annotated[
        int | None,
        typer.Option("--universe", "-n", help="Ids are 0 .. N-1.", metavar="N", rich_help_panel=opt.BUDGET),
    ] = None,
    universe_file: Annotated[
        str | None,
        typer.Option(metavar="FILE[:COLUMN]", help="Ids are those in this file.", rich_help_panel=opt.BUDGET),
    ] = None,
    nodes: Annotated[
        int | None, typer.Option(metavar="N", help="Edges join nodes 0 .. N-1.", rich_help_panel=opt.BUDGET)
    ] = None,
    directed: Annotated[
        bool, typer.Option("--directed", help="An edge and its reverse are two.", rich_help_panel=opt.BUDGET)
    ] = False,
    epsilon: opt.Epsilon = None,
    sample: Annotated[
        int | None, typer.Option(help="Track a random sample of so many users.", rich_help_panel=opt.BUDGET)
    ] = None,
    memory: Annotated[
        str | None, typer.Option(help='... or as many as fit in, say, "16 KiB".', rich_help_panel=opt.BUDGET)
    ] = None,
    releases: opt.Releases = None,
    intrusions: opt.Intrusions = None,
    shard: Annotated[
        str | None,
        typer.Option(metavar="I/N[:KEY]", help="Own part I = 0..N-1 of the users.", rich_help_panel=opt.BUDGET),
    ] = None,
    state: opt.State = None,
    release: opt.MakeRelease = None,
    release_every: opt.ReleaseEvery = None,
    time: Annotated[
        str | None, typer.Option(metavar="NAME", help="... or by this column of files; also NAME@START.")
    ] = None,
    plot: Annotated[str | None, typer.Option(metavar="PNG", help="Draw that series: .png, .svg or .pdf.")] = None,
    level: opt.Level = 0.95,
    as_json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Estimate which share of a known universe of users appears in events.

    Example: [bold]panprivacy density 'visits/*.parquet' -c patient --universe 1000000 --epsilon 1[/bold]
    """
    asked = Asked(column, edges, universe, universe_file, nodes, directed)
    prepare(files, quiet=quiet)
    with plain_errors(), kept_in(state) as kept:
        users, kind = asked.universe()
        plan = {"epsilon": epsilon, "releases": releases, "intrusions": intrusions}
        wanted = {"estimator": "Density", "universe": users and users.describe(), **plan}
        part, key = _parse_shard(shard)
        size = {"sample": sample, "memory": memory, "shard": part, "key": key}
        est = continued_or_new(kept, users, wanted, lambda: _new(users, plan, size))
        if kept is not None:
            _check_size(est, plan, size)
        run = Run(est, kept, level, Speaker(as_json=as_json, quiet=quiet))
        series = series_of(run, time, release_every, plot)
        columns = asked.columns(est.universe, kind, action)
        layout = Layout(separator, not no_header, missing)
        source = Source(files, columns, format_, layout, skip_missing, skip_outside)
        if series is None:
            run.feed(source, release_every, release)
        else:
            series.feed(source, release)


def _new(users: Universe | None, plan: dict[str, Any], size: dict[str, Any]) -> Density:
    if users is None:
        raise ValueError("who could appear? Say --universe N, --universe-file FILE, or --edges SRC,DST --nodes N")
    return Density(users, **planned(plan), **size)


def _check_size(est: Any, plan: dict[str, Any], size: dict[str, Any]) -> None:
    """Refuse to go on with a state that has another sample or shard than was asked for."""
    if any(value is not None for value in size.values()):
        fresh = Density(est.universe, **planned(plan | {"epsilon": est.epsilon}), **size)
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

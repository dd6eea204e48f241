"""`panprivacy consume`: count what a broker delivers, and acknowledge it when it is on disk."""

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from panprivacy.cli import options as opt
from panprivacy.cli.distinct import declared
from panprivacy.cli.groups import ByCategory
from panprivacy.cli.plainly import Speaker, plain_errors
from panprivacy.cli.regularly import Regularly
from panprivacy.cli.rows import TimeOptions
from panprivacy.cli.run import Run, continued_or_new, kept_in, prepare
from panprivacy.cli.series import feed_series
from panprivacy.cli.sizing import Buckets, DensitySize, DistinctSize, Error, Key, Memory, Sample, Shard
from panprivacy.cli.source import Listened
from panprivacy.cli.universe import Asked, Directed, Ends, Nodes
from panprivacy.density import Density
from panprivacy.distinct import DistinctCount
from panprivacy.errors import PanPrivacyError
from panprivacy.estimator import Estimator
from panprivacy.events import STDIN, Columns, Kind
from panprivacy.universe import Edges

MESSAGES = "Messages: JSON objects, bare ids, or Arrow streams"
_COLUMN = "id"  # what a bare id is called, if nobody says it


class OfMessages(TyperCommand):
    """A command whose events are messages: help shows what says how they are counted under that name."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        for option in self.params:
            if getattr(option, "rich_help_panel", None) == opt.EVENTS:
                option.rich_help_panel = MESSAGES  # type: ignore[attr-defined]


def consume(
    address: Annotated[str, typer.Argument(metavar="ADDRESS", hidden=True)],
    column: Annotated[
        str | None,
        typer.Option(
            "--column", "-c", metavar="NAME", help="Key of the ids; bare ids need none.", rich_help_panel=MESSAGES
        ),
    ] = None,
    ids: Annotated[
        Kind | None,
        typer.Option(metavar="KIND", help="What ids are: integers or text.", rich_help_panel=MESSAGES),
    ] = None,
    edges: Ends = None,
    action: opt.Action = None,
    by: opt.By = None,
    categories: opt.CategoryList = None,
    other: opt.Other = False,
    skip_missing: opt.SkipMissing = False,
    skip_outside: opt.SkipOutside = False,
    unlisted: opt.Unlisted = None,
    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            "-f",
            metavar="KIND",
            help="What messages are: json, id or arrow. Default: as they look.",
            rich_help_panel=MESSAGES,
        ),
    ] = None,
    skip_bad: Annotated[
        bool,
        typer.Option(
            "--skip-bad",
            help="Leave out messages that cannot be counted, with a note.",
            rich_help_panel=MESSAGES,
        ),
    ] = False,
    options: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.toml",
            help="Settings of the broker's client, such as passwords.",
            rich_help_panel=MESSAGES,
        ),
    ] = None,
    universe: opt.Universe = None,
    universe_file: opt.UniverseFile = None,
    group: opt.Group = None,
    nodes: Nodes = None,
    directed: Directed = False,
    epsilon: opt.Epsilon = None,
    sample: Sample = None,
    memory: Memory = None,
    shard: Shard = None,
    error: Error = None,
    buckets: Buckets = None,
    key: Key = None,
    releases: opt.Releases = None,
    intrusions: opt.Intrusions = None,
    delta: opt.Delta = None,
    state: opt.State = None,
    release: Annotated[
        bool, typer.Option("--release", help="Release an answer when a signal ends the command.")
    ] = False,
    release_every: opt.ReleaseEvery = None,
    time: opt.Time = None,
    late: opt.Late = None,
    early: opt.Early = None,
    ahead: opt.Ahead = None,
    plot: opt.Plot = None,
    level: opt.Level = 0.95,
    as_json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Count the messages of a broker, and acknowledge them when they are in the state file.

    Example: [bold]panprivacy consume kafka://localhost:9092/visits --column user --state flu.pp[/bold]

    ADDRESS is kafka://HOST:PORT/TOPIC, or nats:// or redis:// and HOST:PORT/STREAM (docs/brokers.md).
    A new state is that of density with --universe, --universe-file or --nodes, else that of distinct.
    """
    prepare([STDIN], quiet=quiet, threads=None)
    with plain_errors(), kept_in(state) as kept:
        if kept is None:
            raise ValueError("say --state FILE.pp: a message is acknowledged when it is in a file")
        asked = Asked(column, edges, universe, universe_file, nodes, directed, group)
        users, kind = asked.universe()
        plan = {"epsilon": epsilon, "releases": releases, "intrusions": intrusions, "delta": delta}
        kinds = ByCategory(by, categories, other)
        of_density, of_distinct = DensitySize(sample, memory, shard), DistinctSize(error, buckets, key)

        def new() -> Estimator[Any]:
            more, planned = kinds.arguments(), Regularly(release_every).planned(plan)
            return of_distinct.new(planned, more) if users is None else of_density.new(users, planned, more)

        est = continued_or_new(kept, users, {"universe": users and users.describe(), **plan}, new)
        _check_repeatable(est)
        kinds.check(est)
        _check_size(est, of_density, of_distinct)
        columns = replace(_columns(est, asked, kind, ids, action), category=by)
        speaker = Speaker(as_json=as_json, quiet=quiet)
        topic = _topic(
            address, Path(kept.path).stem, columns, options, format_, skip_bad=skip_bad,
            skips=(skip_missing, skip_outside, unlisted != "refuse"),
        )  # fmt: skip
        run = Run(est, kept, level, speaker, kinds.picture(plot, release_every), by or group, delta)
        feed_series(
            run,
            topic,
            release,
            time=time,
            every=release_every,
            picture=plot if release_every else None,
            rows=TimeOptions(late, early, ahead),
        )


def _check_repeatable(est: Estimator[Any]) -> None:
    """Refuse a state in which a message that comes twice is not the same as one that comes once."""
    if not isinstance(est, Density | DistinctCount):
        raise PanPrivacyError(
            f"a broker may deliver a message twice, after a crash, and a {type(est).__name__} would count it twice, or "
            "in another period: feed it files, or see what panprivacy serve does by the times of events"
        )


def _check_size(est: Estimator[Any], of_density: DensitySize, of_distinct: DistinctSize) -> None:
    """Refuse to go on with a state of another size than was asked for, and options of the other kind of state."""
    known = isinstance(est, Density)
    meant, other = (of_density, of_distinct) if known else (of_distinct, of_density)
    if other.options:
        which = "without a universe, and this one has one" if known else "with a universe, and this one has none"
        raise ValueError(f"{' and '.join(other.options)}: for a state {which}")
    meant.check(est)


def _columns(est: Any, asked: Asked, kind: Kind, ids: Kind | None, action: str | None) -> Columns:
    if not isinstance(est, DistinctCount):
        bare = asked.column is None and asked.edges is None and not isinstance(est.universe, Edges)
        named = replace(asked, column=_COLUMN) if bare else asked
        return named.columns(est.universe, kind, action, lambda: ValueError("which key holds the ids?"))
    if action is not None:
        raise ValueError("--action needs a universe: who is not known cannot be taken back")
    if asked.edges is not None:
        raise ValueError("--edges is for a graph of --nodes N")
    found = declared(est, ids)
    if found is None:
        raise ValueError("are ids integers or text? Say --ids integers, or --ids text")
    return Columns((asked.column or _COLUMN,), found)


def _topic(
    address: str,
    name: str,
    columns: Columns,
    options: Path | None,
    format_: str | None,
    *,
    skip_bad: bool,
    skips: tuple[bool, bool, bool],
) -> Listened:
    from panprivacy.cli.topic import Hatch, Topic
    from panprivacy.serve.config.table import Table
    from panprivacy.serve.sources.brokers import pump_of, table_of

    problems: list[str] = []
    given = table_of(address) | ({"format": format_} if format_ is not None else {})
    if options is not None:
        given["options"] = _read_options(options)
    hatch = Hatch()
    pump = pump_of(Table(given, "", problems), name, columns, hatch.tell, skip_bad=skip_bad)
    if pump is None or problems:
        raise ValueError(f"{address}: {'; '.join(problems)}")
    return Topic(columns, *skips, pump, hatch)


def _read_options(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path}: not TOML: {error}") from None

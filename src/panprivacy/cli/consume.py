"""`panprivacy consume`: count what a broker delivers, and acknowledge it when it is on disk."""

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from panprivacy.cli import options as opt
from panprivacy.cli.distinct import declared
from panprivacy.cli.groups import ByCategory
from panprivacy.cli.plainly import Speaker, plain_errors
from panprivacy.cli.run import Run, continued_or_new, kept_in, planned, prepare
from panprivacy.cli.series import feed_series
from panprivacy.cli.universe import Asked
from panprivacy.density import Density
from panprivacy.distinct import DistinctCount
from panprivacy.errors import PanPrivacyError
from panprivacy.estimator import Estimator
from panprivacy.events import STDIN, Columns, Kind

MESSAGES = "Messages: JSON objects, bare ids, or Arrow streams"
_COLUMN = "id"  # what a bare id is called, if nobody says it


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
    action: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Key that says whether an event inserts or deletes the user.", rich_help_panel=MESSAGES
        ),
    ] = None,
    by: opt.By = None,
    categories: opt.CategoryList = None,
    other: opt.Other = False,
    skip_missing: opt.SkipMissing = False,
    skip_outside: opt.SkipOutside = False,
    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            "-f",
            metavar="KIND",
            help="What messages are: json, id or arrow. Default: what the first ones look like.",
            rich_help_panel=MESSAGES,
        ),
    ] = None,
    skip_bad: Annotated[
        bool,
        typer.Option(
            "--skip-bad",
            help="Leave out messages that cannot be counted, with a note; else the first one ends the command.",
            rich_help_panel=MESSAGES,
        ),
    ] = False,
    options: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.toml",
            help="Settings of the broker's client, such as passwords and certificates.",
            rich_help_panel=MESSAGES,
        ),
    ] = None,
    universe: opt.Universe = None,
    universe_file: opt.UniverseFile = None,
    group: opt.Group = None,
    epsilon: opt.Epsilon = None,
    error: Annotated[
        float | None,
        typer.Option(
            help="Without a universe: relative standard error to reach, such as 0.02.", rich_help_panel=opt.BUDGET
        ),
    ] = None,
    releases: opt.Releases = None,
    delta: opt.Delta = None,
    state: opt.State = None,
    release: Annotated[
        bool, typer.Option("--release", help="Release an answer when a signal ends the command.")
    ] = False,
    release_every: opt.ReleaseEvery = None,
    time: opt.Time = None,
    plot: opt.Plot = None,
    level: opt.Level = 0.95,
    as_json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Count the messages of a broker, and acknowledge them when they are in the state file.

    Example: [bold]panprivacy consume kafka://localhost:9092/visits --column user --state flu.pp[/bold]

    ADDRESS is kafka://HOST:PORT/TOPIC, nats://HOST:PORT/STREAM or redis://HOST:PORT/STREAM (docs/brokers.md). A state
    that is not there yet is made: with --universe the share of users who appear is counted, without it how many do.
    """
    prepare([STDIN], quiet=quiet, threads=None)
    with plain_errors(), kept_in(state) as kept:
        if kept is None:
            raise ValueError("say --state FILE.pp: a message is acknowledged when it is in a file")
        asked = Asked(column or _COLUMN, None, universe, universe_file, None, False, group)
        users, kind = asked.universe()
        plan = {"epsilon": epsilon, "releases": releases, "delta": delta}
        kinds = ByCategory(by, categories, other)
        made: Any = {"error": error} if users is None else {}
        est = continued_or_new(
            kept,
            users,
            {"universe": users and users.describe(), **plan},
            lambda: _new(users, {**planned(plan), **made, **kinds.arguments()}),
        )
        _check_repeatable(est)
        kinds.check(est)
        columns = replace(_columns(est, asked, kind, ids, action), category=by)
        speaker = Speaker(as_json=as_json, quiet=quiet)
        topic = _topic(
            address, Path(kept.path).stem, columns, options, format_, skip_bad=skip_bad,
            skips=(skip_missing, skip_outside),
        )  # fmt: skip
        run = Run(est, kept, level, speaker, kinds.picture(plot, release_every), by or group)
        feed_series(run, topic, release, time=time, every=release_every, picture=plot if release_every else None)


def _new(users: Any, arguments: dict[str, Any]) -> Estimator[Any]:
    return DistinctCount(**arguments) if users is None else Density(users, **arguments)


def _check_repeatable(est: Estimator[Any]) -> None:
    """Refuse a state in which a message that comes twice is not the same as one that comes once."""
    if not isinstance(est, Density | DistinctCount):
        raise PanPrivacyError(
            f"a broker may deliver a message twice, after a crash, and a {type(est).__name__} would count it twice, or "
            "in another period: feed it files, or see what panprivacy serve does by the times of events"
        )


def _columns(est: Any, asked: Asked, kind: Kind, ids: Kind | None, action: str | None) -> Columns:
    if not isinstance(est, DistinctCount):
        return asked.columns(est.universe, kind, action, lambda: ValueError("which key holds the ids?"))
    if action is not None:
        raise ValueError("--action needs a universe: who is not known cannot be taken back")
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
    skips: tuple[bool, bool],
) -> Any:
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
    return Topic(pump, hatch, pump.name, columns, *skips)


def _read_options(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path}: not TOML: {error}") from None

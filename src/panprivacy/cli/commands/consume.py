"""`panprivacy consume`: count what a broker delivers, and acknowledge it when it is on disk."""

import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from panprivacy.cli import options as opt
from panprivacy.cli import users as of
from panprivacy.errors import InvalidValue, PanPrivacyError
from panprivacy.ingest.batch import Columns, Kind
from panprivacy.ingest.files import STDIN

if TYPE_CHECKING:
    from panprivacy.cli.sources import Listened

_COLUMN = "id"  # the column of bare ids, if the command names none


@dataclass(frozen=True)
class MessageOptions(opt.RowOptions):
    """What messages are, and which of them are left out."""

    column: Annotated[str | None, Parameter(alias="-c", metavar="NAME", help="Key of the ids; bare ids need none.")] = (
        None
    )
    ids: Annotated[
        Kind | None, Parameter(metavar="KIND", show_choices=False, help="What ids are: integers or text.")
    ] = None
    action: Annotated[
        str | None, Parameter(metavar="NAME", help="Key that says whether a message inserts or deletes its user.")
    ] = None
    format: Annotated[
        str | None,
        Parameter(alias="-f", metavar="KIND", help="What messages are: json, id or arrow. Default: as they look."),
    ] = None
    skip_bad: Annotated[bool, Parameter(help="Leave out messages that cannot be counted, with a note.")] = False
    options: Annotated[
        Path | None, Parameter(metavar="FILE.toml", help="Settings of the broker's client, such as passwords.")
    ] = None


@dataclass(frozen=True)
class ConsumeSeries(opt.SeriesOptions):
    """When answers are released."""

    release: Annotated[bool | None, Parameter(help="Release an answer when a signal ends the command.")] = False


def consume(
    address: Annotated[str, Parameter(metavar="ADDRESS", show=False)],
    /,
    *,
    messages: Annotated[MessageOptions, opt.MESSAGES] = MessageOptions(),
    categories: Annotated[opt.CategoryOptions, opt.MESSAGES] = opt.CategoryOptions(),
    who: Annotated[of.GraphOptions, opt.USERS] = of.GraphOptions(),
    budget: Annotated[of.ReadBudgetOptions, opt.USERS] = of.ReadBudgetOptions(),
    of_density: Annotated[of.DensitySize, opt.USERS] = of.DensitySize(),
    of_distinct: Annotated[of.DistinctSize, opt.USERS] = of.DistinctSize(),
    state: Annotated[opt.StateOptions, opt.OTHERS] = opt.StateOptions(),
    series: Annotated[ConsumeSeries, opt.OTHERS] = ConsumeSeries(),
    look: Annotated[opt.OutputOptions, opt.OTHERS] = opt.OutputOptions(),
) -> None:
    """Count the messages of a broker, and acknowledge them when they are in the state file.

    Example: [bold]panprivacy consume kafka://localhost:9092/visits --column user --state flu.pp[/bold]

    ADDRESS is kafka://HOST:PORT/TOPIC, or nats:// or redis:// and HOST:PORT/STREAM (docs/how-to/brokers.md).
    A new state counts as density does with --universe, --universe-file or --nodes, and else as distinct does.
    """
    look.prepare([STDIN])
    from panprivacy.cli.run import Command
    from panprivacy.cli.series import feed_series, plan_series

    with Command.opened(state, budget, look) as command:
        if command.kept is None:
            raise InvalidValue(
                "say --state FILE.pp: a message is acknowledged when it is in a file", code="which-state"
            )
        users, kind = who.read()

        def new() -> Any:
            more, plan = categories.arguments(), plan_series(budget.plan, series)
            return of_distinct.new(plan, more) if users is None else of_density.new(users, plan, more)

        est = command.estimator(None, users, new)
        if not est.REPEATABLE or est.TRAITS.own_periods:
            raise PanPrivacyError(
                f"a broker may deliver a message twice, after a crash, and a {type(est).__name__} would count it "
                "twice, or in another period: feed it files, or see what panprivacy serve does by the times of events",
                code="not-repeatable",
            )
        categories.check(est)
        _check_size(est, of_density, of_distinct)
        columns = replace(_columns(est, who, kind, messages), category=categories.by)
        skips = who.skip_outside, categories.unlisted != "refuse"
        topic = _topic(address, Path(command.kept.path).stem, columns, messages, skips)
        run = command.run(est, categories.by or who.group)
        feed_series(run, topic, series)


def _check_size(est: Any, of_density: of.DensitySize, of_distinct: of.DistinctSize) -> None:
    """Refuse to go on with a state of another size than was asked for, and options of the other kind of state."""
    meant, other = (of_density, of_distinct) if _is_known(est) else (of_distinct, of_density)
    if other.options:
        which = (
            "without a universe, and this one has one" if _is_known(est) else "with a universe, and this one has none"
        )
        raise InvalidValue(f"{' and '.join(other.options)}: for a state {which}", code="size-of-another")
    meant.check(est)


def _is_known(est: Any) -> bool:
    """Whether the universe is known."""
    from panprivacy.universe.open import OpenUniverse

    return not isinstance(est.universe, OpenUniverse)


def _columns(est: Any, who: of.GraphOptions, kind: Kind, messages: MessageOptions) -> Columns:
    from panprivacy.universe import Edges

    if _is_known(est):
        bare = messages.column is None and who.edges is None and not isinstance(est.universe, Edges)
        column = _COLUMN if bare else messages.column
        asked = InvalidValue("which key holds the ids?", code="column")
        return who.columns(est.universe, kind, column, lambda: asked, messages.action)
    if messages.action is not None:
        raise InvalidValue("--action needs a universe: a user who is not known cannot be deleted", code="action-open")
    if who.edges is not None:
        raise InvalidValue("--edges is for a graph of --nodes N", code="not-a-graph")
    found = of.declared(est, messages.ids)
    if found is None:
        raise InvalidValue("are ids integers or text? Say --ids integers, or --ids text", code="which-ids")
    return Columns((messages.column or _COLUMN,), found)


def _topic(address: str, name: str, columns: Columns, messages: MessageOptions, skips: tuple[bool, bool]) -> "Listened":
    from panprivacy.brokers.settings import consumer_of, parse_address, read_source
    from panprivacy.cli.topic import MainThreadQueue, Topic

    given: dict[str, Any] = ({"bad": "skip"} if messages.skip_bad else {}) | parse_address(address)
    if messages.format is not None:
        given["format"] = messages.format
    if messages.options is not None:
        given["options"] = _read_options(messages.options)
    problems: list[str] = []
    source = read_source(given, "", columns, problems)
    if source is None or problems:
        raise InvalidValue(f"{address}: {'; '.join(problems)}", code="broker-settings")
    queue = MainThreadQueue()
    return Topic(columns, messages.skip_missing, *skips, consumer_of(source, name, columns, queue.tell), queue)


def _read_options(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise InvalidValue(f"{path}: not TOML: {error}", code="broker-settings") from None

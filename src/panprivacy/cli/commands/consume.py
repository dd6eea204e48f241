"""`panprivacy consume`: count what a broker delivers, and acknowledge it when it is on disk."""

import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from panprivacy.cli import options as opt
from panprivacy.cli.commands.count import DensityOptions, DensitySize, DistinctOptions, DistinctSize
from panprivacy.cli.counting import CountOptions, GraphOptions, OpenUniverseOptions, ReadBudgetOptions
from panprivacy.cli.options import FLAT, option, option_group
from panprivacy.errors import InvalidValue, PanPrivacyError
from panprivacy.ingest.batch import Columns, Kind
from panprivacy.ingest.files import STDIN

if TYPE_CHECKING:
    from panprivacy.cli.run import Kept, Run
    from panprivacy.cli.schedule import Events
    from panprivacy.estimators.base import Estimator


@option_group
class MessageOptions(opt.RowOptions):
    """What messages are, and which of them are left out."""

    column: Annotated[str | None, option("JSON key of the user ids; bare ids need none.", "NAME", alias="-c")] = None
    ids: Annotated[Kind | None, option("Type of the ids: integers or text.", "KIND")] = None
    action: Annotated[
        str | None, option("JSON key that says whether a message inserts or deletes its user.", "NAME")
    ] = None
    format: Annotated[
        str | None, option("Message format: json, id or arrow. Default: detected.", "KIND", alias="-f")
    ] = None
    skip_bad: Annotated[bool, option("Skip messages that cannot be counted, with a note.")] = False
    options: Annotated[Path | None, option("Settings of the broker's client, such as passwords.", "FILE.toml")] = None


@option_group
class ConsumeSeries(opt.SeriesOptions):
    release: Annotated[bool | None, option("Release an answer when a signal ends the command.")] = False


@option_group
class ConsumeOptions(CountOptions):
    """The options of `consume`: as `density` has them with a universe, and as `distinct` without."""

    rows: Annotated[MessageOptions, opt.MESSAGES] = MessageOptions()  # type: ignore[assignment]  # no files
    categories: Annotated[opt.CategoryOptions, opt.MESSAGES] = opt.CategoryOptions()
    who: Annotated[GraphOptions, opt.USERS] = GraphOptions()
    budget: Annotated[ReadBudgetOptions, opt.USERS] = ReadBudgetOptions()
    of_density: Annotated[DensitySize, opt.USERS] = DensitySize()
    of_distinct: Annotated[DistinctSize, opt.USERS] = DistinctSize()
    series: Annotated[ConsumeSeries, opt.OTHERS] = ConsumeSeries()

    def command(self, *, known: bool) -> DensityOptions | DistinctOptions:
        """The same options of `density`, or of `distinct` if the universe is not known."""
        same: dict[str, Any] = {"budget": self.budget, "categories": self.categories, "series": self.series}
        if known:
            return DensityOptions(who=self.who, size=self.of_density, **same)
        return DistinctOptions(who=OpenUniverseOptions(self.rows.ids), size=self.of_distinct, **same)

    def new(self, users: Any, files: Sequence[str]) -> "Estimator[Any]":  # noqa: ARG002 (a broker is no file)
        return self.command(known=users is not None).new(users, [STDIN])

    def check_state(self, est: Any, users: Any, kept: "Kept") -> None:
        """As `CountOptions.check_state`; a state may be of another estimator, if it can be fed twice."""
        if not est.REPEATABLE or est.TRAITS.own_periods:
            raise PanPrivacyError(
                f"a broker may deliver a message twice, after a crash, and a {type(est).__name__} would count it "
                "twice, or in another period: feed it files, or see what panprivacy serve does by the times of events",
                code="not-repeatable",
            )
        self.command(known=_is_known(est)).check_state(est, users, kept)

    def source(self, files: Sequence[str], run: "Run", kind: Kind) -> "Events":
        """The broker; options of the other kind of state are refused."""
        from panprivacy.universe import Edges

        assert run.kept is not None
        rows, known = self.rows, _is_known(run.est)
        unused = [f"--{name}" for name in opt.given(vars(self.of_distinct if known else self.of_density))]
        if unused:
            which = "without a universe, and this one has one" if known else "with a universe, and this one has none"
            raise InvalidValue(f"{' and '.join(unused)}: for a state {which}", code="size-of-another")
        if not known and rows.action is not None:
            raise InvalidValue(
                "--action needs a universe: a user who is not known cannot be deleted", code="action-open"
            )
        if not known and self.who.edges is not None:
            raise InvalidValue("--edges is for a graph of --nodes N", code="not-a-graph")
        if rows.column is None and self.who.edges is None and not isinstance(run.est.universe, Edges):
            rows = replace(rows, column="id")  # of bare ids
        columns = self.command(known=known).who.columns(run.est, kind, rows, piped=True)
        return self._topic(files[0], Path(run.kept.path).stem, replace(columns, category=self.categories.by))

    def _topic(self, address: str, name: str, columns: Columns) -> "Events":
        from panprivacy.brokers.settings import consumer_of, parse_address, read_source
        from panprivacy.cli.topic import MainThreadQueue, Topic

        rows = self.rows
        given: dict[str, Any] = ({"bad": "skip"} if rows.skip_bad else {}) | parse_address(address)
        if rows.format is not None:
            given["format"] = rows.format
        if rows.options is not None:
            try:
                given["options"] = tomllib.loads(rows.options.read_text(encoding="utf-8"))
            except tomllib.TOMLDecodeError as error:
                raise InvalidValue(f"{rows.options}: not TOML: {error}", code="broker-settings") from None
        problems: list[str] = []
        source = read_source(given, "", columns, problems)
        if source is None or problems:
            raise InvalidValue(f"{address}: {'; '.join(problems)}", code="broker-settings")
        queue, skips = MainThreadQueue(), (self.who.skip_outside, self.categories.unlisted != "refuse")
        return Topic(columns, rows.skip_missing, *skips, consumer_of(source, name, columns, queue.tell), queue)


def consume(
    address: Annotated[str, Parameter(metavar="ADDRESS", show=False)],
    /,
    *,
    asked: Annotated[ConsumeOptions, FLAT] = ConsumeOptions(),
) -> None:
    """Count the messages of a broker, and acknowledge them when they are in the state file.

    Example: [bold]panprivacy consume kafka://localhost:9092/visits --column user --state flu.pp[/bold]

    ADDRESS is kafka://HOST:PORT/TOPIC, or nats:// or redis:// and HOST:PORT/STREAM (docs/how-to/brokers.md).
    With --universe, --universe-file or --nodes, a new state counts like density; otherwise like distinct.
    """
    if asked.state.state is None:
        raise InvalidValue("say --state FILE.pp: a message is acknowledged when it is in a file", code="which-state")
    asked.count([address], live=True)


def _is_known(est: Any) -> bool:
    from panprivacy.universe.open import OpenUniverse

    return not isinstance(est.universe, OpenUniverse)

"""A command that counts: who is counted and with how much privacy, and the way from its options to its answers."""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from panprivacy.cli import options as opt
from panprivacy.cli.options import NOT_HERE, option, option_group
from panprivacy.errors import InvalidValue, PanPrivacyError
from panprivacy.ingest.batch import Columns, Kind
from panprivacy.ingest.files import STDIN, is_slow

if TYPE_CHECKING:
    from panprivacy.cli.run import Kept, Run
    from panprivacy.cli.schedule import Events
    from panprivacy.estimators.base import Estimator
    from panprivacy.universe import Universe, Users


@option_group
class UniverseOptions:
    """Which users there could be."""

    HOW: ClassVar[str | None] = "--universe N, or --universe-file FILE"
    """How a command says who could appear; None if anybody may."""

    universe: Annotated[int | None, opt.WholeNumber, option("The universe is N users, with ids 0 to N-1.")] = None
    universe_file: Annotated[
        str | None,
        option("The universe is the users listed in this file; ids may be numbers or text.", "FILE[:COLUMN]"),
    ] = None
    normalize: Annotated[
        str | None,
        option(
            "Spelling to ignore: zeros (leading zeros, .0), case, strip, nfc, several with commas, all or none.", "HOW"
        ),
    ] = None
    skip_outside: Annotated[bool, option("Skip rows of users outside the universe; how many is not reported.")] = False
    group: Annotated[
        str | None, option("Column of that file with each user's group; each group gets its own answer.", "NAME")
    ] = None
    nodes: Annotated[str | None, NOT_HERE] = None
    edges: Annotated[str | None, NOT_HERE] = None
    directed: Annotated[bool, NOT_HERE] = False

    def read(self) -> "tuple[Universe | None, Kind]":
        """The universe, or None if the command says nothing about it, and what its ids are."""
        from panprivacy.universe import Edges, Range

        choices = {"--universe": self.universe, "--universe-file": self.universe_file, "--nodes": self.nodes}
        given = [name for name, value in choices.items() if value is not None]
        if len(given) > 1:
            raise InvalidValue(f"{' and '.join(given)}: only one of them can say who is counted", code="two-universes")
        if self.group is not None and self.universe_file is None:
            raise InvalidValue(
                "--group is a column of the list of users: say --universe-file FILE:COLUMN", code="group-without-list"
            )
        universe: Universe | None = None if self.universe is None else Range(self.universe)
        kind = Kind.integers
        if self.universe_file is not None:
            universe, kind = self._read_users(self.universe_file, self.group)
        elif self.nodes is not None:
            nodes: int | Users
            if re.fullmatch("[+-]?[0-9]+", self.nodes):
                nodes = int(self.nodes)
            else:
                nodes, kind = self._read_users(self.nodes)
            universe = Edges(nodes, self.directed)
        if self.normalize is not None and not hasattr(getattr(universe, "named", universe), "normalize"):
            raise InvalidValue(
                "--normalize is for listed users: say --universe-file FILE:COLUMN", code="normalize-without-list"
            )
        return universe, kind

    def _read_users(self, given: str, group: str | None = None) -> "tuple[Users, Kind]":
        """The users in a file, with their groups if a column of them is named, and what their ids are."""
        from panprivacy.ingest import kind_of, read_ids, split_column
        from panprivacy.universe import Users

        file, column = split_column(given)
        ids = read_ids(file, column)
        groups = None if group is None else read_ids(file, group, "group")
        users = Users(ids, groups=groups, normalize=self.normalize)
        return users, Kind.text if users.normalize else kind_of(ids.dtype) or Kind.integers

    def columns(self, est: Any, kind: Kind, rows: opt.RowOptions, *, piped: bool) -> Columns:  # noqa: ARG002
        """The columns of the user ids, or of the two ends of an edge, and of the action where rows may delete users.

        There is none of the ids if the command has not named it.
        """
        from panprivacy.slots.choosing import Unlisted
        from panprivacy.universe import Edges

        universe, action = est.universe, getattr(rows, "action", None)
        if isinstance(universe, Unlisted):
            said = "nodes: give the same --nodes FILE" if universe.count else "users: give the same --universe-file"
            raise PanPrivacyError(f"this state is of listed {said} again", code="universe-needed")
        if not isinstance(universe, Edges):
            graph = [name for name in ("directed", "edges") if getattr(self, name)]
            if graph:
                raise InvalidValue(f"--{graph[0]} is for a graph of --nodes N", code="not-a-graph")
            return Columns((rows.column,) if rows.column is not None else (), kind, action)
        ends = tuple(end.strip() for end in (self.edges or "").split(","))
        if len(ends) != 2 or not all(ends):
            raise InvalidValue("a graph needs --edges SRC,DST: the columns of the two ends", code="which-edges")
        if rows.column is not None:
            raise InvalidValue("an edge has two columns, --edges SRC,DST: leave --column out", code="column-of-edges")
        if self.directed and not universe.directed:
            raise PanPrivacyError(
                "this state is of edges without direction: leave --directed out", code="another-state"
            )
        return Columns(ends, kind, action)


@option_group
class GraphOptions(UniverseOptions):
    """Which users there could be, where they may also be the edges of a graph."""

    HOW = "--universe N, --universe-file FILE, or --edges SRC,DST --nodes N"

    nodes: Annotated[
        str | None,
        option("The universe is all edges between nodes 0 to N-1, or between the nodes listed in a file.", "N|FILE"),
    ] = None
    edges: Annotated[
        str | None, option("With --nodes, instead of --column: columns of the two ends of an edge.", "SRC,DST")
    ] = None
    directed: Annotated[bool, option("Edges have a direction: 1,2 and 2,1 are different edges.")] = False


@option_group
class OpenUniverseOptions:
    """Users who are in no list, so that the command says what their ids are."""

    HOW = None

    ids: Annotated[
        Kind | None,
        option("Type of the ids: integers or text. Default: as in the first file; required for a pipe.", "KIND"),
    ] = None

    group = None
    skip_outside = False

    def read(self) -> "tuple[Universe | None, Kind]":
        """No universe; `columns` finds what ids are."""
        return None, Kind.integers

    def columns(self, est: Any, _kind: Kind, rows: opt.RowOptions, *, piped: bool) -> Columns:
        """The column of the ids. What ids are is said by --ids or the state, which keeps it, or by the first file."""
        if self.ids is not None:
            est.declare_ids(self.ids.value)
        if est.ids is None and piped:
            raise InvalidValue(
                "are ids integers or text? No row of a pipe decides that: say --ids integers, or --ids text",
                code="which-ids",
            )
        assert rows.column is not None
        return Columns((rows.column,), None if est.ids is None else Kind(est.ids))


@option_group
class BudgetOptions:
    """How much privacy there is to spend, and on how many releases."""

    epsilon: Annotated[
        float | None,
        option("Privacy budget for the state and all its releases; 1 is usual, less is safer.", alias="-e"),
    ] = None
    delta: opt.Delta = None
    releases: Annotated[int | None, option("Number of planned releases, which share the budget. Default: 1.")] = None
    intrusions: Annotated[int | None, NOT_HERE] = None

    @property
    def plan(self) -> dict[str, Any]:
        """The budget, in the words of an estimator's constructor; None where nothing was said."""
        return {name: getattr(self, name) for name in ("epsilon", "releases", "intrusions", "delta")}


@option_group
class ReadBudgetOptions(BudgetOptions):
    """A budget that may also pay for announced readings of the state."""

    intrusions: Annotated[int | None, option("Announced readings of the state to plan for. Default: 0.")] = None


def plan_of(est: "Estimator[Any]") -> dict[str, Any]:
    """The budget of an estimator, in the words of its constructor."""
    budget = est.budget
    plan = {"epsilon": est.epsilon, "releases": budget.releases, "intrusions": budget.redraws}
    return plan | {"delta": est.delta or None}


@option_group
class SizeOptions:
    """How large the table of an estimator is."""

    def arguments(self) -> dict[str, Any]:
        """Arguments of a new estimator; None where the command says nothing."""
        return vars(self)

    def check(self, est: Any) -> None:
        """Refuse to continue a state of another size."""


@option_group
class CountOptions:
    """The options of a command that counts, and the way from them to its answers.

    A command names its estimator, and replaces the options that differ.
    """

    ESTIMATOR: ClassVar[str]
    """The class of a new estimator."""

    rows: Annotated[opt.FileOptions, opt.EVENTS] = opt.FileOptions()
    who: Annotated[UniverseOptions, opt.USERS] = UniverseOptions()
    budget: Annotated[BudgetOptions, opt.USERS] = BudgetOptions()
    state: Annotated[opt.StateOptions, opt.OTHERS] = opt.StateOptions()
    series: Annotated[opt.SeriesOptions, opt.OTHERS] = opt.SeriesOptions()
    look: Annotated[opt.OutputOptions, opt.OTHERS] = opt.OutputOptions()
    categories: Annotated[opt.CategoryOptions, NOT_HERE] = opt.CategoryOptions()
    size: Annotated[SizeOptions, NOT_HERE] = SizeOptions()

    def count(self, files: Sequence[str], *, live: bool = False) -> None:
        """Build an estimator or continue a saved one, feed it the events, release, and print the answers.

        `live` says that events arrive one after the other, as they do from a pipe.
        """
        look, state = self.look, self.state
        look.prepare(live=live or any(map(is_slow, files)))
        from panprivacy.cli.run import Run, kept_in, load_estimator
        from panprivacy.estimates.plots import check_picture

        check_picture(look.plot)
        with kept_in(state.state, state.shards, folders=state.FOLDERS) as kept:
            users, kind = self.who.read()
            new = partial(self.new, users, files)
            est = new() if kept is None else load_estimator(kept, users, new)
            if kept is not None and kept.exists:
                self.check_state(est, users, kept)
            column = self.categories.by or self.who.group
            run = Run(est, kept, look.level, look.output(), look.plot, column, self.budget.delta, new)
            self.feed(run, self.source(files, run, kind))

    def new(self, users: Any, files: Sequence[str]) -> "Estimator[Any]":  # noqa: ARG002
        """A new estimator. Who could appear and how much privacy there is have to be said."""
        from panprivacy.registry import build, class_named

        if users is None and self.who.HOW is not None:
            raise InvalidValue(f"who could appear? Say {self.who.HOW}", code="which-universe")
        arguments = opt.given(self.arguments())
        if "epsilon" not in arguments:
            raise InvalidValue("how much privacy? Say --epsilon E, the total budget; 1 is usual", code="epsilon")
        est: Estimator[Any] = build(class_named(self.ESTIMATOR), users, **arguments)
        return est

    def arguments(self) -> dict[str, Any]:
        """Arguments of a new estimator, besides its universe; None where the command says nothing."""
        return self.budget.plan | self.categories.arguments() | self.size.arguments()

    def check_state(self, est: Any, users: Any, kept: "Kept") -> None:
        """Refuse to continue a state that differs from what the command asks for."""
        universe = est.universe.describe(), users and users.describe()
        _refuse_another({"estimator": (type(est).__name__, self.ESTIMATOR), "universe": universe}, kept.path)
        _refuse_another(self.compared(est), kept.path)
        self.categories.check(est)
        self.size.check(est)

    def compared(self, est: Any) -> dict[str, tuple[Any, Any]]:
        """What a state has, and what the command asks for: None for nothing.

        A state may have no delta where one is allowed: that is no other promise.
        """
        plan = plan_of(est)
        return {name: (plan[name], wanted) for name, wanted in self.budget.plan.items()}

    def source(self, files: Sequence[str], run: "Run", kind: Kind) -> "Events":
        """The files, or the pipe that a dash stands for; in a folder, the files may be a batch that counts once."""
        from panprivacy.cli.run import name_batch
        from panprivacy.cli.schedule import Files, Pipe

        rows, unlisted, piped = self.rows, self.categories.unlisted, list(files) == [STDIN]
        name_batch(run.kept, self.state.batch, files, run.output)
        columns = self.who.columns(run.est, kind, rows, piped=piped)
        if not columns.ids:
            raise rows.which_column(files)
        columns = replace(columns, category=self.categories.by)
        skips = (rows.skip_missing, self.who.skip_outside, unlisted != "refuse" if piped else unlisted == "skip")
        if piped:
            return Pipe(columns, *skips, rows.format, rows.layout)
        return Files(columns, *skips, files, rows.format, rows.layout)

    def feed(self, run: "Run", source: "Events") -> None:
        """Feed the events, and release when that is due."""
        from panprivacy.cli.schedule import schedule_of

        schedule_of(run, source, self.series).feed(source, self.series.release)


def _refuse_another(compared: dict[str, tuple[Any, Any]], path: object) -> None:
    """Refuse a state that has something else than was asked for."""
    for name, (found, wanted) in compared.items():
        if wanted is not None and found not in (None, wanted):
            raise PanPrivacyError(
                f"{path}: {name} {found} in the state, and {wanted} was asked for", code="another-plan"
            )


@option_group
class TableOptions(CountOptions):
    """The options of a command that sets the size of the table, and may keep it in a folder, and count by category."""

    state: Annotated[opt.FolderOptions, opt.OTHERS] = opt.FolderOptions()
    categories: Annotated[opt.CategoryOptions, opt.EVENTS] = opt.CategoryOptions()

    def new(self, users: Any, files: Sequence[str]) -> "Estimator[Any]":
        """As `CountOptions.new`. How many periods share the budget has to be said."""
        from panprivacy.cli.calendar import check_periods_planned

        read = [] if list(files) == [STDIN] else files
        check_periods_planned(self.budget.releases, self.series, read, self.rows)
        return super().new(users, files)

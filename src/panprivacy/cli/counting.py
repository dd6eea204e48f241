"""A command that counts: who is counted and with how much privacy, and the way from its options to its answers.

Heavy modules are imported in the methods that need them, so that help comes at once.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from cyclopts import Parameter

from panprivacy.cli import options as opt
from panprivacy.cli.options import option, option_group
from panprivacy.errors import InvalidValue, PanPrivacyError
from panprivacy.ingest.batch import Columns, Kind
from panprivacy.ingest.files import STDIN, is_slow

if TYPE_CHECKING:
    from panprivacy.cli.run import Kept, Run
    from panprivacy.cli.sources import Events
    from panprivacy.estimators.base import Estimator
    from panprivacy.universe import Universe, Users


@option_group
class UniverseOptions:
    """Which users there could be."""

    HOW: ClassVar[str] = "--universe N, or --universe-file FILE"
    """How a command says who could appear."""

    universe: Annotated[int | None, opt.WholeNumber, option("The universe is N users, with ids 0 to N-1.")] = None
    universe_file: Annotated[
        str | None,
        option("The universe is the users listed in this file; ids may be numbers or text.", "FILE[:COLUMN]"),
    ] = None
    normalize: Annotated[
        str | None,
        option(
            "Spelling to ignore: zeros (leading zeros, .0), case, strip, nfc, several with commas, all or none.",
            "HOW",
        ),
    ] = None
    skip_outside: Annotated[bool, option("Skip rows of users outside the universe; how many is not reported.")] = False
    group: Annotated[
        str | None, option("Column of that file with each user's group; each group gets its own answer.", "NAME")
    ] = None

    def read(self) -> "tuple[Universe | None, Kind]":
        """The universe, or None if the command says nothing about it, and what its ids are."""
        given = [name for name, value in self._choices().items() if value is not None]
        if len(given) > 1:
            raise InvalidValue(f"{' and '.join(given)}: only one of them can say who is counted", code="two-universes")
        universe, kind = self._read()
        if self.normalize is not None and not hasattr(getattr(universe, "named", universe), "normalize"):
            raise InvalidValue(
                "--normalize is for listed users: say --universe-file FILE:COLUMN", code="normalize-without-list"
            )
        return universe, kind

    def known(self, users: "Universe | None") -> "Universe":
        """The universe, which a new state has to be told."""
        if users is None:
            raise InvalidValue(f"who could appear? Say {self.HOW}", code="which-universe")
        return users

    def _choices(self) -> dict[str, object]:
        return {"--universe": self.universe, "--universe-file": self.universe_file}

    def _read(self) -> "tuple[Universe | None, Kind]":
        from panprivacy.universe import Range

        if self.universe_file is not None:
            return self._read_users(self.universe_file, self.group)
        if self.group is not None:
            raise InvalidValue(
                "--group is a column of the list of users: say --universe-file FILE:COLUMN", code="group-without-list"
            )
        return None if self.universe is None else Range(self.universe), Kind.integers

    def _read_users(self, given: str, group: str | None = None) -> "tuple[Users, Kind]":
        """The users in a file, with their groups if a column of them is named, and what their ids are."""
        from panprivacy.ingest import kind_of, read_ids, split_column
        from panprivacy.universe import Users

        file, column = split_column(given)
        ids = read_ids(file, column)
        groups = None if group is None else read_ids(file, group, "group")
        users = Users(ids, groups=groups, normalize=self.normalize)
        return users, Kind.text if users.normalize else kind_of(ids.dtype) or Kind.integers

    def columns(self, est: Any, kind: Kind, rows: opt.RowOptions, files: Sequence[str]) -> Columns:
        """The columns of the user ids, and of the action where rows may delete users."""
        from panprivacy.slots.choosing import Unlisted

        if isinstance(est.universe, Unlisted):
            of_nodes = est.universe.count
            said = "nodes: give the same --nodes FILE" if of_nodes else "users: give the same --universe-file"
            raise PanPrivacyError(f"this state is of listed {said} again", code="universe-needed")
        if rows.column is None:
            raise rows.which_column(files)
        return Columns((rows.column,), kind, rows.column_of_actions)


@option_group
class GraphOptions(UniverseOptions):
    """Which users there could be, where they may also be the edges of a graph."""

    HOW: ClassVar[str] = "--universe N, --universe-file FILE, or --edges SRC,DST --nodes N"

    nodes: Annotated[
        str | None,
        option("The universe is all edges between nodes 0 to N-1, or between the nodes listed in a file.", "N|FILE"),
    ] = None
    edges: Annotated[
        str | None, option("With --nodes, instead of --column: columns of the two ends of an edge.", "SRC,DST")
    ] = None
    directed: Annotated[bool, option("Edges have a direction: 1,2 and 2,1 are different edges.")] = False

    def _choices(self) -> dict[str, object]:
        return super()._choices() | {"--nodes": self.nodes}

    def _read(self) -> "tuple[Universe | None, Kind]":
        from panprivacy.universe import Edges

        if self.nodes is None or self.group is not None:
            return super()._read()
        if re.fullmatch("[+-]?[0-9]+", self.nodes):
            return Edges(int(self.nodes), self.directed), Kind.integers
        named, kind = self._read_users(self.nodes)
        return Edges(named, self.directed), kind

    def columns(self, est: Any, kind: Kind, rows: opt.RowOptions, files: Sequence[str]) -> Columns:
        """As `UniverseOptions.columns`, or the columns of the two ends of an edge."""
        from panprivacy.slots.choosing import Unlisted
        from panprivacy.universe import Edges

        universe = est.universe
        if not isinstance(universe, Edges):
            graph = [name for name in ("directed", "edges") if getattr(self, name)]
            if graph and not isinstance(universe, Unlisted):
                raise InvalidValue(f"--{graph[0]} is for a graph of --nodes N", code="not-a-graph")
            return super().columns(est, kind, rows, files)
        ends = tuple(end.strip() for end in (self.edges or "").split(","))
        if len(ends) != 2 or not all(ends):
            raise InvalidValue("a graph needs --edges SRC,DST: the columns of the two ends", code="which-edges")
        if rows.column is not None:
            raise InvalidValue("an edge has two columns, --edges SRC,DST: leave --column out", code="column-of-edges")
        if self.directed and not universe.directed:
            raise PanPrivacyError(
                "this state is of edges without direction: leave --directed out", code="another-state"
            )
        return Columns(ends, kind, rows.column_of_actions)


@option_group
class OpenUniverseOptions:
    """Users who are in no list, so that the command says what their ids are."""

    ids: Annotated[
        Kind | None,
        option(
            "Type of the ids: integers or text. Default: as in the first file; required for a pipe.",
            "KIND",
            show_choices=False,
        ),
    ] = None

    group = None
    skip_outside = False

    def read(self) -> "tuple[Universe | None, Kind]":
        """No universe; `columns` finds what ids are."""
        return None, Kind.integers

    def known(self, _users: None) -> None:
        """No universe: anybody may appear."""

    def columns(self, est: Any, _kind: Kind, rows: opt.RowOptions, files: Sequence[str]) -> Columns:
        """The column of the ids. What ids are is said by --ids or the state, which keeps it, or by the first file."""
        if self.ids is not None:
            est.declare_ids(self.ids.value)
        if est.ids is None and list(files) == [STDIN]:
            raise InvalidValue(
                "are ids integers or text? No row of a pipe decides that: say --ids integers, or --ids text",
                code="which-ids",
            )
        if rows.column is None:
            raise rows.which_column(files)
        return Columns((rows.column,), None if est.ids is None else Kind(est.ids))


_BUDGET = ("epsilon", "releases", "intrusions", "delta")


@option_group
class PrivacyOptions:
    """How much privacy there is to spend."""

    epsilon: Annotated[
        float | None,
        option("Privacy budget for the state and all its releases; 1 is usual, less is safer.", alias="-e"),
    ] = None
    delta: opt.Delta = None

    @property
    def plan(self) -> dict[str, Any]:
        """The budget, in the words of an estimator's constructor; None where nothing was said."""
        return {name: value for name, value in vars(self).items() if name in _BUDGET}


@option_group
class BudgetOptions(PrivacyOptions):
    """How much privacy there is to spend, and on how many releases."""

    releases: Annotated[int | None, option("Number of planned releases, which share the budget. Default: 1.")] = None


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
        return {}

    def check(self, est: Any) -> None:
        """Refuse to continue a state of another size."""


FLAT = Parameter(name="*")
"""A dataclass whose fields are options of the command."""


@option_group
class CountOptions:
    """The options of a command that counts, and the way from them to its answers.

    A command names its estimator, and replaces the options that differ.
    """

    ESTIMATOR: ClassVar[str]
    """The class of a new estimator."""

    rows: Annotated[opt.FileOptions, opt.EVENTS] = opt.FileOptions()
    who: Annotated[UniverseOptions, opt.USERS] = UniverseOptions()
    budget: Annotated[PrivacyOptions, opt.USERS] = PrivacyOptions()
    state: Annotated[opt.StateOptions, opt.OTHERS] = opt.StateOptions()
    series: Annotated[opt.SeriesOptions, opt.OTHERS] = opt.SeriesOptions()
    look: Annotated[opt.OutputOptions, opt.OTHERS] = opt.OutputOptions()

    def count(self, files: Sequence[str], *, live: bool = False) -> None:
        """Build an estimator or continue a saved one, feed it the events, release, and print the answers.

        `live` says that events arrive one after the other, as they do from a pipe.
        """
        self.look.prepare(live=live or any(map(is_slow, files)))
        from panprivacy.cli.run import Run, continued_or_new
        from panprivacy.estimates.plots import check_picture

        look = self.look
        check_picture(look.plot)
        with self.state.open() as kept:
            self.check_options(files, kept)
            users, kind = self.who.read()
            new = partial(self.new, users, files)
            est = new() if kept is None else continued_or_new(kept, users, new)
            if kept is not None and kept.exists:
                self.check_state(est, users, kept)
            run = Run(est, kept, look.level, look.output(), look.plot, self.by_column, self.budget.delta, new)
            self.feed(run, self.source(files, run, kind))

    def check_options(self, files: Sequence[str], kept: "Kept | None") -> None:
        """Refuse options that contradict each other, before anything is read."""

    def new(self, users: Any, files: Sequence[str]) -> "Estimator[Any]":
        """A new estimator. Who could appear and how much privacy there is have to be said."""
        from panprivacy.registry import build, class_named

        universe, arguments = self.who.known(users), opt.given(self.arguments(files))
        if "epsilon" not in arguments:
            raise InvalidValue("how much privacy? Say --epsilon E, the total budget; 1 is usual", code="epsilon")
        est: Estimator[Any] = build(class_named(self.ESTIMATOR), universe, **arguments)
        return est

    def arguments(self, _files: Sequence[str]) -> dict[str, Any]:
        """Arguments of a new estimator, besides its universe; None where the command says nothing."""
        return self.budget.plan

    def check_state(self, est: Any, users: Any, kept: "Kept") -> None:
        """Refuse to continue a state that differs from what the command asks for."""
        universe = est.universe.describe(), users and users.describe()
        _refuse_another({"estimator": (type(est).__name__, self.ESTIMATOR), "universe": universe}, kept.path)
        _refuse_another(self.compared(est), kept.path)

    def compared(self, est: Any) -> dict[str, tuple[Any, Any]]:
        """What a state has, and what the command asks for: None for nothing.

        A state may have no delta where one is allowed: that is no other promise.
        """
        plan = plan_of(est)
        return {name: (plan[name], wanted) for name, wanted in self.budget.plan.items()}

    @property
    def by_column(self) -> str | None:
        """The column of groups or categories."""
        return self.who.group

    def source(self, files: Sequence[str], run: "Run", kind: Kind) -> "Events":
        """The files, or the pipe that a dash stands for."""
        columns = self.who.columns(run.est, kind, self.rows, files)
        return self.rows.source(files, columns, skip_outside=self.who.skip_outside)

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

    budget: Annotated[BudgetOptions, opt.USERS] = BudgetOptions()
    state: Annotated[opt.FolderOptions, opt.OTHERS] = opt.FolderOptions()
    categories: Annotated[opt.CategoryOptions, opt.EVENTS] = opt.CategoryOptions()
    size: Annotated[SizeOptions, opt.USERS] = SizeOptions()

    def arguments(self, files: Sequence[str]) -> dict[str, Any]:
        """As `CountOptions.arguments`. How many periods share the budget has to be said."""
        from panprivacy.cli.calendar import check_periods_planned

        read = [] if list(files) == [STDIN] else files
        check_periods_planned(self.budget.releases, self.series, read, self.rows)
        return super().arguments(files) | self.categories.arguments() | self.size.arguments()

    def check_state(self, est: Any, users: Any, kept: "Kept") -> None:
        super().check_state(est, users, kept)
        self.categories.check(est)
        self.size.check(est)

    @property
    def by_column(self) -> str | None:
        """The column of groups or categories."""
        return self.categories.by or super().by_column

    def source(self, files: Sequence[str], run: "Run", kind: Kind) -> "Events":
        """As `CountOptions.source`, with the column of categories."""
        columns: Columns = self.who.columns(run.est, kind, self.rows, files)
        columns, unlisted = replace(columns, category=self.categories.by), self.categories.unlisted
        return self.rows.source(files, columns, skip_outside=self.who.skip_outside, unlisted=unlisted)

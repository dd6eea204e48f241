"""Options that say who is counted, with how much privacy, and how large the table is.

Heavy modules are imported in the methods that need them, so that help comes at once.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from cyclopts import Parameter

from panprivacy.cli.options import Delta, WholeNumber
from panprivacy.errors import InvalidValue, PanPrivacyError
from panprivacy.ingest.batch import Columns, Kind

if TYPE_CHECKING:
    from panprivacy.estimators.base import Estimator
    from panprivacy.estimators.density import Density
    from panprivacy.estimators.distinct import DistinctCount
    from panprivacy.universe import Universe, Users


@dataclass(frozen=True)
class UniverseOptions:
    """Which users there could be."""

    HOW: ClassVar[str] = "--universe N, or --universe-file FILE"
    """How a command says who could appear."""

    universe: Annotated[
        int | None, WholeNumber, Parameter(help="The universe is N users, whose ids are the numbers 0 to N-1.")
    ] = None
    universe_file: Annotated[
        str | None,
        Parameter(
            metavar="FILE[:COLUMN]",
            help="The universe is the users listed in this file, whose ids may be numbers or text.",
        ),
    ] = None
    normalize: Annotated[
        str | None,
        Parameter(
            metavar="HOW",
            help="Write listed users and ids of events alike: zeros (without leading zeros and .0), case, strip, nfc, "
            "several with commas, all; none to compare them as they are.",
        ),
    ] = None
    skip_outside: Annotated[
        bool, Parameter(help="Leave out rows whose user is not in the universe; they are not counted anywhere.")
    ] = False

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

        if self.universe is not None:
            return Range(self.universe), Kind.integers
        return (None, Kind.integers) if self.universe_file is None else self._read_users(self.universe_file)

    def _read_users(self, given: str, group: str | None = None) -> "tuple[Users, Kind]":
        """The users in a file, with their groups if a column of them is named, and what their ids are."""
        from panprivacy.ingest import kind_of, read_ids, split_column
        from panprivacy.universe import Users

        file, column = split_column(given)
        ids = read_ids(file, column)
        groups = None if group is None else read_ids(file, group, "group")
        users = Users(ids, groups=groups, normalize=self.normalize)
        return users, Kind.text if users.normalize else kind_of(ids.dtype) or Kind.integers

    def columns(
        self, universe: Any, kind: Kind, column: str | None, which: Callable[[], ValueError], action: str | None = None
    ) -> Columns:
        """The columns that hold the ids of this universe; `which` asks for the column if it was not said."""
        from panprivacy.slots.saved import Unlisted

        if isinstance(universe, Unlisted):
            said = "nodes: give the same --nodes FILE" if universe.nodes else "users: give the same --universe-file"
            raise PanPrivacyError(f"this state is of listed {said} again", code="universe-needed")
        if column is None:
            raise which()
        return Columns((column,), kind, action)


@dataclass(frozen=True)
class GroupedUniverseOptions(UniverseOptions):
    """Which users there could be, and in which groups."""

    group: Annotated[
        str | None,
        Parameter(metavar="NAME", help="Column of that file: the group of each user; each group gets its own answer."),
    ] = None

    def _read(self) -> "tuple[Universe | None, Kind]":
        if self.group is None:
            return super()._read()
        if self.universe_file is None:
            raise InvalidValue(
                "--group is a column of the list of users: say --universe-file FILE:COLUMN", code="group-without-list"
            )
        return self._read_users(self.universe_file, self.group)


@dataclass(frozen=True)
class GraphOptions(GroupedUniverseOptions):
    """Which users there could be, where they may also be the edges of a graph."""

    HOW: ClassVar[str] = "--universe N, --universe-file FILE, or --edges SRC,DST --nodes N"

    nodes: Annotated[
        str | None,
        Parameter(
            metavar="N|FILE",
            help="The universe is all edges between the nodes 0 to N-1, or between the nodes listed in a file.",
        ),
    ] = None
    edges: Annotated[
        str | None,
        Parameter(metavar="SRC,DST", help="With --nodes, instead of --column: columns of the two ends of an edge."),
    ] = None
    directed: Annotated[bool, Parameter(help="Edges have a direction: 1,2 and 2,1 are two of them.")] = False

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

    def columns(
        self, universe: Any, kind: Kind, column: str | None, which: Callable[[], ValueError], action: str | None = None
    ) -> Columns:
        """As `UniverseOptions.columns`, or the columns of the two ends of an edge."""
        from panprivacy.slots.saved import Unlisted
        from panprivacy.universe import Edges

        if not isinstance(universe, Edges):
            graph = [name for name in ("directed", "edges") if getattr(self, name)]
            if graph and not isinstance(universe, Unlisted):
                raise InvalidValue(f"--{graph[0]} is for a graph of --nodes N", code="not-a-graph")
            return super().columns(universe, kind, column, which, action)
        ends = tuple(end.strip() for end in (self.edges or "").split(","))
        if len(ends) != 2 or not all(ends):
            raise InvalidValue("a graph needs --edges SRC,DST: the columns of the two ends", code="which-edges")
        if column is not None:
            raise InvalidValue("an edge has two columns, --edges SRC,DST: leave --column out", code="column-of-edges")
        if self.directed and not universe.directed:
            raise PanPrivacyError(
                "this state is of edges without direction: leave --directed out", code="another-state"
            )
        return Columns(ends, kind, action)


@dataclass(frozen=True)
class BudgetOptions:
    """How much privacy there is to spend, and on how many releases."""

    epsilon: Annotated[
        float | None,
        Parameter(
            alias="-e", help="Privacy budget for everything that is ever seen of this state; 1 is usual, less is safer."
        ),
    ] = None
    releases: Annotated[
        int | None,
        Parameter(help="Answers that will be released in all; they share the budget. Default: 1."),
    ] = None
    delta: Delta = None

    @property
    def plan(self) -> dict[str, Any]:
        """What an estimator is planned for, in the words of its constructor; None where nothing was said."""
        return {"epsilon": self.epsilon, "releases": self.releases, "delta": self.delta}


@dataclass(frozen=True)
class ReadBudgetOptions(BudgetOptions):
    """A budget that may also pay for announced readings of the state."""

    intrusions: Annotated[int | None, Parameter(help="Announced readings of the state to plan for. Default: 0.")] = None

    @property
    def plan(self) -> dict[str, Any]:
        """As `BudgetOptions.plan`."""
        return super().plan | {"intrusions": self.intrusions}


def planned(plan: dict[str, Any]) -> dict[str, Any]:
    """Arguments of a new estimator: what the command says, without what it does not say."""
    if plan["epsilon"] is None:
        raise InvalidValue("how much privacy? Say --epsilon E, the total budget; 1 is usual", code="epsilon")
    return given(plan)


def plan_of(est: "Estimator[Any]") -> dict[str, Any]:
    """What an estimator was planned for, in the words of `planned`."""
    budget = est.budget
    plan = {"epsilon": est.epsilon, "releases": budget.releases, "intrusions": budget.redraws}
    return plan | {"delta": est.delta or None}


def given(options: dict[str, Any]) -> dict[str, Any]:
    """Those options that were given."""
    return {name: value for name, value in options.items() if value is not None}


@dataclass(frozen=True)
class DensitySize:
    """How many users of a known universe are tracked, and which."""

    sample: Annotated[
        int | None, Parameter(metavar="N", help="Track a random sample of N users. Default: all of them.")
    ] = None
    memory: Annotated[
        str | None,
        Parameter(metavar="SIZE", help='Track a random sample of as many users as fit in this, such as "16 KiB".'),
    ] = None
    shard: Annotated[
        str | None,
        Parameter(
            metavar="I/N[:KEY]",
            help="Count only part I of the users, who are cut into parts 0 to N-1; merge joins the parts.",
        ),
    ] = None

    @property
    def options(self) -> list[str]:
        """The options that were given."""
        return [f"--{name}" for name in given(vars(self))]

    def new(self, users: "Universe", plan: dict[str, Any], more: dict[str, Any]) -> "Density":
        """A `Density` of this size."""
        from panprivacy.estimators.density import Density

        return Density(users, **planned(plan), **self._arguments(), **more)

    def check(self, est: Any) -> None:
        """Refuse to continue a state that has another sample or shard than was asked for."""
        from panprivacy.estimators.density import Density

        if self.options:
            kinds = est.categories
            listed = {} if kinds is None else {"categories": kinds.labels}
            fresh = Density(est.universe, **planned(plan_of(est)), **self._arguments(), **listed)
            if fresh.bits != est.bits:
                raise PanPrivacyError(
                    f"this state has bits {est.bits[0]}..{est.bits[-1]}, and a table of {len(fresh.bits):,} bits from "
                    f"{fresh.bits[0]} on was asked for",
                    code="another-size",
                )

    def _arguments(self) -> dict[str, Any]:
        part, key = _parse_shard(self.shard)
        return {"sample": self.sample, "memory": self.memory, "shard": part, "key": key}


@dataclass(frozen=True)
class DistinctSize:
    """The size of a sketch of users who are in no list."""

    error: Annotated[
        float | None, Parameter(help="Relative standard error to reach, such as 0.02; the smaller, the more memory.")
    ] = None
    buckets: Annotated[
        int | None, Parameter(help="Buckets in each level of the sketch, instead of --error. Default: 4096.")
    ] = None
    key: Annotated[
        str | None,
        Parameter(
            metavar="HEX", help="Key of 32 hexadecimal digits; states that were made with the same key can be merged."
        ),
    ] = None

    @property
    def options(self) -> list[str]:
        """The options that were given."""
        return [f"--{name}" for name in given(vars(self))]

    def new(self, plan: dict[str, Any], more: dict[str, Any]) -> "DistinctCount":
        """A `DistinctCount` of this size."""
        from panprivacy.estimators.distinct import DistinctCount

        return DistinctCount(**planned(plan), **self._arguments(), **more)

    def check(self, est: Any) -> None:
        """Refuse to continue a state that has other buckets, or another key, than was asked for."""
        from panprivacy.estimators.distinct import DistinctCount

        size = self._arguments()
        if self.error is not None or self.buckets is not None:
            fresh = DistinctCount(**planned(plan_of(est)), **size)
            if fresh.buckets != est.buckets:
                raise PanPrivacyError(
                    f"this state has {est.buckets:,} buckets, and {fresh.buckets:,} were asked for", code="another-size"
                )
        if size["key"] not in (None, est.universe.key):
            raise PanPrivacyError("this state has another key than was asked for", code="another-key")

    def _arguments(self) -> dict[str, Any]:
        return {"error": self.error, "buckets": self.buckets, "key": _parse_key(self.key)}


def _parse_shard(text: str | None) -> tuple[tuple[int, int] | None, bytes | None]:
    """Read ``0/4`` or ``0/4:`` and the 32 hexadecimal digits of a key."""
    if text is None:
        return None, None
    match = re.fullmatch(r"([0-9]+)/([0-9]+)(?::([0-9a-fA-F]{32}))?", text)
    if not match:
        raise InvalidValue(
            f"shard {text!r} is not understood; write it like 0/4, or 0/4:KEY with 32 hexadecimal digits",
            code="shard-spelling",
        )
    return (int(match[1]), int(match[2])), bytes.fromhex(match[3]) if match[3] else None


def _parse_key(text: str | None) -> bytes | None:
    if text is not None and not re.fullmatch("[0-9a-fA-F]{32}", text):
        raise InvalidValue(
            f"key {text!r} is not 32 hexadecimal digits; make one with: openssl rand -hex 16", code="key-spelling"
        )
    return bytes.fromhex(text) if text is not None else None


def declared(est: Any, asked: Kind | None) -> Kind | None:
    """What ids are, if --ids or the state says it; the state keeps what --ids says."""
    if asked is not None:
        est.declare_ids(asked.value)
    return Kind(est.ids) if est.ids is not None else None

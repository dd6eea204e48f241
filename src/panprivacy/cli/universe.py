"""Who is counted: the options that say it, as a universe and the columns its ids are in."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

import typer

from panprivacy.cli.options import BUDGET, EVENTS
from panprivacy.errors import PanPrivacyError
from panprivacy.events import (
    Columns,
    Format,
    Kind,
    Layout,
    columns_told,
    expand,
    kind_of,
    read_ids,
    split_column,
)
from panprivacy.slots.saved import Unlisted
from panprivacy.universe import Edges, Range, Universe, Users

Ends: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="SRC,DST",
        help="Columns of the two ends of an edge, instead of --column: the users are edges of a graph.",
        rich_help_panel=EVENTS,
    ),
]
Nodes: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="N|FILE",
        help="The universe is all edges between the nodes 0 to N-1, or between the nodes listed in a file.",
        rich_help_panel=BUDGET,
    ),
]
Directed: TypeAlias = Annotated[
    bool,
    typer.Option("--directed", help="Edges have a direction: 1,2 and 2,1 are two of them.", rich_help_panel=BUDGET),
]


@dataclass(frozen=True)
class Asked:
    """The options that say which users there could be, and which columns name them."""

    column: str | None
    edges: str | None
    size: int | None
    file: str | None
    nodes: str | None
    """How many nodes a graph has, or the file that lists them."""
    directed: bool
    group: str | None = None
    """The column of the file that says which group each user is in."""

    def universe(self) -> tuple[Universe | None, Kind]:
        """The universe, or None if nothing was said about it, and what its ids are."""
        said = {"--universe": self.size, "--universe-file": self.file, "--nodes": self.nodes}
        given = [name for name, value in said.items() if value is not None]
        if self.group is not None and self.file is None:
            raise ValueError("--group is a column of the list of users: say --universe-file FILE:COLUMN")
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)}: only one of them can say who is counted")
        if self.size is not None:
            return Range(self.size), Kind.integers
        if self.nodes is not None:
            if re.fullmatch("[+-]?[0-9]+", self.nodes):
                return Edges(int(self.nodes), self.directed), Kind.integers
            named, kind = _listed(self.nodes)
            return Edges(named, self.directed), kind
        if self.file is not None:
            return _listed(self.file, self.group)
        return None, Kind.integers

    def columns(self, universe: Any, kind: Kind, action: str | None, which: Callable[[], ValueError]) -> Columns:
        """The columns that hold the ids of this universe; `which` asks for the one that was not said."""
        if isinstance(universe, Unlisted):
            said = "nodes: give the same --nodes FILE" if universe.nodes else "users: give the same --universe-file"
            raise PanPrivacyError(f"this state is of listed {said} again")
        if isinstance(universe, Edges):
            ends = tuple(end.strip() for end in (self.edges or "").split(","))
            if len(ends) != 2 or not all(ends):
                raise ValueError("a graph needs --edges SRC,DST: the columns of the two ends")
            if self.column is not None:
                raise ValueError("an edge has two columns, --edges SRC,DST: leave --column out")
            if self.directed and not universe.directed:
                raise PanPrivacyError("this state is of edges without direction: leave --directed out")
            return Columns(ends, kind, action)
        if self.directed:
            raise ValueError("--directed is for a graph of --nodes N")
        if self.edges is not None:
            raise ValueError("--edges is for a graph of --nodes N")
        if self.column is None:
            raise which()
        return Columns((self.column,), kind, action)


def which_column(files: Sequence[str], format_: Format | None, layout: Layout) -> ValueError:
    """Ask for the column of the ids, and say which there are."""
    file = expand(files)[0]
    told = columns_told(file, format_, layout)
    return ValueError(f"which column holds the ids? Say --column NAME{f'; {file}: {told}' if told else ''}")


def _listed(given: str, group: str | None = None) -> tuple[Users, Kind]:
    """The users in a file, with their groups if a column of them is named, and what their ids are."""
    file, column = split_column(given)
    ids = read_ids(file, column)
    groups = None if group is None else read_ids(file, group, "group")
    return Users(ids, groups=groups), kind_of(ids.dtype) or Kind.integers

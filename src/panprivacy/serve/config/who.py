"""Which users a counter could see: a number of them, a file that lists them, the edges of a graph, or anybody."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from panprivacy.errors import PanPrivacyError
from panprivacy.events import Kind as Ids
from panprivacy.events import kind_of, read_ids, split_column
from panprivacy.serve.config.table import Table
from panprivacy.serve.kinds import Kind
from panprivacy.universe import Edges, Range, Universe, Users


@dataclass(frozen=True)
class Who:
    """The users that there could be, as the file says it; a list of them is read when the counter is made."""

    size: int | None = None
    file: str | None = None
    """A file with its column: ``users.csv:id``."""
    group: str | None = None
    nodes: int | None = None
    directed: bool = False
    ids: Ids | None = Ids.integers
    _read: list[Universe] = field(default_factory=list, compare=False, repr=False)

    @property
    def edges(self) -> bool:
        """Whether users are edges of a graph."""
        return self.nodes is not None

    def universe(self) -> Universe | None:
        """The universe; None where anybody may appear."""
        if self.size is not None:
            return Range(self.size)
        if self.nodes is not None:
            return Edges(self.nodes, self.directed)
        if self.file is None:
            return None
        if not self._read:
            self._read.append(_listed(self.file, self.group))
        return self._read[0]

    @property
    def promise(self) -> dict[str, Any]:
        """What cannot change; whether a list is the same one, the state itself knows."""
        said = {"universe": self.size, "group": self.group, "nodes": self.nodes, "directed": self.directed or None}
        return {key: value for key, value in said.items() if value is not None}


def who_of(table: Table, kind: Kind, folder: Path) -> Who | None:
    """Read the keys that say who is counted; None if they do not."""
    size, file, nodes = table.whole("universe", least=1), table.text("universe_file"), table.whole("nodes", least=2)
    group, directed = table.text("group"), table.flag("directed")
    given = [key for key in ("universe", "universe_file", "nodes") if key in table]
    if kind.open:
        for key in given:
            table.blame(key, "a counter of kind distinct has no universe: anybody may appear")
        return Who(ids=None)
    if len(given) != 1:
        table.blame("universe", "who could appear? One of universe, universe_file and nodes says it")
        return None
    if group is not None and (file is None or not kind.groups):
        table.blame("group", "is a column of universe_file, for counters of kind density or counts")
    if directed and nodes is None:
        table.blame("directed", "is for a graph: say how many nodes it has")
    if file is None:
        return Who(size, None, None, nodes, directed) if size or nodes else None
    name, column = split_column(file)
    named = f"{folder / name}:{column}" if column else str(folder / name)
    try:
        users = _listed(named, group)
    except (PanPrivacyError, ValueError, OSError) as error:
        table.blame("universe_file", str(error))
        return None
    return Who(file=named, group=group, ids=_kind_of(named), _read=[users])


def _listed(named: str, group: str | None) -> Users:
    file, column = split_column(named)
    return Users(read_ids(file, column), groups=None if group is None else read_ids(file, group))


def _kind_of(named: str) -> Ids:
    file, column = split_column(named)
    return kind_of(read_ids(file, column).dtype) or Ids.integers

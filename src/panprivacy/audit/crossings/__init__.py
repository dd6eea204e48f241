"""Crossings: every exported estimator with every feature that it can meet, each audited, refused or not applicable.

Rows are the estimators, `columns` the features; a column finds one of the `cells` for any row.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from panprivacy.audit.crossings.cells import Cell, How, Row, Verdict, rows
from panprivacy.audit.crossings.columns import COLUMNS, MORE, Column

__all__ = [
    "COLUMNS",
    "MORE",
    "Cell",
    "Crossing",
    "Filled",
    "How",
    "Row",
    "Verdict",
    "crossings",
    "fill",
    "markdown",
    "rows",
]

BEYOND = "beyond pairs"
"""What stands in the place of an estimator for crossings of more than two features."""


class Crossing(NamedTuple):
    """One cell to be filled."""

    estimator: str
    feature: str
    cell: Callable[[], Cell]


class Filled(NamedTuple):
    """One cell that is filled."""

    estimator: str
    feature: str
    cell: Cell


def crossings(estimator: str | None = None) -> list[Crossing]:
    """All cells of the table, or of one estimator."""
    chosen = [row for row in rows() if estimator is None or row.name.lower() == estimator.lower()]
    if not chosen:
        raise ValueError(
            f"there is no estimator {estimator!r} to cross; there are: {', '.join(r.name for r in rows())}"
        )
    found = [_crossing(row, column) for row in chosen for column in COLUMNS]
    if estimator is None:
        found += [Crossing(BEYOND, name, cell) for name, cell in MORE.items()]
    return found


def _crossing(row: Row, column: Column) -> Crossing:
    return Crossing(row.name, column.title, lambda: column.cell(row))


def fill(wanted: Sequence[Crossing]) -> Iterator[Filled]:
    """Fill cells, one after the other."""
    for estimator, feature, cell in wanted:
        yield Filled(estimator, feature, cell())


def markdown(table: Sequence[Filled]) -> str:
    """The page: a table of verdicts, and for each estimator what was found."""
    estimators = list(dict.fromkeys(one.estimator for one in table if one.estimator != BEYOND))
    cells = {(one.estimator, one.feature): one.cell for one in table}
    lines = [f"| crossed with | {' | '.join(estimators)} |", f"|---|{'---|' * len(estimators)}"]
    for feature in (column.title for column in COLUMNS):
        verdicts = (_verdict(cells[estimator, feature]) for estimator in estimators)
        lines.append(f"| {feature} | {' | '.join(verdicts)} |")
    for estimator in dict.fromkeys(one.estimator for one in table):
        lines += ["", f"## {title_of(estimator)}", ""]
        lines += ["| crossed with | verdict | exact | stated | how, or why not |", "|---|---|---|---|---|"]
        lines += [line_of(one) for one in table if one.estimator == estimator]
    return "\n".join(lines)


def title_of(estimator: str) -> str:
    """The title of the section of an estimator."""
    return "More than two features" if estimator == BEYOND else estimator


def _verdict(cell: Cell) -> str:
    return cell.verdict.value if cell.holds else "**DOES NOT HOLD**"


def line_of(one: Filled) -> str:
    """One crossing, in Markdown."""
    cell = one.cell
    why = cell.reason or cell.how.value
    return f"| {one.feature} | {_verdict(cell)} | {cell.exact} | {cell.stated} | {why.replace('|', '/')} |"

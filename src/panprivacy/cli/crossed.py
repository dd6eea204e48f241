"""`panprivacy audit --crossings`: every estimator with every feature that it can meet."""

import json
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

if TYPE_CHECKING:
    from panprivacy.audit.crossings import Filled


def audit_crossings(estimator: str | None, *, as_json: bool, markdown: bool) -> bool:
    """Fill the table of crossings and print it; whether everything audited holds."""
    from panprivacy.audit import crossings

    wanted = crossings.crossings(estimator)
    console = Console(stderr=True)
    hidden = not console.is_terminal
    cells = track(crossings.fill(wanted), "auditing", len(wanted), console=console, transient=True, disable=hidden)
    found = list(cells)
    if as_json:
        rows = [{"estimator": one.estimator, "feature": one.feature, **one.cell.as_dict()} for one in found]
        typer.echo(json.dumps(rows, indent=2))
    elif markdown:
        typer.echo(crossings.markdown(found))
    else:
        Console().print(_table(found))
    return all(one.cell.holds for one in found)


def _table(found: "list[Filled]") -> Table:
    table = Table("estimator", "crossed with", "verdict", "exact", "stated", "how, or why not", row_styles=["", "dim"])
    for estimator, feature, cell in found:
        verdict = cell.verdict.value if cell.holds else "[bold red]DOES NOT HOLD"
        table.add_row(estimator, feature, verdict, cell.exact, cell.stated, cell.reason or cell.how.value)
    return table

"""`panprivacy audit`: what each estimator claims, what it exactly loses, and what it leaves in memory."""

import json
from collections.abc import Iterable
from math import isinf
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from cyclopts import Parameter, validators
from rich.console import Console
from rich.progress import track
from rich.table import Table

from panprivacy.cli.options import OTHERS, option, option_group
from panprivacy.cli.output import Output
from panprivacy.display import format_bytes
from panprivacy.errors import InvalidValue

if TYPE_CHECKING:
    from panprivacy.audit.enumeration.wording import Result
    from panprivacy.audit.memory import Imaged, Scenario
    from panprivacy.audit.subjects import Subject

T = TypeVar("T")

_COLUMNS = ("scenario", "users", "mode", "image", "users named", "ids found", "verdict")
_FEWEST = 10_000  # with fewer, a few ids in a row might stand there by chance


@option_group
class AuditOptions:
    """Which streams an estimator is run on, what else is audited, and how results are printed."""

    epsilon: Annotated[
        float,
        option("Privacy budget that is claimed; at least 3 with a delta, at least 8 for Continual and Continuous."),
    ] = 0.2
    users: Annotated[int | None, option("Number of users: 2 to 5, default 3. With --memory: 10,000 or more.")] = None
    events: Annotated[int, option("Length of the longest stream.", validator=validators.Number(gte=1, lte=6))] = 3
    releases: Annotated[
        int,
        option("Number of releases, for estimators that can plan several.", validator=validators.Number(gte=1, lte=4)),
    ] = 1
    intrusions: Annotated[
        int,
        option(
            "Number of announced readings of the state, for estimators that can plan them.",
            validator=validators.Number(gte=0, lte=2),
        ),
    ] = 0
    deletions: Annotated[bool, option("Streams also delete users.")] = False
    as_json: Annotated[bool, Parameter("--json", help="Print the results as JSON.")] = False
    as_csv: Annotated[bool, Parameter("--csv", help="Print the results as CSV, with a header.")] = False
    memory: Annotated[
        bool,
        option("Instead, image the memory of running processes, and search the images for old bits, ids and keys."),
    ] = False
    full: Annotated[bool, option("With --memory: run with 10^4, 10^5, 10^6 and 10^7 users.")] = False
    crossings: Annotated[
        bool,
        option("Instead, cross every estimator with files, folders, windows, cycles, groups, categories and a delta."),
    ] = False
    markdown: Annotated[bool, option("With --memory or --crossings: print the table in Markdown.")] = False


def audit(
    estimator: Annotated[
        str | None,
        option(
            "Estimator to audit, such as [bold]Density[/bold]; default: all. With --memory: how the names of scenarios "
            "begin, such as [bold]pipe[/bold]."
        ),
    ] = None,
    /,
    *,
    asked: Annotated[AuditOptions, OTHERS] = AuditOptions(),
) -> None:
    """Check the privacy of estimators: run them under every outcome of their coins, and print the exact loss.

    The exit status is 1 if a private estimator loses more than it claims, alone or in a crossing, or if an image of
    memory holds bits, ids or keys.

    Example: [bold]panprivacy audit Density --releases 2 --deletions[/bold]
    """
    printing = Output(as_json=asked.as_json, as_csv=asked.as_csv)
    if asked.memory:
        sizes = [10_000, 100_000, 1_000_000, 10_000_000] if asked.full else [asked.users or 10_000]
        holds = _audit_memory(estimator or "", sizes, printing, markdown=asked.markdown)
    elif asked.crossings:
        holds = _audit_crossings(estimator, printing, markdown=asked.markdown)
    else:
        holds = _audit_exactly(estimator, asked, printing)
    if not holds:
        raise SystemExit(1)


def _print_rows(rows: list[dict[str, Any]], printing: Output) -> None:
    """Print results for programs: one list of JSON, or rows of CSV, in which lists and objects are JSON."""
    if printing.as_json:
        print(json.dumps(rows, indent=2))
        return
    for row in rows:
        nested = {name: json.dumps(cell) for name, cell in row.items() if isinstance(cell, list | tuple | dict)}
        printing.answer(row | nested)


def _track(things: Iterable[T], what: str, total: int | None = None) -> Iterable[T]:
    """The same things, with a progress bar on a terminal."""
    console = Console(stderr=True)
    return track(things, what, total, console=console, transient=True, disable=not console.is_terminal)


def _audit_exactly(estimator: str | None, asked: AuditOptions, printing: Output) -> bool:
    """Run estimators under every outcome of their coins, and print their losses; whether all that must hold do."""
    from panprivacy.audit.subjects import Case

    users = 3 if asked.users is None else asked.users
    if not 2 <= users <= 5:
        raise InvalidValue(f"between 2 and 5 users can be enumerated, got {users}", code="audit-users")
    subjects = _chosen(estimator)
    case = Case(asked.epsilon, users, asked.events, asked.releases, asked.intrusions, asked.deletions)
    results = [subject.audit(case) for subject in _track(subjects, "auditing")]
    for least in sorted({subject.least for subject in subjects if subject.least > case.epsilon}):
        names = "; ".join(subject.name for subject in subjects if subject.least == least)
        Output().note(f"{names}: audited at epsilon {least:g}; with less there is too much to enumerate")
    if printing.for_programs:
        rows = [{"name": s.name, "private": s.private, **r.as_dict()} for s, r in zip(subjects, results, strict=True)]
        _print_rows(rows, printing)
    elif estimator and len(subjects) == 1:
        Console().print(f"[bold]{subjects[0].name}[/bold]: {results[0]}", highlight=False)
    else:
        Console().print(_table(subjects, results))
    return all(result.holds or not subject.private for subject, result in zip(subjects, results, strict=True))


def _chosen(name: str | None) -> "list[Subject]":
    """The subjects of that name, whatever is said behind a comma; all without a name."""
    from panprivacy.audit.subjects import subjects

    known = subjects()
    if name is None:
        return known
    exactly = [subject for subject in known if subject.name.lower() == name.lower()]
    found = exactly or [subject for subject in known if subject.kind.__name__.lower() == name.lower()]
    if not found:
        names = "; ".join(subject.name for subject in known)
        raise InvalidValue(f"there is no estimator {name!r} to audit; there are: {names}", code="audit-choice")
    return found


def _table(subjects: "list[Subject]", results: "list[Result]") -> Table:
    table = Table("estimator", "claimed", "exact", "verdict", "witness", row_styles=["", "dim"])
    for subject, result in zip(subjects, results, strict=True):
        claimed = "nothing" if isinf(result.claimed) else f"{result.claimed:.6f}"
        found = "infinite" if isinf(result.worst_loss) else f"{result.worst_loss:.6f}"
        if result.claimed_delta:  # then the delta at the epsilon that is claimed is what is compared
            found = f"{claimed}\ndelta {result.worst_delta:.1e}"
            claimed = f"{claimed}\ndelta {result.claimed_delta:.1e}"
        verdict = "[bold red]FAILS" if subject.private else "[yellow]fails as printed"
        if isinf(result.claimed):
            verdict = "not private"
        elif result.holds:
            verdict = "[green]holds"
        witness = "nothing seen depends on anybody"
        if result.witness:
            witness = result.witness.sentence
        elif result.worst_delta:
            beyond = f"what noise in the state beyond {result.reach} might tell"
            witness = f"nothing tells more than epsilon; the delta is {beyond}"
        table.add_row(subject.name, claimed, found, verdict, witness)
    return table


def _audit_crossings(estimator: str | None, printing: Output, *, markdown: bool) -> bool:
    """Fill the table of crossings and print it; whether everything audited holds."""
    from panprivacy.audit import crossings

    wanted = crossings.crossings(estimator)
    found = list(_track(crossings.fill(wanted), "auditing", len(wanted)))
    if printing.for_programs:
        rows = [{"estimator": one.estimator, "feature": one.feature, **one.cell.as_dict()} for one in found]
        _print_rows(rows, printing)
    elif markdown:
        print(crossings.markdown(found))
    else:
        headers = ("estimator", "crossed with", "verdict", "exact", "stated", "how, or why not")
        table = Table(*headers, row_styles=["", "dim"])
        for name, feature, cell in found:
            verdict = cell.verdict.value if cell.holds else "[bold red]DOES NOT HOLD"
            table.add_row(name, feature, verdict, cell.exact, cell.stated, cell.reason or cell.how.value)
        Console().print(table)
    return all(one.cell.holds for one in found)


def _audit_memory(beginning: str, sizes: list[int], printing: Output, *, markdown: bool) -> bool:
    """Image every scenario whose name begins so, at every size, and print what was found; whether all are clean."""
    from panprivacy.audit.memory import image

    if min(sizes) < _FEWEST:
        raise InvalidValue(f"images are searched from {_FEWEST:,} users on, got {min(sizes):,}", code="audit-users")
    runs = [(scenario, users) for users in sizes for scenario in _scenarios(beginning)]
    if markdown:
        _print_row(_COLUMNS)
        _print_row(tuple("---" for _ in _COLUMNS))
    results = []
    for scenario, users in _track(runs, "imaging"):
        results.append(image(scenario, users))
        if markdown:  # at once: all of them take an hour, and the first may be known to leak long before
            _print_row(_row_of_image(results[-1]))
    if printing.for_programs:
        _print_rows([result.as_dict() for result in results], printing)
    elif not markdown:
        table = Table(*_COLUMNS, row_styles=["", "dim"])
        for result in results:
            table.add_row(*_row_of_image(result), style=None if result.clean else "bold red")
        Console().print(table)
    return all(result.clean for result in results)


def _scenarios(beginning: str) -> "list[Scenario]":
    from panprivacy.audit.memory import scenarios

    chosen = [scenario for scenario in scenarios() if scenario.name.lower().startswith(beginning.lower())]
    if not chosen:
        names = "; ".join(scenario.name for scenario in scenarios())
        raise InvalidValue(f"there is no scenario {beginning!r} to image; there are: {names}", code="audit-choice")
    for scenario in chosen:
        if scenario.missing is not None:
            Output().note(f"{scenario.name}: left out, since {scenario.missing}")
    return [scenario for scenario in chosen if scenario.missing is None]


def _print_row(row: tuple[str, ...]) -> None:
    print(f"| {' | '.join(row)} |")


def _row_of_image(result: "Imaged") -> tuple[str, ...]:
    return (
        result.scenario,
        f"{result.users:,}",
        "hardened" if result.hardened else "plain",
        format_bytes(result.image_bytes),
        f"{result.users_named:,} of {result.came:,}",
        f"{result.ids_found:,}",
        "nothing found" if result.clean else ", ".join(["LEAKS", *result.details]),
    )

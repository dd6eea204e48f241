"""`panprivacy audit`: what each estimator claims, what it exactly loses, and what it leaves in memory."""

import json
from math import isinf
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from panprivacy.cli.crossed import audit_crossings
from panprivacy.cli.images import audit_memory
from panprivacy.cli.plainly import Speaker, plain_errors

if TYPE_CHECKING:
    from panprivacy.audit.result import Result
    from panprivacy.audit.subjects import Case, Subject


def audit(
    estimator: Annotated[
        str | None,
        typer.Argument(
            help="Which estimator, such as [bold]Density[/bold]; all of them if left out. With --memory, the beginning "
            "of the names of scenarios, such as [bold]pipe[/bold]."
        ),
    ] = None,
    epsilon: Annotated[
        float,
        typer.Option(
            help="Privacy budget that the estimators claim to keep to; at least 3 with a delta, and at least 8 for "
            "Continual and Continuous."
        ),
    ] = 0.2,
    users: Annotated[
        int | None, typer.Option(help="How many users there are: 2 to 5; default 3. With --memory: 10,000 or more.")
    ] = None,
    events: Annotated[int, typer.Option(help="How many events the longest stream has.", min=1, max=6)] = 3,
    releases: Annotated[
        int, typer.Option(help="How many releases are made, by estimators that can plan more than one.", min=1, max=4)
    ] = 1,
    intrusions: Annotated[
        int,
        typer.Option(
            help="How many announced readings of the state there are, for estimators that can plan them.", min=0, max=2
        ),
    ] = 0,
    deletions: Annotated[
        bool, typer.Option("--deletions", help="Let the streams delete users as well as insert them.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
    memory: Annotated[
        bool,
        typer.Option(
            "--memory",
            help="Instead, take images of the memory of running processes, and search them for old bits, ids and keys.",
        ),
    ] = False,
    full: Annotated[
        bool, typer.Option("--full", help="With --memory: run with 10^4, 10^5, 10^6 and 10^7 users.")
    ] = False,
    crossings: Annotated[
        bool,
        typer.Option(
            "--crossings",
            help="Instead, cross every estimator with files, folders, windows, cycles, groups, categories and a delta.",
        ),
    ] = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="With --memory or --crossings: print the table in Markdown.")
    ] = False,
) -> None:
    """Check the privacy of estimators: run them under every outcome of their coins, and print the exact loss.

    The exit status is 1 if an estimator that is meant to be private loses more than it claims, alone or in a crossing,
    or if an image holds anything that it must not.

    Example: [bold]panprivacy audit Density --releases 2 --deletions[/bold]
    """
    from panprivacy.audit.subjects import Case

    if memory:
        with plain_errors():
            sizes = [10_000, 100_000, 1_000_000, 10_000_000] if full else [users or 10_000]
            clean = audit_memory(estimator or "", sizes, as_json=as_json, markdown=markdown)
        raise typer.Exit(0 if clean else 1)
    if crossings:
        with plain_errors():
            held = audit_crossings(estimator, as_json=as_json, markdown=markdown)
        raise typer.Exit(0 if held else 1)
    console = Console()
    with plain_errors():
        users = 3 if users is None else users
        if not 2 <= users <= 5:
            raise ValueError(f"between 2 and 5 users can be enumerated, got {users}")
        subjects = _chosen(estimator)
        case = Case(epsilon, users, events, releases, intrusions, deletions)
        results = _audited(subjects, case, Console(stderr=True))
    _note_raised(subjects, case)
    if as_json:
        rows = [{"name": s.name, "private": s.private, **r.as_dict()} for s, r in zip(subjects, results, strict=True)]
        typer.echo(json.dumps(rows, indent=2))
    elif estimator and len(subjects) == 1:
        console.print(f"[bold]{subjects[0].name}[/bold]: {results[0]}", highlight=False)
    else:
        console.print(_table(subjects, results))
    if any(subject.private and not result.holds for subject, result in zip(subjects, results, strict=True)):
        raise typer.Exit(1)


def _chosen(name: str | None) -> "list[Subject]":
    """The subjects of that name, whatever is said behind a comma; all without a name."""
    from panprivacy.audit.subjects import SUBJECTS

    if name is None:
        return list(SUBJECTS)
    exactly = [subject for subject in SUBJECTS if subject.name.lower() == name.lower()]
    found = exactly or [subject for subject in SUBJECTS if subject.kind.__name__.lower() == name.lower()]
    if not found:
        names = "; ".join(subject.name for subject in SUBJECTS)
        raise ValueError(f"there is no estimator {name!r} to audit; there are: {names}")
    return found


def _audited(subjects: "list[Subject]", case: "Case", console: Console) -> "list[Result]":
    from rich.progress import track

    return [
        subject.audit(case)
        for subject in track(subjects, "auditing", console=console, transient=True, disable=not console.is_terminal)
    ]


def _note_raised(subjects: "list[Subject]", case: "Case") -> None:
    """Say which estimators were audited at a larger epsilon than was asked for."""
    for least in sorted({subject.least for subject in subjects if subject.least > case.epsilon}):
        names = "; ".join(subject.name for subject in subjects if subject.least == least)
        speaker = Speaker(as_json=False, quiet=False)
        speaker.note(f"{names}: audited at epsilon {least:g}; with less there is too much to enumerate")


def _table(subjects: "list[Subject]", results: "list[Result]") -> Table:
    table = Table("estimator", "claimed", "exact", "verdict", "witness", row_styles=["", "dim"])
    for subject, result in zip(subjects, results, strict=True):
        table.add_row(
            subject.name,
            _claimed(result),
            _found(result),
            _verdict(subject, result),
            _witness(result),
        )
    return table


def _claimed(result: "Result") -> str:
    if result.claimed_delta:
        return f"{result.claimed:.6f}\ndelta {result.claimed_delta:.1e}"
    return "nothing" if isinf(result.claimed) else f"{result.claimed:.6f}"


def _found(result: "Result") -> str:
    """The loss; with a delta, the delta at the epsilon that is claimed."""
    if result.claimed_delta:
        return f"{result.claimed:.6f}\ndelta {result.worst_delta:.1e}"
    return "infinite" if isinf(result.worst_loss) else f"{result.worst_loss:.6f}"


def _witness(result: "Result") -> str:
    if result.witness:
        return result.witness.sentence
    if result.worst_delta:
        return f"nothing tells more than epsilon; the delta is what noise in the state beyond {result.reach} might tell"
    return "nothing seen depends on anybody"


def _verdict(subject: "Subject", result: "Result") -> str:
    if isinf(result.claimed):
        return "not private"
    if result.holds:
        return "[green]holds"
    return "[bold red]FAILS" if subject.private else "[yellow]fails as printed"

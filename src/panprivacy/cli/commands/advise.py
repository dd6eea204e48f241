"""`panprivacy advise`: which estimator, which epsilon, and are there users enough?"""

import sys
from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import Parameter

from panprivacy.cli.options import OTHERS, WholeNumber
from panprivacy.cli.output import Output
from panprivacy.errors import InvalidValue


@dataclass(frozen=True)
class Known:
    """What is known and accepted."""

    users: Annotated[
        int | None,
        WholeNumber,
        Parameter(help="How many users there could be; for distinct, how many are expected to come."),
    ] = None
    releases: Annotated[int, Parameter(help="How many answers will be published; of a series, how many periods.")] = 1
    error: Annotated[
        float, Parameter(help="Acceptable error of a share, in 95 of 100 cases; for distinct, a share of the count.")
    ] = 0.05
    epsilon: Annotated[float, Parameter(alias="-e", help="The most epsilon that you accept; 1 is usual.")] = 1.0
    delta: Annotated[
        float, Parameter(metavar="P", help="The most delta that you accept; used only if it errs less; 0 for none.")
    ] = 1e-9
    up_to: Annotated[int, Parameter(metavar="T", help="For often: appearances of a user that count.")] = 4
    span: Annotated[str, Parameter(metavar="28d", help="For actives: the longest time that is asked about.")] = "28d"
    every: Annotated[
        str | None, Parameter(metavar="7d", help="Length of a period of a series, or of a day of actives.")
    ] = None


def advise(
    question: Annotated[str | None, Parameter(show=False)] = None,
    /,
    *,
    known: Annotated[Known, OTHERS] = Known(),
    as_json: Annotated[bool, Parameter("--json", help="Print the advice as one line of JSON.")] = False,
) -> None:
    """Say which estimator answers a question, at which epsilon, and what its answer will look like.

    Example: [bold]panprivacy advise share --users 100000 --error 0.02[/bold]

    QUESTION is share (what share of known users came), distinct (how many different users came), often (how often),
    actives (daily to monthly actives), retention (who came back) or series (the share of each period). On a terminal,
    what is left out is asked.
    """
    from panprivacy.planning.advisor import advise as advised

    output = Output(as_json=as_json, quiet=False)
    asked: dict[str, Any] = vars(known) | {"question": question, "delta": known.delta or None}
    if question is None or known.users is None:
        asked |= _ask(question, known)
    found = advised(**asked)
    output.answer(found.to_dict() if as_json else found)


def _ask(question: str | None, known: Known) -> dict[str, Any]:
    """Ask a person for the question and the numbers."""
    from rich.console import Console
    from rich.prompt import FloatPrompt, IntPrompt, Prompt

    from panprivacy.planning.advisor import QUESTIONS

    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise InvalidValue("say a QUESTION and --users N; panprivacy advise --help lists them", code="advise-missing")
    console = Console(stderr=True)
    if question is None:
        for name, text in QUESTIONS.items():
            console.print(f"  {name:<10} {text}", highlight=False)
        question = Prompt.ask("Which question", choices=list(QUESTIONS), default="share", console=console)
    users = known.users or IntPrompt.ask("How many users could come", default=100_000, console=console)
    releases = IntPrompt.ask("How many answers will be published", default=known.releases, console=console)
    error = FloatPrompt.ask("Which error is acceptable", default=known.error, console=console)
    return {"question": question, "users": users, "releases": releases, "error": error}

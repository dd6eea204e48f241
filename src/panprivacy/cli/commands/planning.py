"""`panprivacy advise` and `plan`: which estimator, how large, how much error, and how much epsilon?"""

import sys
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from panprivacy.checks import TINY_DELTA, large_delta
from panprivacy.cli.options import OTHERS, Delta, WholeNumber, option, option_group, read_categories
from panprivacy.cli.output import Output, lines_of
from panprivacy.display import Card, grid_of
from panprivacy.errors import InvalidValue

if TYPE_CHECKING:
    from panprivacy.planning import Plan
    from panprivacy.planning.advisor import Advice

_COMMANDS = {  # and what else they have to be told
    "Density": ("density", ""),
    "DistinctCount": ("distinct", ""),
    "Counts": ("counts", ""),
    "Retention": ("retention", " --then LATER"),
    "ActiveUsers": ("actives", " --time TIME --start DAY"),
}


@option_group
class Known:
    """The known numbers, and the accepted error and loss."""

    users: Annotated[
        int | None, WholeNumber, option("How many users there could be; for distinct, how many are expected.")
    ] = None
    releases: Annotated[int, option("How many answers will be published; for a series, the number of periods.")] = 1
    error: Annotated[
        float, option("Acceptable error of a share, met in 95 of 100 cases; for distinct, relative to the count.")
    ] = 0.05
    epsilon: Annotated[float, option("Largest acceptable epsilon; 1 is usual.", alias="-e")] = 1.0
    delta: Annotated[float, option("Largest acceptable delta, used if it reduces the error; 0 for none.", "P")] = 1e-9
    up_to: Annotated[int, option("For often: count up to T appearances of each user.", "T")] = 4
    span: Annotated[str, option("For actives: longest span of activity to report.", "28d")] = "28d"
    every: Annotated[str | None, option("Length of a period of a series, or of a day of actives.", "7d")] = None


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
    actives (daily to monthly actives), retention (who came back) or series (the share of each period). A terminal is
    asked for missing answers.
    """
    from panprivacy.planning.advisor import advise as advised

    output = Output(as_json=as_json)
    asked: dict[str, Any] = vars(known) | {"question": question, "delta": known.delta or None}
    if question is None or known.users is None:
        asked |= _ask(question, known)
    found = advised(**asked)
    command = command_of_advice(found)
    output.answer(found.to_dict() | {"shell": command} if as_json else _Told(found, command))


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


@option_group
class PlanOptions:
    """The wishes for an estimator, for groups or categories of which each keeps to the error; `plan` finds the rest."""

    universe: Annotated[int | None, WholeNumber, option("How many users there could be, if known (density).")] = None
    epsilon: Annotated[
        float | None, option("Total privacy budget; without it, plan finds the least that reaches --alpha.", alias="-e")
    ] = None
    alpha: Annotated[
        float | None, option("Largest acceptable error: of the density, or, without --universe, relative to the count.")
    ] = None
    beta: Annotated[float, option("Probability with which the error may exceed alpha.")] = 0.05
    memory: Annotated[str | None, option('Most memory for the bits, such as "16 KiB".')] = None
    releases: Annotated[int, option("Number of planned releases.")] = 1
    intrusions: Annotated[int, option("Announced readings of the state to plan for.")] = 0
    delta: Delta = None
    density: Annotated[float | None, option("Expected share of users who appear, if it is small.")] = None
    count: Annotated[float | None, option("Expected number of users who appear, without --universe.")] = None
    up_to: Annotated[int | None, option("Plan for counts instead: up to T appearances of each user.", "T")] = None
    only: Annotated[Literal["mean"] | None, option("With --up-to: release the mean alone.", "mean")] = None
    groups: Annotated[
        str | None,
        option(
            "Groups and their numbers of users, or the column of a file that has the group of each user.",
            "A=N,B=N|FILE:COLUMN",
        ),
    ] = None
    categories: Annotated[str | None, option("Categories of events, or a file that lists them.", "A,B,C|FILE")] = None
    other: Annotated[bool, option("One more category for events of all others.")] = False
    estimator: Annotated[
        Literal["Retention", "ActiveUsers"] | None,
        option("Plan for Retention or ActiveUsers instead, with a bit for every user.", "NAME"),
    ] = None
    span: Annotated[str, option("For ActiveUsers: longest span of activity to report.", "28d")] = "28d"
    every: Annotated[str, option("For ActiveUsers: length of a day.", "1d")] = "1d"


def plan(
    *,
    wish: Annotated[PlanOptions, OTHERS] = PlanOptions(),
    plot: Annotated[str | None, option("Draw the error against memory or epsilon: .png, .svg or .pdf.", "FILE")] = None,
    as_json: Annotated[bool, Parameter("--json", help="Print the plan as one line of JSON.")] = False,
    as_csv: Annotated[bool, Parameter("--csv", help="Print the plan as a row of CSV, below a header.")] = False,
) -> None:
    """Say which estimator to build, how large, and how much it will err, before any data comes in.

    Example: [bold]panprivacy plan --universe 1000000 --epsilon 0.4 --alpha 0.1 --beta 0.05[/bold]

    Without --alpha, plan finds the error that --memory allows; without --epsilon, the least epsilon.
    If users are not known in advance, leave out --universe and give the expected --count.
    With --groups or --categories, each of them keeps to --alpha, and each is listed with its error.
    """
    from panprivacy.estimates.plots import check_picture
    from panprivacy.planning import plan as planned
    from panprivacy.planning.periods import plan_periods

    output = Output(as_json=as_json, as_csv=as_csv)
    check_picture(plot)
    asked: dict[str, Any] = vars(wish) | {
        "groups": None if wish.groups is None else _sizes_of(wish.groups),
        "categories": None if wish.categories is None else read_categories(wish.categories),
    }
    periods = {name: asked.pop(name) for name in ("estimator", "span", "every")}
    if wish.estimator is None:
        found = planned(**asked)
    else:
        unused = any(asked[name] for name in ("memory", "count", "intrusions", "categories", "other"))
        if unused or (wish.universe is None and wish.groups is None):
            raise InvalidValue(
                f"{wish.estimator} is planned from --universe or --groups, --epsilon or --alpha, --beta and --density",
                code="plan-estimator",
            )
        same = ("universe", "epsilon", "alpha", "beta", "releases", "delta", "groups")
        found = plan_periods(**periods, **{name: asked[name] for name in same}, share=wish.density)
    output.answer(found.to_dict() if output.for_programs else _Told(found, command_of(found)))
    if found.delta > TINY_DELTA:  # as in `cli.notes`, which would load kernels
        output.note(large_delta(found.delta))
    if plot is not None:
        found.plot(plot)


def _sizes_of(text: str) -> dict[str, int]:
    """How many users each group has: as written, or counted in a file."""
    from panprivacy.ingest import read_ids, split_column

    file, column = split_column(text)
    if Path(file).is_file():
        labels = read_ids(file, column, "group").to_list()
        return dict(Counter(map(str, labels)))
    pairs = [each.rpartition("=") for each in text.split(",")]
    if not all(name.strip() and users.strip().replace("_", "").isdigit() for name, _, users in pairs):
        raise InvalidValue(
            f"--groups {text}: write NAME=USERS,NAME=USERS, such as north=40000,south=20000, or FILE:COLUMN",
            code="plan-groups",
        )
    return {name.strip(): int(users) for name, _, users in pairs}


@dataclass(frozen=True)
class _Told:
    """A plan or advice as a terminal shows it: with the command that builds the same."""

    found: Any
    command: str | None

    def card(self) -> Card:
        card: Card = self.found.card()
        return card if self.command is None else replace(card, rows=(*card.rows, ("in a shell", self.command)))

    def lines(self) -> list[str]:
        return lines_of(self.found) if hasattr(self.found, "lines") else [self.card().text]

    __rich__ = grid_of


def command_of(plan: "Plan[Any]") -> str | None:
    """The command that does what `Plan.build` does; None where that takes a list of users, or levels of one's own."""
    from panprivacy.estimators.distinct_law import levels_for
    from panprivacy.universe import Range

    words, divided = plan.arguments(), plan.parts
    users = ""
    if plan.estimator == "DistinctCount":
        if words.pop("levels") != levels_for(words["buckets"]):
            return None
    elif divided is not None and divided.groups is not None:
        users = " --universe-file USERS:ID --group GROUP"
    elif isinstance(plan.universe, Range):
        users = f" -n {plan.universe.size}"
    else:
        return None
    if divided is not None and divided.categories is not None:
        users += f" --by CATEGORY --categories {','.join(map(str, divided.arguments()['categories']))}"
        users += " --other" if divided.categories.other else ""
    options = " ".join(f"--{word.replace('_', '-')} {value}" for word, value in words.items())
    options = options.replace("--epsilon", "-e") if plan.estimator != "Counts" else options
    command, more = _COMMANDS[plan.estimator]
    return f"panprivacy {command} FILE -c NAME{more}{users} {options}"


def command_of_advice(advice: "Advice") -> str | None:
    """A command that counts ``visits.csv``; None where only Python has the estimator."""
    command = None if advice.plan is None or advice.ask.question == "series" else command_of(advice.plan)
    if command is None:
        return None
    names = {"FILE": "visits.csv", "NAME": "user", "LATER": "later.csv", "TIME": "when", "DAY": str(advice.start)}
    return " ".join(names.get(word, word) for word in command.split())

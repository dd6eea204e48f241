"""`panprivacy plan`: how much memory, or how much error, or how much epsilon will it take?"""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from panprivacy.checks import TINY_DELTA, large_delta
from panprivacy.cli.options import OTHERS, Delta, WholeNumber, read_categories
from panprivacy.cli.output import Output
from panprivacy.errors import InvalidValue

if TYPE_CHECKING:
    from panprivacy.planning import Plan


@dataclass(frozen=True)
class Wish:
    """What an estimator should do; what is left out is found."""

    universe: Annotated[
        int | None, WholeNumber, Parameter(help="How many users there could be, if that is known (density).")
    ] = None
    epsilon: Annotated[
        float | None,
        Parameter(alias="-e", help="Privacy budget in all; leave it out to be told the least that reaches --alpha."),
    ] = None
    alpha: Annotated[
        float | None,
        Parameter(help="Error to stay below: of the density, or, without --universe, relative to the count."),
    ] = None
    beta: Annotated[float, Parameter(help="Probability with which the error may reach alpha.")] = 0.05
    memory: Annotated[str | None, Parameter(help='The most memory for the bits, such as "16 KiB".')] = None
    releases: Annotated[int, Parameter(help="How many answers will be released in all.")] = 1
    intrusions: Annotated[int, Parameter(help="Announced readings of the state to plan for.")] = 0
    delta: Delta = None
    density: Annotated[
        float | None, Parameter(help="Share of the users that is expected to appear, if it is small.")
    ] = None
    count: Annotated[
        float | None, Parameter(help="Number of users that is expected to appear, without --universe.")
    ] = None
    up_to: Annotated[
        int | None,
        Parameter(metavar="T", help="Plan for counts instead: how often users appear, up to T times each."),
    ] = None
    only: Annotated[
        Literal["mean"] | None,
        Parameter(metavar="mean", show_choices=False, help="With --up-to: the mean alone is released."),
    ] = None


@dataclass(frozen=True)
class Divided:
    """Groups of users or categories of events, each of which has to keep to the error."""

    groups: Annotated[
        str | None,
        Parameter(
            metavar="A=N,B=N|FILE:COLUMN",
            help="Groups and their numbers of users, or the column of a file that has the group of each user.",
        ),
    ] = None
    categories: Annotated[
        str | None, Parameter(metavar="A,B,C|FILE", help="Categories of events, or a file that lists them.")
    ] = None
    other: Annotated[bool, Parameter(help="One more category for events of all others.")] = False

    def arguments(self) -> dict[str, Any]:
        """What the planner is told of them."""
        asked: dict[str, Any] = {} if self.groups is None else {"groups": _sizes_of(self.groups)}
        if self.categories is not None:
            asked["categories"] = read_categories(self.categories)
        return asked | ({"other": True} if self.other else {})


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
class Periods:
    """Estimators whose answers are about periods of time."""

    estimator: Annotated[
        Literal["Retention", "ActiveUsers"] | None,
        Parameter(
            metavar="NAME",
            show_choices=False,
            help="Plan for Retention or ActiveUsers instead, with a bit for every user.",
        ),
    ] = None
    span: Annotated[str, Parameter(metavar="28d", help="The longest time that an ActiveUsers is asked about.")] = "28d"
    every: Annotated[str, Parameter(metavar="1d", help="How long a day of an ActiveUsers lasts.")] = "1d"


def plan(
    *,
    wish: Annotated[Wish, OTHERS] = Wish(),
    divided: Annotated[Divided, OTHERS] = Divided(),
    periods: Annotated[Periods, OTHERS] = Periods(),
    plot: Annotated[
        str | None, Parameter(metavar="FILE", help="Draw error against memory, or epsilon: .png, .svg or .pdf.")
    ] = None,
    as_json: Annotated[bool, Parameter("--json", help="Print the plan as one line of JSON.")] = False,
    as_csv: Annotated[bool, Parameter("--csv", help="Print the plan as a row of CSV, below a header.")] = False,
) -> None:
    """Say which estimator to build, how large, and how much it will err, before any data comes in.

    Example: [bold]panprivacy plan --universe 1000000 --epsilon 0.4 --alpha 0.1 --beta 0.05[/bold]

    Leave out --alpha to be told the error that --memory allows, or --epsilon to be told the least.
    If you do not know who could appear, leave out --universe and say --count: how many are expected.
    With --groups or --categories, each of them keeps to --alpha, and each is listed with its error.
    """
    from panprivacy.planning import plan as planned

    output = Output(as_json=as_json, as_csv=as_csv, quiet=False)
    if plot is not None:
        from panprivacy.estimates.plots import check_picture

        check_picture(plot)
    asked: Any = planned  # whose overloads are for people who write what they want
    if periods.estimator is None:
        found = asked(**vars(wish), **divided.arguments())
    else:
        found = _plan_periods(wish, periods, divided.arguments())
    output.answer(found.to_dict() if output.for_programs else found)
    if found.delta > TINY_DELTA:
        output.note(large_delta(found.delta))
    if plot is not None:
        found.plot(plot)


def _plan_periods(wish: Wish, periods: Periods, divided: dict[str, Any]) -> "Plan[Any]":
    from panprivacy.planning.periods import plan_periods

    estimator = periods.estimator
    assert estimator is not None
    unused = wish.memory, wish.count, wish.intrusions or None
    no_users = wish.universe is None and "groups" not in divided
    if no_users or "categories" in divided or any(given is not None for given in unused):
        raise InvalidValue(
            f"{estimator} is planned from --universe or --groups, --epsilon or --alpha, --beta and --density",
            code="plan-estimator",
        )
    same: Any = {name: getattr(wish, name) for name in ("universe", "epsilon", "alpha", "beta", "releases", "delta")}
    return plan_periods(estimator, **same, **divided, share=wish.density, span=periods.span, every=periods.every)

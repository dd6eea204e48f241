"""`panprivacy plan`: how much memory, or how much error, or how much epsilon will it take?"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from panprivacy.cli import options as opt
from panprivacy.cli.deltas import note_large_delta
from panprivacy.cli.numbers import whole_number
from panprivacy.cli.plainly import Speaker, plain_errors
from panprivacy.drawing import check_picture

if TYPE_CHECKING:
    from panprivacy.planning import CountsPlan, Plan
    from panprivacy.planning.period_plan import PeriodPlan


def plan(
    universe: Annotated[
        int | None,
        typer.Option(
            "--universe",
            "-n",
            metavar="N",
            parser=whole_number,
            help="How many users there could be, if that is known (density).",
        ),
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(
            "--epsilon", "-e", help="Privacy budget in all; leave it out to be told the least that reaches --alpha."
        ),
    ] = None,
    alpha: Annotated[
        float | None,
        typer.Option(help="Error to stay below: of the density, or, without --universe, relative to the count."),
    ] = None,
    beta: Annotated[float, typer.Option(help="Probability with which the error may reach alpha.")] = 0.05,
    memory: Annotated[str | None, typer.Option(help='The most memory for the bits, such as "16 KiB".')] = None,
    releases: Annotated[int, typer.Option(help="How many answers will be released in all.")] = 1,
    intrusions: Annotated[
        int, typer.Option(help="How many times somebody else will read the state and you will know of it.")
    ] = 0,
    delta: opt.Delta = None,
    density: Annotated[
        float | None, typer.Option(help="Share of the users that is expected to appear, if it is small.")
    ] = None,
    count: Annotated[
        float | None, typer.Option(help="Number of users that is expected to appear, without --universe.")
    ] = None,
    estimator: Annotated[
        Literal["Retention", "ActiveUsers"] | None,
        typer.Option(metavar="NAME", help="Plan for Retention or ActiveUsers instead, with a bit for every user."),
    ] = None,
    span: Annotated[
        str, typer.Option(metavar="28d", help="The longest time that an ActiveUsers is asked about.")
    ] = "28d",
    every: Annotated[str, typer.Option(metavar="1d", help="How long a day of an ActiveUsers lasts.")] = "1d",
    up_to: Annotated[
        int | None,
        typer.Option(metavar="T", help="Plan for counts instead: how often users appear, up to T times each."),
    ] = None,
    only: Annotated[
        Literal["mean"] | None, typer.Option(metavar="mean", help="With --up-to: the mean alone is released.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw a picture of error against memory: .png, .svg or .pdf.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the plan as one line of JSON.")] = False,
) -> None:
    """Say which estimator to build, how large, and how much it will err, before any data comes in.

    Example: [bold]panprivacy plan --universe 1000000 --epsilon 0.4 --alpha 0.1 --beta 0.05[/bold]

    Leave out --alpha to be told the error that --memory allows, or --epsilon to be told the least.
    If nobody knows who could come, leave out --universe and say --count: how many are expected.
    """
    from panprivacy.planning import plan as planned
    from panprivacy.planning.periods import plan_periods

    with plain_errors():
        if plot is not None:
            check_picture(plot)
            if up_to is not None:
                raise ValueError("--plot draws error against memory, of which a plan of counts has no choice")
        if estimator is not None:
            if universe is None or memory is not None or intrusions or count is not None or plot is not None:
                raise ValueError(f"{estimator} is planned from --universe, --epsilon or --alpha, --beta and --density")
            wish: dict[str, Any] = {"alpha": alpha, "beta": beta, "releases": releases, "share": density}
            _show(plan_periods(estimator, universe, epsilon, **wish, span=span, every=every, delta=delta), as_json)
            return
        asked: Any = planned  # whose overloads are for people who write what they want
        found = asked(
            universe,
            epsilon,
            alpha=alpha,
            beta=beta,
            memory=memory,
            releases=releases,
            intrusions=intrusions,
            density=density,
            count=count,
            delta=delta,
            up_to=up_to,
            only=only,
        )
        _show(found, as_json)
        if plot is not None:
            from panprivacy.planning.picture import draw

            draw(found, plot)


def _show(found: "Plan | CountsPlan | PeriodPlan", as_json: bool) -> None:
    speaker = Speaker(as_json=as_json, quiet=False)
    speaker.answer(found.to_dict() if as_json else found)
    note_large_delta(found.delta, speaker)

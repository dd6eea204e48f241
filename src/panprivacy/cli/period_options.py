"""Options that the commands about periods of time share."""

from typing import Annotated, TypeAlias

import typer

from panprivacy.cli.options import BUDGET, EVENTS

Universe: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--universe",
        "-n",
        metavar="N",
        help="The universe is N users, whose ids are the numbers 0 to N-1.",
        rich_help_panel=BUDGET,
    ),
]
UniverseFile: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="FILE[:COLUMN]",
        help="The universe is the users listed in this file, whose ids may be numbers or text.",
        rich_help_panel=BUDGET,
    ),
]
SkipOutside: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--skip-outside",
        help="Leave out rows whose user is not in the universe; they are not counted anywhere.",
        rich_help_panel=EVENTS,
    ),
]
Delta: TypeAlias = Annotated[
    float | None,
    typer.Option(
        metavar="1e-9",
        help="Probability with which more than epsilon may be lost: quieter noise for many releases. Default: 0.",
        rich_help_panel=BUDGET,
    ),
]

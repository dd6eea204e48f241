"""`panprivacy reproduce`: every figure of the paper, from its own algorithms, and three that it does not have."""

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import validators

from panprivacy.cli.options import OTHERS, option

if TYPE_CHECKING:
    from rich.console import Console

    from panprivacy.experiments.claims import Claim
    from panprivacy.experiments.reproduce import Reproduction


@dataclass(frozen=True)
class ReproduceOptions:
    """Which figures are drawn, how thoroughly, and where."""

    figure: Annotated[
        list[int] | None,
        option(
            "Draw only this figure, 1 to 10; repeatable.", "N", alias="-f", validator=validators.Number(gte=1, lte=10)
        ),
    ] = None
    quick: Annotated[bool, option("Few repetitions of each experiment: takes less than a minute.")] = False
    out: Annotated[Path, option("Folder for the report, the figures and their data.", "DIR", alias="-o")] = Path(
        "reproduction"
    )
    jobs: Annotated[
        int | None,
        option("Number of processes. Default: one for each core.", alias="-j", validator=validators.Number(gte=1)),
    ] = None
    seed: Annotated[
        int,
        option(
            "Seed of the experiments; the same seed gives the same numbers for any --jobs.",
            validator=validators.Number(gte=0),
        ),
    ] = 1


def reproduce(*, asked: Annotated[ReproduceOptions, OTHERS] = ReproduceOptions()) -> None:
    """Run the experiments of the paper again, and draw its figures; check what its section 6 claims.

    Example: [bold]panprivacy reproduce --quick --figure 6 --figure 8[/bold]

    Writes pictures (PNG, SVG), their data (Parquet, CSV) and report.html.
    Takes less than ten minutes on two cores. After an interruption, the same command continues.
    The exit status is 1 if a claim of the paper about its own experiments does not hold.
    """
    from rich.console import Console

    from panprivacy.estimates.plots import check_installed
    from panprivacy.experiments.cells import FULL, QUICK
    from panprivacy.experiments.reproduce import Reproduction, failed

    console = Console()
    numbers = tuple(sorted(set(asked.figure or range(1, 11))))
    task = Reproduction(asked.out, QUICK if asked.quick else FULL, asked.seed, numbers)
    check_installed()
    try:
        claims = _run(task, asked.jobs or os.cpu_count() or 1, console)
    except KeyboardInterrupt:
        console.print("Interrupted. Finished runs are kept: the same command continues.")
        raise
    _show(claims, console)
    console.print(f"Everything is in [bold]{asked.out / 'report.html'}[/bold].", soft_wrap=True)
    if failed(claims):
        raise SystemExit(1)


def _run(task: "Reproduction", jobs: int, console: "Console") -> "list[Claim]":
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        runs = progress.add_task("runs", total=sum(cell.runs for cell in task.cells))
        task.compute(jobs, lambda cell: progress.advance(runs, cell.runs))
        pictures = progress.add_task("figures", total=len(task.studies))
        return task.write(lambda study: progress.advance(pictures))  # noqa: ARG005 (any picture is one)


def _show(claims: "list[Claim]", console: "Console") -> None:
    from rich.table import Table

    from panprivacy.experiments.claims import Verdict

    colours = {Verdict.HOLDS: "green", Verdict.FAILS: "red", Verdict.OPEN: "yellow"}
    for of, count in Counter(claim.of for claim in claims).items():
        table = Table("claim", "measured", "verdict", title=of, title_justify="left", show_lines=count > 1)
        for claim in claims:
            if claim.of is of:
                table.add_row(claim.said, claim.measured, f"[{colours[claim.verdict]}]{claim.verdict}")
        console.print(table)

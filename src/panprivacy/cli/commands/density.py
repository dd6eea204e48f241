"""`panprivacy density`: what share of a known universe is in these files?"""

from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import Parameter

from panprivacy.cli import options as opt
from panprivacy.cli import users as of


@dataclass(frozen=True)
class DensityRows(opt.FileOptions):
    """Rows that may also delete users."""

    action: Annotated[
        str | None, Parameter(metavar="NAME", help="Column that says whether a row inserts or deletes its user.")
    ] = None


def density(
    files: opt.Paths,
    /,
    *,
    rows: Annotated[DensityRows, opt.EVENTS] = DensityRows(),
    categories: Annotated[opt.CategoryOptions, opt.EVENTS] = opt.CategoryOptions(),
    who: Annotated[of.GraphOptions, opt.USERS] = of.GraphOptions(),
    budget: Annotated[of.ReadBudgetOptions, opt.USERS] = of.ReadBudgetOptions(),
    size: Annotated[of.DensitySize, opt.USERS] = of.DensitySize(),
    state: Annotated[opt.FolderOptions, opt.OTHERS] = opt.FolderOptions(),
    series: Annotated[opt.SeriesOptions, opt.OTHERS] = opt.SeriesOptions(),
    look: Annotated[opt.CountingOptions, opt.OTHERS] = opt.CountingOptions(),
) -> None:
    """Estimate what share of known users appears in the events.

    Example: [bold]panprivacy density visits.csv --column patient --universe 1000000 --epsilon 1[/bold]

    Groups: [bold]--by clinic --categories north,south[/bold], or [bold]--universe-file FILE:ID --group region[/bold].

    For a series, add: [bold]--releases 52 --release-every 7d --time visited --plot series.png[/bold]

    FILE is one file or more, a glob in quotes, such as 'visits/*.parquet', or - for standard input.
    """
    look.prepare(files)
    from panprivacy.cli.run import Command
    from panprivacy.cli.series import feed_series, plan_series

    with Command.opened(state, budget, look) as command:
        users, kind = who.read()

        def new() -> Any:
            return size.new(who.known(users), plan_series(budget.plan, series, files, rows), categories.arguments())

        est = command.estimator("Density", users, new)
        categories.check(est)
        if command.kept is not None:
            size.check(est)
        run = command.run(est, categories.by or who.group)
        columns = who.columns(est.universe, kind, rows.column, lambda: rows.which_column(files), rows.action)
        feed_series(run, rows.source(files, columns, who, categories), series, new)

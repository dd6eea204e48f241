"""`panprivacy distinct`: how many different users are in these files?"""

from dataclasses import dataclass
from typing import Annotated, Any

from panprivacy.cli import options as opt
from panprivacy.cli import users as of
from panprivacy.errors import InvalidValue
from panprivacy.ingest.batch import Columns
from panprivacy.ingest.files import STDIN


@dataclass(frozen=True)
class DistinctRows(opt.FileOptions):
    """Rows of users who are in no list, so that the command says what their ids are."""

    ids: opt.Ids = None


def distinct(
    files: opt.Paths,
    /,
    *,
    rows: Annotated[DistinctRows, opt.EVENTS] = DistinctRows(),
    categories: Annotated[opt.CategoryOptions, opt.EVENTS] = opt.CategoryOptions(),
    budget: Annotated[of.ReadBudgetOptions, opt.USERS] = of.ReadBudgetOptions(),
    size: Annotated[of.DistinctSize, opt.USERS] = of.DistinctSize(),
    state: Annotated[opt.FolderOptions, opt.OTHERS] = opt.FolderOptions(),
    series: Annotated[opt.SeriesOptions, opt.OTHERS] = opt.SeriesOptions(),
    look: Annotated[opt.CountingOptions, opt.OTHERS] = opt.CountingOptions(),
) -> None:
    """Estimate how many different users appear in the events; no list of users is needed.

    Example: [bold]panprivacy distinct visits.csv --column patient --epsilon 1 --error 0.02[/bold]

    Groups: [bold]--by clinic --categories north,south[/bold].

    For a series, add: [bold]--releases 52 --release-every 7d --time visited --plot series.png[/bold]

    FILE is one file or more, a glob in quotes, such as 'visits/*.parquet', or - for standard input.
    """
    look.prepare(files)
    from panprivacy.cli.notes import note_missed_error
    from panprivacy.cli.run import Command
    from panprivacy.cli.series import feed_series, plan_series

    with Command.opened(state, budget, look) as command:
        if rows.column is None:
            raise rows.which_column(files)

        def new() -> Any:
            return size.new(plan_series(budget.plan, series, files, rows), categories.arguments())

        est = command.estimator("DistinctCount", None, new)
        categories.check(est)
        if command.kept is not None:
            size.check(est)
        kind = of.declared(est, rows.ids)
        if kind is None and files == [STDIN]:
            raise InvalidValue(
                "are ids integers or text? No row of a pipe decides that: say --ids integers, or --ids text",
                code="which-ids",
            )
        run = command.run(est, categories.by)
        source = rows.source(files, Columns((rows.column,), kind), categories=categories)
        feed_series(run, source, series, new)
        note_missed_error(est, size.error, run.output)

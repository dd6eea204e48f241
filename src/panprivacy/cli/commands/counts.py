"""`panprivacy counts`: how often do the users of a known universe appear in these files?"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from panprivacy.cli import options as opt
from panprivacy.cli import users as of
from panprivacy.errors import InvalidValue


@dataclass(frozen=True)
class CountsSize:
    """How far appearances are counted, and what is released of them."""

    up_to: Annotated[
        int | None,
        Parameter(metavar="T", help="Appearances of a user that count, 2 to 256; a larger T errs more. Default: 8."),
    ] = None
    only: Annotated[
        Literal["mean"] | None,
        Parameter(
            metavar="mean", show_choices=False, help="Release the mean alone, which errs less in small universes."
        ),
    ] = None

    def new(self, users: Any, plan: dict[str, Any], more: dict[str, Any]) -> Any:
        """A `Counts` of this size."""
        from panprivacy.estimators.counts import Counts

        return Counts(users, **of.planned(plan), **of.given(vars(self)), **more)


@dataclass(frozen=True)
class CountsState(opt.FolderOptions):
    """The file or folder that keeps the state, and which batch of a folder the files are."""

    batch: Annotated[
        str | None,
        Parameter(
            metavar="NAME:NUMBER",
            help="With --state DIR/: which batch the files are; run again with the same, they count once.",
        ),
    ] = None


def counts(
    files: opt.Paths,
    /,
    *,
    rows: Annotated[opt.FileOptions, opt.EVENTS] = opt.FileOptions(),
    categories: Annotated[opt.CategoryOptions, opt.EVENTS] = opt.CategoryOptions(),
    who: Annotated[of.GroupedUniverseOptions, opt.USERS] = of.GroupedUniverseOptions(),
    budget: Annotated[of.BudgetOptions, opt.USERS] = of.BudgetOptions(),
    size: Annotated[CountsSize, opt.USERS] = CountsSize(),
    state: Annotated[CountsState, opt.OTHERS] = CountsState(),
    series: Annotated[opt.SeriesOptions, opt.OTHERS] = opt.SeriesOptions(),
    look: Annotated[opt.CountingOptions, opt.OTHERS] = opt.CountingOptions(),
) -> None:
    """Estimate how often users appear in the events: at least once, twice, ... T times, and on average.

    Example: [bold]panprivacy counts visits.csv --column patient --universe 1000000 --epsilon 1 --up-to 4[/bold]

    Groups: [bold]--by clinic --categories north,south[/bold], or [bold]--universe-file FILE:ID --group region[/bold].

    For a series, add: [bold]--releases 52 --release-every 7d --time visited --plot series.png[/bold]

    FILE is one file or more, a glob in quotes, such as 'visits/*.parquet', or - for standard input. Rows that are
    fed twice count twice: a state file has all rows of a command, or none if it fails. In a state folder, say --batch.
    """
    look.prepare(files)
    from panprivacy.cli.kept import name_batch, refuse_another
    from panprivacy.cli.run import Command
    from panprivacy.cli.series import feed_series, plan_series

    with Command.opened(state, budget, look) as command:
        if series.time is not None and command.kept is not None:
            raise InvalidValue(
                "a series by --time is saved at each release, and rows that are fed twice count twice: leave --state "
                "or --time out",
                code="time-and-state",
            )
        users, kind = who.read()

        def new() -> Any:
            plan = plan_series(budget.plan, series, files, rows)
            return size.new(who.known(users), plan, categories.arguments())

        est = command.estimator("Counts", users, new)
        categories.check(est)
        refuse_another(command.kept, {"up_to": est.up_to, "only": est.only or "nothing"}, vars(size))
        run = command.run(est, categories.by or who.group)
        name_batch(command.kept, state.batch, files, run.output)
        columns = who.columns(est.universe, kind, rows.column, lambda: rows.which_column(files))
        feed_series(run, rows.source(files, columns, who, categories), series, new)

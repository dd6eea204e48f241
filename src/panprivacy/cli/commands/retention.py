"""`panprivacy retention`: how many of the users in these files are in later files again?"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from panprivacy.cli import options as opt
from panprivacy.cli import users as of
from panprivacy.errors import InvalidValue, PanPrivacyError

if TYPE_CHECKING:
    from panprivacy.cli.run import Run
    from panprivacy.cli.sources import Files, Pipe


@dataclass(frozen=True)
class RetentionBudget(of.BudgetOptions):
    """How much privacy there is to spend, and what is asked."""

    releases: Annotated[
        int | None,
        Parameter(help="Planned releases of the second period. Default: as many as there are --then, or 1."),
    ] = None
    newcomers: Annotated[
        bool,
        Parameter(help="Ask instead who appears in the second period only; their number then has the smaller error."),
    ] = False

    def new(self, users: Any, releases: int | None) -> Any:
        """A `Retention`; `releases` is how many its second period has, unless the command says it."""
        from panprivacy.estimators.retention import Retention

        plan = of.planned(self.plan | {"releases": self.releases or releases})
        return Retention(users, **plan, newcomers=self.newcomers)

    def check(self, kept: Any, est: Any) -> None:
        """Refuse to go on with a state that has other releases, or asks another question."""
        from panprivacy.cli.kept import refuse_another

        of_second = est.budget.releases - 1  # one is of the cohort
        refuse_another(kept, {"releases": of_second}, {"releases": self.releases})
        if self.newcomers and est.asked == "returned":
            raise PanPrivacyError(
                f"{kept.path}: this state asks who came back: leave --newcomers out", code="another-state"
            )


@dataclass(frozen=True)
class RetentionSeries(opt.SeriesOptions):
    """When answers are released."""

    time: Annotated[
        str | None,
        Parameter(
            metavar="NAME",
            help="Column of times, which cut the events into periods of --release-every: the first, from --start on, "
            "is that of the cohort, and each later one ends with a release.",
        ),
    ] = None


def retention(
    files: opt.Paths,
    /,
    *,
    then: Annotated[
        list[str] | None,
        Parameter(
            metavar="FILE",
            help="Events of the second period. Given again, later ones of it: each is followed by a release.",
        ),
    ] = None,
    rows: Annotated[opt.FileOptions, opt.EVENTS] = opt.FileOptions(),
    who: Annotated[of.GroupedUniverseOptions, opt.USERS] = of.GroupedUniverseOptions(),
    budget: Annotated[RetentionBudget, opt.USERS] = RetentionBudget(),
    state: Annotated[opt.StateOptions, opt.OTHERS] = opt.StateOptions(),
    series: Annotated[RetentionSeries, opt.OTHERS] = RetentionSeries(),
    look: Annotated[opt.CountingOptions, opt.OTHERS] = opt.CountingOptions(),
) -> None:
    """Estimate how many users of a first period came back in a second one.

    Example: [bold]panprivacy retention january.csv --then february.csv -c patient -n 1000000 -e 1[/bold]

    From times: [bold]panprivacy retention visits.csv --time visited --start 2026-01-05 --release-every 7d ...[/bold]

    FILE is one file or more, a glob in quotes, or - for standard input. With --state, a release in the first period
    is of the cohort and ends it: what comes after it is of the second.
    """
    look.prepare(files)
    from panprivacy.cli.run import Command

    with Command.opened(state, budget, look) as command:
        users, kind = who.read()
        est = command.estimator(
            "Retention", users, lambda: budget.new(who.known(users), len(then) if then else None), releases=None
        )
        budget.check(command.kept, est)
        columns = who.columns(est.universe, kind, rows.column, lambda: rows.which_column(files))
        _feed(command.run(est, who.group), rows.source(files, columns, who), then or [], series)


def _feed(run: "Run", source: "Files | Pipe", then: list[str], series: RetentionSeries) -> None:
    """Count the first period and the second, or as much of them as there is."""
    from panprivacy.cli.series import feed_series
    from panprivacy.cli.sources import Files

    if then:
        if series.time is not None or series.release_every is not None:
            raise InvalidValue(
                "--then FILE is the second period: leave --time and --release-every out", code="second-period"
            )
        _feed_both(run, source, then)
    elif run.kept is None and isinstance(source, Files) and series.time is None:
        raise InvalidValue(
            "what is the second period? Say --then FILE, or --time NAME --release-every 7d, or keep the first in "
            "a --state FILE",
            code="second-period",
        )
    else:
        feed_series(run, source, series)


def _feed_both(run: "Run", first: "Files | Pipe", then: list[str]) -> None:
    """Count the first period and end it; then count each part of the second, and release after it."""
    from panprivacy.cli.sources import Files

    est: Any = run.est
    if est.closed:
        raise InvalidValue(
            "the first period of this state is over: name the files of the second without --then", code="second-period"
        )
    if not isinstance(first, Files):
        raise InvalidValue("from a pipe, a release ends the first period: leave --then out", code="second-period")
    if run.left <= len(then):
        raise InvalidValue(
            f"{len(then)} times --then take as many planned releases: say --releases {len(then)}",
            code="which-releases",
        )
    run.count(first)
    run.spend()  # the cohort is shown with those who came back
    for file in then:
        run.count(replace(first, files=[file]))
        run.release()

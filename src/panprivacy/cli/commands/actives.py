"""`panprivacy actives`: how many users were active in the last day, week and month, every day?"""

from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import Parameter

from panprivacy.cli import options as opt
from panprivacy.cli import users as of
from panprivacy.errors import InvalidValue
from panprivacy.ingest.files import STDIN


@dataclass(frozen=True)
class ActivesRows(opt.FileOptions):
    """Rows with their times."""

    time: Annotated[
        str | None,
        Parameter(metavar="NAME", help="Column of times, by which days go; a pipe without one goes by the clock."),
    ] = None


@dataclass(frozen=True)
class ActivesBudget:
    """How much privacy a cycle has to spend, and how long cycles and days are."""

    epsilon: Annotated[
        float | None,
        Parameter(
            alias="-e", help="Privacy budget of a cycle, which is as long as the span; 1 is usual, less is safer."
        ),
    ] = None
    delta: opt.Delta = None
    span: Annotated[
        str | None, Parameter(metavar="28d", help="The longest time that is asked about. Default: 28d.")
    ] = None
    every: Annotated[str | None, Parameter(metavar="1d", help="How long a day lasts: 1d, 12h, 1h. Default: 1d.")] = None
    start: Annotated[
        str | None,
        Parameter(
            metavar="TIME",
            help="When the first day starts, such as 2026-01-05; without --time, by default, last midnight.",
        ),
    ] = None

    @property
    def plan(self) -> dict[str, Any]:
        """What an `ActiveUsers` is planned for, in the words of its constructor; None where nothing was said."""
        return {"epsilon": self.epsilon, "delta": self.delta}

    def first(self, tz: str | None) -> int | None:
        """When the first day starts, if that was said."""
        from panprivacy.cli.series import parsed_moment

        return None if self.start is None else parsed_moment("--start", self.start, tz)

    def new(self, users: Any, level: float, tz: str | None, *, clock: bool) -> Any:
        """An `ActiveUsers` of these days; where they go by the clock, the first one has begun."""
        from panprivacy.estimators.actives import ActiveUsers
        from panprivacy.periods import SECOND, Periods, wall_clock

        start = self.first(tz)
        if start is None and not clock:
            raise InvalidValue(
                "when does the first day start? Say --start YYYY-MM-DD, the day of the first event", code="which-start"
            )
        if start is None:
            start = Periods.around(wall_clock(), "1d", tz).start
        plan = of.planned(self.plan | {"span": self.span, "every": self.every})
        return ActiveUsers(users, **plan, start=start / SECOND, tz=tz, level=level)

    def check(self, kept: Any, est: Any, tz: str | None) -> None:
        """Refuse to go on with a state whose days are others than those asked for, however they are spelled."""
        from panprivacy.cli.kept import refuse_another
        from panprivacy.periods import as_datetime, length_of, told_length

        length, start = est.periods.length, self.first(tz or est.periods.zone)
        found = {"span": told_length(est.days * length), "every": told_length(length), "start": est.start}
        found["tz"] = est.periods.zone
        asked = {
            "span": self.span and told_length(length_of(self.span)),
            "every": self.every and told_length(length_of(self.every)),
            "start": None if start is None else as_datetime(start),
            "tz": tz,
        }
        refuse_another(kept, found, asked)


@dataclass(frozen=True)
class ActivesReleases:
    """Whether the last day is ended."""

    release: Annotated[
        bool | None,
        Parameter(
            negative="--no-release",
            help="End the last day when all events are counted, or not. Default: yes, but no with --state.",
        ),
    ] = None


def actives(
    files: opt.Paths,
    /,
    *,
    rows: Annotated[ActivesRows, opt.EVENTS] = ActivesRows(),
    times: Annotated[opt.TimeOptions, opt.EVENTS] = opt.TimeOptions(),
    who: Annotated[of.GroupedUniverseOptions, opt.USERS] = of.GroupedUniverseOptions(),
    budget: Annotated[ActivesBudget, opt.USERS] = ActivesBudget(),
    state: Annotated[opt.StateOptions, opt.OTHERS] = opt.StateOptions(),
    releases: Annotated[ActivesReleases, opt.OTHERS] = ActivesReleases(),
    look: Annotated[opt.CountingOptions, opt.OTHERS] = opt.CountingOptions(),
) -> None:
    """Estimate every day how many users were active in the last 1, 2, ... days.

    Example: [bold]panprivacy actives visits.csv -c patient --time when --start 2026-01-05 -n 1000000 -e 1[/bold]

    FILE is one file or more, a glob in quotes, or - for standard input. Rows of files come in order of days, and in any
    order within a day. Of a pipe the clock ends days, unless --ahead says that rows do.
    """
    look.prepare(files)
    from panprivacy.cli.days import Days
    from panprivacy.cli.run import Command
    from panprivacy.cli.series import column_of_times

    with Command.opened(state, budget, look) as command:
        if rows.time is None and files != [STDIN]:
            raise InvalidValue("which column holds the times? Say --time NAME", code="which-time")
        users, kind = who.read()
        est = command.estimator(
            "ActiveUsers", users, lambda: budget.new(who.known(users), look.level, times.tz, clock=rows.time is None)
        )
        budget.check(command.kept, est, times.tz)
        columns = who.columns(est.universe, kind, rows.column, lambda: rows.which_column(files))
        times.check_given(rows.time)
        column = None if rows.time is None else column_of_times(rows.time)
        policy = times.policy(live=files == [STDIN], in_own_period=True)
        days = Days(command.run(est, who.group), est, policy, times.lateness)
        end = releases.release if releases.release is not None else command.kept is None
        days.feed(rows.source(files, columns, who), column, end=end)

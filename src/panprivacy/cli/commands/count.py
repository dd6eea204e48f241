"""`panprivacy density`, `distinct`, `counts`, `actives` and `retention`: a class of options each, and its help."""

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from panprivacy.cli import options as opt
from panprivacy.cli.counting import (
    BudgetOptions,
    CountOptions,
    GraphOptions,
    OpenUniverseOptions,
    ReadBudgetOptions,
    SizeOptions,
    TableOptions,
    plan_of,
)
from panprivacy.cli.options import FLAT, NOT_HERE, option, option_group
from panprivacy.errors import InvalidValue, PanPrivacyError
from panprivacy.ingest.files import STDIN

if TYPE_CHECKING:
    from panprivacy.cli.run import Kept, Run
    from panprivacy.cli.schedule import Events


@option_group
class DensityRows(opt.FileOptions):
    """Rows that may also delete users."""

    action: Annotated[str | None, option("Column that says whether a row inserts or deletes its user.", "NAME")] = None


@option_group
class DensitySize(SizeOptions):
    """How many users of a known universe are tracked, and which."""

    sample: Annotated[int | None, option("Track a random sample of N users. Default: all of them.", "N")] = None
    memory: Annotated[
        str | None, option('Track a random sample that fits in this memory, such as "16 KiB".', "SIZE")
    ] = None
    shard: Annotated[
        str | None, option("Count only the users of part I, of parts 0 to N-1; merge joins the parts.", "I/N[:KEY]")
    ] = None

    def arguments(self) -> dict[str, Any]:
        """Arguments of a new estimator; a shard is written as ``0/4``, or ``0/4:`` and the digits of a key."""
        part = key = None
        if self.shard is not None:
            match = re.fullmatch(r"([0-9]+)/([0-9]+)(?::([0-9a-fA-F]{32}))?", self.shard)
            if not match:
                raise InvalidValue(
                    f"shard {self.shard!r} is not understood; write it like 0/4, or 0/4:KEY with 32 hexadecimal digits",
                    code="shard-spelling",
                )
            part, key = (int(match[1]), int(match[2])), bytes.fromhex(match[3]) if match[3] else None
        return {"sample": self.sample, "memory": self.memory, "shard": part, "key": key}

    def check(self, est: Any) -> None:
        """Refuse to continue a state that has another sample or shard than was asked for."""
        if opt.given(vars(self)):
            labels = None if est.categories is None else est.categories.labels
            fresh = type(est)(est.universe, **opt.given(plan_of(est) | self.arguments() | {"categories": labels}))
            if fresh.bits != est.bits:
                raise PanPrivacyError(
                    f"this state has bits {est.bits[0]}..{est.bits[-1]}, and a table of {len(fresh.bits):,} bits from "
                    f"{fresh.bits[0]} on was asked for",
                    code="another-size",
                )


@option_group
class DensityOptions(TableOptions):
    ESTIMATOR = "Density"

    rows: Annotated[DensityRows, opt.EVENTS] = DensityRows()
    who: Annotated[GraphOptions, opt.USERS] = GraphOptions()
    budget: Annotated[ReadBudgetOptions, opt.USERS] = ReadBudgetOptions()
    size: Annotated[DensitySize, opt.USERS] = DensitySize()


def density(files: opt.Paths, /, *, asked: Annotated[DensityOptions, FLAT] = DensityOptions()) -> None:
    """Estimate what share of known users appears in the events.

    Example: [bold]panprivacy density visits.csv --column patient --universe 1000000 --epsilon 1[/bold]

    Groups: [bold]--by clinic --categories north,south[/bold], or [bold]--universe-file FILE:ID --group region[/bold].

    For a series, add: [bold]--releases 52 --release-every 7d --time visited --plot series.png[/bold]

    FILE is one file or more, a glob in quotes, such as 'visits/*.parquet', or - for standard input.
    """
    asked.count(files)


@option_group
class DistinctSize(SizeOptions):
    """The size of a sketch of users who are in no list."""

    error: Annotated[
        float | None, option("Relative standard error to reach, such as 0.02; a smaller error takes more memory.")
    ] = None
    buckets: Annotated[
        int | None, option("Buckets in each level of the sketch, instead of --error. Default: 4096.")
    ] = None
    key: Annotated[
        str | None, option("Key of 32 hexadecimal digits; states with the same key can be merged.", "HEX")
    ] = None

    def arguments(self) -> dict[str, Any]:
        if self.key is not None and not re.fullmatch("[0-9a-fA-F]{32}", self.key):
            raise InvalidValue(
                f"key {self.key!r} is not 32 hexadecimal digits; make one with: openssl rand -hex 16",
                code="key-spelling",
            )
        return {"error": self.error, "buckets": self.buckets, "key": self.key and bytes.fromhex(self.key)}

    def check(self, est: Any) -> None:
        """Refuse to continue a state that has other buckets, or another key, than was asked for."""
        size = self.arguments()
        if self.error is not None or self.buckets is not None:
            fresh = type(est)(**opt.given(plan_of(est) | size))
            if fresh.buckets != est.buckets:
                raise PanPrivacyError(
                    f"this state has {est.buckets:,} buckets, and {fresh.buckets:,} were asked for", code="another-size"
                )
        if size["key"] not in (None, est.universe.key):
            raise PanPrivacyError("this state has another key than was asked for", code="another-key")


@option_group
class DistinctOptions(TableOptions):
    ESTIMATOR = "DistinctCount"

    who: Annotated[OpenUniverseOptions, opt.EVENTS] = OpenUniverseOptions()  # type: ignore[assignment]
    budget: Annotated[ReadBudgetOptions, opt.USERS] = ReadBudgetOptions()
    size: Annotated[DistinctSize, opt.USERS] = DistinctSize()

    def feed(self, run: "Run", source: "Events") -> None:
        """As `CountOptions.feed`, and say if the last release errs by more than was asked for."""
        from panprivacy.cli.notes import note_missed_error

        super().feed(run, source)
        note_missed_error(run.est, self.size.error, run.output)


def distinct(files: opt.Paths, /, *, asked: Annotated[DistinctOptions, FLAT] = DistinctOptions()) -> None:
    """Estimate how many different users appear in the events; no list of users is needed.

    Example: [bold]panprivacy distinct visits.csv --column patient --epsilon 1 --error 0.02[/bold]

    Groups: [bold]--by clinic --categories north,south[/bold].

    For a series, add: [bold]--releases 52 --release-every 7d --time visited --plot series.png[/bold]

    FILE is one file or more, a glob in quotes, such as 'visits/*.parquet', or - for standard input.
    """
    if asked.rows.column is None:  # before a state is made
        raise asked.rows.which_column(files)
    asked.count(files)


@option_group
class CountsSize(SizeOptions):
    """How far appearances are counted, and which numbers are released."""

    up_to: Annotated[
        int | None, option("Count up to T appearances of each user, 2 to 256; a larger T errs more. Default: 8.", "T")
    ] = None
    only: Annotated[
        Literal["mean"] | None, option("Release the mean alone, which errs less in small universes.", "mean")
    ] = None


@option_group
class CountsState(opt.FolderOptions):
    """The file or folder that keeps the state, and which batch of a folder the files are."""

    batch: Annotated[
        str | None,
        option("With --state DIR/: name of this batch of files; a batch that is fed again counts once.", "NAME:NUMBER"),
    ] = None


@option_group
class CountsOptions(TableOptions):
    ESTIMATOR = "Counts"

    size: Annotated[CountsSize, opt.USERS] = CountsSize()
    state: Annotated[CountsState, opt.OTHERS] = CountsState()

    def compared(self, est: Any) -> dict[str, tuple[Any, Any]]:
        """As `CountOptions.compared`, and how far appearances are counted."""
        only = est.only or "nothing"
        return super().compared(est) | {"up_to": (est.up_to, self.size.up_to), "only": (only, self.size.only)}


def counts(files: opt.Paths, /, *, asked: Annotated[CountsOptions, FLAT] = CountsOptions()) -> None:
    """Estimate how often users appear in the events: at least once, twice, ... T times, and on average.

    Example: [bold]panprivacy counts visits.csv --column patient --universe 1000000 --epsilon 1 --up-to 4[/bold]

    Groups: [bold]--by clinic --categories north,south[/bold], or [bold]--universe-file FILE:ID --group region[/bold].

    For a series, add: [bold]--releases 52 --release-every 7d --time visited --plot series.png[/bold]

    FILE is one file or more, a glob in quotes, such as 'visits/*.parquet', or - for standard input. Rows that are
    fed twice count twice: a command saves all of its rows in a state file, or none if it fails. For a state folder,
    name the batch (--batch).
    """
    if asked.series.time is not None and asked.state.state is not None:
        raise InvalidValue(
            "a series by --time is saved at each release, and rows that are fed twice count twice: leave --state "
            "or --time out",
            code="time-and-state",
        )
    asked.count(files)


@option_group
class ActivesBudget(BudgetOptions):
    """How much privacy a cycle has to spend, and how long cycles and days are."""

    epsilon: Annotated[
        float | None,
        option("Privacy budget of a cycle, which is as long as --span; 1 is usual, less is safer.", alias="-e"),
    ] = None
    releases: Annotated[int | None, NOT_HERE] = None
    span: Annotated[str | None, option("Longest span of activity to report. Default: 28d.", "28d")] = None
    every: Annotated[str | None, option("Length of a day: 1d, 12h, 1h. Default: 1d.", "1d")] = None


@option_group
class ActivesSeries(opt.SeriesOptions):
    """The times of rows, which decide their days, and whether the last day is ended."""

    OF_TIMES = ("late", "early", "ahead", "lateness")

    release: Annotated[
        bool | None,
        option(
            "End the last day when the events end. Default: yes; with --state, no.",
            group=opt.OPTIONS,
            negative="--no-release",
        ),
    ] = None
    release_every: Annotated[str | None, NOT_HERE] = None
    anew: Annotated[bool, NOT_HERE] = False
    time: Annotated[
        str | None, option("Column of times, which decide a row's day; without it, a pipe goes by the clock.", "NAME")
    ] = None
    start: Annotated[
        str | None,
        option(
            "Start of the first day, such as 2026-01-05. Default without --time: last midnight.",
            "TIME",
            group=opt.USERS.group,
        ),
    ] = None

    def first(self, tz: str | None) -> int | None:
        """When the first day starts, if that was said."""
        from panprivacy.cli.calendar import parsed_start

        return None if self.start is None else parsed_start(self.start, tz)


@option_group
class ActivesOptions(CountOptions):
    ESTIMATOR = "ActiveUsers"

    budget: Annotated[ActivesBudget, opt.USERS] = ActivesBudget()
    series: Annotated[ActivesSeries, opt.EVENTS] = ActivesSeries()

    def arguments(self) -> dict[str, Any]:
        """As `CountOptions.arguments`; where days go by the clock, the first one has begun."""
        from panprivacy.periods import SECOND, Periods, wall_clock

        budget, tz = self.budget, self.series.tz
        start = self.series.first(tz)
        if start is None and self.series.time is not None:
            raise InvalidValue(
                "when does the first day start? Say --start YYYY-MM-DD, the day of the first event", code="which-start"
            )
        if start is None:
            start = Periods.around(wall_clock(), "1d", tz).start
        days = {"span": budget.span, "every": budget.every, "start": start / SECOND, "tz": tz}
        return super().arguments() | days | {"level": self.look.level}

    def compared(self, est: Any) -> dict[str, tuple[Any, Any]]:
        """As `CountOptions.compared`, and the days, however they are spelled."""
        from panprivacy.periods import as_datetime, length_of, told_length

        budget, tz, length = self.budget, self.series.tz, est.periods.length
        start = self.series.first(tz or est.periods.zone)
        return super().compared(est) | {
            "span": (told_length(est.days * length), budget.span and told_length(length_of(budget.span))),
            "every": (told_length(length), budget.every and told_length(length_of(budget.every))),
            "start": (est.start, None if start is None else as_datetime(start)),
            "tz": (est.periods.zone, tz),
        }


def actives(files: opt.Paths, /, *, asked: Annotated[ActivesOptions, FLAT] = ActivesOptions()) -> None:
    """Estimate every day how many users were active in the last 1, 2, ... days.

    Example: [bold]panprivacy actives visits.csv -c patient --time when --start 2026-01-05 -n 1000000 -e 1[/bold]

    FILE is one file or more, a glob in quotes, or - for standard input. Rows of files must be in order of days, and in
    any order within a day. In a pipe the clock ends each day, unless --ahead lets rows do so.
    """
    if asked.series.time is None and files != [STDIN]:
        raise InvalidValue("which column holds the times? Say --time NAME", code="which-time")
    asked.count(files)


@option_group
class RetentionRows(opt.FileOptions):
    """The rows of two periods."""

    then: Annotated[
        list[str] | None, option("Events of the second period; repeatable, with a release after each.", "FILE")
    ] = None


@option_group
class RetentionBudget(BudgetOptions):
    """How much privacy there is to spend, and which question is asked."""

    releases: Annotated[
        int | None, option("Planned releases of the second period. Default: the number of --then, or 1.")
    ] = None
    newcomers: Annotated[
        bool, option("Estimate newcomers of the second period more precisely than users who came back.")
    ] = False


@option_group
class RetentionSeries(opt.SeriesOptions):
    time: Annotated[
        str | None,
        option(
            "Column of times, which decide a row's period: first the cohort, then a release after each period.", "NAME"
        ),
    ] = None
    anew: Annotated[bool, option("Not for this command, whose periods belong together.", negative="", show=False)] = (
        False
    )


@option_group
class RetentionOptions(CountOptions):
    ESTIMATOR = "Retention"

    rows: Annotated[RetentionRows, opt.EVENTS] = RetentionRows()
    budget: Annotated[RetentionBudget, opt.USERS] = RetentionBudget()
    series: Annotated[RetentionSeries, opt.OTHERS] = RetentionSeries()

    def arguments(self) -> dict[str, Any]:
        """As `CountOptions.arguments`; each part of the second period has a release."""
        releases = self.budget.releases or (len(self.rows.then) if self.rows.then else None)
        return super().arguments() | {"releases": releases, "newcomers": self.budget.newcomers}

    def compared(self, est: Any) -> dict[str, tuple[Any, Any]]:
        """As `CountOptions.compared`; one release of a state is of the cohort."""
        return super().compared(est) | {"releases": (est.budget.releases - 1, self.budget.releases)}

    def check_state(self, est: Any, users: Any, kept: "Kept") -> None:
        """As `CountOptions.check_state`, and which question a state asks."""
        super().check_state(est, users, kept)
        if self.budget.newcomers and est.asked == "returned":
            raise PanPrivacyError(
                f"{kept.path}: this state asks who came back: leave --newcomers out", code="another-state"
            )

    def feed(self, run: "Run", source: "Events") -> None:
        """Count the first period and the second, or as much of them as there is."""
        by_time = self.series.time is not None
        if self.series.anew:
            raise InvalidValue(
                "--anew: the periods of a retention belong together, so that none is counted anew; leave it out",
                code="anew-alone",
            )
        if self.rows.then and (by_time or self.series.release_every is not None):
            raise InvalidValue(
                "--then FILE is the second period: leave --time and --release-every out", code="second-period"
            )
        if self.rows.then:
            self._feed_both(run, source, self.rows.then)
        elif run.kept is None and not source.live and not by_time:
            raise InvalidValue(
                "which events are the second period? Say --then FILE, or --time NAME --release-every 7d, or keep the "
                "first in a --state FILE",
                code="second-period",
            )
        else:
            super().feed(run, source)

    @staticmethod
    def _feed_both(run: "Run", first: "Events", then: list[str]) -> None:
        """Count the first period and end it; then count each part of the second, and release after it."""
        from panprivacy.cli.schedule import AtTheEnd, Files

        est: Any = run.est
        if est.closed:
            raise InvalidValue(
                "the first period of this state is over: name the files of the second without --then",
                code="second-period",
            )
        if not isinstance(first, Files):
            raise InvalidValue("from a pipe, a release ends the first period: leave --then out", code="second-period")
        if run.left <= len(then):
            raise InvalidValue(
                f"--then is given {len(then)} times, with a release after each: say --releases {len(then)}",
                code="which-releases",
            )
        schedule = AtTheEnd(run)
        schedule.count(first)
        run.spend()  # the cohort is shown with those who came back
        for file in then:
            schedule.count(replace(first, files=[file]))
            schedule.release()


def retention(files: opt.Paths, /, *, asked: Annotated[RetentionOptions, FLAT] = RetentionOptions()) -> None:
    """Estimate how many users of a first period came back in a second one.

    Example: [bold]panprivacy retention january.csv --then february.csv -c patient -n 1000000 -e 1[/bold]

    From times: [bold]panprivacy retention visits.csv --time visited --start 2026-01-05 --release-every 7d ...[/bold]

    FILE is one file or more, a glob in quotes, or - for standard input. With --state, the first release
    is of the cohort and ends the first period; later events count in the second.
    """
    asked.count(files)

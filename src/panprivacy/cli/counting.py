"""A command that counts, from its options to its answers: estimator, source of events, schedule of releases.

Heavy modules are imported in the methods that need them, so that help comes at once.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from cyclopts import Parameter

from panprivacy.cli.options import (
    EVENTS,
    OTHERS,
    USERS,
    CategoryOptions,
    FileOptions,
    FolderOptions,
    OutputOptions,
    SeriesOptions,
    StateOptions,
    given,
    option_group,
)
from panprivacy.cli.users import BudgetOptions, PrivacyOptions, SizeOptions, UniverseOptions, plan_of
from panprivacy.errors import InvalidValue, PanPrivacyError
from panprivacy.ingest.batch import Columns, Kind
from panprivacy.ingest.files import STDIN, is_slow

if TYPE_CHECKING:
    from panprivacy.cli.run import Kept, Run
    from panprivacy.cli.sources import Events
    from panprivacy.estimators.base import Estimator

FLAT = Parameter(name="*")
"""A dataclass whose fields are options of the command."""


@option_group
class CountOptions:
    """The options of a command that counts, and the way from them to its answers.

    A command names its estimator, and replaces the options that differ.
    """

    ESTIMATOR: ClassVar[str]
    """The class of a new estimator."""

    rows: Annotated[FileOptions, EVENTS] = FileOptions()
    who: Annotated[UniverseOptions, USERS] = UniverseOptions()
    budget: Annotated[PrivacyOptions, USERS] = PrivacyOptions()
    state: Annotated[StateOptions, OTHERS] = StateOptions()
    series: Annotated[SeriesOptions, OTHERS] = SeriesOptions()
    look: Annotated[OutputOptions, OTHERS] = OutputOptions()

    def count(self, files: Sequence[str], *, live: bool = False) -> None:
        """Build an estimator or continue a saved one, feed it the events, release, and print the answers.

        `live` says that events arrive one after the other, as they do from a pipe.
        """
        self.look.prepare(live=live or any(map(is_slow, files)))
        from panprivacy.cli.run import Run, continued_or_new
        from panprivacy.estimates.plots import check_picture

        look = self.look
        if look.plot is not None:
            check_picture(look.plot)
        with self.state.open() as kept:
            self.check_options(files, kept)
            users, kind = self.who.read()
            new = partial(self.new, users, files)
            est = new() if kept is None else continued_or_new(kept, users, new)
            if kept is not None and kept.exists:
                self.check_state(est, users, kept)
            run = Run(est, kept, look.level, look.output(), look.plot, self.by_column, self.budget.delta, new)
            self.feed(run, self.source(files, run, kind))

    def check_options(self, files: Sequence[str], kept: "Kept | None") -> None:
        """Refuse options that contradict each other, before anything is read."""

    def new(self, users: Any, files: Sequence[str]) -> "Estimator[Any]":
        """A new estimator. Who could appear and how much privacy there is have to be said."""
        from panprivacy.registry import build, class_named

        universe, arguments = self.who.known(users), given(self.arguments(files))
        if "epsilon" not in arguments:
            raise InvalidValue("how much privacy? Say --epsilon E, the total budget; 1 is usual", code="epsilon")
        est: Estimator[Any] = build(class_named(self.ESTIMATOR), universe, **arguments)
        return est

    def arguments(self, _files: Sequence[str]) -> dict[str, Any]:
        """Arguments of a new estimator, besides its universe; None where the command says nothing."""
        return self.budget.plan

    def check_state(self, est: Any, users: Any, kept: "Kept") -> None:
        """Refuse to continue a state that differs from what the command asks for."""
        universe = est.universe.describe(), users and users.describe()
        _refuse_another({"estimator": (type(est).__name__, self.ESTIMATOR), "universe": universe}, kept.path)
        _refuse_another(self.compared(est), kept.path)

    def compared(self, est: Any) -> dict[str, tuple[Any, Any]]:
        """What a state has, and what the command asks for: None for nothing.

        A state may have no delta where one is allowed: that is no other promise.
        """
        plan = plan_of(est)
        return {name: (plan[name], wanted) for name, wanted in self.budget.plan.items()}

    @property
    def by_column(self) -> str | None:
        """The column of groups or categories."""
        return self.who.group

    def source(self, files: Sequence[str], run: "Run", kind: Kind) -> "Events":
        """The files, or the pipe that a dash stands for."""
        columns = self.who.columns(run.est, kind, self.rows, files)
        return self.rows.source(files, columns, skip_outside=self.who.skip_outside)

    def feed(self, run: "Run", source: "Events") -> None:
        """Feed the events, and release when that is due."""
        from panprivacy.cli.schedule import schedule_of

        schedule_of(run, source, self.series).feed(source, self.series.release)


def _refuse_another(compared: dict[str, tuple[Any, Any]], path: object) -> None:
    """Refuse a state that has something else than was asked for."""
    for name, (found, wanted) in compared.items():
        if wanted is not None and found not in (None, wanted):
            raise PanPrivacyError(
                f"{path}: {name} {found} in the state, and {wanted} was asked for", code="another-plan"
            )


@option_group
class TableOptions(CountOptions):
    """The options of a command that sets the size of the table, and may keep it in a folder, and count by category."""

    budget: Annotated[BudgetOptions, USERS] = BudgetOptions()
    state: Annotated[FolderOptions, OTHERS] = FolderOptions()
    categories: Annotated[CategoryOptions, EVENTS] = CategoryOptions()
    size: Annotated[SizeOptions, USERS] = SizeOptions()

    def arguments(self, files: Sequence[str]) -> dict[str, Any]:
        """As `CountOptions.arguments`. How many periods share the budget has to be said."""
        from panprivacy.cli.calendar import check_periods_planned

        read = [] if list(files) == [STDIN] else files
        check_periods_planned(self.budget.releases, self.series, read, self.rows)
        return super().arguments(files) | self.categories.arguments() | self.size.arguments()

    def check_state(self, est: Any, users: Any, kept: "Kept") -> None:
        """As `CountOptions.check_state`."""
        super().check_state(est, users, kept)
        self.categories.check(est)
        self.size.check(est)

    @property
    def by_column(self) -> str | None:
        """The column of groups or categories."""
        return self.categories.by or super().by_column

    def source(self, files: Sequence[str], run: "Run", kind: Kind) -> "Events":
        """As `CountOptions.source`, with the column of categories."""
        columns: Columns = self.who.columns(run.est, kind, self.rows, files)
        columns, unlisted = replace(columns, category=self.categories.by), self.categories.unlisted
        return self.rows.source(files, columns, skip_outside=self.who.skip_outside, unlisted=unlisted)

"""One run of a command: an estimator, the file or folder that keeps it, and where its answers are shown."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from panprivacy.checks import check_level
from panprivacy.cli.kept import Keeper, Kept
from panprivacy.cli.notes import note_expected_noise, note_unused_delta, note_what_a_delta_buys
from panprivacy.cli.output import Output
from panprivacy.cli.published import Dated
from panprivacy.errors import BudgetExhausted, PanPrivacyError
from panprivacy.estimates import Release
from panprivacy.estimators.base import Estimator
from panprivacy.privacy.ledger import all_made


@dataclass
class Run:
    """An estimator that a command feeds: it spends releases, saves the state first, and shows the answers."""

    est: Estimator[Any]
    kept: Kept | None
    level: float
    output: Output
    picture: str | None = None
    """The file that a release is drawn in, or, where there is one, the series of releases."""
    column: str | None = None
    """The column of groups or categories, whose name the picture shows."""
    delta: float | None = None
    """The delta that the command allows."""
    new: Callable[[], Estimator[Any]] | None = None
    """Makes another estimator, where each period has its own."""

    def __post_init__(self) -> None:
        check_level(self.level)  # said now, not after an hour of reading
        self.keeper = Keeper(self.est, self.kept, self.forewarn)
        self._warned = self.kept is not None and self.kept.exists  # a state that is there has decided for good
        note_unused_delta(self.est, self.delta, self.output, continued=self._warned)
        if not self._warned and not self.delta:
            note_what_a_delta_buys(self.est, self.output)

    def forewarn(self) -> None:
        """Say once, when rows turn out to be good and before anything is spent, that releases will be mostly noise."""
        if not self._warned:
            self._warned = True
            note_expected_noise(self.est, self.output)

    @property
    def left(self) -> int:
        """How many planned releases are not made yet."""
        if self.est.TRAITS.unit == "days":
            return 1  # there is always one more
        budget = self.keeper.budget
        return budget.releases - budget.releases_made

    def check_left(self) -> None:
        """Refuse to go on if all planned releases are made."""
        if not self.left and self.kept is not None:
            path, plan = self.kept.path, self.est.budget.releases
            raise BudgetExhausted(
                f"{path}: {all_made(plan, 'release')}; panprivacy show {path} shows the last one again"
            )

    def note_exhausted(self) -> None:
        """Say so if no release will ever show the events that are counted from now on."""
        if not self.left:
            made = all_made(self.est.budget.releases, "release")
            self.output.note(f"{made}: events that are counted from now on will never be released")

    def spend(self) -> Any:
        """Spend one planned release. What was spent is on disk before it is shown."""
        self.check_left()
        self.forewarn()
        try:
            return self.keeper.release(self.level)
        except BudgetExhausted:
            self.check_left()  # another process was quicker: say it in the words of a command
            raise

    def save(self) -> None:
        """Write the state, and say what can be done with it."""
        assert self.kept is not None
        self.keeper.write()
        path, left = self.kept.path, self.left
        self.output.note(
            f"{path}: saved; {left} of {self.est.budget.releases} releases left"
            f"{f', and panprivacy release {path} spends one' if left else ''}"
        )

    def show(self, row: Dated) -> None:
        """Show a row of a series. In CSV the cohort of a retention is in the rows of users who came back."""
        if not (self.output.as_csv and self.est.TRAITS.own_periods and isinstance(row.release, Release)):
            self.output.answer(row)

    def draw(self, released: Any) -> None:
        """Draw a release."""
        assert self.picture is not None
        if released is None:
            raise PanPrivacyError(
                f"there is no release to draw in {self.picture}; --release makes one", code="nothing-to-draw"
            )
        released.plot(self.picture, self.column)

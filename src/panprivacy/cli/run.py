"""One command that counts: it feeds events to an estimator, saves the state, releases, and shows, in this order."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from time import time
from typing import Any, Protocol, Self

from panprivacy.checks import check_level
from panprivacy.cli.kept import Keeper, Kept, KeptFolder, continued_or_new
from panprivacy.cli.notes import (
    note_epsilon,
    note_expected_noise,
    note_noise,
    note_unused_delta,
    note_what_a_delta_buys,
)
from panprivacy.cli.options import OutputOptions, StateOptions
from panprivacy.cli.output import CannotShow, Output, cause_of
from panprivacy.cli.published import AT, Dated, Published
from panprivacy.cli.sources import Counting, Events, Files, Listened
from panprivacy.errors import BudgetExhausted, InvalidValue, PanPrivacyError
from panprivacy.estimates import Release
from panprivacy.estimates.plots import check_picture
from panprivacy.estimators.base import Estimator
from panprivacy.ingest import BadInput, SignalTimer
from panprivacy.ingest.feed import BatchFeeder
from panprivacy.periods import CALENDAR, SECOND, length_of
from panprivacy.privacy.ledger import all_made
from panprivacy.units import counted

_NONE_LEFT = "no planned release is left"


class Planned(Protocol):
    """The options of a command about its budget."""

    @property
    def plan(self) -> dict[str, Any]:
        """What an estimator is planned for, in the words of its constructor; None where nothing was said."""

    @property
    def delta(self) -> float | None:
        """The delta that the command allows."""


@dataclass(frozen=True)
class Command:
    """What commands that count have in common: the state that they keep, their budget, and how answers look."""

    kept: Kept | None
    budget: Planned
    look: OutputOptions

    @classmethod
    @contextmanager
    def opened(cls, state: StateOptions, budget: Planned, look: OutputOptions) -> Iterator[Self]:
        """Open the state; a picture that cannot be drawn is refused now."""
        if look.plot is not None:
            check_picture(look.plot)
        with state.open() as kept:
            yield cls(kept, budget, look)

    def estimator(self, name: str | None, users: Any, new: Callable[[], Any], **differs: Any) -> Any:
        """The estimator of the state, if it is the one that was asked for, or a new one.

        `differs` are parts of the plan that the command checks by itself: None where the state may have any.
        """
        asked = {"estimator": name, "universe": users and users.describe(), **self.budget.plan, **differs}
        return continued_or_new(self.kept, users, asked, new)

    def run(self, est: Estimator[Any], column: str | None = None) -> "Run":
        """What feeds the estimator, and shows its releases."""
        return Run(est, self.kept, self.look.level, self.look.output(), self.look.plot, column, self.budget.delta)


@dataclass
class Run:
    """One command: an estimator, the file or folder it is kept in, if any, and what is shown."""

    est: Estimator[Any]
    kept: Kept | None
    level: float
    output: Output
    picture: str | None = None
    """The file that a release is drawn in, or, where there is one, the series of releases."""
    column: str | None = None
    """The column that says which group, or which category, as the picture calls it."""
    delta: float | None = None
    """The delta that the command allows."""

    def __post_init__(self) -> None:
        check_level(self.level)  # said now, not after an hour of reading
        self.keeper = Keeper(self.est, self.kept, self.forewarn)
        self._published: Published | None = None
        self._warned = self.kept is not None and self.kept.exists  # a state that is there has decided for good
        note_unused_delta(self.est, self.delta, self.output, continued=self._warned)
        if not self._warned and not self.delta:
            note_what_a_delta_buys(self.est, self.output)

    def feed(self, source: Events, every: str | None, final: bool | None, published: Published | None = None) -> None:
        """Count everything, and save it as it is counted; show what was asked for, also as a series."""
        if every in CALENDAR:
            raise InvalidValue(f"--release-every {every}: periods of the calendar go by --time NAME", code="which-time")
        period = None if every is None else length_of(every) / SECOND
        live = not isinstance(source, Files)
        if period is not None and not live:
            raise InvalidValue("--release-every goes by the clock of standard input (-)", code="which-time")
        self._published = published
        if final is False and self.kept is None:
            raise InvalidValue("--no-release needs a --state FILE to keep what is counted", code="which-state")
        final = final if final is not None else self.kept is None or live
        if final and not live:
            self.check_left()  # now, not after an hour of reading
        if self.picture is not None and not final and not live:
            self.draw(self.est.last)  # of a state that is there; else there will be nothing to draw
        self.note_exhausted()
        feed = source.feed_to(self.est)
        with self.keeping_what_was_counted():
            if isinstance(source, Files):
                source.read(source.columns, self.keeper, self.output, feed.take)
            else:
                self._feed_live(source, feed, period, final)
        self._finish(final, live)
        if published is not None:
            published.close(self.est)
        note_epsilon(self.est, self.output)

    def forewarn(self) -> None:
        """Say once, when rows turn out to be good and before anything is spent, that releases will be mostly noise."""
        if not self._warned:
            self._warned = True
            note_expected_noise(self.est, self.output)

    def count(self, source: Files) -> None:
        """Count files, and save them as they are counted; show nothing."""
        with self.keeping_what_was_counted():
            source.read(source.columns, self.keeper, self.output, source.feed_to(self.est).take)

    @contextmanager
    def keeping_what_was_counted(self) -> Iterator[None]:
        """After a bad row, save the batches before it, and say so."""
        try:
            yield
        except BadInput as error:
            if self.kept is None or not self.keeper.used:
                raise
            self.keeper.write_what_is_left()
            again = (
                "mend the row and feed it all again, counting a row twice does no harm"
                if self.est.REPEATABLE
                else "feed what comes after them, since a row that is fed again counts again"
            )
            raise PanPrivacyError(
                f"{cause_of(error)}; the batches before it are counted, and saved in {self.kept.path}: {again}",
                code="bad-row",
            ) from None

    def _feed_live(self, source: Listened, feed: BatchFeeder, period: float | None, final: bool) -> None:
        with SignalTimer(period) as bell:
            self.output.note(f"reading {source.name}; kill -USR1 {os.getpid()} spends a release, Ctrl-C ends the input")
            if period is not None and self.left <= final:
                self.output.note("no release is planned but the one at the end; --releases K plans for more")
            # A batch that is broken off is not counted, or may be counted twice.
            whole = lambda batch: bell.undisturbed(partial(feed.take, batch))  # noqa: E731
            ring = partial(self._release_between, final)
            source.listen(Counting(source.columns, self.keeper, self.output, bell, whole, ring))

    def _release_between(self, final: bool) -> None:
        left = self.left
        if left > final:
            self._release_if_left()
        elif left:
            self.output.note("the last planned release is kept for the end of input")
        else:
            self.output.note(_NONE_LEFT)

    def _release_if_left(self) -> None:
        """Make a release of a pipe, which goes on if another process has made the last one at this moment."""
        try:
            self.release(dated=True)
        except BudgetExhausted:
            self.output.note(_NONE_LEFT)

    def _finish(self, final: bool, live: bool) -> None:
        if final and (self.left or not live):
            if live:
                self._release_if_left()
            else:
                self.release()
            if self.left and self.kept is None:
                self.output.note(f"{counted(self.left, 'more planned release')}, and no --state FILE to make them from")
        elif self.kept is not None:
            self.save(self.kept)

    def save(self, kept: Kept) -> None:
        """Write the state, and say what can be done with it."""
        self.keeper.write()
        self.output.note(
            f"{kept.path}: saved; {self.left} of {self.est.budget.releases} releases left"
            f"{f', and panprivacy release {kept.path} spends one' if self.left else ''}"
        )

    @property
    def left(self) -> int:
        """How many planned releases are not made yet."""
        if self.est.TRAITS.unit == "days":
            return 1  # there is always one more
        # Another process may have released from the same folder meanwhile.
        budget = self.kept.folder.budget if isinstance(self.kept, KeptFolder) else self.est.budget
        return budget.releases - budget.releases_made

    def check_left(self) -> None:
        """Refuse to go on if all planned releases are made."""
        if not self.left and self.kept is not None:
            path, plan = self.kept.path, self.est.budget.releases
            raise BudgetExhausted(
                f"{path}: {all_made(plan, 'release')}; panprivacy show {path} shows the last one again"
            )

    def note_exhausted(self) -> None:
        """Say so if nothing of what is counted from now on will ever be seen."""
        if not self.left:
            made = all_made(self.est.budget.releases, "release")
            self.output.note(f"{made}: events that are counted from now on will never be released")

    def release(self, *, dated: bool = False) -> None:
        """Spend one planned release and show it, with the time if it is one of many from a pipe."""
        released = self.spend()
        row = Dated(AT, int(time()) * SECOND, released) if dated else None
        if row is not None and self._published is not None:
            self._published.rows.append(row)
        try:
            if row is None:
                self.output.answer(released)
            else:
                self.show(row)
        except CannotShow as error:
            path = self.kept and self.kept.path
            lost = f"is spent and saved; panprivacy show {path} has it" if path else "is spent, and lost"
            raise CannotShow(f"{error}; the release {lost}") from None
        if self._published is None:  # a series is drawn, and called noise, once
            if self.picture is not None:
                self.draw(released)
            note_noise(released, self.output)

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

    def spend(self) -> Any:
        """Spend one planned release. What was spent is on disk before it is shown."""
        self.check_left()
        self.forewarn()
        try:
            return self.keeper.release(self.level)
        except BudgetExhausted:
            self.check_left()  # another process was quicker: say it in the words of a command
            raise

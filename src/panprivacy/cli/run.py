"""What `density` and `distinct` do with events: feed, save, release, and show, in this order."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from math import exp
from typing import Any

from panprivacy.checks import check_level
from panprivacy.cli.keeping import Keeper
from panprivacy.cli.plainly import CannotShow, Speaker, ended_in_order
from panprivacy.cli.progress import Meter
from panprivacy.density import Density
from panprivacy.errors import BudgetExhausted, PanPrivacyError
from panprivacy.estimator import Estimator
from panprivacy.events import STDIN, BadInput, Bell, Columns, Format, Layout, Live, expand, read
from panprivacy.feeding import Feed
from panprivacy.hardening import start_hardened
from panprivacy.periods import parse_period
from panprivacy.privacy.ledger import all_made
from panprivacy.release import Release
from panprivacy.state import StateFile

_WEAK = 10.0  # an epsilon above this is hardly a promise
_NOISE = 0.5  # a standard error above this says nothing of a density between 0 and 1


@dataclass(frozen=True)
class Source:
    """Where events come from and how they are read."""

    files: Sequence[str]
    columns: Columns
    format: Format | None
    layout: Layout
    skip_missing: bool
    skip_outside: bool = False

    def feed_to(self, est: Estimator[Any], columns: Columns | None = None) -> Feed:
        """What counts its batches; with more columns, if something else is read from them as well."""
        skip: dict[str, bool] = {"skip_missing": self.skip_missing, "skip_outside": self.skip_outside}
        return Feed(est, columns or self.columns, **skip, live=self.live)

    @property
    def live(self) -> bool:
        """Whether this is standard input."""
        return list(self.files) == [STDIN]


@dataclass
class Run:
    """One command: an estimator, the file it is kept in, if any, and what is shown."""

    est: Estimator[Any]
    kept: StateFile | None
    level: float
    speaker: Speaker

    def __post_init__(self) -> None:
        check_level(self.level)  # said now, not after an hour of reading
        self.keeper = Keeper(self.est, self.kept)

    def feed(self, source: Source, every: str | None, final: bool | None) -> None:
        """Count everything, and save it as it is counted; show what was asked for."""
        period = parse_period(every) if every is not None else None
        if period is not None and not source.live:
            other = ", or by --time COLUMN of files" if isinstance(self.est, Density) else "; files have no clock"
            raise ValueError(f"--release-every goes by the clock of standard input (-){other}")
        if final is False and self.kept is None:
            raise ValueError("--no-release needs a --state FILE to keep what is counted")
        final = final if final is not None else self.kept is None or source.live
        if final and not source.live:
            self.check_left()  # now, not after an hour of reading
        self.note_exhausted()
        feed = source.feed_to(self.est)
        with self.keeping_what_was_counted():
            if source.live:
                self._feed_live(source, feed, period, final)
            else:
                self._feed_files(source, feed)
        self._finish(final, source.live)
        self.note_epsilon()

    def _feed_files(self, source: Source, feed: Feed) -> None:
        files = expand(source.files)
        with Meter(files, self.speaker) as meter:
            for batch in read(files, source.columns, format_=source.format, layout=source.layout):
                feed.take(batch)
                meter.advance(batch)
                if self.est.REPEATABLE:  # else the files are kept whole or not at all: part of them cannot be fed again
                    self.keeper.counted()

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
                f"{error}; the batches before it are counted, and saved in {self.kept.path}: {again}"
            ) from None

    def _feed_live(self, source: Source, feed: Feed, period: float | None, final: bool) -> None:
        with Bell(period) as bell:
            self.speaker.note(
                f"reading standard input; kill -USR1 {os.getpid()} spends a release, Ctrl-C ends the input"
            )
            if period is not None and self.left <= final:
                self.speaker.note("no release is planned but the one at the end; --releases K plans for more")
            live = Live(sys.stdin.fileno(), source.columns, source.format, source.layout, bell)
            with Meter([], self.speaker) as meter:
                for batch in live.batches():
                    if batch is not None:
                        bell.undisturbed(
                            partial(feed.take, batch)
                        )  # one that is broken off is not counted, or may be twice
                        meter.advance(batch)
                        self.keeper.counted()
                    elif bell.rings():
                        self._release_between(final)
                    else:
                        self.keeper.write_if_due()
                    bell.wake_at = self.keeper.due

    def _release_between(self, final: bool) -> None:
        left = self.left
        if left > final:
            self.release(dated=True)
        elif left:
            self.speaker.note("the last planned release is kept for the end of input")
        else:
            self.speaker.note("no planned release is left")

    def _finish(self, final: bool, live: bool) -> None:
        if final and (self.left or not live):
            self.release(dated=live)
            if self.left and self.kept is None:
                self.speaker.note(f"{self.left} more planned releases, and no --state FILE to make them from")
        elif self.kept is not None:
            self.save(self.kept)

    def save(self, kept: StateFile) -> None:
        """Write the state, and say what can be done with it."""
        self.keeper.write()
        self.speaker.note(
            f"{kept.path}: saved; {self.left} of {self.est.budget.releases} releases left"
            f"{f', and panprivacy release {kept.path} spends one' if self.left else ''}"
        )

    @property
    def left(self) -> int:
        """How many planned releases are not made yet."""
        budget = self.est.budget
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
            self.speaker.note(f"{made}: events that are counted from now on will never be released")

    def note_epsilon(self) -> None:
        """Say in words what an epsilon means that promises hardly anything."""
        epsilon = self.est.epsilon
        if epsilon > _WEAK:
            times = f"{exp(epsilon):,.0f}" if epsilon < 30 else f"e^{epsilon:g}"
            self.speaker.note(
                f"epsilon {epsilon:g} protects hardly anybody: whoever sees state and releases may find the odds "
                f"that a user appeared multiplied by {times}; with epsilon 1 it is {exp(1):.1f} at most"
            )

    def release(self, *, dated: bool = False) -> None:
        """Spend one planned release and show it, with the time if it is one of many from a pipe."""
        released = self.spend()
        try:
            self.speaker.answer(released, datetime.now(UTC).isoformat(timespec="seconds") if dated else None)
        except CannotShow as error:
            path = self.kept and self.kept.path
            lost = f"is spent and saved; panprivacy show {path} has it" if path else "is spent, and lost"
            raise CannotShow(f"{error}; the release {lost}") from None
        if isinstance(released, Release) and released.density_stderr > _NOISE:
            self.speaker.note("this answer is mostly noise; panprivacy plan finds an epsilon and a size that do better")

    def spend(self) -> Any:
        """Spend one planned release. What was spent is on disk before anybody can show it."""
        self.check_left()
        released = self.est.release(level=self.level)
        self.keeper.write()
        return released


def prepare(files: Sequence[str], *, quiet: bool) -> None:
    """A pipe lives long, so its process starts in a way that leaves nothing of the rows in freed memory."""
    if list(files) == [STDIN]:
        hardened = start_hardened()
        for measure in hardened.missing if hardened is not None else ():
            Speaker(as_json=False, quiet=quiet).note(f"not in force here: {measure.name}; {measure.note}")


@contextmanager
def kept_in(path: str | None) -> Iterator[StateFile | None]:
    """Lock the state file, if there is to be one, and give it back however the command ends."""
    with ended_in_order(), StateFile(path).locked() if path is not None else nullcontext() as file:
        yield file


def load_estimator(file: StateFile, universe: Any = None) -> Estimator[Any]:
    """Bring the estimator in a file back to life, if it is one that commands can use."""
    est = file.load(universe)
    if not isinstance(est, Estimator):
        raise PanPrivacyError(f"{file.path}: this is the state of a {type(est).__name__}: use it in Python, by pp.load")
    return est


def continued_or_new(
    file: StateFile | None, universe: Any, asked: dict[str, Any], make: Callable[[], Estimator[Any]]
) -> Estimator[Any]:
    """The estimator that a state file holds, if it is the one that was asked for, or a new one."""
    if file is None or not file.exists:
        return make()
    est = load_estimator(file, universe)
    budget = est.budget
    found = {
        "estimator": type(est).__name__,
        "epsilon": est.epsilon,
        "releases": budget.releases,
        "intrusions": budget.redraws,
        "universe": est.universe.describe(),
    }
    for what, wanted in asked.items():
        if wanted is not None and wanted != found[what]:
            raise PanPrivacyError(f"{file.path}: {what} {found[what]} in the state, and {wanted} was asked for")
    return est


def planned(plan: dict[str, Any]) -> dict[str, Any]:
    """Arguments of a new estimator: what was said, and the defaults of what was not."""
    if plan["epsilon"] is None:
        raise ValueError("how much privacy? Say --epsilon E, the total budget; 1 is usual")
    return {name: value for name, value in plan.items() if value is not None}

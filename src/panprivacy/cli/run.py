"""What `density` and `distinct` do with events: feed, save, release, and show, in this order."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from math import exp
from time import time
from typing import Any

from panprivacy.actives import ActiveUsers
from panprivacy.checks import check_level
from panprivacy.cli.deltas import note_large_delta, note_unused_delta, note_what_a_delta_buys
from panprivacy.cli.folders import KeptFolder, is_folder, refuse_folder
from panprivacy.cli.groups import check_groups_picture
from panprivacy.cli.keeping import Keeper, Kept
from panprivacy.cli.noisy import note_expected_noise, note_noise
from panprivacy.cli.plainly import CannotShow, Speaker, ended_in_order
from panprivacy.cli.published import AT, Dated, Published
from panprivacy.cli.source import Events, Files, Listened
from panprivacy.errors import BudgetExhausted, PanPrivacyError
from panprivacy.estimator import Estimator
from panprivacy.events import STDIN, BadInput, Bell
from panprivacy.feeding import Feed
from panprivacy.hardening import start_hardened
from panprivacy.periods import SECOND, parse_period
from panprivacy.privacy.ledger import all_made
from panprivacy.retention import Retention
from panprivacy.sizes import counted
from panprivacy.state import StateFile
from panprivacy.threads import use_threads

_WEAK = 10.0  # an epsilon above this is hardly a promise
_NONE_LEFT = "no planned release is left"


@dataclass
class Run:
    """One command: an estimator, the file or folder it is kept in, if any, and what is shown."""

    est: Estimator[Any]
    kept: Kept | None
    level: float
    speaker: Speaker
    picture: str | None = None
    """The file that the groups of a release are drawn in."""
    column: str | None = None
    """The column that says which group, or which category, as the picture calls it."""
    delta: float | None = None
    """The delta that the command allows."""

    def __post_init__(self) -> None:
        check_level(self.level)  # said now, not after an hour of reading
        if self.picture is not None:
            check_groups_picture(self.est, self.picture)
        self.keeper = Keeper(self.est, self.kept, self.forewarn)
        self._published: Published | None = None
        self._warned = self.kept is not None and self.kept.exists  # a state that is there has decided for good
        note_unused_delta(self.est, self.delta, self.speaker, continued=self._warned)
        if not self._warned and not self.delta:
            note_what_a_delta_buys(self.est, self.speaker)

    def feed(self, source: Events, every: str | None, final: bool | None, published: Published | None = None) -> None:
        """Count everything, and save it as it is counted; show what was asked for, also as a series."""
        period = parse_period(every) if every is not None else None
        live = not isinstance(source, Files)
        if period is not None and not live:
            raise ValueError("--release-every goes by the clock of standard input (-), or by --time COLUMN of events")
        self._published = published
        if final is False and self.kept is None:
            raise ValueError("--no-release needs a --state FILE to keep what is counted")
        final = final if final is not None else self.kept is None or live
        if final and not live:
            self.check_left()  # now, not after an hour of reading
        self.note_exhausted()
        feed = source.feed_to(self.est)
        with self.keeping_what_was_counted():
            if isinstance(source, Files):
                source.read(source.columns, self.keeper, self.speaker, feed.take)
            else:
                self._feed_live(source, feed, period, final)
        self._finish(final, live)
        if published is not None:
            published.close(self.est)
        self.note_epsilon()

    def forewarn(self) -> None:
        """Say once, when rows turn out to be good and before anything is spent, that releases will be mostly noise."""
        if not self._warned:
            self._warned = True
            note_expected_noise(self.est, self.speaker)

    def count(self, source: Files) -> None:
        """Count files, and save them as they are counted; show nothing."""
        with self.keeping_what_was_counted():
            source.read(source.columns, self.keeper, self.speaker, source.feed_to(self.est).take)

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

    def _feed_live(self, source: Listened, feed: Feed, period: float | None, final: bool) -> None:
        with Bell(period) as bell:
            self.speaker.note(
                f"reading {source.name}; kill -USR1 {os.getpid()} spends a release, Ctrl-C ends the input"
            )
            if period is not None and self.left <= final:
                self.speaker.note("no release is planned but the one at the end; --releases K plans for more")
            source.listen(
                source.columns,
                self.keeper,
                self.speaker,
                bell,
                take=lambda batch: bell.undisturbed(
                    partial(feed.take, batch)
                ),  # a batch that is broken off is not counted, or may be counted twice
                ring=lambda: self._release_between(final),
            )

    def _release_between(self, final: bool) -> None:
        left = self.left
        if left > final:
            self._release_if_left()
        elif left:
            self.speaker.note("the last planned release is kept for the end of input")
        else:
            self.speaker.note(_NONE_LEFT)

    def _release_if_left(self) -> None:
        """Make a release of a pipe, which goes on if another process has made the last one at this moment."""
        try:
            self.release(dated=True)
        except BudgetExhausted:
            self.speaker.note(_NONE_LEFT)

    def _finish(self, final: bool, live: bool) -> None:
        if final and (self.left or not live):
            if live:
                self._release_if_left()
            else:
                self.release()
            if self.left and self.kept is None:
                self.speaker.note(
                    f"{counted(self.left, 'more planned release')}, and no --state FILE to make them from"
                )
        elif self.kept is not None:
            self.save(self.kept)

    def save(self, kept: Kept) -> None:
        """Write the state, and say what can be done with it."""
        self.keeper.write()
        self.speaker.note(
            f"{kept.path}: saved; {self.left} of {self.est.budget.releases} releases left"
            f"{f', and panprivacy release {kept.path} spends one' if self.left else ''}"
        )

    @property
    def left(self) -> int:
        """How many planned releases are not made yet."""
        if isinstance(self.est, ActiveUsers):
            return 1  # there is always one more day
        # Of a folder, anybody may have made one meanwhile.
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
            self.speaker.note(f"{made}: events that are counted from now on will never be released")

    def note_epsilon(self) -> None:
        """Say in words what an epsilon means that promises hardly anything, and a delta that is not tiny."""
        note_large_delta(self.est.delta, self.speaker)
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
        row = Dated(AT, int(time()) * SECOND, released) if dated else None
        if row is not None and self._published is not None:
            self._published.rows.append(row)
        try:
            self.speaker.answer(released, None if row is None else row.when)
        except CannotShow as error:
            path = self.kept and self.kept.path
            lost = f"is spent and saved; panprivacy show {path} has it" if path else "is spent, and lost"
            raise CannotShow(f"{error}; the release {lost}") from None
        if self.picture is not None:
            released.plot(self.picture, self.column)
        if self._published is None:  # a series says it once
            note_noise(released, self.speaker)

    def spend(self) -> Any:
        """Spend one planned release. What was spent is on disk before anybody can show it."""
        self.check_left()
        self.forewarn()
        est = self.est
        if not isinstance(est, Retention) or est.closed:
            try:
                return self.keeper.release(self.level)
            except BudgetExhausted:
                self.check_left()  # another process was quicker: say it in the words of a command
                raise
        released = est.close(self.level)  # the first release is of the cohort, and ends its period
        self.keeper.write()
        return released


def prepare(files: Sequence[str], *, quiet: bool, threads: int | None) -> None:
    """Say how many threads there are to be, and see to it that a pipe leaves nothing of its rows in freed memory.

    A pipe lives long, so its process starts again in a way that does. Polars asks for its number of threads once, when
    it is imported.
    """
    use_threads(threads)
    if threads is not None:
        os.environ["POLARS_MAX_THREADS"] = str(threads)
    if list(files) == [STDIN]:
        hardened = start_hardened()
        for measure in hardened.missing if hardened is not None else ():
            Speaker(as_json=False, quiet=quiet).note(f"not in force here: {measure.name}; {measure.note}")


@contextmanager
def kept_in(path: str | None) -> Iterator[StateFile | None]:
    """Lock the state file, if there is to be one, and give it back however the command ends."""
    if path is not None:
        refuse_folder(path)
    with ended_in_order(), StateFile(path).locked() if path is not None else nullcontext() as file:
        yield file


@contextmanager
def kept_anywhere(path: str | None, shards: int | None = None) -> Iterator[Kept | None]:
    """The same, or a state folder, which nobody locks: several commands use it at a time."""
    if path is None or not is_folder(path):
        if shards is not None:
            raise ValueError(f"--shards is for a state folder, --state DIR/{f', and {path} is a file' if path else ''}")
        with kept_in(path) as file:
            yield file
        return
    with ended_in_order(), KeptFolder(path, shards) as folder:
        yield folder


def load_estimator(file: Kept, universe: Any = None) -> Estimator[Any]:
    """Bring the estimator in a file or folder back to life, if it is one that commands can use."""
    if isinstance(file, KeptFolder):
        return file.opened(universe)
    est = file.load(universe)
    if not isinstance(est, Estimator):
        raise PanPrivacyError(f"{file.path}: this is the state of a {type(est).__name__}: use it in Python, by pp.load")
    return est


def continued_or_new(
    file: Kept | None, universe: Any, asked: dict[str, Any], make: Callable[[], Estimator[Any]]
) -> Estimator[Any]:
    """The estimator that a state holds, if it is the one that was asked for, or a new one."""
    if isinstance(file, KeptFolder):
        est = file.opened(universe, make)
        if file.new:
            return est
    elif file is None or not file.exists:
        return make()
    else:
        est = load_estimator(file, universe)
    budget = est.budget
    if not est.delta:
        asked = asked | {"delta": None}  # one that is allowed and not needed is no other promise
    found = {
        "estimator": type(est).__name__,
        "epsilon": est.epsilon,
        "releases": budget.releases,
        "intrusions": budget.redraws,
        "delta": est.delta,
        "universe": est.universe.describe(),
    }
    refuse_another(file, found, asked)
    return est


def refuse_another(file: StateFile | KeptFolder | None, found: dict[str, Any], asked: dict[str, Any]) -> None:
    """Refuse to go on with a state that was planned otherwise than is asked for now; None asks for nothing."""
    for what, wanted in asked.items():
        if file is not None and wanted is not None and wanted != found[what]:
            raise PanPrivacyError(f"{file.path}: {what} {found[what]} in the state, and {wanted} was asked for")


def planned(plan: dict[str, Any]) -> dict[str, Any]:
    """Arguments of a new estimator: what was said, and the defaults of what was not."""
    if plan["epsilon"] is None:
        raise ValueError("how much privacy? Say --epsilon E, the total budget; 1 is usual")
    return {name: value for name, value in plan.items() if value is not None}


def plan_of(est: Estimator[Any]) -> dict[str, Any]:
    """What an estimator was planned for, in the words of `planned`."""
    budget = est.budget
    plan = {"epsilon": est.epsilon, "releases": budget.releases, "intrusions": budget.redraws}
    return plan | {"delta": est.delta or None}

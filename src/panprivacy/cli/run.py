"""One run of a command: its estimator, where the state is kept, and where answers are shown."""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from panprivacy.checks import check_level
from panprivacy.cli.notes import expected_noise, note_delta
from panprivacy.cli.output import Output, ended_in_order
from panprivacy.cli.published import Dated
from panprivacy.errors import BudgetExhausted, InvalidValue, PanPrivacyError
from panprivacy.estimates import Release
from panprivacy.estimators.base import Estimator
from panprivacy.folder import StateFolder
from panprivacy.folder.ledger import UNFINISHED
from panprivacy.folder.shards import BatchId
from panprivacy.ingest import STDIN
from panprivacy.privacy.budget import all_made
from panprivacy.state import StateFile
from panprivacy.state.disk import undisturbed

_PATIENCE = 10.0  # seconds without a new shard after which the process that makes a folder is taken for dead
_MADE_FIRST = "shard-00000.pp"
_AT_MOST = 1.0  # seconds after which a batch that was counted is in the file at the latest
_OF_FILES = 10.0  # seconds after which what was read of files is in a folder, every shard of which is written each time
_PAUSE = 25  # the next write waits this many times as long as the last one took: 1/25 of the time is for writing


def is_folder(path: str) -> bool:
    """Whether this names a state folder: a URL, a folder that is there, or a name that ends like one."""
    return "://" in path or path.endswith("/") or Path(path).is_dir()


def refuse_folder(path: str) -> None:
    """Say that a command takes state files only."""
    if is_folder(path):
        raise PanPrivacyError(
            f"{path}: this command takes a state file, and this is the name of a folder", code="folder-not-taken"
        )


class KeptFolder(ExitStack):
    """A state folder that a command feeds: events wait in memory, plainly, until they are written together."""

    def __init__(self, path: str, shards: int | None = None) -> None:
        super().__init__()
        file = Path(path.rstrip("/"))
        if file.is_file():
            raise PanPrivacyError(
                f"{path}: {file} is a file, and a name that ends with / means a state folder", code="not-a-folder"
            )
        self.path = path
        self.exists = False
        """Whether it was there before this command."""
        self.batch: BatchId | None = None
        """Which batch the files of this command are, if that was said."""
        self._shards = shards

    def opened(self, universe: Any = None, make: Callable[[], Estimator[Any]] | None = None) -> Estimator[Any]:
        """The estimator of the folder, to be fed by its own verbs; `make` makes one if there is none.

        Of several commands that make it at the same time one does, and the others wait for it.
        """
        folder = self._found(universe)
        self.exists = folder is not None
        if folder is None and make is not None:
            names = self._names()
            if names and not any(_MADE_FIRST in name for name in names):
                raise PanPrivacyError(
                    f"{self.path}: has other files, and no ledger of a state folder: name a new one",
                    code="not-a-folder",
                )
            try:
                folder = StateFolder.holding(make(), self.path, shards=self._shards)
            except FileExistsError:
                folder, self.exists = self._awaited(universe), True
        if folder is None:
            raise PanPrivacyError(f"{self.path}: there is no state folder here", code="folder-missing")
        if self._shards not in (None, folder.shards):
            raise PanPrivacyError(
                f"{self.path}: has {folder.shards} shards, and {self._shards} were asked for", code="another-size"
            )
        self.folder = folder
        self.pending = self.enter_context(folder.pending())
        if make is not None:
            self.pending.expect()
        est: Estimator[Any] = self.pending.estimator
        return est

    def write(self) -> None:
        """Bring what was counted to the shards; when this returns, it is on disk."""
        ids = getattr(self.pending.estimator, "ids", None)
        if ids is not None:
            self.folder.declare_ids(ids)
        with undisturbed():  # counters that have moved in some shards only are worse than a command that ends later
            self.pending.write(self.batch)
        self.batch = None

    def _found(self, universe: Any) -> StateFolder | None:
        try:
            return StateFolder(self.path, universe)
        except FileNotFoundError:
            return None

    def _awaited(self, universe: Any) -> StateFolder:
        """The folder, when the process that makes it is done; its ledger comes last."""
        many, until = 0, time.monotonic() + _PATIENCE
        while time.monotonic() < until:
            folder = self._found(universe)
            if folder is not None:
                return folder
            if len(self._names()) > many:
                many, until = len(self._names()), time.monotonic() + _PATIENCE
            time.sleep(0.05)
        raise PanPrivacyError(f"{self.path}: {UNFINISHED}", code="folder-unfinished")

    def _names(self) -> list[str]:
        local = Path(self.path)
        return [each.name for each in local.iterdir()] if local.is_dir() else []


Kept: TypeAlias = StateFile | KeptFolder
"""Where a command keeps its state."""


@contextmanager
def kept_in(path: str | None, shards: int | None = None, *, folders: bool = True) -> Iterator[Kept | None]:
    """The state file, locked until the command ends, however it does; or the state folder, which several commands use.

    None without a path.
    """
    of_folder = path is not None and is_folder(path)
    if path is not None and not folders:
        refuse_folder(path)
    if shards is not None and not of_folder:
        raise InvalidValue(
            f"--shards is for a state folder, --state DIR/{f', and {path} is a file' if path else ''}",
            code="shards-of-file",
        )
    with ended_in_order():
        if path is None:
            yield None
        else:
            with KeptFolder(path, shards) if of_folder else StateFile(path).locked() as kept:
                yield kept


def load_estimator(
    kept: Kept, universe: Any = None, make: Callable[[], Estimator[Any]] | None = None
) -> Estimator[Any]:
    """The estimator of a file or folder, if commands can use it; `make` makes a new one if there is none."""
    if isinstance(kept, KeptFolder):
        return kept.opened(universe, make)
    if make is not None and not kept.exists:
        return make()
    est = kept.load(universe)
    if not isinstance(est, Estimator):
        raise PanPrivacyError(
            f"{kept.path}: this is the state of a {type(est).__name__}: use it in Python, by pp.load",
            code="not-for-commands",
        )
    return est


def name_batch(kept: object, text: str | None, files: Sequence[str], output: Output) -> None:
    """Read ``--batch till3:17``: the files of this command are a batch that a folder counts once."""
    if text is not None:
        if not isinstance(kept, KeptFolder) or list(files) == [STDIN]:
            raise InvalidValue(
                "--batch is for files that are counted in a state folder, --state DIR/", code="batch-of-file"
            )
        match = re.fullmatch(r"(.+):([0-9]{1,18})", text)
        if not match:
            raise InvalidValue(
                f"batch {text!r} is not understood; write a name and a number that rises, like till3:17",
                code="batch-spelling",
            )
        kept.batch = BatchId(match[1], int(match[2]))
        kept.folder.check_batch(kept.batch)  # now, not after an hour of reading
        if kept.folder.last_batch(kept.batch.writer) == kept.batch.number:
            output.note(f"{kept.path}: has {kept.batch} already, and it is not counted again")
    elif isinstance(kept, KeptFolder) and kept.folder.needs_names:
        raise InvalidValue(
            "in this store an unnamed batch might be counted twice: name it, --batch NAME:NUMBER", code="which-batch"
        )


@dataclass
class Run:
    """An estimator that a command feeds: it writes the state, spends releases, and shows the answers.

    A file that lags behind is an older version of the state: reading it and the memory is reading the state twice.
    So a batch is written at once, or, where writes are slow, as soon as they have paused long enough, and after a
    second in any case. Rows that wait for a folder are not hidden by coins yet. So a pipe waits no longer than the last
    write took, during which earlier rows were as plain. Files wait ten seconds at most: an intruder who images the
    process can read the files as well.
    """

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
    behind: bool = field(init=False, default=False)
    """Whether something was counted that is not in the file."""
    used: bool = field(init=False, default=False)
    """Whether anything was counted."""

    def __post_init__(self) -> None:
        check_level(self.level)  # said now, not after an hour of reading
        self._free = 0.0  # when the next write may begin
        self._live = False
        self._warned = self.kept is not None and self.kept.exists  # a state that is there has decided for good
        note_delta(self.est, self.delta, self.output, continued=self._warned)

    def forewarn(self) -> None:
        """Say once, when rows turn out to be good and before anything is spent, that releases will be mostly noise."""
        noise = None if self._warned else expected_noise(self.est, spelled=lambda name: f"--{name}")
        self._warned = True
        if noise is not None:
            self.output.note(noise)

    def counted(self, *, live: bool = False) -> None:
        """Note that a batch was counted, of a pipe or of a file, and write it unless writing has to pause."""
        if not self.used:
            self.forewarn()
        self.used, self.behind, self._live = True, self.kept is not None, live
        if isinstance(self.kept, KeptFolder):
            self.kept.pending.expect()  # all shards are written: which users of a batch own a bit must not show
        self.write_if_due()

    @property
    def due(self) -> float | None:
        """When the next write is due, by `time.monotonic`; None if the file has everything."""
        return self._free if self.behind else None

    def write_if_due(self) -> None:
        """Write what was counted, unless writing has to pause."""
        if self.behind and time.monotonic() >= self._free:
            self.write()

    def write_what_is_left(self) -> None:
        """Write what was counted, pause or not."""
        if self.behind:
            self.write()

    def write(self) -> None:
        """Write the state, if it is kept; when this returns, it is on disk."""
        if self.kept is None:
            return
        start = time.monotonic()
        if isinstance(self.kept, KeptFolder):
            self.kept.write()
        else:
            self.est.save(self.kept)
        end = time.monotonic()
        took, self.behind = end - start, False
        if not isinstance(self.kept, KeptFolder):
            self._free = end + min(_PAUSE * took, _AT_MOST)
        else:
            self._free = end + (min(took, _AT_MOST) if self._live else min(_PAUSE * took, _OF_FILES))

    @property
    def left(self) -> int:
        """How many planned releases are not made yet; another process may have made one from the same folder."""
        if self.est.TRAITS.unit == "days":
            return 1  # there is always one more
        budget: Any = self.kept.folder.budget if isinstance(self.kept, KeptFolder) else self.est.budget
        left: int = budget.releases - budget.releases_made
        return left

    def check_left(self, *, needed: bool = True) -> None:
        """Refuse to go on if all planned releases are made, or note it: no release will show the events to come."""
        if self.left:
            return
        made = all_made(self.est.budget.releases, "release")
        if not needed:
            self.output.note(f"{made}: events that are counted from now on will never be released")
        elif self.kept is not None:
            raise BudgetExhausted(
                f"{self.kept.path}: {made}; panprivacy show {self.kept.path} shows the last one again"
            )

    def spend(self) -> Any:
        """Spend one planned release. What was spent is on disk before it is shown."""
        self.check_left()
        self.forewarn()
        try:
            if isinstance(self.kept, KeptFolder):
                self.behind = False
                self.kept.write()
                return self.kept.folder.release(self.level)
            released = self.est.next_release(self.level)
        except BudgetExhausted:
            self.check_left()  # another process was quicker: say it in the words of a command
            raise
        self.write()
        return released

    def save(self) -> None:
        """Write the state, and say what can be done with it."""
        assert self.kept is not None
        self.write()
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
        assert self.picture is not None
        if released is None:
            raise PanPrivacyError(
                f"there is no release to draw in {self.picture}; --release makes one", code="nothing-to-draw"
            )
        released.plot(self.picture, self.column)

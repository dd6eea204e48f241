"""`--state DIR/ --shards 64`: a state folder in the place of a state file, for several commands at a time."""

import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from time import monotonic, sleep
from types import TracebackType
from typing import Any, Self

from panprivacy.cli.plainly import Speaker, undisturbed
from panprivacy.errors import PanPrivacyError
from panprivacy.estimator import Estimator
from panprivacy.events import STDIN
from panprivacy.folder import StateFolder
from panprivacy.folder.making import UNFINISHED
from panprivacy.folder.noted import BatchId

_PATIENCE = 10.0  # seconds without a new shard after which whoever makes a folder is taken for dead
_MADE_FIRST = "shard-00000.pp"


def is_folder(path: str) -> bool:
    """Whether this names a state folder: a URL, a folder that is there, or a name that ends like one."""
    return "://" in path or path.endswith("/") or Path(path).is_dir()


def refuse_folder(path: str) -> None:
    """Say that a command takes state files only."""
    if is_folder(path):
        raise PanPrivacyError(f"{path}: this command takes a state file, and this is the name of a folder")


class KeptFolder:
    """A state folder that a command feeds: events wait in memory, plainly, until they are written together."""

    def __init__(self, path: str, shards: int | None = None) -> None:
        file = Path(path.rstrip("/"))
        if file.is_file():
            raise PanPrivacyError(f"{path}: {file} is a file, and a name that ends with / is that of a state folder")
        self.path = path
        self.new = False
        """Whether this command has made it."""
        self.batch: BatchId | None = None
        """Which batch the files of this command are, if that was said."""
        self._shards = shards
        self._folder: StateFolder | None = None
        self._open = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._open.close()

    @property
    def folder(self) -> StateFolder:
        """The folder, once it is open."""
        assert self._folder is not None
        return self._folder

    @property
    def exists(self) -> bool:
        """Whether it was there before this command."""
        return self._folder is not None and not self.new

    def opened(self, universe: Any = None, make: Callable[[], Estimator[Any]] | None = None) -> Estimator[Any]:
        """The estimator of the folder, to be fed by its own verbs; `make` makes one if there is none.

        Of several commands that make it at the same time one does, and the others wait for it.
        """
        self._folder = self._found(universe)
        if self._folder is None and make is not None:
            self._refuse_other_files()
            try:
                self._folder, self.new = StateFolder.holding(make(), self.path, shards=self._shards), True
            except FileExistsError:
                self._folder = self._awaited(universe)
        if self._folder is None:
            raise PanPrivacyError(f"{self.path}: there is no state folder here")
        if self._shards not in (None, self.folder.shards):
            raise PanPrivacyError(f"{self.path}: has {self.folder.shards} shards, and {self._shards} were asked for")
        self._pending = self._open.enter_context(self.folder.pending())
        if make is not None:
            self._pending.expect()
        est: Estimator[Any] = self._pending.estimator
        return est

    def seen(self) -> Estimator[Any]:
        """The estimator of the folder, to be asked what it is."""
        with self:
            return self.opened()

    def expect(self) -> None:
        """Let the next `write` write all shards: whether anybody in a batch has a bit must not show."""
        self._pending.expect()

    def write(self) -> None:
        """Bring what was counted to the shards; when this returns, it is on disk."""
        ids = getattr(self._pending.estimator, "ids", None)
        if ids is not None:
            self.folder.declare_ids(ids)
        with undisturbed():  # counters that have moved in some shards only are worse than a command that ends later
            self._pending.write(self.batch)
        self.batch = None

    def release(self, level: float) -> Any:
        """Write what was counted, and spend one planned release."""
        self.write()
        return self.folder.release(level)

    def _found(self, universe: Any) -> StateFolder | None:
        try:
            return StateFolder(self.path, universe)
        except FileNotFoundError:
            return None

    def _refuse_other_files(self) -> None:
        """Make no folder amid files of others."""
        names = self._names()
        if names and not any(_MADE_FIRST in name for name in names):
            raise PanPrivacyError(f"{self.path}: has other files, and no ledger of a state folder: name a new one")

    def _awaited(self, universe: Any) -> StateFolder:
        """The folder, when whoever makes it is done; its ledger comes last."""
        many, until = 0, monotonic() + _PATIENCE
        while monotonic() < until:
            folder = self._found(universe)
            if folder is not None:
                return folder
            if len(self._names()) > many:
                many, until = len(self._names()), monotonic() + _PATIENCE
            sleep(0.05)
        raise PanPrivacyError(f"{self.path}: {UNFINISHED}")

    def _names(self) -> list[str]:
        local = Path(self.path)
        return [each.name for each in local.iterdir()] if local.is_dir() else []


def name_batch(kept: object, text: str | None, files: Sequence[str], speaker: Speaker) -> None:
    """Read ``--batch till3:17``: the files of this command are a batch that a folder counts once."""
    if text is not None:
        if not isinstance(kept, KeptFolder) or list(files) == [STDIN]:
            raise ValueError("--batch is for files that are counted in a state folder, --state DIR/")
        match = re.fullmatch(r"(.+):([0-9]{1,18})", text)
        if not match:
            raise ValueError(f"batch {text!r} is not understood; write a name and a number that rises, like till3:17")
        kept.batch = BatchId(match[1], int(match[2]))
        kept.folder.check_batch(kept.batch)  # now, not after an hour of reading
        if kept.folder.last_batch(kept.batch.writer) == kept.batch.number:
            speaker.note(f"{kept.path}: has {kept.batch} already, and it is not counted again")
    elif isinstance(kept, KeptFolder) and kept.folder.needs_names:
        raise ValueError("in this store a batch might be counted twice: say --batch NAME:NUMBER, which it then is not")

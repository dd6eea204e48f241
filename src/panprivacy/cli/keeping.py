"""When a command writes its state: soon after every batch, so that memory and file differ by little."""

import time
from collections.abc import Callable
from typing import Any, TypeAlias

from panprivacy.cli.folders import KeptFolder
from panprivacy.estimator import Estimator
from panprivacy.state import StateFile

Kept: TypeAlias = StateFile | KeptFolder
"""Where a command keeps its state."""

_AT_MOST = 1.0  # seconds after which a batch that was counted is in the file at the latest
_OF_FILES = 10.0  # seconds after which what was read of files is in a folder, every shard of which is written each time
_PAUSE = (
    25  # how many times as long as the last write took the next one waits: a twenty-fifth of the time is for writing
)


class Keeper:
    """Writes an estimator to the file or folder it is kept in, if there is one.

    A file that lags behind is an older version of the state: whoever reads it and the memory reads the state twice.
    So a batch is written at once, or, where writes are slow, as soon as they have paused long enough, and after a
    second in any case. What waits to be written to a folder is not hidden by coins yet. So a pipe waits no longer than
    the last write took, in which the rows before were as plain; and files, which whoever images the process can read as
    well, are written after ten seconds at the latest.
    """

    def __init__(self, est: Estimator[Any], file: Kept | None, begun: Callable[[], None] = lambda: None) -> None:
        self._est = est
        self._file = file
        self._begun = begun  # is called when the first batch has been counted
        self.repeatable = est.REPEATABLE
        """Whether what was counted may be fed again."""
        self._free = 0.0  # when the next write may begin
        self._live = False
        self.behind = False
        """Whether something was counted that is not in the file."""
        self.used = False
        """Whether anything was counted."""

    def counted(self, *, live: bool = False) -> None:
        """Note that a batch was counted, of a pipe or of a file, and write it unless writing has to pause."""
        if not self.used:
            self._begun()
        self.used, self.behind = True, self._file is not None
        if isinstance(self._file, KeptFolder):
            self._file.expect()
        self._live = live
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
        """Write the state; when this returns, it is on disk."""
        if self._file is None:
            return
        start = time.monotonic()
        if isinstance(self._file, KeptFolder):
            self._file.write()
        else:
            self._est.save(self._file)
        end = time.monotonic()
        self.behind = False
        self._free = end + self._pause(end - start)

    def _pause(self, took: float) -> float:
        """How long the next write waits after one that took so long."""
        if not isinstance(self._file, KeptFolder):
            return min(_PAUSE * took, _AT_MOST)
        return min(took, _AT_MOST) if self._live else min(_PAUSE * took, _OF_FILES)

    def release(self, level: float) -> Any:
        """Spend one planned release; when this returns, that is on disk."""
        if isinstance(self._file, KeptFolder):
            self.behind = False
            return self._file.release(level)
        released = self._est.release(level=level)
        self.write()
        return released

"""One estimator and the file it is kept in, which differ only while a group of batches is on its way to the disk."""

import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any

from panprivacy.errors import PanPrivacyError
from panprivacy.serve.logs import log
from panprivacy.serve.refusals import Refused, Why
from panprivacy.state import StateFile
from panprivacy.universe import Universe

_PAUSE = 1.0  # seconds after a failed write in which nothing is tried


class Kept:
    """An estimator in a state file that this process holds.

    What cannot be written did not happen: the estimator goes back to what the file has, so that there is one version of
    the bits, and whoever sent the batch sends it again. `saved` and `lost` tell whoever waits for the disk.
    """

    def __init__(self, file: StateFile, universe: Universe | None) -> None:
        """Lock the file: whatever else belongs to it may be touched from now on."""
        self._file = file
        self._universe = universe
        self._locks = ExitStack()
        self._locks.enter_context(file.locked())
        self._est: Any = None
        self._free = 0.0
        self.changed = False
        """Whether something was done that the file does not have."""
        self.failing = False
        """Whether the last write failed."""
        self.saved: Callable[[], None] = lambda: None
        self.lost: Callable[[Refused], None] = lambda _: None

    def open(self, make: Callable[[], Any]) -> None:
        """Bring the estimator to life, or make one and write it if there is no file."""
        self._est = self._file.load(self._universe) if self._file.exists else make()
        if not self._file.exists:
            self._est.save(self._file)

    @property
    def est(self) -> Any:
        """The estimator; refused while the disk does not give it back."""
        if self._est is None:
            try:
                self._file.mend()
                self._est = self._file.load(self._universe)
            except (PanPrivacyError, OSError):
                raise Refused(Why.disk, retry=_PAUSE) from None
        return self._est

    def check_free(self) -> None:
        """Refuse what would change the state shortly after a write has failed."""
        if time.monotonic() < self._free:
            raise Refused(Why.disk, retry=_PAUSE)

    def save(self) -> None:
        """Write the state; when this returns, all that was done is on disk."""
        try:
            self._est.save(self._file)
        except (PanPrivacyError, OSError):
            if not self.failing:
                log("the disk does not take the state", level="error", counter=self._file.path.stem)
            self.failing, self._free = True, time.monotonic() + _PAUSE
            self._go_back()
            refused = Refused(Why.disk, retry=_PAUSE)
            self.lost(refused)
            raise refused from None
        if self.failing:
            log("the disk takes the state again", counter=self._file.path.stem)
        self.changed = self.failing = False
        self.saved()

    def save_if_changed(self) -> None:
        """Write the state if something was done since it was written."""
        if self.changed:
            self.save()

    def go_back(self) -> None:
        """Undo all that is not on disk, after something broke off half-way."""
        self._go_back()
        self.lost(Refused(Why.broken))

    def _go_back(self) -> None:
        self.changed = False
        est, self._est = self._est, None
        if hasattr(est, "end"):
            est.end("its last change is not on disk, and was undone")
        del est  # before the file is read: there is one version of the bits in memory
        with suppress(Refused):
            self.est  # noqa: B018 - read now, if the disk lets us

    def close(self) -> None:
        """Give the file back."""
        self._locks.close()

"""Events that the estimator of a folder is fed by its own verbs, and that are then written to the shards together."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panprivacy.folder.bits import ShardedBits
from panprivacy.folder.noted import BatchId
from panprivacy.privacy.coins import Coins


class Pending:
    """Feeds a folder by way of an estimator: `StateFolder.pending` makes one.

    What the estimator is fed is marked in memory, plainly, until `write`; so whoever lives long writes after every
    batch. Insertions and deletions are written in the order in which they came.
    """

    def __init__(self, est: Any, bits: ShardedBits, coins: Coins, prepare: Callable[[], None]) -> None:
        self.estimator = est
        """The estimator, to be fed and to be asked what it is; its bits are not here."""
        self._bits, self._coins = bits, coins
        self._prepare = prepare  # is called before anything is written: the ledger may say more by now
        self._marks = bits.cells.marks(bits.size)
        self._remove = self._any = False

    def add(self, slots: NDArray[np.unsignedinteger], *, remove: bool) -> None:
        """Mark slots; those that are marked for the opposite are written before."""
        if remove != self._remove:
            self.write()
            self._remove = remove
        self._marks.add(slots)
        self._any = True

    def expect(self) -> None:
        """Let the next `write` write all shards also if nobody comes: whether anybody did must not show."""
        self._any = True

    def restored_on_error(self) -> Any:
        """Put the marks back as they were if anything goes wrong."""
        return self._marks.restored_on_error()

    def write(self, batch: BatchId | None = None) -> None:
        """Bring what was fed since the last time to the shards; when this returns, it is on disk."""
        if self._any or batch is not None:
            self._prepare()
            self._bits.redraw_marked(self._marks, self._coins, batch=batch, remove=self._remove)
            self._marks.wipe()
            self._any = False

    def wipe(self) -> None:
        """Forget what was not written."""
        self._marks.wipe()

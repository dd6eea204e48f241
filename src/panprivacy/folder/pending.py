"""Events that the estimator of a folder is fed by its own verbs, and that are then written to the shards together."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panprivacy.folder.bits import ShardedBits
from panprivacy.folder.marks import Marked
from panprivacy.folder.noted import BatchId
from panprivacy.privacy.coins import Coins


class Pending:
    """Feeds a folder by way of an estimator: `StateFolder.pending` makes one.

    What the estimator is fed is marked in memory, plainly, until `write`; so whoever lives long writes after every
    batch. Of a bit, the last event counts: insertions and deletions are marked apart, and written together. So how many
    writes there are does not tell whether somebody was deleted. Counters are moved by every event: there, insertions
    are written before a deletion is marked, and the other way round.
    """

    def __init__(self, est: Any, bits: ShardedBits, coins: Coins, prepare: Callable[[], None]) -> None:
        self.estimator = est
        """The estimator, to be fed and to be asked what it is; its bits are not here."""
        self._bits, self._coins = bits, coins
        self._prepare = prepare  # is called before anything is written: the ledger may say more by now
        self._marks = bits.cells.marks(bits.size)
        self._gone = Marked(bits.size) if bits.cells.repeatable else None  # slots whose last event is a deletion
        self._remove = self._any = False

    def add(self, slots: NDArray[np.unsignedinteger], *, remove: bool) -> None:
        """Mark slots."""
        if self._gone is not None:
            assert isinstance(self._marks, Marked)
            these, others = (self._gone, self._marks) if remove else (self._marks, self._gone)
            these.add(slots)  # which may refuse
            others.discard(slots)
        else:
            if remove != self._remove:
                self.write()
                self._remove = remove
            self._marks.add(slots)
        self._any = True

    def expect(self) -> None:
        """Let the next `write` write all shards also if nobody comes: whether anybody did must not show."""
        self._any = True

    def restored_on_error(self) -> AbstractContextManager[None]:
        """Put the marks back as they were if anything goes wrong."""
        restored = self._marks.restored_on_error()
        return restored if self._gone is None else _Both(restored, self._gone.restored_on_error())

    def write(self, batch: BatchId | None = None) -> None:
        """Bring what was fed since the last time to the shards; when this returns, it is on disk."""
        if self._any or batch is not None:
            self._prepare()
            self._bits.redraw_marked(self._marks, self._coins, batch=batch, remove=self._remove, gone=self._gone)
            self.wipe()
            self._any = False

    def wipe(self) -> None:
        """Forget what was not written."""
        self._marks.wipe()
        if self._gone is not None:
            self._gone.wipe()


class _Both:
    """Two `with` blocks in one; a class and no generator, since one that is dropped, half used, must do nothing."""

    def __init__(self, one: AbstractContextManager[None], other: AbstractContextManager[None]) -> None:
        self._blocks = one, other

    def __enter__(self) -> None:
        for block in self._blocks:
            block.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for block in self._blocks:
            block.__exit__(kind, error, traceback)

"""The bits of a folder, for an estimator to use like a table: shards that are loaded when they are needed."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import ClassVar, NoReturn

import numpy as np
from numpy.typing import NDArray

from panprivacy.errors import CorruptState, PanPrivacyError
from panprivacy.folder.parts import Frame, Shard
from panprivacy.lazily import loaded
from panprivacy.memory import Scratch
from panprivacy.privacy.budget import Split
from panprivacy.privacy.coins import Coins
from panprivacy.state import Sealed
from panprivacy.state.stores import Store
from panprivacy.table import Table


class ShardedBits:
    """A table whose words are in a store.

    Redrawing a bit a second time changes nothing of its law. So a batch first marks the slots that it touches, and then
    each shard is loaded, redrawn there, and put back; what breaks off in between may be done again. Shards of which
    nothing is touched are put back too: which of them are new must not tell who came.
    """

    THREADED: ClassVar[bool] = False

    def __init__(self, store: Store, frame: Frame, size: int, split: Split) -> None:
        self.size = size
        self.words: NDArray[np.uint64] = np.zeros(0, dtype=np.uint64)
        self._store, self._frame, self._split = store, frame, split
        self._touched: Table | None = None

    @property
    def nbytes(self) -> int:
        """Bytes that the bits take, in all shards."""
        return 8 * Table.words_for(self.size)

    # --- events -------------------------------------------------------------------------------------------------

    @contextmanager
    def batch(self, coins: Coins, *, remove: bool) -> Iterator[None]:
        """Gather what is redrawn inside the `with` block, and do it where the block ends well."""
        touched = self._touched = Table.empty(self.size)
        try:
            yield
            self._redraw_touched(touched, coins, remove=remove)
        finally:
            self._touched = None
            touched.wipe()

    def redraw(self, slots: NDArray[np.unsignedinteger], threshold: int, coins: Coins, scratch: Scratch) -> None:  # noqa: ARG002
        """Mark these slots as touched; `IndexError` if one is outside the table."""
        assert self._touched is not None
        if not loaded("panprivacy.table.kernels").touch(self._touched.words, np.uint64(self.size), slots):
            raise IndexError(f"a slot is outside this table of {self.size}")

    def _redraw_touched(self, touched: Table, coins: Coins, *, remove: bool) -> None:
        for number in range(self._frame.shards):
            first, end = self._frame.bounds(number, self.size)
            with Scratch() as scratch:
                slots = scratch.empty("touched", touched.ones(first, end), np.uint64)
                loaded("panprivacy.table.kernels").touched_in(touched.words, first, end, slots)
                self.redraw_in(number, slots, coins, remove=remove)

    def redraw_in(self, number: int, slots: NDArray[np.uint64], coins: Coins, *, remove: bool) -> None:
        """Redraw some slots of one shard, counted from the shard's first."""

        def redrawn(shard: Shard) -> Shard:
            pair = self._split.pair_after(shard.redraws)
            with Scratch() as scratch:
                shard.table.redraw(slots, pair.absent if remove else pair.present, coins, scratch)
            return shard

        self._change(number, redrawn)

    # --- what leaves --------------------------------------------------------------------------------------------

    def gathered(self) -> Table:
        """A copy of all bits in one table, to be wiped by whoever asked for it."""
        whole = Table.empty(self.size)
        try:
            for number in range(self._frame.shards):
                part = self._shard(self._store.read(shard_name(number)), number).table
                try:
                    whole.put(part, self._frame.bounds(number, self.size)[0])
                finally:
                    part.wipe()
        except BaseException:
            whole.wipe()
            raise
        return whole

    def catch_up(self, redraws: int, coins: Coins) -> None:
        """Rerandomise every shard that has not been so often enough: all of them, or those that a crash left behind."""

        def redrawn(shard: Shard) -> Shard | None:
            behind = range(shard.redraws, redraws)
            for _ in behind:
                shard.table.flip_each(self._split.flip, coins)
                shard = shard.redrawn()
            return shard if behind else None

        for number in range(self._frame.shards):
            self._change(number, redrawn)

    # --- what an estimator asks besides --------------------------------------------------------------------------

    def restored_on_error(self) -> AbstractContextManager[None]:
        """Nothing is written before the end of a batch."""
        return _nothing()

    def in_use(self) -> None:
        """Do nothing: a folder is always in use."""

    def wipe(self) -> None:
        """Do nothing: no bits are here."""

    def ones(self) -> NoReturn:
        """Refuse: bits are counted where they are gathered."""
        raise PanPrivacyError("release a folder through its own verbs")

    def redraw_one(self, slot: int, flip: bool) -> NoReturn:  # noqa: ARG002
        """Refuse: one event is a batch of one."""
        raise PanPrivacyError("feed a folder through its own verbs")

    def flip_each(self, threshold: int, coins: Coins) -> NoReturn:  # noqa: ARG002
        """Refuse: `catch_up` does that."""
        raise PanPrivacyError("rerandomise a folder through its own verbs")

    # --- shards -------------------------------------------------------------------------------------------------

    def _change(self, number: int, edit: Callable[[Shard], Shard | None]) -> None:
        def change(parts: Sealed) -> Sealed | None:
            made = edit(self._shard(parts, number))
            return None if made is None else made.sealed()

        self._store.change(shard_name(number), change)

    def _shard(self, parts: Sealed, number: int) -> Shard:
        shard = Shard.of(parts)
        first, end = self._frame.bounds(number, self.size)
        if (shard.name, shard.number, shard.table.size) != (self._frame.name, number, end - first):
            raise CorruptState(f"shard {number} is not of this folder")
        return shard


def shard_name(number: int) -> str:
    """What the part is called that holds a shard."""
    return f"shard-{number:05d}"


@contextmanager
def _nothing() -> Iterator[None]:
    yield

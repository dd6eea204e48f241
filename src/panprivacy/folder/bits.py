"""The bits of a folder, for an estimator to use like a table: shards that are loaded when they are needed."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import ClassVar, NoReturn, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from panprivacy.errors import CorruptState, PanPrivacyError
from panprivacy.folder.cells import AnyTable, Cells
from panprivacy.folder.marks import Marks, Touched
from panprivacy.folder.noted import BatchId
from panprivacy.folder.parts import Frame, Shard
from panprivacy.lazily import loaded
from panprivacy.memory import Scratch
from panprivacy.privacy.budget import Split
from panprivacy.privacy.coins import ONE, Coins
from panprivacy.state import Sealed
from panprivacy.state.stores import Store, naming

Before: TypeAlias = set[int | None]
"""The number of the batch that came before one, None for none: a set that is empty if all shards have that one."""


class Taker(Protocol):
    """Whoever is told which slots are touched."""

    def add(self, slots: NDArray[np.unsignedinteger], *, remove: bool) -> None:
        """Take these slots, which are touched by insertions or by deletions; `IndexError` if one is outside."""

    def restored_on_error(self) -> AbstractContextManager[None]:
        """Go back to what was taken before if anything goes wrong."""


class ShardedBits:
    """A table whose words are in a store.

    A batch first marks the slots that it touches, and then each shard is loaded, changed there, and put back. Shards of
    which nothing is touched are put back too: which of them are new must not tell who came. What breaks off in between
    may be done again: redrawing a bit a second time changes nothing of its law, and a counter is kept from moving twice
    by the identity of the batch, which its shard notes.
    """

    THREADED: ClassVar[bool] = False

    def __init__(self, store: Store, frame: Frame, size: int, split: Split, cells: Cells) -> None:
        loaded("panprivacy.folder.kernels")  # now: loaded at the first event, they would tell that there was one
        self.size = size
        self.words: NDArray[np.uint64] = np.zeros(0, dtype=np.uint64)
        self.cells = cells
        self.redraws = 0
        """How often every shard has to be rerandomised by now, as the ledger says."""
        self._store, self._frame, self._split = store, frame, split
        self._taker: Taker | None = None

    @property
    def nbytes(self) -> int:
        """Bytes that the bits take, in all shards."""
        return 8 * self.cells.words_for(self.size)

    # --- events -------------------------------------------------------------------------------------------------

    @contextmanager
    def fed_to(self, taker: "Taker") -> Iterator[None]:
        """Give to this taker, and do nowhere else, what is redrawn inside the `with` block."""
        before, self._taker = self._taker, taker
        try:
            yield
        finally:
            self._taker = before

    def redraw(
        self,
        slots: NDArray[np.unsignedinteger],
        threshold: int,
        coins: Coins,  # noqa: ARG002 - drawn where a shard is changed
        scratch: Scratch,  # noqa: ARG002
        *,
        back: bool = False,
    ) -> None:
        """Note that these slots are touched; `IndexError` if one is outside the table."""
        absent = 2 * threshold < ONE  # the coin of those who are not there is the one that rarely falls on 1
        self._taken().add(slots, remove=back or absent)

    def _taken(self) -> "Taker":
        if self._taker is None:
            raise PanPrivacyError("feed a folder through its own verbs")
        return self._taker

    def redraw_marked(
        self, marks: Marks, coins: Coins, *, batch: BatchId | None, remove: bool, gone: Marks | None = None
    ) -> None:
        """Redraw what is marked, in one shard after the other; `gone` are slots whose users were deleted."""
        before = None if batch is None else self.check_whole(batch)
        once = batch is None and not self.cells.repeatable
        if once:
            self._check_readable()
        for number in range(self._frame.shards):
            try:
                with Scratch() as scratch:
                    touched = marks.between(*self.bounds(number), scratch)
                    with Scratch() as more:  # scratch has one array of a name
                        deleted = None if gone is None else gone.between(*self.bounds(number), more)
                        self.redraw_in(number, touched, coins, before, batch=batch, remove=remove, deleted=deleted)
            except Exception as error:
                if once and number:
                    raise _half_counted(error, number, self._frame.shards) from error
                raise

    def redraw_in(
        self,
        number: int,
        touched: Touched,
        coins: Coins,
        before: Before | None = None,
        *,
        batch: BatchId | None = None,
        remove: bool = False,
        deleted: Touched | None = None,
    ) -> None:
        """Redraw some slots of one shard, counted from the shard's first, unless it has the batch already.

        `deleted` are slots whose users were deleted in the same batch. A shard that has neither this batch nor the one
        that came `before` is refused: somebody else is at it.
        """

        def redrawn(shard: Shard) -> Shard | None:
            if batch is not None:
                if shard.noted.has(batch):
                    return None
                if before is not None and shard.noted.number(batch.writer) not in before:
                    raise _broke_off(batch, shard.noted.number(batch.writer))
            noting = shard.noting(batch)  # which may refuse
            noting = self._caught_up(noting, self.redraws, coins)
            pair = self._split.pair_after(noting.redraws)
            self.cells.redraw(shard.table, touched, pair, coins, remove=remove)
            if deleted is not None:
                self.cells.redraw(shard.table, deleted, pair, coins, remove=True)
            return noting

        self._change(number, redrawn)

    def check_whole(self, batch: BatchId) -> Before:
        """The number of the batch before, which all shards have that do not have this one; refuse if there are two."""
        noted = [self._seen(number).noted for number in range(self._frame.shards)]
        before = {each.number(batch.writer) for each in noted if not each.has(batch)}
        if len(before) > 1:
            raise _broke_off(batch, max(number for number in before if number is not None))
        return before

    def _check_readable(self) -> None:
        """Find out before the first shard is changed if one of them is missing or corrupt."""
        for number in range(self._frame.shards):
            self._seen(number)

    def last_batch(self, number: int, writer: str) -> int | None:
        """The last batch of a writer that a shard has."""
        return self._seen(number).noted.number(writer)

    def forget(self, writer: str) -> None:
        """Make room for another writer in every shard.

        All of them first note that the writer is leaving: a name that some shards have forgotten and others have not
        would lose the batches of whoever takes it next.
        """
        for number in range(self._frame.shards):
            self._change(number, lambda shard: shard.leaving(writer))
        for number in range(self._frame.shards):
            self._change(number, lambda shard: shard.without(writer))

    # --- what leaves --------------------------------------------------------------------------------------------

    def gathered(self) -> AnyTable:
        """A copy of all bits in one table, to be wiped by whoever asked for it."""
        whole = self.cells.empty(self.size)
        try:
            for number in range(self._frame.shards):
                part = self._shard(self._store.read(shard_name(number)), number).table
                try:
                    whole.put(part, self.bounds(number)[0])
                finally:
                    part.wipe()
        except BaseException:
            whole.wipe()
            raise
        return whole

    def catch_up(self, redraws: int, coins: Coins) -> None:
        """Rerandomise every shard that has not been so often enough: all of them, or those that a crash left behind."""

        def redrawn(shard: Shard) -> Shard | None:
            return self._caught_up(shard, redraws, coins) if shard.redraws < redraws else None

        for number in range(self._frame.shards):
            self._change(number, redrawn)

    def _caught_up(self, shard: Shard, redraws: int, coins: Coins) -> Shard:
        for _ in range(shard.redraws, redraws):
            shard.table.flip_each(self._split.flip, coins)
            shard = shard.redrawn()
        return shard

    def behind(self, redraws: int) -> list[int]:
        """The shards that have not been rerandomised so often: those that a crash left behind."""
        return [number for number in range(self._frame.shards) if self._seen(number).redraws < redraws]

    # --- what an estimator asks besides --------------------------------------------------------------------------

    def restored_on_error(self) -> AbstractContextManager[None]:
        """Put what is touched back as it was if anything goes wrong; nothing is written before the end of a batch."""
        return self._taken().restored_on_error()

    def in_use(self) -> None:
        """Do nothing: a folder is always in use."""

    def wipe(self) -> None:
        """Do nothing: no bits are here."""

    def count_ones(self, edges: NDArray[np.int64], counts: NDArray[np.int64]) -> NoReturn:  # noqa: ARG002
        """Refuse: bits are counted where they are gathered."""
        raise PanPrivacyError("release a folder through its own verbs")

    def redraw_one(self, slot: int, flip: bool) -> NoReturn:  # noqa: ARG002
        """Refuse: one event is a batch of one."""
        raise PanPrivacyError("feed a folder through its own verbs")

    def flip_each(self, threshold: int, coins: Coins) -> NoReturn:  # noqa: ARG002
        """Refuse: `catch_up` does that."""
        raise PanPrivacyError("rerandomise a folder through its own verbs")

    # --- shards -------------------------------------------------------------------------------------------------

    def bounds(self, number: int) -> tuple[int, int]:
        """Which of the slots a shard has: from the first up to the second."""
        return self._frame.bounds(number, self.size)

    def _change(self, number: int, edit: Callable[[Shard], Shard | None]) -> None:
        def change(parts: Sealed) -> Sealed | None:
            made = edit(self._shard(parts, number))
            return None if made is None else made.sealed()

        self._store.change(shard_name(number), change)

    def _seen(self, number: int) -> Shard:
        """A shard without its bits."""
        shard = self._shard(self._store.read(shard_name(number)), number)
        shard.table.wipe()
        return shard

    def _shard(self, parts: Sealed, number: int) -> Shard:
        first, end = self.bounds(number)
        with naming(self._store.where(shard_name(number))):
            shard = Shard.of(parts, self.cells)
            if (shard.name, shard.number, shard.table.size) != (self._frame.name, number, end - first):
                raise CorruptState(f"this is not shard {number} of this folder")
        return shard


def _broke_off(batch: BatchId, number: int | None) -> PanPrivacyError:
    before = "a batch" if number is None else str(BatchId(batch.writer, number))
    return PanPrivacyError(
        f"{before} broke off, or is not done yet, and some shards do not have it: feed it again, and then {batch}; "
        "if it is lost, go on under another writer's name"
    )


def _half_counted(error: Exception, counted: int, shards: int) -> PanPrivacyError:
    return PanPrivacyError(
        f"{error}; the first {counted} of {shards} shards have counted this batch, and the others have not: fed again, "
        "it counts twice in those; a batch with a name, batch=('till 3', 17) or --batch till3:17, is fed again safely"
    )


def shard_name(number: int) -> str:
    """What the part is called that holds a shard."""
    return f"shard-{number:05d}"

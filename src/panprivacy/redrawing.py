"""How a batch gets to a table: its users are looked up and their slots drawn, by one thread or several.

A batch with a bad id changes nothing. A short one is looked up before it is used. A long one is marked first
(`table.gathered`), or kept as slots until all of it is looked up (`table.parted`); where it is too long for that, it is
looked up twice, or the bits are put back if something goes wrong.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import Any

from panprivacy.errors import PanPrivacyError
from panprivacy.memory import Scratch
from panprivacy.privacy.coins import CHUNK, Coins
from panprivacy.slots import Every, SlotMap
from panprivacy.table import Table
from panprivacy.table.gathered import Gathered
from panprivacy.table.parted import PAYS, ROUND, Parted
from panprivacy.threads import LISTED, MIXED, NUMBERS, cut, each
from panprivacy.universe import Range, Universe, Users
from panprivacy.universe.batches import Cut, Piece, chunks, pieces_of

_CHANGED = "the ids changed while they were read, so that part of the batch may be taken: feed it again, unchanged"


def look_up(events: Any, ids: Any) -> None:
    """Look every id of a column up, which refuses those that are outside the universe; an iterator is left alone."""
    column = events.as_column(ids)
    pieces = column.pieces if isinstance(column, Cut) else pieces_of(column)
    if pieces is not None:
        each(chunks(pieces), events.indices, 1)


@dataclass(slots=True)
class Redrawing:
    """What a batch meets on its way, and how it is brought there; whoever has it holds the lock of the estimator."""

    universe: Universe
    events: Any
    """Looks up what an event is of: a user of the universe, or one with a category."""
    slots: SlotMap
    table: Any
    coins: Coins
    threshold: int
    redraw: Callable[[Any, Any, Scratch], None]
    """What an event of each of these slots does to the table, or to a stretch of it."""
    repeatable: bool
    """Whether a batch that broke off may be fed again."""
    threads: int | None

    def take(self, pieces: list[Piece]) -> None:
        """Draw for every event of a batch."""
        many = sum(len(piece) for piece in pieces)
        size, threads = self._cut(many)
        cut_up = chunks(pieces, size)
        if threads == 1 and len(pieces) == 1 and many <= CHUNK:
            each(cut_up, self._look_up_and_draw, 1)
        elif threads > 1 and self._gathers(many):
            self._gather_and_draw(cut_up, threads)
        elif self._collects(pieces, size, threads):
            with nullcontext() if self.repeatable else self.table.restored_on_error():
                self._collect_and_draw(cut_up, threads, self._drawing(many, threads))
        else:
            with self._whole_or_not_at_all(pieces, threads):
                if threads > 1:
                    self._collect_and_draw(cut_up, threads, self._drawing(many, threads))
                else:
                    each(cut_up, partial(self._hand_on, into=self._draw), 1)

    # --- which way ----------------------------------------------------------------------------------------------

    def _cut(self, many: int) -> tuple[int, int]:
        """Into chunks of what size a batch is cut, and how many threads work on it."""
        if not self.table.THREADED or not self.coins.secure:  # seeded coins are drawn in one order
            return cut(many, 1, NUMBERS)
        if isinstance(self.universe, Users):
            return cut(many, self.threads, LISTED)
        if not (isinstance(self.events, Range) and isinstance(self.slots, Every)):
            return cut(many, self.threads, MIXED)
        pays = self._gathers(many) or self.table.words.nbytes >= PAYS  # else dealing slots takes as long as drawing
        return cut(many, self.threads if pays else 1, NUMBERS)

    def _gathers(self, many: int) -> bool:
        """Whether a batch is marked by all threads before a bit is drawn."""
        return isinstance(self.table, Table) and self.table.gathers(many)

    def _collects(self, pieces: list[Piece], size: int, threads: int) -> bool:
        """Whether the slots of a batch can be kept until all its users have been looked up, and are worth keeping."""
        few = sum(-(-len(piece) // size) for piece in pieces) <= ROUND
        return few and self.table.THREADED and (threads > 1 or isinstance(self.universe, Users))

    def _drawing(self, many: int, threads: int) -> int:
        """How many threads draw for slots that were collected: more than one where the table is far.

        Slots of listed users are kept in any case, so that dealing them costs little, and pays for a long batch.
        """
        long = isinstance(self.universe, Users) and many >= NUMBERS
        return threads if long or self.table.words.nbytes >= PAYS else 1

    def _whole_or_not_at_all(self, pieces: list[Piece], threads: int) -> AbstractContextManager[None]:
        """See to it that a long batch with a bad id changes nothing, and nothing at all if it cannot be fed again.

        Either every id is looked up before the first bit is touched, and then again; or, where copying the table is
        less work than that, the bits are put back as they were.
        """
        if not self.repeatable or self.table.words.nbytes <= sum(len(piece) for piece in pieces):
            restored: AbstractContextManager[None] = self.table.restored_on_error()
            return restored
        each(chunks(pieces), self.events.indices, threads)
        return nullcontext()

    # --- chunks -------------------------------------------------------------------------------------------------

    def _look_up_and_draw(self, chunk: Any, scratch: Scratch) -> None:
        """Draw for some users, all of whom are looked up before the first is used."""
        try:
            self._draw(self.slots.select(self.events.indices(chunk, scratch), scratch), scratch)
        except IndexError as error:
            raise PanPrivacyError(_CHANGED) from error

    def _hand_on(self, chunk: Any, scratch: Scratch, into: Callable[[Any, Scratch], None]) -> None:
        """Hand the slots of some users on, and say who is outside if somebody turns out to be."""
        try:
            into(self.slots.select(self.events.unchecked(chunk, scratch), scratch), scratch)
        except IndexError as error:
            self.events.indices(chunk, scratch)  # says who is outside
            raise PanPrivacyError(_CHANGED) from error

    def _draw(self, slots: Any, scratch: Scratch) -> None:
        self.redraw(self.table, slots, scratch)

    def _gather_and_draw(self, cut_up: Iterator[Any], threads: int) -> None:
        """Mark all users of a batch, and then draw for each of them."""
        with Scratch() as scratch:
            gathered = Gathered(self.table.size, scratch)
            each(cut_up, partial(self._hand_on, into=gathered.add), threads)
            self.table.redraw_gathered(gathered, self.threshold, self.coins, threads)

    def _collect_and_draw(self, cut_up: Iterator[Any], threads: int, drawing: int) -> None:
        """Draw for some chunks at a time: all users of these are looked up before one is used.

        Where several threads draw, each has a stretch of the table.
        """
        with Scratch() as scratch:
            parted = Parted(self.table.size, drawing, scratch)

            def redraw(first: int, stop: int, slots: Any, scratch: Scratch) -> None:
                self.redraw(self.table.stretch(first, stop), slots, scratch)

            for chunk in cut_up:
                some = chain([chunk], islice(cut_up, ROUND - 1))
                each(some, partial(self._hand_on, into=parted.add), threads)
                parted.count_each(redraw, drawing)

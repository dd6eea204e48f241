"""What every private estimator has in common: slots, a table, a ledger, and the verbs on them."""

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from panprivacy import lifetime, state
from panprivacy.checks import check_level
from panprivacy.display import Card, Rows, grid_of, html_of, warning_of
from panprivacy.errors import CorruptState, NotPrivate, OtherUniverse, PanPrivacyError
from panprivacy.lazily import loaded
from panprivacy.lifetime import Emptied
from panprivacy.memory import Scratch, kept_on_fork, wiped_on_fork
from panprivacy.privacy import coins as coin_sources
from panprivacy.privacy.budget import Budget, Split
from panprivacy.privacy.coins import Coins
from panprivacy.privacy.ledger import Ledger, Published
from panprivacy.privacy.noisy_counts import add_noise
from panprivacy.privacy.stack import wipe_stack
from panprivacy.redrawing import Redrawing, look_up
from panprivacy.slots import SlotMap
from panprivacy.state import Sealed, StateFile
from panprivacy.table import Bits, Table
from panprivacy.threads import check_threads
from panprivacy.universe import Ids, Universe
from panprivacy.universe.batches import batches
from panprivacy.universe.visits import Visit, Visits

R = TypeVar("R")
"""What a release of this estimator is."""


class Estimator(ABC, Generic[R]):
    """Bits of a symmetric pair, and a ledger of what has been spent.

    A subclass says which slots users own, which counts a release adds noise to, and what it makes of them.
    """

    KIND: ClassVar[int]
    """Which estimator a saved state is of."""

    TABLE: ClassVar[type[Bits]] = Table
    """The class of the table that holds the bits."""

    REPEATABLE: ClassVar[bool] = True
    """Whether a batch that is fed twice is as good as fed once."""

    _table: Bits
    _lock: Any

    def _assemble(self, universe: Universe, slots: SlotMap, ledger: Ledger, table: Bits, coins: Coins) -> None:
        for kernels in ("universe.kernels", "slots.kernels", "privacy.noise_kernels"):
            loaded(f"panprivacy.{kernels}")  # now: loaded at the first event, they would tell that there was one
        self._slots = slots
        self._know(universe)
        self._ledger = ledger
        self._table = table
        self._coins = coins
        self._drawn_securely = True
        lifetime.give_lock(self)
        lifetime.register(self)

    def _know(self, universe: Universe) -> None:
        """Take this for the universe; events are ids of it, or visits of them where the slots have categories."""
        self._universe = universe
        categories = getattr(self._slots, "categories", None)
        self._events: Any = universe if categories is None else Visits(universe, categories)

    @classmethod
    def _of_parts(
        cls, universe: Universe, slots: SlotMap, ledger: Ledger, table: Bits, coins: Coins, *, secure: bool
    ) -> Self:
        """An estimator of parts that exist already: loaded, merged or taken over."""
        est = cls.__new__(cls)
        est._assemble(universe, slots, ledger, table, coins)
        est._drawn_securely = secure
        return est

    def _agree_with(self, other: Self) -> None:
        """Take the ledger of the same estimator, as somebody else has left it."""
        with self._lock:
            self._ledger = other._ledger

    @classmethod
    @abstractmethod
    def _merged(cls, parts: Sequence[Self], *, overlapping: bool) -> Self:
        """Make one estimator of several of this class, whose locks are held, or say why that cannot be."""

    @abstractmethod
    def _counts(self, scratch: Scratch) -> NDArray[np.int64]:
        """The integers that a release adds noise to, in scratch; one user changes one of them, by at most 1.

        They never become objects of Python's, which nobody could wipe.
        """

    @abstractmethod
    def _interpret(self, published: Published) -> R:
        """Make a release of noisy counts. They are public: all this is post-processing."""

    @abstractmethod
    def _parameters(self) -> bytes:
        """What a saved state needs besides ledger and bits, in a length that does not depend on the stream."""

    @classmethod
    @abstractmethod
    def _from_parameters(cls, parameters: bytes, universe: Any) -> tuple[Universe, SlotMap]:
        """Read `_parameters`."""

    # --- events -------------------------------------------------------------------------------------------------

    def update(self, user: Any, category: Any = None) -> None:
        """Note that a user appeared, and in which category, where the estimator has categories."""
        self._redraw_one(user if category is None else self._visit(user, category), False)

    def remove(self, user: Any, category: Any = None) -> None:
        """Note that a user was deleted: as if it had never appeared."""
        self._redraw_one(user if category is None else self._visit(user, category), True)

    def update_many(self, ids: Ids, categories: Any = None, *, threads: int | None = None) -> None:
        """Note that these users appeared.

        `ids` is a list, a range, a NumPy array, an Arrow, Polars or pandas column, or any iterator; for `pp.Edges` an
        (n, 2) array, a list of pairs or a tuple of two columns. A batch with a user outside the universe is refused
        whole; an iterator is taken in chunks, each a batch. Feeding a batch twice does no harm.

        Where the estimator has categories, `categories` is a column as long as `ids`, in any of these containers, or
        the one category of all of them.

        All cores work on a long batch, unless `threads` says how many, or `pp.use_threads` for the whole process.
        """
        self._redraw_many(ids if categories is None else self._visit(ids, categories), False, threads)

    def remove_many(self, ids: Ids, categories: Any = None, *, threads: int | None = None) -> None:
        """Note that these users were deleted; takes what `update_many` takes."""
        self._redraw_many(ids if categories is None else self._visit(ids, categories), True, threads)

    def check_many(self, ids: Ids, categories: Any = None) -> None:
        """Refuse what `update_many` would refuse for its ids or categories, and change nothing.

        For whoever has something else to do first that cannot be taken back. An iterator can be read once only, so it
        is not looked at.
        """
        given = ids if categories is None else self._visit(ids, categories)
        self._without_trace(partial(look_up, self._events, given))

    def _visit(self, user: Any, category: Any) -> Visit:
        """A user, or many, with a category, or one each."""
        if not isinstance(self._events, Visits):
            raise TypeError(
                "this estimator has no categories: say which there are, as in Density(..., categories=[...])"
            )
        return Visit(user, category)

    def _threshold(self, remove: bool) -> int:
        """The coin that an event redraws with; the lock is held by whoever asks."""
        return self._ledger.pair.absent if remove else self._ledger.pair.present

    def _redraw_one(self, user: Any, remove: bool) -> None:
        with self._lock:  # `rerandomize` replaces the pair, and growing the universe
            threshold = self._threshold(remove)  # which may refuse
            slot = self._slots.slot(self._events.index(user))
            if slot < 0:
                self._table.in_use()
                return
            self._redraw_slot(slot, self._coins.flip(threshold), remove)

    def _redraw_slot(self, slot: int, flip: bool, remove: bool) -> None:  # noqa: ARG002
        """What an event of one slot does to the table."""
        self._table.redraw_one(slot, flip)

    def _redraw_slots(self, table: Any, slots: Any, remove: bool, scratch: Scratch) -> None:
        """What an event of each of these slots does to the table, or to a stretch of it."""
        table.redraw(slots, self._threshold(remove), self._coins, scratch)

    def _redraw_many(self, ids: Any, remove: bool, threads: int | None) -> None:
        if threads is not None:
            check_threads(threads)
        self._without_trace(partial(self._redraw_batches, ids, remove, threads))

    @staticmethod
    def _without_trace(work: Callable[[], None]) -> None:
        """Work on a batch, and leave nothing of it behind."""
        try:
            work()
        except Exception as error:
            # Whoever keeps an exception keeps the frames of its traceback, and in those the batch.
            error.__cause__ = error.__context__ = None
            raise error.with_traceback(None)  # noqa: B904
        finally:
            wipe_stack()

    def _redraw_batches(self, ids: Any, remove: bool, threads: int | None) -> None:
        self._table.in_use()
        for pieces in batches(self._events.as_column(ids)):
            with self._lock:
                self._redrawing(remove, threads).take(pieces)

    def _redrawing(self, remove: bool, threads: int | None) -> Redrawing:
        return Redrawing(
            self._universe,
            self._events,
            self._slots,
            self._table,
            self._coins,
            self._threshold(remove),  # which may refuse
            lambda table, slots, scratch: self._redraw_slots(table, slots, remove, scratch),
            self.REPEATABLE,
            threads,
        )

    # --- what leaves --------------------------------------------------------------------------------------------

    def release(self, level: float = 0.95) -> R:
        """Spend one planned release on an estimate, with a confidence interval of the given level."""
        level = check_level(level)
        with self._lock:
            self._table.in_use()
            self._ledger.spend_release()
            return self._interpret(self._ledger.publish(self._noisy_counts(), level))

    def _noisy_counts(self) -> tuple[int, ...]:
        """Count, and add noise in the place of the counts."""
        try:
            with Scratch() as scratch:
                counts = self._counts(scratch)
                add_noise(counts, self._ledger.split.noise, self._coins)
                return tuple(counts.tolist())
        finally:
            wipe_stack()

    @property
    def last(self) -> R | None:
        """The last release again, at no cost; None before the first."""
        published = self._ledger.published
        return self._interpret(published) if published else None

    def rerandomize(self) -> None:
        """After an announced reading of the state: redraw every bit through randomised response.

        The next reading then costs no more than planned. The estimate stays unbiased; its error grows.
        """
        with self._lock:
            self._table.in_use()
            self._ledger.check_redraw()
            with self._table.restored_on_error():
                self._table.flip_each(self._ledger.split.flip, self._coins)
                self._ledger.note_redraw()  # last: an error before it puts the bits back, and books no redraw
        wipe_stack()

    # --- whose the bits are -------------------------------------------------------------------------------------

    @contextmanager
    def hand_over(self) -> Iterator[None]:
        """Hand the estimator over to the first process that is forked inside the `with` block.

        The child goes on with it; here it holds nothing any more. Without this, a forked child's copy holds nothing.
        """
        with self._lock, kept_on_fork(self._table.words), lifetime.leaving(self):
            yield

    def end(self, why: str) -> None:
        """Wipe the bits for good; every later use is refused with this reason."""
        with self._lock:
            self._empty(why)

    def _give_up(self, why: str) -> Any:
        """Give the table to whoever asks, who holds the lock; from now on every use is refused with this reason."""
        table = self._table
        table.in_use()
        self._table = Emptied(why)  # type: ignore[assignment]
        return table

    def _empty(self, why: str) -> None:
        """Wipe the bits, and refuse all further use with this reason; the lock is held by whoever calls."""
        if not isinstance(self._table, Emptied):
            self._give_up(why).wipe()

    def _arrived(self) -> None:
        """In the child that this estimator was handed over to: a child of that child has none of its bits."""
        wiped_on_fork(self._table.words)

    # --- what it says of itself ---------------------------------------------------------------------------------

    @property
    def budget(self) -> Budget:
        """Where epsilon goes: shares, spent, left, and the exact total."""
        return self._ledger.budget

    @property
    def secure(self) -> bool:
        """Whether every coin so far came from the operating system."""
        return self._drawn_securely and self._coins.secure

    @property
    def epsilon(self) -> float:
        """The total budget."""
        return self._ledger.split.epsilon

    @property
    def delta(self) -> float:
        """The probability, at most, with which more than epsilon is lost: 0 unless it was given and is of use."""
        return self._ledger.split.delta

    @property
    def universe(self) -> Universe:
        """The users there could be."""
        return self._universe

    @property
    def memory(self) -> int:
        """Bytes that the bits take; none, if they are gone."""
        return 0 if self.emptied else self._table.nbytes

    @property
    def emptied(self) -> str | None:
        """Why this estimator holds nothing any more and refuses all use; None while it does hold bits."""
        return self._table.why if isinstance(self._table, Emptied) else None

    def __repr__(self) -> str:
        return f"<{type(self).__name__}, emptied: {self.emptied}>" if self.emptied else self._described()

    def card(self) -> Card:
        """What is shown of it."""
        if self.emptied:
            return Card(type(self).__name__, (("emptied", self.emptied),))
        return Card(type(self).__name__, self._rows(), warning_of(self.secure))

    __rich__ = grid_of
    _repr_html_ = html_of

    @abstractmethod
    def _described(self) -> str:
        """One line about an estimator in use."""

    @abstractmethod
    def _rows(self) -> Rows:
        """The same in several rows."""

    # --- bytes --------------------------------------------------------------------------------------------------

    def to_bytes(self, *, insecure: bool = False) -> bytes:
        """A copy of the whole state, to be read by `pp.load`.

        A copy is one more reading of the state: once the estimator is fed again, bytes and estimator are two versions,
        and each can release. `save` leaves no copy. An estimator on seeded coins is refused unless `insecure=True` says
        that this is known.
        """
        with self._sealed(insecure) as parts:
            return state.seal(parts)

    def save(self, file: str | Path | StateFile, *, insecure: bool = False) -> None:
        """Move the state to a file, or keep it in a file that this process holds.

        ``est.save("flu.pp")`` moves it: afterwards the file has the bits, and this object has none and refuses all
        use. ``pp.load("flu.pp")`` goes on with it. If both had bits, feeding one of them would make two versions of
        the state, which together tell who came.

        A program that feeds and saves in turns holds the file meanwhile, and saves after every batch. When it gives
        the file back, the object holds no bits any more:

        >>> import tempfile, panprivacy as pp
        >>> path = tempfile.mkdtemp() + "/flu.pp"
        >>> with pp.StateFile(path).locked() as file:
        ...     est = pp.Density(universe=1000, epsilon=1.0)
        ...     for batch in ([1, 2, 3], [500]):
        ...         est.update_many(batch)
        ...         est.save(file)
        >>> pp.load(path).users
        1000

        The bits go from the table to the disk, without a copy, and what the file held before is overwritten there. The
        file is written whole or not at all, and refused while another process has it.
        """
        with state.opened(file) as kept, self._sealed(insecure) as parts:
            kept.write(parts)
            if isinstance(file, StateFile):
                file.keeps(self)
            else:
                self._empty(state.moved_to(file))
        wipe_stack()

    @contextmanager
    def _sealed(self, insecure: bool) -> Iterator[Sealed]:
        """The parts of the saved state; the bits are those of the table, which keeps still meanwhile."""
        if not (self.secure or insecure):
            raise NotPrivate(
                "this estimator used seeded coins and protects nobody; insecure=True saves it all the same"
            )
        with self._lock:
            parameters = self._ledger.to_bytes(self._counts_released()) + self._parameters()
            yield Sealed(self.KIND, self.secure, parameters, self._table.words)

    def _counts_released(self) -> int:
        """How many counts a release has, without counting them."""
        return 1

    @classmethod
    def from_bytes(cls, blob: bytes, universe: Any = None) -> Self:
        """Read what `to_bytes` wrote; a list of users must be given again before more can be fed."""
        return cls.from_sealed(state.unseal(blob), universe)

    @classmethod
    def from_sealed(cls, parts: Sealed, universe: Any = None) -> Self:
        """Make an estimator of the parts of a saved state; their words become its table."""
        if parts.kind != cls.KIND:
            raise CorruptState(f"this state is not that of a {cls.__name__}")
        return cls._with_bits_elsewhere(
            parts, universe, lambda slots, _: cls._saved_table(slots, parts.words), coin_sources.system
        )

    @classmethod
    def _with_bits_elsewhere(
        cls, parts: Sealed, universe: Any, bits: Callable[[SlotMap, Split], Bits], coins: Coins
    ) -> Self:
        """An estimator with the parameters of a saved state, and a table that `bits` makes for its slots and split."""
        try:
            ledger, rest = Ledger.from_bytes(parts.parameters, parts.version)
            known, slots = cls._from_parameters(rest, universe)
            est = cls._of_parts(known, slots, ledger, bits(slots, ledger.split), coins, secure=parts.secure)
            if ledger.published and len(ledger.published.noisy) != est._counts_released():
                raise CorruptState("the last release has the wrong number of counts")
        except OtherUniverse:
            raise
        except (PanPrivacyError, ValueError, ArithmeticError, struct.error) as error:
            raise CorruptState(f"the state contradicts itself: {error}") from error
        return est

    @classmethod
    def _saved_table(cls, slots: SlotMap, words: NDArray[np.uint64]) -> Bits:
        """The table of these slots that was saved."""
        return cls.TABLE.from_words(slots.size, words)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_bytes, (self.to_bytes(), self._universe)

    __copy__ = lifetime.refuse_copy

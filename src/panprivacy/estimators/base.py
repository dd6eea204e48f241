"""What every private estimator has in common: slots, a table, a ledger, the verbs on them, and how it is saved."""

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Generic, NoReturn, Self, TypeVar, Unpack

import numpy as np
from numpy.typing import NDArray

from panprivacy import state
from panprivacy.checks import check_level
from panprivacy.display import Card, Rows, grid_of, html_of, warning_of
from panprivacy.errors import CannotMerge, CorruptState, InvalidType, NotPrivate, OtherUniverse, PanPrivacyError
from panprivacy.estimates.estimate import OfPart
from panprivacy.estimates.release import Cost
from panprivacy.kernels import load_kernels, load_kernels_of
from panprivacy.memory import ownership
from panprivacy.memory.intrinsics import wipe_stack
from panprivacy.memory.scratch import Scratch, kept_on_fork, wiped_on_fork
from panprivacy.memory.threads import check_threads
from panprivacy.privacy import coins as coin_sources
from panprivacy.privacy.budget import Budget, Ledger, Published, Split, and_delta, budget_of
from panprivacy.privacy.coins import Coins
from panprivacy.privacy.noisy_counts import add_noise, load_noise
from panprivacy.privacy.pairs import Pair
from panprivacy.registry import Traits
from panprivacy.slots import SlotMap
from panprivacy.state import BoundLock, Snapshot, StateFile, seal
from panprivacy.table import Bits, Table
from panprivacy.table.batch import BatchUpdate, look_up
from panprivacy.universe import Edges, Ids, Universe
from panprivacy.universe.categories import CategorizedEvent, CategorizedEvents
from panprivacy.universe.columns import BatchOptions, batches, named_columns
from panprivacy.universe.groups import Label
from panprivacy.universe.strangers import StrangerFilter

load_kernels()  # before there is any event, so that none decides it

R = TypeVar("R")
"""What a release of this estimator is."""


class Saveable(ownership.Locked, ABC):
    """What can be saved and loaded: every estimator, and `Continual`."""

    @abstractmethod
    def sealed_state(self, insecure: bool) -> AbstractContextManager[Snapshot]:
        """The parts of the saved state; the bits are the table's own, and it must not change meanwhile."""

    @classmethod
    @abstractmethod
    def from_sealed(cls, parts: Snapshot, universe: Any = None) -> Self:
        """Make an estimator of the parts of a saved state; their words become its table."""

    @property
    @abstractmethod
    def universe(self) -> Any:
        """The users there could be."""

    @property
    @abstractmethod
    def emptied(self) -> str | None:
        """Why this estimator holds nothing any more and refuses all use; None while it holds bits."""

    @property
    @abstractmethod
    def secure(self) -> bool:
        """Whether every coin so far came from the operating system."""

    @abstractmethod
    def _empty(self, why: str) -> None:
        """Wipe the bits, and refuse all further use with this reason; the caller holds the lock."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}, emptied: {self.emptied}>" if self.emptied else self._described()

    def card(self) -> Card:
        """The card that shells and notebooks show."""
        if self.emptied:
            return Card(type(self).__name__, (("emptied", self.emptied),))
        return Card(type(self).__name__, self._rows(), warning_of(self.secure))

    __rich__ = grid_of
    _repr_html_ = html_of

    def _unsafe(self) -> str:
        return "" if self.secure else "; NOT SECURE: seeded coins"

    @abstractmethod
    def _described(self) -> str:
        """One line about an estimator in use."""

    @abstractmethod
    def _rows(self) -> Rows:
        """The same in several rows."""

    def end(self, why: str) -> None:
        """Wipe the bits for good; every later use is refused with this reason."""
        with self.held():
            self._empty(why)

    def to_bytes(self, *, insecure: bool = False) -> bytes:
        """A copy of the whole state, to be read by `pp.load`.

        A copy is one more reading of the state: once the estimator is fed again, bytes and estimator are two versions,
        and each can release. `save` leaves no copy. An estimator on seeded coins is refused unless `insecure=True` says
        that this is known.
        """
        with self.sealed_state(insecure) as parts:
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

        The bits go from the table to the disk, without a copy, and the file's earlier content is overwritten there.
        The file is written whole or not at all, and refused while another process has it. An estimator that
        `pp.load(path)` has bound to a file is saved by every change, and to no other file.
        """
        with state.opened(file) as kept, self.sealed_state(insecure) as parts:
            if isinstance(self._lock, BoundLock):
                self._lock.check_same(kept, parts)
            kept.write(parts)
            if isinstance(file, StateFile):
                file.keeps(self)
                if isinstance(self._lock, BoundLock):
                    self._lock.unbind()
            else:
                self._empty(state.moved_to(file))
        wipe_stack()

    def bind_to(self, file: StateFile) -> None:
        """Write every change to the file that this estimator was loaded from, before the change can be seen."""
        self._lock = BoundLock(self, file)

    def check_unbound(self, what: str) -> None:
        """Refuse to give the bits away, if a file would keep a second version of them."""
        file = getattr(self._lock, "file", None)
        if file is not None:
            raise PanPrivacyError(
                f"a {type(self).__name__} that is bound to {file.path} cannot be {what}: the file would keep a second "
                f"version of its bits; pp.load({str(file.path)!r}, detached=True), and erase the file afterwards",
                code="bound-to-file",
            )

    @classmethod
    def from_bytes(cls, blob: bytes, universe: Any = None) -> Self:
        """Read what `to_bytes` wrote; a list of users must be given again before more can be fed."""
        return cls.from_sealed(state.unseal(blob), universe)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_bytes, (self.to_bytes(), self.universe)

    __copy__: Callable[[Any], NoReturn] = ownership.refuse_copy


class Estimator(Saveable, Generic[R]):
    """Bits of a symmetric pair, and a ledger of what has been spent.

    A subclass says which slots users own, which counts a release adds noise to, and what it makes of them.
    """

    KIND: ClassVar[int]
    """Which estimator a saved state is of: its number in `panprivacy.registry`."""

    TRAITS: ClassVar[Traits]
    """What other rooms need to know about the class."""

    TABLE: ClassVar[type[Bits]] = Table
    """The class of the table that holds the bits."""

    REPEATABLE: ClassVar[bool] = Table.repeatable
    """Whether a batch that is fed twice is as good as fed once."""

    NOT_MERGED: ClassVar[str]
    """Why estimators of this class cannot be merged, if they cannot."""

    NOT_REDRAWN: ClassVar[str] = ""
    """Why no announced readings are planned, if none are."""

    _gone: str | None = None  # why the table is not here any more

    def _assemble(
        self, universe: Universe, slots: Any, ledger: Ledger, table: Any, coins: Coins, *, secure: bool = True
    ) -> None:
        load_kernels_of(universe, slots, table)
        load_noise(ledger.split.noise)
        self._slots = slots
        self._set_universe(universe)
        self._ledger = ledger
        self._table = table
        self._coins = coins
        self._drawn_securely = secure
        ownership.give_lock(self)
        ownership.register(self)
        self._prepare()

    def _start(self, universe: Universe, slots: Any, split: Split, coins: Coins) -> None:
        """Draw a table in which no user has appeared, and begin with it."""
        self._assemble(universe, slots, Ledger(split), self._drawn_table(slots, split.pair, coins), coins)

    @classmethod
    def _drawn_table(cls, slots: Any, pair: Pair, coins: Coins) -> Any:
        return cls.TABLE.drawn(slots.size, pair, coins, *_limit_of(slots))

    def _prepare(self) -> None:
        """Make what follows from the parts, before there is any event."""

    def _set_universe(self, universe: Universe) -> None:
        """Take this for the universe; events are its ids, each with a category where the slots have categories."""
        self._universe = universe
        categories = getattr(self._slots, "categories", None)
        self._events: Any = universe if categories is None else CategorizedEvents(universe, categories)

    @classmethod
    def _of_parts(
        cls, universe: Universe, slots: SlotMap, ledger: Ledger, table: Bits, coins: Coins, *, secure: bool
    ) -> Self:
        """An estimator of parts that exist already: merged or taken over."""
        est = cls.__new__(cls)
        est._assemble(universe, slots, ledger, table, coins, secure=secure)
        return est

    def agree_with(self, other: Self) -> None:
        """Take the ledger of another object of the same estimator."""
        with self._lock:
            self._ledger = other._ledger

    @classmethod
    def _merged(cls, parts: Sequence[Self], *, overlapping: bool) -> Self:  # noqa: ARG003
        """Make one estimator of several of this class, whose locks are held, or say why that cannot be."""
        raise CannotMerge(cls.NOT_MERGED, code="not-mergeable")

    @abstractmethod
    def _counts(self, scratch: Scratch) -> NDArray[np.int64]:
        """The integers that a release adds noise to, in scratch; one user changes one of them, by at most 1.

        They never become Python objects, which cannot be wiped.
        """

    @abstractmethod
    def _interpret(self, published: Published) -> R:
        """Make a release of noisy counts. They are public: all this is post-processing."""

    def _cost_of(self, published: Published) -> Cost:
        """The cost of a release, and the budget that is left."""
        budget = budget_of(self._ledger.split, published.number, published.redraws)
        return Cost(
            level=published.level,
            number=published.number,
            epsilon_spent=budget.spent,
            epsilon_remaining=budget.remaining,
            delta_spent=budget.delta_spent,
            secure=self.secure,
        )

    @abstractmethod
    def _parameters(self) -> bytes:
        """What a saved state needs besides ledger and bits, in a length that does not depend on the stream."""

    @abstractmethod
    def _from_parameters(self, parameters: bytes, universe: Any) -> tuple[Universe, SlotMap]:
        """Read `_parameters`; what is neither universe nor slots is set here, of an object that has nothing yet."""

    # --- events -------------------------------------------------------------------------------------------------

    def update(self, user: Any, category: Any = None) -> None:
        """Note that a user appeared, and in which category, where the estimator has categories."""
        self._redraw_one(user if category is None else self._visit(user, category), False)

    def remove(self, user: Any, category: Any = None) -> None:
        """Note that a user was deleted: as if it had never appeared."""
        self._redraw_one(user if category is None else self._visit(user, category), True)

    def update_many(
        self,
        ids: Ids,
        categories: Any = None,
        *,
        column: str | tuple[str, str] | None = None,
        skip_outside: bool = False,
        threads: int | None = None,
    ) -> None:
        """Note that these users appeared.

        `ids` is a list, a range, a NumPy array, an Arrow, Polars or pandas column, or any iterator; for `pp.Edges` an
        (n, 2) array, a list of pairs or a tuple of two columns. A batch with a user outside the universe is refused
        whole; an iterator is taken in chunks, each a batch. Feeding a batch twice does no harm.

        Where the estimator has categories, `categories` is a column as long as `ids`, in any of these containers, or
        the one category of all of them.

        `column` names the ids in a frame of pandas or Polars (also a lazy one), in an Arrow table or reader, or in a
        DuckDB relation; for `pp.Edges` it is two names. Then `categories` is the name of a column, too. A lazy frame, a
        reader and a relation come in batches, as an iterator does.

        With `skip_outside`, rows whose user is not in the universe are left out, and not counted anywhere. The batch is
        still refused if such a user is in the list but for leading zeros, case, surrounding space, Unicode form or a
        trailing ``.0``: ``pp.Users(..., normalize=...)`` reads both as one.

        All cores work on a long batch, unless `threads` says how many, or `pp.use_threads` for the whole process.
        """
        self._redraw_many(ids, categories, False, column=column, skip_outside=skip_outside, threads=threads)

    def remove_many(self, ids: Ids, categories: Any = None, **options: Unpack[BatchOptions]) -> None:
        """Note that these users were deleted; takes what `update_many` takes."""
        self._redraw_many(ids, categories, True, **options)

    def check_many(self, ids: Ids, categories: Any = None, *, skip_outside: bool = False) -> None:
        """Refuse what `update_many` would refuse for its ids or categories, and change nothing.

        For callers that must do something first that cannot be undone. An iterator can be read once only, so it is not
        checked.
        """
        given = ids if categories is None else self._visit(ids, categories)
        strangers = StrangerFilter(self._universe) if skip_outside else None
        self._without_trace(partial(look_up, self._events, given, strangers))

    def _visit(self, user: Any, category: Any) -> CategorizedEvent:
        """A user, or many, with a category, or one each."""
        if not isinstance(self._events, CategorizedEvents):
            raise InvalidType(
                "this estimator has no categories: say which there are, as in Density(..., categories=[...])",
                code="no-categories",
            )
        return CategorizedEvent(user, category)

    def _threshold(self, remove: bool) -> int:
        """The coin that an event redraws with; the caller holds the lock."""
        return self._ledger.pair.absent if remove else self._ledger.pair.present

    def _redraw_one(self, user: Any, remove: bool) -> None:
        with self._lock:  # `rerandomize` replaces the pair, and `grow` the universe
            threshold, table = self._threshold(remove), self._table  # either may refuse
            slot = self._slots.slot(self._events.index(user))
            if slot >= 0:
                table.redraw_one(slot, self._coins.flip(threshold), remove)

    def _redraw_many(
        self,
        ids: Any,
        categories: Any,
        remove: bool,
        *,
        column: Any = None,
        skip_outside: bool = False,
        threads: int | None = None,
    ) -> None:
        if threads is not None:
            check_threads(threads)
        strangers = StrangerFilter(self._universe) if skip_outside else None
        if column is None:
            given = ids if categories is None else self._visit(ids, categories)
            self._without_trace(partial(self._redraw_batches, given, remove, strangers, threads))
            return
        for named in named_columns(ids, column, categories, pairs=isinstance(self._universe, Edges)):
            given = named.ids if categories is None else self._visit(named.ids, named.categories)
            self._without_trace(partial(self._redraw_batches, given, remove, strangers, threads))

    @staticmethod
    def _without_trace(work: Callable[[], None]) -> None:
        """Work on a batch, and leave nothing of it behind."""
        try:
            work()
        except Exception as error:
            # A program that keeps an exception keeps the frames of its traceback, and in those the batch.
            error.__cause__ = error.__context__ = None
            raise error.with_traceback(None)  # noqa: B904
        finally:
            wipe_stack()

    def _redraw_batches(self, ids: Any, remove: bool, strangers: StrangerFilter | None, threads: int | None) -> None:
        self._check_in_use()
        for pieces in batches(self._events.as_column(ids)):
            with self._lock:
                threshold, table = self._threshold(remove), self._table  # either may refuse
                batch = BatchUpdate(self._events, self._slots, table, self._coins, threshold, remove, threads)
                if strangers is None:
                    batch.take(pieces)
                else:
                    with Scratch() as scratch:
                        batch.take(strangers.chosen(self._events, pieces, scratch))

    def redraw_slots(
        self, slots: NDArray[np.uint64], times: NDArray[np.uint16] | None = None, *, remove: bool = False
    ) -> None:
        """Note that the users of these slots appeared, each as often as `times` says, where that counts."""
        with self._lock, Scratch() as scratch:
            threshold, table = self._threshold(remove), self._table  # either may refuse
            if times is None:
                table.redraw(slots, threshold, self._coins, scratch, back=remove)
            else:
                table.redraw_often(slots, times, threshold, self._coins, scratch, back=remove)

    # --- what leaves --------------------------------------------------------------------------------------------

    def release(self, level: float = 0.95) -> R:
        """Spend one planned release on an estimate, with a confidence interval of the given level."""
        level = check_level(level)
        with self._lock:
            self._check_in_use()
            self._ledger.spend_release()
            return self._interpret(self._ledger.publish(self._noisy_counts(), level))

    def next_release(self, level: float = 0.95) -> Any:
        """Make the release that is due: of an estimator with several kinds of release, the next of them."""
        return self.release(level)

    @property
    def releases_left(self) -> int | None:
        """How many planned releases are left; None if their number is not limited."""
        return self.budget.releases - self.budget.releases_made

    def expected_errors(self) -> dict[str, float | None]:
        """The standard errors of a release, by name, before anything is spent."""
        return {}

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
            self._check_in_use()
            if self.NOT_REDRAWN:
                raise PanPrivacyError(self.NOT_REDRAWN, code="no-rerandomize")
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
        with self.held(), kept_on_fork(self._table.words), ownership.leaving(self):
            yield

    @cached_property
    def _table(self) -> Any:
        """The table. It is assigned to this name, so this function runs only while there is none."""
        raise PanPrivacyError(self._gone or "this estimator has no table yet", code="emptied")

    def _check_in_use(self) -> None:
        """Raise if the table was handed over or wiped, before anything else is done."""
        _ = self._table

    def _detach_table(self, why: str) -> Any:
        """Give the table to the caller, who holds the lock; from now on every use is refused with this reason."""
        table = self._table
        self._gone = why
        del self._table
        return table

    def _empty(self, why: str) -> None:
        if self._gone is None:
            self._detach_table(why).wipe()

    def _arrived(self) -> None:
        """In the child that this estimator was handed over to: a child of that child has none of its bits."""
        wiped_on_fork(self._table.words)

    # --- what it says of itself ---------------------------------------------------------------------------------

    @property
    def budget(self) -> Budget:
        """Where epsilon goes: shares, spent, left, and the exact total."""
        return self._ledger.budget

    split: ClassVar[OfPart[Split]] = OfPart("_ledger")
    """How the budget is split between the state and its releases."""

    epsilon: ClassVar[OfPart[float]] = OfPart("split")
    """The total budget."""

    delta: ClassVar[OfPart[float]] = OfPart("split")
    """The probability, at most, with which more than epsilon is lost: 0 unless it was given and is of use."""

    @property
    def secure(self) -> bool:
        """Whether every coin so far came from the operating system."""
        return self._drawn_securely and self._coins.secure

    @property
    def universe(self) -> Universe:
        """The users there could be."""
        return self._universe

    @property
    def groups(self) -> tuple[Label, ...]:
        """The labels of the groups or categories, in the order in which a release has them; none without them."""
        divided = (getattr(self._slots, name, None) for name in ("groups", "categories"))
        return next((each.labels for each in divided if each is not None), ())

    @property
    def _answers(self) -> int:
        """How many answers a question has in a release: one, or one for each group or category."""
        return len(self.groups) or 1

    @property
    def memory(self) -> int:
        """Bytes that the bits take; none, if they are gone."""
        return 0 if self.emptied else self._table.nbytes

    @property
    def emptied(self) -> str | None:
        """Why this estimator holds nothing any more and refuses all use; None while it does hold bits."""
        return self._gone

    def _spent(self) -> str:
        """The spent budget, as the end of the line about an estimator."""
        budget = self.budget
        return (
            f"epsilon {self.epsilon:g}{and_delta(self.delta)}: {budget.spent:.3g} spent, {budget.releases_made} of "
            f"{budget.releases} releases made{self._unsafe()}"
        )

    # --- bytes --------------------------------------------------------------------------------------------------

    @contextmanager
    def sealed_state(self, insecure: bool) -> Iterator[Snapshot]:
        if not (self.secure or insecure):
            raise NotPrivate(
                "this estimator used seeded coins and protects no user; insecure=True saves it all the same",
                code="seeded-coins",
            )
        with self.held():
            parameters = self._ledger.to_bytes(self._counts_released()) + self._parameters()
            yield Snapshot(self.KIND, self.secure, parameters, self._table.words)

    def layout(self) -> bytes:
        """Which slot each user owns, as bytes for `pp.gather`: public parameters, without bits, ids and releases."""
        with self._lock:
            ledger = Ledger(self._ledger.split)  # of an estimator that has released nothing
            parameters = ledger.to_bytes(self._counts_released()) + self._parameters()
        return seal(Snapshot(self.KIND, self.secure, parameters, np.zeros(0, dtype=np.uint64)))

    def _counts_released(self) -> int:
        """How many counts a release has, without counting them."""
        return self._answers

    @classmethod
    def from_sealed(cls, parts: Snapshot, universe: Any = None) -> Self:
        if parts.kind != cls.KIND:
            raise CorruptState(f"this is not the state of a {cls.__name__}", code="other-estimator")
        return cls.from_state_with_table(
            parts,
            universe,
            lambda slots, _: cls.TABLE.from_words(slots.size, parts.words, *_limit_of(slots)),
            coin_sources.system,
        )

    @classmethod
    def from_state_with_table(
        cls, parts: Snapshot, universe: Any, bits: Callable[[SlotMap, Split], Bits], coins: Coins
    ) -> Self:
        """An estimator with the parameters of a saved state, and a table that `bits` makes for its slots and split."""
        try:
            est = cls.__new__(cls)
            ledger, rest = Ledger.from_bytes(bytes(parts.parameters))
            known, slots = est._from_parameters(rest, universe)
            est._assemble(known, slots, ledger, bits(slots, ledger.split), coins, secure=parts.secure)
            if ledger.published and len(ledger.published.noisy) != est._counts_released():
                raise CorruptState("the last release has the wrong number of counts", code="state-contradictory")
        except OtherUniverse:
            raise
        except (PanPrivacyError, ValueError, ArithmeticError, struct.error) as error:
            raise CorruptState(f"the state contradicts itself: {error}", code="state-contradictory") from error
        return est


def _limit_of(slots: Any) -> tuple[int, ...]:
    """What a table is told besides its size: how far counters count, if the slots have counters."""
    up_to = getattr(slots, "up_to", 1)
    return (up_to,) if up_to > 1 else ()

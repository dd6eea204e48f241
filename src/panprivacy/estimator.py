"""What every private estimator has in common: slots, a table, a ledger, and the verbs on them."""

import struct
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, Generic, Self, TypeVar

from panprivacy import coins as coin_sources
from panprivacy import state
from panprivacy.budget import Budget
from panprivacy.coins import CHUNK, Coins
from panprivacy.errors import CorruptState, NotPrivate, OtherUniverse, PanPrivacyError
from panprivacy.ledger import Ledger, Published
from panprivacy.slots import SlotMap, Universe
from panprivacy.slots.batches import Batch, batches, check_weights, chunks
from panprivacy.state import Sealed, StateFile
from panprivacy.table import Table

R = TypeVar("R")
"""What a release of this estimator is."""

_CHANGED = "the ids changed while they were read, so that part of the batch may be taken: feed it again, unchanged"


class Estimator(ABC, Generic[R]):
    """Bits of a symmetric pair, and a ledger of what has been spent.

    A subclass says which slots users own, which counts a release adds noise to, and what it makes of them.
    """

    KIND: ClassVar[int]
    """Which estimator a saved state is of."""

    TABLE: ClassVar[type[Table]] = Table
    """How the bits are kept."""

    def _assemble(self, universe: Universe, slots: SlotMap, ledger: Ledger, table: Table, coins: Coins) -> None:
        self._universe = universe
        self._slots = slots
        self._ledger = ledger
        self._table = table
        self._coins = coins
        self._drawn_securely = True
        self._lock = Lock()

    @abstractmethod
    def _counts(self) -> tuple[int, ...]:
        """The integers that a release adds noise to; one user changes one of them, by at most 1."""

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

    def update(self, user: Any) -> None:
        """Note that a user appeared."""
        self._redraw_one(user, remove=False)

    def remove(self, user: Any) -> None:
        """Note that a user was deleted: as if it had never appeared."""
        self._redraw_one(user, remove=True)

    def update_many(self, ids: Any, weight: Any = None) -> None:
        """Note that these users appeared.

        `ids` is an array, a Polars or Arrow column, a list or an iterator; for `pp.Edges` an (n, 2) array, a list of
        pairs or a tuple of two columns. A positive `weight` means one appearance. A batch with a user outside the
        universe is refused whole; an iterator is taken in chunks, each a batch. Feeding a batch twice does no harm.
        """
        self._redraw_many(ids, weight, remove=False)

    def remove_many(self, ids: Any, weight: Any = None) -> None:
        """Note that these users were deleted; takes what `update_many` takes."""
        self._redraw_many(ids, weight, remove=True)

    def _redraw_one(self, user: Any, remove: bool) -> None:
        slot = self._slots.slot(self._universe.index(user))
        if slot >= 0:
            with self._lock:
                pair = self._ledger.pair  # read under the lock: `rerandomize` replaces it
                self._table.redraw_one(slot, self._coins.flip(pair.absent if remove else pair.present))

    def _redraw_many(self, ids: Any, weight: Any, remove: bool) -> None:
        for pieces in batches(self._universe.as_batch(ids)):
            if weight is not None:
                check_weights(weight, pieces)
            short = len(pieces) == 1 and len(pieces[0]) <= CHUNK  # its ids are all looked up before the first is used
            look_up = self._universe.indices if short else self._universe.unchecked
            with self._lock, nullcontext() if short else self._whole_or_not_at_all(pieces):
                threshold = self._ledger.pair.absent if remove else self._ledger.pair.present
                for chunk in chunks(pieces):
                    try:
                        slots = self._slots.select(look_up(chunk))
                        self._table.redraw(slots, threshold, self._coins)
                    except IndexError as error:
                        if not short:
                            self._universe.indices(chunk)  # says who is outside
                        raise PanPrivacyError(_CHANGED) from error

    def _whole_or_not_at_all(self, pieces: list[Batch]) -> AbstractContextManager[None]:
        """See to it that a long batch with a bad id changes nothing.

        Either every id is looked up before the first bit is touched, and then again; or, where copying the table is
        less work than that, the bits are put back as they were.
        """
        if self._table.words.nbytes <= sum(len(piece) for piece in pieces):
            return self._table.restored_on_error()
        for chunk in chunks(pieces):
            self._universe.indices(chunk)
        return nullcontext()

    # --- what leaves --------------------------------------------------------------------------------------------

    def release(self, level: float = 0.95) -> R:
        """Spend one planned release on an estimate, with a confidence interval of the given level."""
        if not 0 < level < 1:
            raise ValueError(f"level must be between 0 and 1, got {level}")
        with self._lock:
            self._ledger.spend_release()
            epsilon = self._ledger.split.release
            noisy = tuple(self._coins.noisy(count, epsilon) for count in self._counts())
            return self._interpret(self._ledger.publish(noisy, level))

    @property
    def last(self) -> R | None:
        """The last release again, at no cost; None before the first."""
        published = self._ledger.published
        return self._interpret(published) if published else None

    def rerandomize(self) -> None:
        """After an announced reading of the state: redraw every bit through randomised response.

        The next reading then costs no more than planned. The estimate stays unbiased; its error grows.
        """
        with self._lock, self._ledger.redraw_spent(), self._table.restored_on_error():
            self._table.flip_each(self._ledger.split.flip, self._coins)

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
    def universe(self) -> Universe:
        """The users there could be."""
        return self._universe

    @property
    def memory(self) -> int:
        """Bytes that the bits take."""
        return self._table.words.nbytes

    # --- bytes --------------------------------------------------------------------------------------------------

    def to_bytes(self, *, insecure: bool = False) -> bytes:
        """The whole state, to be read by `pp.load`.

        These bytes are one more reading of the state: whoever sees them and, later, the estimator, has read it twice.
        `save` leaves no copy. An estimator on seeded coins is refused unless `insecure=True` says that this is known.
        """
        with self._sealed(insecure) as parts:
            return state.seal(*parts)

    def save(self, file: str | Path | StateFile, *, insecure: bool = False) -> None:
        """Keep the state in a file, to be read by `pp.load`.

        The bits go from the table to the disk, without a copy, and what the file held before is overwritten there. The
        file is written whole or not at all, and refused while another process has it.
        """
        with state.opened(file) as kept, self._sealed(insecure) as parts:
            kept.write(parts)

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
        est = cls.__new__(cls)
        try:
            ledger, rest = Ledger.from_bytes(parts.parameters)
            known, slots = cls._from_parameters(rest, universe)
            table = cls.TABLE.from_words(slots.size, parts.words)
            est._assemble(known, slots, ledger, table, coin_sources.system)
            if ledger.published and len(ledger.published.noisy) != est._counts_released():
                raise CorruptState("the last release has the wrong number of counts")
        except OtherUniverse:
            raise
        except (PanPrivacyError, ValueError, ArithmeticError, struct.error) as error:
            raise CorruptState(f"the state contradicts itself: {error}") from error
        est._drawn_securely = parts.secure
        return est

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_bytes, (self.to_bytes(), self._universe)

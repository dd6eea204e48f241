"""`StateFolder`: one estimator in a folder, fed and released from many processes."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from operator import index
from pathlib import Path
from typing import Any, Self

from panprivacy import lifetime
from panprivacy.checks import check_level
from panprivacy.density import Density
from panprivacy.display import Card, grid_of, html_of
from panprivacy.distinct import DistinctCount
from panprivacy.errors import CorruptState, NotPrivate
from panprivacy.estimator import Estimator
from panprivacy.folder.bits import ShardedBits, shard_name
from panprivacy.folder.parts import MOST_SHARDS, NAME, Frame, Shard
from panprivacy.privacy import coins as coin_sources
from panprivacy.privacy.budget import Budget, Split
from panprivacy.privacy.coins import Coins
from panprivacy.slots import SlotMap
from panprivacy.state import Sealed
from panprivacy.state.stores import Store, store_at
from panprivacy.universe import Ids, Universe

_LEDGER = "ledger"
_USUAL_SHARDS = 64
_KINDS: dict[int, type[Estimator[Any]]] = {1: Density, 2: DistinctCount}


class StateFolder:
    """One estimator whose bits are shards in a folder, or in objects behind a URL, shared by many processes.

    The folder holds one ledger and n shards of bits, and nothing else. Whoever feeds it loads one shard after the
    other, redraws there what a batch touches, and puts it back; whoever releases adds the shards up, notes the release
    in the ledger, and then shows it. Feeding a batch twice does no harm, so a batch whose writer died is fed again.

    Parameters
    ----------
    url
        A folder of this machine (or of a network file system with locks), or an fsspec URL such as ``s3://...``.
    universe
        The list of users, if the folder was made for one: a folder holds no ids.

    Examples
    --------
    >>> import tempfile, panprivacy as pp
    >>> place = tempfile.TemporaryDirectory()
    >>> folder = pp.StateFolder.create(place.name + "/flu", universe=100_000, epsilon=1.0, shards=4)
    >>> folder.update_many(range(30_000))
    >>> elsewhere = pp.StateFolder(place.name + "/flu")
    >>> elsewhere.update_many(range(30_000, 50_000))
    >>> 0.45 < folder.release().density < 0.55, elsewhere.budget.remaining
    (True, 0.0)
    >>> place.cleanup()

    Notes
    -----
    In a folder of this machine a shard is overwritten where it is, and there is one version of it. In a store of
    objects the next version is created before the one before is deleted, so for a moment, and after a crash until the
    next batch, there are two; and a store that keeps deleted versions keeps them all. See docs/folder.md.
    """

    _lock: Any

    def __init__(self, url: str | Path, universe: Any = None, *, coins: Coins | None = None) -> None:
        self._open(store_at(url), str(url), universe, coins or coin_sources.system)

    def _open(self, store: Store, url: str, universe: Any, coins: Coins) -> None:
        self.url = url
        self._store, self._coins = store, coins
        lifetime.give_lock(self, rank=0)
        self._given = universe
        self._read_ledger()

    @classmethod
    def create(
        cls,
        url: str | Path,
        universe: int | Universe | None = None,
        epsilon: float | None = None,
        *,
        shards: int | None = None,
        coins: Coins | None = None,
        **options: Any,
    ) -> Self:
        """Make a folder for a new `Density` of a universe, or for a new `DistinctCount` if there is none.

        There are 64 shards unless told, or as many as bits if those are fewer. `options` are those of the estimator:
        sample, memory, releases, intrusions, delta, buckets and so on.
        """
        if epsilon is None:
            raise ValueError("say how much may be lost in all: epsilon=1.0")
        est: Any = (
            DistinctCount(epsilon, coins=coins, **options)
            if universe is None
            else Density(universe, epsilon, coins=coins, **options)
        )
        size = est._table.size
        shards = min(_USUAL_SHARDS, size) if shards is None else index(shards)
        if not 1 <= shards <= min(MOST_SHARDS, size):
            raise ValueError(f"shards must be between 1 and {min(MOST_SHARDS, size):,}, got {shards}")
        store, source = store_at(url), coins or coin_sources.system
        name = source.randbelow(2 ** (8 * NAME)).to_bytes(NAME, "little")
        frame = Frame(name, shards, est.KIND, est.secure, _parameters(est))
        try:
            for number in range(shards):
                first, end = frame.bounds(number, size)
                part = est._table.cut(first, end)
                try:
                    store.create(shard_name(number), Shard(name, number, 0, est.secure, part).sealed())
                finally:
                    part.wipe()
            store.create(_LEDGER, frame.sealed())  # last: without it there is no folder yet
        finally:
            est.end("its bits are in a state folder")
        folder = cls.__new__(cls)
        folder._open(store, str(url), universe, source)
        return folder

    # --- events -------------------------------------------------------------------------------------------------

    def update(self, user: Any) -> None:
        """Note that a user appeared."""
        self.update_many([user])

    def remove(self, user: Any) -> None:
        """Note that a user was deleted: as if it had never appeared."""
        self.remove_many([user])

    def update_many(self, ids: Ids) -> None:
        """Note that these users appeared; when this returns, that is on disk. Takes what an estimator takes."""
        with self._batch(remove=False) as est:
            est.update_many(ids)

    def remove_many(self, ids: Ids) -> None:
        """Note that these users were deleted; takes what `update_many` takes."""
        with self._batch(remove=True) as est:
            est.remove_many(ids)

    @contextmanager
    def _batch(self, *, remove: bool) -> Iterator[Any]:
        with self._lock, self._bits.batch(self._coins, remove=remove):
            yield self._est

    # --- what leaves --------------------------------------------------------------------------------------------

    def release(self, level: float = 0.95, **options: Any) -> Any:
        """Spend one planned release on an estimate from all shards; `options` are those of the estimator's release."""
        level = check_level(level)
        released: list[Any] = []

        def spend(parts: Sealed) -> Sealed:
            frame, est = self._understood(parts)
            self._bits.catch_up(est._ledger.redraws, self._coins)
            whole = self._bits.gathered()
            try:
                est._table = whole
                released.append(est.release(level, **options))
                return replace(frame, parameters=_parameters(est)).sealed()
            finally:
                whole.wipe()

        with self._lock:
            self._store.change(_LEDGER, spend)
            self._read_ledger()
        return released[-1]

    @property
    def last(self) -> Any:
        """The last release again, whoever made it, at no cost; None before the first."""
        with self._lock:
            self._read_ledger()
            return self._est.last

    def rerandomize(self) -> None:
        """After an announced reading of the state: redraw every bit through randomised response.

        The ledger is told first. A crash in between leaves some shards behind, and whoever releases or rerandomises
        next catches up with them.
        """

        def note(parts: Sealed) -> Sealed:
            frame, est = self._understood(parts)
            est._ledger.note_redraw()
            return replace(frame, parameters=_parameters(est)).sealed()

        with self._lock:
            self._store.change(_LEDGER, note)
            self._read_ledger()
            self._bits.catch_up(self._est._ledger.redraws, self._coins)

    # --- what it says of itself ---------------------------------------------------------------------------------

    @property
    def budget(self) -> Budget:
        """Where epsilon goes, by the ledger as it is now."""
        with self._lock:
            self._read_ledger()
            budget: Budget = self._est.budget
            return budget

    @property
    def epsilon(self) -> float:
        """The total budget."""
        return float(self._est.epsilon)

    @property
    def delta(self) -> float:
        """The probability, at most, with which more than epsilon is lost: 0 unless it was given."""
        return float(self._est.delta)

    @property
    def universe(self) -> Universe:
        """The users there could be."""
        users: Universe = self._est.universe
        return users

    @property
    def secure(self) -> bool:
        """Whether every coin so far came from the operating system."""
        return self._frame.secure and self._coins.secure

    @property
    def memory(self) -> int:
        """Bytes that the bits take, in all shards."""
        return int(self._bits.nbytes)

    @property
    def shards(self) -> int:
        """How many shards there are."""
        return self._frame.shards

    def __repr__(self) -> str:
        return f"<StateFolder {Path(self.url).name} of {self.shards:,} shards: {self._est!r}>"

    def card(self) -> Card:
        """What is shown of it."""
        with self._lock:
            self._read_ledger()
            card: Card = self._est.card()
        return replace(card, title=f"StateFolder of a {card.title}", rows=(("shards", f"{self.shards:,}"), *card.rows))

    __rich__ = grid_of
    _repr_html_ = html_of

    # --- the ledger ---------------------------------------------------------------------------------------------

    def _read_ledger(self) -> None:
        try:
            self._frame, self._est = self._understood(self._store.read(_LEDGER))
        except FileNotFoundError:
            raise FileNotFoundError(
                f"{self.url}: there is no state folder here; pp.StateFolder.create(url, ...) makes one"
            ) from None
        if self._frame.secure and not self._coins.secure:
            raise NotPrivate("this folder is private so far, and seeded coins would end that")
        self._bits = self._est._table

    def _understood(self, parts: Sealed) -> tuple[Frame, Any]:
        """A frame, and the estimator whose bits are in the shards."""
        frame = Frame.of(parts)
        if frame.kind not in _KINDS:
            raise CorruptState(f"a folder cannot have an estimator of kind {frame.kind}")

        def bits(slots: SlotMap, split: Split) -> Any:
            return ShardedBits(self._store, frame, slots.size, split)

        sealed = frame.of_estimator(parts.words)
        return frame, _KINDS[frame.kind]._with_bits_elsewhere(sealed, self._given, bits, self._coins)


def _parameters(est: Any) -> bytes:
    """The ledger and the parameters of an estimator."""
    with est._sealed(insecure=True) as parts:
        return bytes(parts.parameters)

"""`StateFolder`: one estimator in a folder, fed and released from many processes."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Self, TypeAlias, Unpack

from panprivacy.checks import check_level
from panprivacy.display import Card, grid_of, html_of
from panprivacy.errors import CorruptState, InvalidValue, NotPrivate, PanPrivacyError
from panprivacy.estimators.base import Estimator
from panprivacy.folder.batches import Pending, Received, SlotMarks, wiped
from panprivacy.folder.ledger import UNFINISHED, check_kind, is_unfinished, kind_for, kinds, lay_out, parameters_of
from panprivacy.folder.marks import check_part
from panprivacy.folder.shards import BatchId, FolderHeader, ShardedBits
from panprivacy.folder.stores import LEDGER, naming, store_at
from panprivacy.memory import ownership
from panprivacy.privacy import coins as coin_sources
from panprivacy.privacy.budget import Budget
from panprivacy.privacy.coins import Coins
from panprivacy.state import Snapshot
from panprivacy.universe import Edges, Ids, Universe, Users
from panprivacy.universe.columns import RowOptions

BatchLike: TypeAlias = tuple[str, int] | None
"""How a caller says which batch it is: not at all, or by the name of a writer and a number."""

_IN_MAKING = 20.0  # seconds to wait for the ledger of a folder that another process makes


class StateFolder(ownership.Locked):
    """One estimator whose bits are shards in a folder, or in objects behind a URL, shared by many processes.

    The folder holds one ledger and n shards of bits, and nothing else. To feed it is to load one shard after the other,
    redraw the bits that a batch touches, and put the shard back. To release is to add the shards up, note the release
    in the ledger, and then show it. Feeding a batch twice does no harm, so a batch whose writer died is fed again.

    Of a `Counts` a batch that is fed twice counts twice, unless it says which it is: ``batch=("till 3", 17)``, the name
    of a writer and a number that rises. Every shard notes the last number of every writer in the same write as its
    counters, and takes no batch that it has. So a batch is fed again, with the same identity, until a call returns.
    Batches of one writer are fed one after the other.

    Parameters
    ----------
    url
        A folder of this machine (or of a network file system with locks), or an fsspec URL such as ``s3://...``.
    universe
        The list of users, if the folder was made for one: a folder holds no ids.
    storage_options
        Options of the fsspec file system behind a URL: credentials, an endpoint and so on.

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
    >>> visits = pp.StateFolder.create(place.name + "/visits", universe=100_000, epsilon=1.0, up_to=4, shards=4)
    >>> visits.update_many(range(50_000), batch=("till 3", 1))
    >>> visits.update_many(range(50_000), batch=("till 3", 1))  # the same batch: it counts once
    >>> round(visits.release().mean, 1)
    0.5
    >>> place.cleanup()

    Notes
    -----
    In a folder of this machine a shard is overwritten where it is, and there is one version of it. In a store of
    objects the next version is created before the one before is deleted, so for a moment, and after a crash until the
    next batch, there are two; and a store that keeps deleted versions keeps them all. See docs/explanation/folder.md.
    """

    def __init__(
        self,
        url: str | Path,
        universe: Any = None,
        *,
        coins: Coins | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        self.url: str = str(url)
        self._store, self._storage_options = store_at(url, storage_options), storage_options
        self._coins, self._given = coins or coin_sources.system, universe
        self._place = self.url if "://" in self.url else str(Path(url).absolute())  # it may be unpickled elsewhere
        self._process = os.getpid()
        self._est: Any = None  # with the ledger as it was read last; its bits are in the shards
        self._read()
        ownership.give_lock(self, rank=0)

    _header: FolderHeader  # the settings of the folder besides its estimator
    _bits: ShardedBits  # the table of the estimator

    @classmethod
    def create(
        cls,
        url: str | Path,
        universe: int | Universe | None = None,
        epsilon: float | None = None,
        *,
        estimator: type[Estimator[Any]] | None = None,
        shards: int | None = None,
        coins: Coins | None = None,
        storage_options: Mapping[str, Any] | None = None,
        versioned: bool = False,
        **options: Any,
    ) -> Self:
        """Make a folder for a new estimator: `pp.Density`, `pp.DistinctCount` or `pp.Counts`.

        Unless told which, it is a `DistinctCount` where there is no universe, a `Counts` where `up_to` is given, and
        else a `Density`. There are 64 shards unless told, or fewer if those would be smaller than 16 KiB. A bucket
        that keeps deleted versions is refused unless ``versioned=True`` says that all versions may be read. `options`
        are those of the estimator: sample, memory, releases, intrusions, delta, groups, categories, buckets, up_to and
        so on.
        """
        if epsilon is None:
            raise InvalidValue("say how much may be lost in all: epsilon=1.0", code="epsilon-missing")
        kind: Any = estimator or kind_for(universe, options)
        check_kind(kind)
        est = kind(*([] if universe is None else [universe]), epsilon=epsilon, coins=coins, **options)
        return cls.holding(est, url, shards=shards, storage_options=storage_options, versioned=versioned)

    @classmethod
    def holding(
        cls,
        est: Any,
        url: str | Path,
        *,
        shards: int | None = None,
        storage_options: Mapping[str, Any] | None = None,
        versioned: bool = False,
    ) -> Self:
        """Make a folder that goes on with an estimator, which then holds nothing any more."""
        store = store_at(url, storage_options, versioned=versioned)
        try:
            lay_out(est, store, shards)
        except FileExistsError:
            there = "there is a state folder already; pp.StateFolder(url) opens it"
            raise FileExistsError(f"{url}: {UNFINISHED if is_unfinished(store) else there}") from None
        users = est.universe  # a list has to be given again where the folder is opened
        listed = isinstance(users, Users) or (isinstance(users, Edges) and users.named)
        return cls(url, users if listed else None, coins=est._coins, storage_options=storage_options)

    def __reduce__(self) -> tuple[Any, ...]:
        """The place of the folder, and the list of its users, if there is one: unpickling opens it."""
        coins = None if self._coins.secure else self._coins
        opened = partial(StateFolder, coins=coins, storage_options=self._storage_options)
        return opened, (self._place, self._given)

    # --- the ledger, from which other processes spend, too --------------------------------------------------------

    def _read(self) -> None:
        """Read the ledger again: other processes may have spent from it."""
        self._header, found = self._understood(self._ledger())
        if self._header.secure and not self._coins.secure:
            raise NotPrivate("this folder is private so far, and seeded coins would end that", code="seeded-coins")
        if self._est is None:
            self._est, self._bits = found, found._table
        self._est.agree_with(found)
        self._bits.redraws = self._est._ledger.redraws

    def _ledger(self) -> Snapshot:
        """The ledger; wait for it if another process is about to write it."""
        until = monotonic() + (_IN_MAKING if self._est is None else 0)
        while True:
            try:
                return self._store.read(LEDGER)
            except FileNotFoundError:
                unfinished = is_unfinished(self._store)
                if not unfinished or monotonic() > until:
                    none = "there is no state folder here; pp.StateFolder.create(url, ...) makes one"
                    raise FileNotFoundError(f"{self.url}: {UNFINISHED if unfinished else none}") from None
            sleep(0.2)

    def _change(self, by: Callable[[Any], bool]) -> None:
        """Let the estimator be changed, all but its bits, and write what it is then, unless that says False.

        The estimator is one of its own, with the ledger as it is at that moment, and other processes are kept out. A
        store of objects may call `by` more than once.
        """

        def changed(_name: str, parts: Snapshot) -> Snapshot | None:
            header, est = self._understood(parts)
            return replace(header, parameters=parameters_of(est)).sealed() if by(est) else None

        self._store.change([LEDGER], changed)
        self._read()

    def _understood(self, parts: Snapshot) -> tuple[FolderHeader, Any]:
        """A header, and the estimator whose bits are in the shards."""
        self._check_process()
        with naming(LEDGER, self._store.where(LEDGER)):
            header = FolderHeader.of(parts)
            if header.kind not in kinds():
                raise CorruptState(f"a folder cannot have an estimator of kind {header.kind}", code="unknown-kind")
            if self._est is not None and header.name != self._header.name:
                raise PanPrivacyError(
                    f"{self.url}: the folder that was opened is gone, and there is another one: open that",
                    code="folder-replaced",
                )
            state = Snapshot(header.kind, header.secure, header.parameters, parts.words)
            return header, kinds()[header.kind].from_state_with_table(
                state,
                self._given,
                lambda slots, split: ShardedBits(self._store, header, slots, split),
                self._coins,
            )

    def _check_process(self) -> None:
        """Refuse a child of the process that opened the folder."""
        if os.getpid() != self._process:
            raise PanPrivacyError(
                f"{self.url}: this process was forked after the folder was opened: open it here, pp.StateFolder(url)",
                code="folder-forked",
            )

    # --- events -------------------------------------------------------------------------------------------------

    def update(self, user: Any, category: Any = None, *, batch: BatchLike = None) -> None:
        """Note that a user appeared."""
        self.update_many([user], None if category is None else [category], batch=batch)

    def remove(self, user: Any, category: Any = None, *, batch: BatchLike = None) -> None:
        """Note that a user was deleted; of a `Counts`, that it appeared once less."""
        self.remove_many([user], None if category is None else [category], batch=batch)

    def update_many(
        self, ids: Ids, categories: Any = None, *, batch: BatchLike = None, **rows: Unpack[RowOptions]
    ) -> None:
        """Note that these users appeared; when this returns, that is on disk. Takes what an estimator takes.

        A batch with a wrong id is refused whole; here also an iterator is one batch. `batch` says which batch
        it is: the name of a writer and a number, higher than all its numbers before. A shard that has it is left
        as it is. A number that is lower than the last one is refused, and so is the next batch until all shards have
        the one before: of two batches of one writer at the same time, one is refused.
        """
        self._take(ids, categories, batch, remove=False, **rows)

    def remove_many(
        self, ids: Ids, categories: Any = None, *, batch: BatchLike = None, **rows: Unpack[RowOptions]
    ) -> None:
        """Note that these users were deleted; takes what `update_many` takes."""
        if not self._est.TRAITS.removes:
            self._est.remove_many(ids)  # which says why not
        self._take(ids, categories, batch, remove=True, **rows)

    def _take(self, ids: Ids, categories: Any, batch: BatchLike, *, remove: bool, **rows: Unpack[RowOptions]) -> None:
        which = self._identified(batch)
        with self._lock, self.gather() as gathered:
            gathered.add(ids, categories, **rows)
            self._read()
            marks, gone = (None, gathered.marks) if remove else (gathered.marks, None)
            self._bits.redraw_marked(marks, gone, self._coins, batch=which)

    def gather(self) -> AbstractContextManager[SlotMarks]:
        """Look up in this process which slots users own, for other processes to `take`: no shard is read or changed.

        >>> import tempfile, panprivacy as pp
        >>> place = tempfile.TemporaryDirectory()
        >>> folder = pp.StateFolder.create(place.name, universe=100_000, epsilon=1.0, shards=2)
        >>> with folder.gather() as gathered:
        ...     gathered.add(range(30_000)); gathered.add([7, 99_999])
        ...     for number in range(folder.shards):
        ...         folder.take(number, [gathered.packed(number)], batch=("query", 1))
        >>> folder.last_batch("query")
        1
        >>> place.cleanup()
        """
        self._check_process()
        return wiped(SlotMarks(self._header.name, self.shards, self._est, self._lock))

    def take(self, number: int, packed: Iterable[Any], *, batch: BatchLike = None, remove: bool = False) -> None:
        """Note in one shard what `SlotMarks.packed` packed for it, in however many processes; then that is on disk.

        `packed` are arrays, bytes or other buffers. Let every shard take its part of a batch, also an empty one: which
        shards have a batch must not tell who is in it. The parts of one shard are taken in one call, since the next
        call with the same `batch` changes nothing. A shard that has a higher number of the same writer refuses. No
        shard knows the batches of the others: call `check_batch` before the first of them takes the next batch.
        """
        with self.receive([number], batch=batch) as received:
            for each in packed:
                received.add(each)
            received.take(remove=remove)

    def receive(self, shards: Iterable[int], *, batch: BatchLike = None) -> AbstractContextManager[Received]:
        """Let several shards `take` what was packed for them, as it comes in, in any order."""
        with self._lock:
            self._read()
        return wiped(Received(self._header, self._bits, self._coins, shards, self._identified(batch)))

    @contextmanager
    def pending(self) -> Iterator[Pending]:
        """Let `Pending.estimator` be fed by its own verbs in the `with` block; what it is fed waits to be written."""
        self._check_process()
        fed = Pending(self._est, self._bits, self._coins, self._read)
        with wiped(fed) as pending, self._bits.fed_to(pending):
            yield pending

    def declare_ids(self, kind: str) -> None:
        """Say for good that ids are ``"integers"``, or that they are ``"text"``, as of a `DistinctCount`."""

        def declare(est: Any) -> bool:
            if est.ids == kind:
                return False
            est.declare_ids(kind)
            return True

        with self._lock:
            self._est.declare_ids(kind)
            self._change(declare)

    def _identified(self, batch: BatchLike) -> BatchId | None:
        """Which batch it is, if that has to be known."""
        which = BatchId.of(batch)
        if which is None and self.needs_names:
            raise PanPrivacyError(
                "in a store of objects a change may be made twice, and counters would move twice: say which batch it "
                "is, as in update_many(ids, batch=('writer', 1))",
                code="batch-unnamed",
            )
        return which

    def check_batch(self, batch: BatchLike) -> None:
        """Refuse a batch if the one before, of the same writer, broke off, or if a later one was fed."""
        which = self._identified(batch)
        if which is not None:
            self._bits.check_whole(which)

    def last_batch(self, writer: str) -> int | None:
        """The number of the last batch of a writer that every shard has; None if there is none."""
        numbers = self._bits.last_batches(writer)
        known = [number for number in numbers if number is not None]
        return min(known) if len(known) == len(numbers) else None

    def forget(self, writer: str) -> None:
        """Make room for another writer, of whom there can be 32: a late batch of this one would be counted again.

        If it breaks off, nothing is taken under this name until it is called again.
        """
        self._bits.forget(writer)

    # --- what leaves --------------------------------------------------------------------------------------------

    def release(self, level: float = 0.95, **options: Any) -> Any:
        """Spend one planned release on an estimate from all shards; `options` go to the estimator's release."""
        level = check_level(level)
        released: list[Any] = []

        def spend(est: Any) -> bool:
            whole = self._bits.gathered(est._ledger.redraws, self._coins)
            try:
                est._table = whole
                released.append(est.release(level, **options))
                return True
            finally:
                whole.wipe()

        with self._lock:
            self._change(spend)
        return released[-1]

    @property
    def last(self) -> Any:
        """The last release of any process again, at no cost; None before the first."""
        with self._lock:
            self._read()
            return self._est.last

    def rerandomize(self) -> None:
        """After an announced reading of the state: redraw every bit through randomised response.

        The ledger is written first. A crash in between leaves some shards behind; the next batch, release or
        rerandomisation catches up with them. `rerandomize` after a crash, or while another process is at it, finishes
        that one, and spends none.
        """

        def note(est: Any) -> bool:
            if self._bits.behind(est._ledger.redraws):
                return False
            est._ledger.note_redraw()
            return True

        if "intrusions" not in self._est.TRAITS.options:
            self._est.rerandomize()  # which says why not
        with self._lock:
            self._change(note)
            self._bits.catch_up(self._bits.redraws, self._coins)

    def replace_shard(self, number: int) -> float:
        """Replace a lost or corrupt shard by a new one; return the share of all slots that it holds.

        The users of that shard count as not having come, until they come again. So if the share is s, later releases
        are too low by about s of the truth, and a `Counts` forgets their appearances. A shard that is whole stays.
        """
        with self._lock:
            self._read()
            number = check_part(number, self.shards)
            self._bits.replace(number, self._coins)
        return self._bits.size_of(number) / self._bits.size

    @property
    def shards_behind(self) -> int:
        """How many shards a rerandomisation that broke off has left as they were."""
        with self._lock:
            self._read()
            return len(self._bits.behind(self._bits.redraws)) if self._bits.redraws else 0

    # --- what it says of itself ---------------------------------------------------------------------------------

    @property
    def budget(self) -> Budget:
        """Where epsilon goes, by the ledger as it is now."""
        with self._lock:
            self._read()
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
    def categories(self) -> Any:
        """The categories that events can be in; None if they are in none."""
        return getattr(self._est, "categories", None)

    @property
    def secure(self) -> bool:
        """Whether every coin so far came from the operating system."""
        return self._header.secure and self._coins.secure

    @property
    def repeatable(self) -> bool:
        """Whether a batch that is fed twice is as good as fed once."""
        return bool(self._est.REPEATABLE)

    @property
    def memory(self) -> int:
        """Bytes that the bits take, in all shards."""
        return int(self._bits.nbytes)

    @property
    def needs_names(self) -> bool:
        """Whether a batch needs an identity: it must not be taken twice, and this store may take it twice."""
        return not (self.repeatable or self._store.ONCE)

    def empty_shard(self, number: int) -> tuple[int, Any]:
        """The first slot of a shard, and a table of zeros of its size, for auditors that look for its bits."""
        bits = self._bits
        return bits.bounds(number)[0], bits.empty(bits.size_of(number))

    @property
    def shards(self) -> int:
        """How many shards there are."""
        return self._header.shards

    def __repr__(self) -> str:
        return f"<StateFolder {Path(self.url).name} of {self.shards:,} shards: {self._est!r}>"

    def card(self) -> Card:
        """The card that shells and notebooks show."""
        with self._lock:
            self._read()
            card: Card = self._est.card()
        return replace(card, title=f"StateFolder of a {card.title}", rows=(("shards", f"{self.shards:,}"), *card.rows))

    __rich__ = grid_of
    _repr_html_ = html_of

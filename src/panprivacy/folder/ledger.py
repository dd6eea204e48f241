"""A new folder, and its ledger: which estimator the folder holds, and what all processes have spent of its budget."""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from panprivacy import registry
from panprivacy.checks import check_whole
from panprivacy.errors import CorruptState, InvalidValue, NotPrivate, PanPrivacyError
from panprivacy.folder.marks import cells_of, part_bounds
from panprivacy.folder.shards import MOST_SHARDS, NAME, FolderHeader, Shard, ShardedBits, shard_name
from panprivacy.folder.stores import LEDGER, Store, naming
from panprivacy.privacy.coins import Coins
from panprivacy.registry import options_of
from panprivacy.state import Snapshot

UNFINISHED = (
    "there are shards and no ledger: another process is still making the folder, or was killed while it did; "
    "if this message stays, nothing can be released from the folder: delete it, and start again"
)
"""The error for a folder that was not made to its end."""

_USUAL_SHARDS, _SMALL = 64, 2**14  # and bytes of a shard that is not worth a file of its own
_IN_MAKING = 20.0  # seconds to wait for the ledger of a folder that another process makes


def kinds() -> dict[int, Any]:
    """The estimators that a folder can hold, by their kinds."""
    return {kind.KIND: kind for kind in registry.estimators() if kind.TRAITS.in_folder}


def kind_for(universe: Any, options: dict[str, Any]) -> Any:
    """The first estimator that takes these options, or else the first that takes a universe, or none."""
    fitting = [kind for kind in kinds().values() if ("universe" in options_of(kind)) == (universe is not None)]
    return next((kind for kind in fitting if options.keys() <= options_of(kind)), fitting[0])


def check_kind(kind: type) -> None:
    """Refuse an estimator whose table has no shards, or whose release does more than count."""
    if kind not in kinds().values():
        names = [f"a {each.__name__}" for each in kinds().values()]
        held = f"{', '.join(names[:-1])} or {names[-1]}"
        raise PanPrivacyError(
            f"a state folder holds {held}, and no {kind.__name__}: make a folder of one of these for each period, or "
            "keep it in one process",
            code="not-in-folder",
        )


def lay_out(est: Any, store: Store, shards: int | None) -> None:
    """Write the parts of a folder, and wipe the estimator: there is one version of its bits, in the folder.

    If that fails, what was written is erased, and the estimator is as it was.
    """
    check_kind(type(est))
    est.check_unbound("put into a state folder")
    if isinstance(est._table, ShardedBits):
        raise PanPrivacyError("the bits of this estimator are in a state folder already", code="in-folder-already")
    size, redraws = est._table.size, est._ledger.redraws
    if est._ledger.pair != est._ledger.split.pair_after(redraws):
        raise PanPrivacyError(
            "a union of overlapping tables has coins of its own, and cannot go on in a state folder",
            code="not-in-folder",
        )
    table_bytes = est._table.words.nbytes
    shards = min(_USUAL_SHARDS, max(table_bytes // _SMALL, 1)) if shards is None else check_whole(shards, "shards")
    if not 1 <= shards <= min(MOST_SHARDS, size):
        raise InvalidValue(
            f"shards must be between 1 and {min(MOST_SHARDS, size):,}, got {shards}", code="shards-range"
        )
    name = est._coins.randbelow(2 ** (8 * NAME)).to_bytes(NAME, "little")
    header = FolderHeader(name, shards, est.KIND, est.secure, parameters_of(est))
    made: list[str] = []

    def parts() -> Iterator[tuple[str, Snapshot]]:
        for number in range(shards):
            part = est._table.cut(*part_bounds(number, shards, size))
            yield shard_name(number), Shard(name, number, redraws, est.secure, part).sealed()
            made.append(shard_name(number))

    store.claim(name, table_bytes // shards)
    try:
        store.create(parts())
        store.create([(LEDGER, header.sealed())])  # last: without it there is no folder yet
    except BaseException:
        _undo(est, store, made)
        raise
    est.end("its bits are in a state folder")


def _undo(est: Any, store: Store, made: list[str]) -> None:
    """Erase the shards that were made; if that fails, some of the bits stay there, and the estimator ends."""
    try:
        store.erase(reversed(made))
        store.unclaim()
    except BaseException:
        est.end("some of its bits are in a state folder that could not be made, nor erased")
        raise


def is_unfinished(store: Store) -> bool:
    """Whether there is the first shard of a folder, and no ledger, which is made last."""
    found = []
    for name in (LEDGER, shard_name(0)):
        with suppress(FileNotFoundError):
            next(store.read_starts([name]))
            found.append(name)
    return found == [shard_name(0)]


def parameters_of(est: Any) -> bytes:
    """The ledger and the parameters of an estimator."""
    with est.sealed_state(insecure=True) as parts:
        return bytes(parts.parameters)


class SharedLedger:
    """The estimator of a folder, whose bits are in the shards, with the ledger as it was read last.

    Other processes spend from the same ledger. So it is read before a question about the budget is answered, and a
    release is spent in `change`, which keeps other processes out.
    """

    def __init__(self, store: Store, url: str, universe: Any, coins: Coins) -> None:
        self.url: str = url
        self.coins: Coins = coins
        self.given: Any = universe
        self.place: str = url if "://" in url else str(Path(url).absolute())  # it may be unpickled elsewhere
        self._store = store
        self._process = os.getpid()
        self.est: Any = None
        self.read()

    header: FolderHeader
    """The settings of the folder besides its estimator."""
    bits: ShardedBits
    """The table of the estimator."""

    def read(self) -> None:
        """Read the ledger again: other processes may have spent from it."""
        self.header, found = self._understood(self._ledger())
        if self.header.secure and not self.coins.secure:
            raise NotPrivate("this folder is private so far, and seeded coins would end that", code="seeded-coins")
        if self.est is None:
            self.est, self.bits = found, found._table
        self.est.agree_with(found)
        self.bits.redraws = self.est._ledger.redraws

    def _ledger(self) -> Snapshot:
        """The ledger; wait for it if another process is about to write it."""
        until = monotonic() + (_IN_MAKING if self.est is None else 0)
        while True:
            try:
                return self._store.read(LEDGER)
            except FileNotFoundError:
                unfinished = is_unfinished(self._store)
                if not unfinished or monotonic() > until:
                    none = "there is no state folder here; pp.StateFolder.create(url, ...) makes one"
                    raise FileNotFoundError(f"{self.url}: {UNFINISHED if unfinished else none}") from None
            sleep(0.2)

    def change(self, by: Callable[[Any], bool]) -> None:
        """Let the estimator be changed, all but its bits, and write what it is then, unless that says False.

        The estimator is one of its own, with the ledger as it is at that moment. A store of objects may call `by` more
        than once.
        """

        def changed(_name: str, parts: Snapshot) -> Snapshot | None:
            header, est = self._understood(parts)
            return replace(header, parameters=parameters_of(est)).sealed() if by(est) else None

        self._store.change([LEDGER], changed)
        self.read()

    def check_process(self) -> None:
        """Refuse a child of the process that opened the folder."""
        if os.getpid() != self._process:
            raise PanPrivacyError(
                f"{self.url}: this process was forked after the folder was opened: open it here, pp.StateFolder(url)",
                code="folder-forked",
            )

    def _understood(self, parts: Snapshot) -> tuple[FolderHeader, Any]:
        """A header, and the estimator whose bits are in the shards."""
        self.check_process()
        with naming(LEDGER, self._store.where(LEDGER)):
            header = FolderHeader.of(parts)
            if header.kind not in kinds():
                raise CorruptState(f"a folder cannot have an estimator of kind {header.kind}", code="unknown-kind")
        if self.est is not None and header.name != self.header.name:
            raise PanPrivacyError(
                f"{self.url}: the folder that was opened is gone, and there is another one: open that",
                code="folder-replaced",
            )
        state = Snapshot(header.kind, header.secure, header.parameters, parts.words)
        with naming(LEDGER, self._store.where(LEDGER)):
            return header, kinds()[header.kind].from_state_with_table(
                state,
                self.given,
                lambda slots, split: ShardedBits(self._store, header, slots.size, split, cells_of(slots)),
                self.coins,
            )

"""The ledger of a folder: which estimator it holds, and what has been spent of it, by whatever process."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from panprivacy.errors import CorruptState, NotPrivate, PanPrivacyError
from panprivacy.folder.bits import ShardedBits
from panprivacy.folder.cells import cells_of
from panprivacy.folder.making import KINDS, LEDGER, UNFINISHED, is_unfinished, parameters_of
from panprivacy.folder.parts import Frame
from panprivacy.privacy.budget import Split
from panprivacy.privacy.coins import Coins
from panprivacy.slots import SlotMap
from panprivacy.state import Sealed
from panprivacy.state.stores import Store, naming


class SharedLedger:
    """The estimator of a folder, whose bits are in the shards, with the ledger as it was read last.

    Other processes spend from the same ledger: whoever asks what is left reads it first, and whoever spends does so
    in `change`, while nobody else can.
    """

    def __init__(self, store: Store, url: str, universe: Any, coins: Coins) -> None:
        self.url, self.coins, self.given = url, coins, universe
        self.place = url if "://" in url else str(Path(url).absolute())  # whoever unpickles a folder may work elsewhere
        self._store = store
        self._process = os.getpid()
        self.est: Any = None
        self.read()

    frame: Frame
    """What is said of the folder besides its estimator."""
    bits: ShardedBits
    """The table of the estimator."""

    def read(self) -> None:
        """Learn what others have spent since."""
        try:
            self.frame, found = self._understood(self._store.read(LEDGER))
        except FileNotFoundError:
            if is_unfinished(self._store):
                raise FileNotFoundError(f"{self.url}: {UNFINISHED}") from None
            raise FileNotFoundError(
                f"{self.url}: there is no state folder here; pp.StateFolder.create(url, ...) makes one"
            ) from None
        if self.frame.secure and not self.coins.secure:
            raise NotPrivate("this folder is private so far, and seeded coins would end that")
        if self.est is None:
            self.est, self.bits = found, found._table
        self.est._agree_with(found)
        self.bits.redraws = self.est._ledger.redraws

    def change(self, by: Callable[[Any], bool]) -> None:
        """Let the estimator be changed, all but its bits, and write what it is then, unless that says False.

        The estimator is one of its own, with the ledger as it is at that moment. A store of objects may call `by` more
        than once.
        """

        def changed(parts: Sealed) -> Sealed | None:
            frame, est = self._understood(parts)
            return replace(frame, parameters=parameters_of(est)).sealed() if by(est) else None

        self._store.change(LEDGER, changed)
        self.read()

    def check_process(self) -> None:
        """Refuse a child of the process that opened the folder."""
        if os.getpid() != self._process:
            raise PanPrivacyError(
                f"{self.url}: this process was forked after the folder was opened: open it here, pp.StateFolder(url)"
            )

    def _understood(self, parts: Sealed) -> tuple[Frame, Any]:
        """A frame, and the estimator whose bits are in the shards."""
        self.check_process()
        with naming(self._store.where(LEDGER)):
            frame = Frame.of(parts)
            if frame.kind not in KINDS:
                raise CorruptState(f"a folder cannot have an estimator of kind {frame.kind}")
        if self.est is not None and frame.name != self.frame.name:
            raise PanPrivacyError(
                f"{self.url}: the folder that was opened is gone, and there is another one: open that"
            )

        def bits(slots: SlotMap, split: Split) -> Any:
            return ShardedBits(self._store, frame, slots.size, split, cells_of(slots))

        sealed = frame.of_estimator(parts.words)
        with naming(self._store.where(LEDGER)):
            return frame, KINDS[frame.kind]._with_bits_elsewhere(sealed, self.given, bits, self.coins)

"""A new folder: the bits of an estimator, cut into shards, and its parameters and ledger in a frame."""

from operator import index
from typing import Any

from panprivacy.counts import Counts
from panprivacy.density import Density
from panprivacy.distinct import DistinctCount
from panprivacy.errors import PanPrivacyError
from panprivacy.estimator import Estimator
from panprivacy.folder.bits import ShardedBits, shard_name
from panprivacy.folder.parts import MOST_SHARDS, NAME, Frame, Shard
from panprivacy.memory import wipe
from panprivacy.state.stores import Store

LEDGER = "ledger"
"""What the part is called that holds the frame."""

KINDS: dict[int, type[Estimator[Any]]] = {kind.KIND: kind for kind in (Density, DistinctCount, Counts)}
"""The estimators that a folder can hold."""

UNFINISHED = (
    "there are shards and no ledger: whoever made the folder was killed, or the ledger deleted; nothing can be "
    "released from it: delete it, and start again"
)
"""What is said of a folder that was not made to its end."""

_USUAL_SHARDS, _TINY = 64, 1024  # and slots of a shard that is not worth a file of its own


def check_kind(kind: type) -> None:
    """Refuse an estimator whose table has no shards, or whose release does more than count."""
    if kind not in KINDS.values():
        raise PanPrivacyError(f"a state folder holds a Density, a DistinctCount or a Counts, and no {kind.__name__}")


def lay_out(est: Any, store: Store, shards: int | None) -> None:
    """Write the parts of a folder, and wipe the estimator: there is one version of its bits, in the folder.

    If that fails, what was written is erased, and the estimator is as it was.
    """
    check_kind(type(est))
    if isinstance(est._table, ShardedBits):
        raise PanPrivacyError("the bits of this estimator are in a state folder already")
    size, redraws = est._table.size, est._ledger.redraws
    if est._ledger.pair != est._ledger.split.pair_after(redraws):
        raise PanPrivacyError("a union of overlapping tables has coins of its own, and cannot go on in a state folder")
    shards = min(_USUAL_SHARDS, max(size // _TINY, 1)) if shards is None else index(shards)
    if not 1 <= shards <= min(MOST_SHARDS, size):
        raise ValueError(f"shards must be between 1 and {min(MOST_SHARDS, size):,}, got {shards}")
    name = est._coins.randbelow(2 ** (8 * NAME)).to_bytes(NAME, "little")
    frame = Frame(name, shards, est.KIND, est.secure, parameters_of(est))
    made: list[str] = []
    try:
        for number in range(shards):
            part = est._table.cut(*frame.bounds(number, size))
            try:
                store.create(shard_name(number), Shard(name, number, redraws, est.secure, part).sealed())
            finally:
                part.wipe()
            made.append(shard_name(number))
        store.create(LEDGER, frame.sealed())  # last: without it there is no folder yet
    except BaseException:
        _undo(est, store, made)
        raise
    est.end("its bits are in a state folder")


def _undo(est: Any, store: Store, made: list[str]) -> None:
    """Erase the shards that were made; if that fails, some of the bits stay there, and the estimator ends."""
    try:
        for name in reversed(made):
            store.erase(name)
    except BaseException:
        est.end("some of its bits are in a state folder that could not be made, nor erased")
        raise


def is_unfinished(store: Store) -> bool:
    """Whether there is the first shard of a folder, and no ledger, which is made last."""
    found = []
    for name in (LEDGER, shard_name(0)):
        try:
            wipe(store.read(name).words)
            found.append(name)
        except FileNotFoundError:
            pass
    return found == [shard_name(0)]


def parameters_of(est: Any) -> bytes:
    """The ledger and the parameters of an estimator."""
    with est._sealed(insecure=True) as parts:
        return bytes(parts.parameters)

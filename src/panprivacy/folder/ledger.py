"""A new folder: which estimators it can hold, and how its shards and its ledger are written."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from panprivacy import registry
from panprivacy.checks import check_whole
from panprivacy.errors import InvalidValue, PanPrivacyError
from panprivacy.folder.marks import part_bounds
from panprivacy.folder.shards import MOST_SHARDS, NAME, FolderHeader, Shard, ShardedBits, shard_name
from panprivacy.folder.stores import LEDGER, Store
from panprivacy.registry import options_of
from panprivacy.state import Snapshot

UNFINISHED = (
    "there are shards and no ledger: another process is still making the folder, or was killed while it did; "
    "if this message stays, nothing can be released from the folder: delete it, and start again"
)
"""The error for a folder that was not made to its end."""

_USUAL_SHARDS, _SMALL = 64, 2**14  # and bytes of a shard that is not worth a file of its own


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
        try:
            store.give_up(reversed(made))
        except BaseException:
            est.end("some of its bits are in a state folder that could not be made, nor erased")
            raise
        raise
    est.end("its bits are in a state folder")


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

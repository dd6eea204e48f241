"""States at rest: the bytes of an estimator, and the files that hold them."""

from panprivacy.state.disk import StateFileError
from panprivacy.state.file import BoundLock, StateFile, load, loaded, moved_to, opened
from panprivacy.state.format import Snapshot, seal, unseal

__all__ = [
    "BoundLock",
    "Snapshot",
    "StateFile",
    "StateFileError",
    "load",
    "loaded",
    "moved_to",
    "opened",
    "seal",
    "unseal",
]

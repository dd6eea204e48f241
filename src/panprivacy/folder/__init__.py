"""State folders: one estimator whose bits are shards in files or objects, fed from many processes."""

from panprivacy.folder.batches import gather
from panprivacy.folder.folder import StateFolder
from panprivacy.folder.shards import LateBatch

__all__ = ["LateBatch", "StateFolder", "gather"]

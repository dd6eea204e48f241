"""State folders: one estimator whose bits are shards in files or objects, fed from many processes."""

from panprivacy.folder.batch_log import LateBatch
from panprivacy.folder.batches import gather
from panprivacy.folder.folder import StateFolder

__all__ = ["LateBatch", "StateFolder", "gather"]

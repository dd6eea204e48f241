"""State folders: one estimator whose bits are shards in files or objects, fed from many processes."""

from panprivacy.folder.folder import StateFolder

__all__ = ["StateFolder"]

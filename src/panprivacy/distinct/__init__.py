"""`DistinctCount`, and what only it needs: how large a table is, what its counts say, unions of tables."""

from panprivacy.distinct.estimator import DistinctCount

__all__ = ["DistinctCount"]

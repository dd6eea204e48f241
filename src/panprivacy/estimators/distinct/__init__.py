"""`DistinctCount`, and what only it needs: how large a table is, what its counts say, unions of tables."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from panprivacy.estimators.distinct.estimator import DistinctCount

__all__ = ["DistinctCount"]


def __getattr__(name: str) -> Any:
    """Import the estimator when it is asked for: plans need the formulas beside it, and no kernels."""
    if name != "DistinctCount":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from panprivacy.estimators.distinct.estimator import DistinctCount

    globals()[name] = DistinctCount
    return DistinctCount

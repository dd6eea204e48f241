"""Who was active in the last days, every day."""

from panprivacy.actives.estimator import ActiveUsers

__all__ = ["ActiveUsers"]

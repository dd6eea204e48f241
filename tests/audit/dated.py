"""Rows with times for the exact auditor: the clock and the refusals are then part of what it sees."""

from datetime import datetime, timedelta
from typing import Any

from panprivacy.estimators.actives import ActiveUsers
from panprivacy.privacy.budget import Budget

_FAR = timedelta(days=1457)


class DatedRows:
    """An `ActiveUsers` as its users meet it: each may appear on the open day, long before it, and long after it.

    `policy` is that of `update`: ``ahead``, ``late`` and ``early``. How many rows were refused stands in the memory
    that an audit reads, beside the bits and the day that is open.
    """

    VERBS = ("update", "update_late", "update_early")
    """All that a user can do, for `audit.exact`."""

    def __init__(self, est: ActiveUsers, **policy: Any) -> None:
        self._est = est
        self._policy = policy
        self._refused = 0

    @property
    def budget(self) -> Budget:
        """That of the estimator."""
        return self._est.budget

    def update(self, user: Any) -> None:
        """Appear on the open day."""
        self._row(user, self._est.day)

    def update_late(self, user: Any) -> None:
        """Appear on a day that is over."""
        self._row(user, self._est.day - _FAR)

    def update_early(self, user: Any) -> None:
        """Appear on a day that is years ahead."""
        self._row(user, self._est.day + _FAR)

    def release(self) -> Any:
        """End the open day."""
        return self._est.release()

    def _row(self, user: Any, time: datetime) -> None:
        try:
            self._est.update(user, time=time, **self._policy)
        except ValueError:
            self._refused += 1

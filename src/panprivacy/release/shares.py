"""Shares of a universe as numbers of users: an estimate, its error and its bounds, all times the universe."""

from collections.abc import Sequence
from typing import NamedTuple

from panprivacy.display import Rows, measured


class Measured(NamedTuple):
    """An estimate, its standard error and its confidence interval, in one unit."""

    value: float
    stderr: float
    interval: tuple[float, float]

    def times(self, users: int) -> "Measured":
        """The share as a number of users, of so many.

        >>> Measured(0.25, 0.01, (0.23, 0.27)).times(1000)
        Measured(value=250.0, stderr=10.0, interval=(230.0, 270.0))
        """
        low, high = self.interval
        return Measured(self.value * users, self.stderr * users, (low * users, high * users))

    def named(self, name: str) -> dict[str, float | tuple[float, float]]:
        """Its numbers under the names that a release has for them."""
        return {name: self.value, f"{name}_stderr": self.stderr, f"{name}_interval": self.interval}

    def rows(self, name: str, users: int, level: float, remark: str = "") -> Rows:
        """What is shown of a share: itself, and the number of users that it is."""
        interval = f"{100 * level:g}% interval"
        count = self.times(users)
        return (
            (name, measured(*self[:2], self.interval, interval, 4) + remark),
            (f"{name} (users)", measured(*count[:2], count.interval, interval, 0) + f", of {users:,}"),
        )


def as_columns(name: str, parts: Sequence[Measured]) -> dict[str, list[float]]:
    """Some estimates as columns of a frame; the ends of an interval are columns of their own."""
    return {
        name: [part.value for part in parts],
        f"{name}_stderr": [part.stderr for part in parts],
        f"{name}_low": [part.interval[0] for part in parts],
        f"{name}_high": [part.interval[1] for part in parts],
    }

"""An estimate of how often users appeared, with its errors: of all, or of one group."""

from dataclasses import dataclass
from typing import Any

from panprivacy.release.estimates import GUESS, plain
from panprivacy.universe.groups import Label

Interval = tuple[float, float]

_MOST_SHARES = 6  # that a line of a table has room for


@dataclass(frozen=True, kw_only=True)
class EstimatedFrequency:
    """How often users appeared. What is called a share is a fraction of the universe.

    If only the mean was released, there are no shares.
    """

    mean: float
    """How often a user appeared on average, more than `up_to` times counting as `up_to`."""
    mean_stderr: float
    """Standard error of the mean; if only the mean was released, the largest that it can be."""
    mean_interval: Interval
    """Confidence interval for the mean."""
    raw_mean: float
    """The unbiased estimate before it was brought into [0, up_to]."""
    at_least: tuple[float, ...] = ()
    """Shares of the users who appeared at least once, twice, ... `up_to` times: ``at_least[j-1]``, which never rise."""
    at_least_stderr: tuple[float, ...] = ()
    """Standard errors of these shares, before they were made to fall; that brings them nearer to the truth."""
    at_least_interval: tuple[Interval, ...] = ()
    """Confidence intervals for these shares."""
    raw_at_least: tuple[float, ...] = ()
    """The unbiased estimates before they were made to fall and brought into [0, 1]."""
    exactly: tuple[float, ...] = ()
    """Shares of the users who never appeared, who did so once, ... `up_to` - 1 times: ``exactly[j]``."""
    exactly_stderr: tuple[float, ...] = ()
    """Standard errors of these shares."""
    exactly_interval: tuple[Interval, ...] = ()
    """Confidence intervals for these shares."""
    raw_exactly: tuple[float, ...] = ()
    """The unbiased estimates of these shares; some may be negative."""
    universe: int
    """How many users the estimate speaks for."""
    up_to: int
    """How many appearances of a user count."""
    noise_stderr: float
    """Standard deviation of what the noise of this release added to each share; without shares, to the mean."""

    @property
    def mostly_noise(self) -> bool:
        """Whether a share, or where there are none the mean, is known no better than by a guess within its range."""
        if self.at_least_stderr:
            return max(self.at_least_stderr) > GUESS
        return self.mean_stderr > GUESS * self.up_to

    def to_dict(self) -> dict[str, Any]:
        """Everything in it as plain numbers, for JSON; groups as rows."""
        return plain(self)


@dataclass(frozen=True, kw_only=True)
class GroupFrequency(EstimatedFrequency):
    """One group of a release: how often its users appeared, or, of a category, how often all users did in it."""

    group: Label
    """The label of the group or category."""
    users: int
    """How many users own a counter that counts here: those of the group, or those who are asked about the category."""

    @property
    def header(self) -> tuple[str, ...]:
        """What is shown above `cells`."""
        shown = range(1, min(len(self.at_least), _MOST_SHARES) + 1)
        return "group", "mean", "interval", *(f"at least {times}" for times in shown), "of"

    def cells(self) -> tuple[str, ...]:
        """What is shown in a table."""
        low, high = self.mean_interval
        shares = (f"{share:.4f}" for share in self.at_least[:_MOST_SHARES])
        mean = f"{self.mean:.4f} {self.error}{' (mostly noise)' if self.mostly_noise else ''}"
        return str(self.group), mean, f"{low:.4f} to {high:.4f}", *shares, f"{self.universe:,}"

    @property
    def stderr(self) -> float:
        """By which groups are compared: that of the mean."""
        return self.mean_stderr

    @property
    def error(self) -> str:
        """Its standard error, as it is shown."""
        return f"± {self.mean_stderr:.4f}"

    def columns(self) -> dict[str, Any]:
        """Everything in it by the name of a column: a share, or an end of an interval, has one of its own."""
        found: dict[str, Any] = {"group": self.group} | columns_of_frequency(self)
        return found | {"users": self.users, "universe": self.universe, "noise_stderr": self.noise_stderr}

    def told(self, interval: str = "interval") -> str:
        """What is said of it in one line; its release, which knows the level, says what the interval is called."""
        low, high = self.mean_interval
        shares = ", ".join(f"{times} {share:.4f}" for times, share in enumerate(self.at_least, start=1))
        least = f"; at least {shares} ± {max(self.at_least_stderr):.4f}" if shares else ""
        return (
            f"{self.group}: mean {self.mean:.4f} {self.error} (standard error), {interval} {low:.4f} to {high:.4f}"
            f"{least}; of {self.universe:,} users{'; mostly noise' if self.mostly_noise else ''}"
        )

    def __str__(self) -> str:
        return self.told()


def columns_of_frequency(row: EstimatedFrequency) -> dict[str, Any]:
    """The mean and the shares by the names of columns, each with its error."""
    found = _flat(row, "mean", "mean", ())
    for name, first in (("at_least", 1), ("exactly", 0)):
        for place in range(len(row.at_least)):
            found |= _flat(row, name, f"{name}_{first + place}", (place,))
    return found


def _flat(row: EstimatedFrequency, name: str, column: str, place: tuple[int, ...]) -> dict[str, Any]:
    """One estimate of a row, with its error, under the names of columns."""
    value, stderr, (low, high), raw = (
        getattr(row, field)[place[0]] if place else getattr(row, field)
        for field in (name, f"{name}_stderr", f"{name}_interval", f"raw_{name}")
    )
    return {
        column: value,
        f"{column}_stderr": stderr,
        f"{column}_low": low,
        f"{column}_high": high,
        f"raw_{column}": raw,
    }

"""What leaves of a `Counts`: how often users appeared, with errors, and what it cost."""

from dataclasses import asdict, dataclass
from typing import Any

from panprivacy.display import Card, grid_of, html_of, line_of, measured, warning_of
from panprivacy.privacy.budget import and_delta

Interval = tuple[float, float]


@dataclass(frozen=True)
class FrequencyRelease:
    """An estimate of how often users appeared, with its errors, that cost the stated part of the budget.

    What is called a share is a fraction of the universe. If only the mean was released, there are no shares.
    """

    mean: float
    """How often a user appeared on average, more than `up_to` times counting as `up_to`."""
    mean_stderr: float
    """Standard error of the mean; if only the mean was released, the largest that it can be."""
    mean_interval: Interval
    """Confidence interval for the mean."""
    raw_mean: float
    """The unbiased estimate before it was brought into [0, up_to]."""
    at_least: tuple[float, ...]
    """Shares of the users who appeared at least once, twice, ... `up_to` times: ``at_least[j-1]``, which never rise."""
    at_least_stderr: tuple[float, ...]
    """Standard errors of these shares, before they were made to fall; that brings them nearer to the truth."""
    at_least_interval: tuple[Interval, ...]
    """Confidence intervals for these shares."""
    raw_at_least: tuple[float, ...]
    """The unbiased estimates before they were made to fall and brought into [0, 1]."""
    exactly: tuple[float, ...]
    """Shares of the users who never appeared, who did so once, ... `up_to` - 1 times: ``exactly[j]``."""
    exactly_stderr: tuple[float, ...]
    """Standard errors of these shares."""
    exactly_interval: tuple[Interval, ...]
    """Confidence intervals for these shares."""
    raw_exactly: tuple[float, ...]
    """The unbiased estimates of these shares; some may be negative."""
    level: float
    """Confidence level of the intervals."""
    universe: int
    """How many users the estimate speaks for."""
    up_to: int
    """How many appearances of a user count."""
    number: int
    """Which of the planned releases this is, from 1."""
    epsilon_spent: float
    """Worst-case loss up to and with this release, one reading of the state included."""
    epsilon_remaining: float
    """What the releases still planned may spend."""
    delta_spent: float
    """The probability, at most, with which more than that was lost; 0 without Gaussian noise."""
    noise_stderr: float
    """Standard deviation of what the noise of this release added to each share; without shares, to the mean."""
    secure: bool
    """False if the coins were not the operating system's: such a release protects nobody."""

    def to_dict(self) -> dict[str, Any]:
        """Everything in the release as plain numbers, for JSON."""
        return asdict(self)

    def card(self) -> Card:
        """What is shown of it."""
        interval = f"{100 * self.level:g}% interval"
        shares = zip(self.at_least, self.at_least_stderr, self.at_least_interval, strict=True)
        rows = [
            ("mean", measured(self.mean, self.mean_stderr, self.mean_interval, interval, 4)),
            *((f"at least {times}", measured(*share, interval, 4)) for times, share in enumerate(shares, start=1)),
            ("users", f"{self.universe:,}, counted up to {self.up_to} times each"),
            (
                "epsilon",
                f"{self.epsilon_spent:.4g} spent, {self.epsilon_remaining:.4g} left{and_delta(self.delta_spent)}",
            ),
        ]
        return Card(f"Release {self.number}", tuple(rows), warning_of(self.secure))

    __str__ = line_of
    __rich__ = grid_of
    _repr_html_ = html_of

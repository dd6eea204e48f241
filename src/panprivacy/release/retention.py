"""What leaves of a `Retention`: the cohort, who of it came back, who is new, and what it cost."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

from panprivacy.display import Card, grid_of, html_of, line_of, measured, warning_of
from panprivacy.privacy.budget import and_delta


@dataclass(frozen=True)
class RetentionRelease:
    """Estimates of who came in which of two periods, with their errors, that cost the stated part of the budget.

    All are shares of the universe, but for `rate`, which is a share of the cohort.
    """

    cohort: float
    """The share that came in the first period, within [0, 1]."""
    cohort_stderr: float
    """Standard error of the cohort, sampling included."""
    cohort_interval: tuple[float, float]
    """Confidence interval for the cohort."""
    raw_cohort: float
    """The unbiased estimate before it was brought into [0, 1]; so for the other raw ones."""
    returned: float
    """The share that came in both periods."""
    returned_stderr: float
    returned_interval: tuple[float, float]
    raw_returned: float
    newcomers: float
    """The share that came in the second period only."""
    newcomers_stderr: float
    newcomers_interval: tuple[float, float]
    raw_newcomers: float
    rate: float
    """The share of the cohort that came back; nan if the cohort may be nobody."""
    rate_stderr: float
    rate_interval: tuple[float, float]
    """Confidence interval for the rate; all of [0, 1] if the cohort may be nobody."""
    asked: Literal["returned", "newcomers"]
    """What nearly all users were asked, and what the curve is of; one user in sixteen was asked the other thing."""
    curve: tuple[float, ...]
    """That share at each release of the second period so far. It never falls."""
    curve_stderr: tuple[float, ...]
    """Standard errors of the raw curve; the other one errs no more."""
    raw_curve: tuple[float, ...]
    """The estimates before they were brought into order and into [0, 1]."""
    level: float
    """Confidence level of the intervals."""
    universe: int
    """How many users the estimates speak for."""
    number: int
    """Which of the planned releases this is; the first is that of the cohort."""
    epsilon_spent: float
    """Worst-case loss up to and with this release, one reading of the state included."""
    epsilon_remaining: float
    """What the releases still planned may spend."""
    delta_spent: float
    """The probability, at most, with which more than that was lost; 0 without Gaussian noise."""
    secure: bool
    """False if the coins were not the operating system's: such a release protects nobody."""

    def to_dict(self) -> dict[str, Any]:
        """Everything in the release as plain numbers, for JSON."""
        return asdict(self)

    def card(self) -> Card:
        """What is shown of it."""
        interval = f"{100 * self.level:g}% interval"
        shown = (
            ("cohort", self.cohort, self.cohort_stderr, self.cohort_interval),
            ("returned", self.returned, self.returned_stderr, self.returned_interval),
            ("newcomers", self.newcomers, self.newcomers_stderr, self.newcomers_interval),
            ("rate", self.rate, self.rate_stderr, self.rate_interval),
        )
        unasked = "newcomers" if self.asked == "returned" else "returned"
        rows = [(name, measured(value, error, bounds, interval, 4)) for name, value, error, bounds in shown]
        rows = [(name, text + (", of one user in 16" if name == unasked else "")) for name, text in rows]
        if len(self.curve) > 1:
            rows.append((f"{self.asked} by release", ", ".join(f"{share:.4f}" for share in self.curve)))
        spent = f"{self.epsilon_spent:.4g} spent, {self.epsilon_remaining:.4g} left{and_delta(self.delta_spent)}"
        return Card(f"Release {self.number}", (*rows, ("epsilon", spent)), warning_of(self.secure))

    __str__ = line_of
    __rich__ = grid_of
    _repr_html_ = html_of

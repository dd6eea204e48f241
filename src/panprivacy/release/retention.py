"""What leaves of a `Retention`: the cohort, who of it came back, who is new, and what it cost."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from panprivacy.display import Card, finite, grid_of, html_of, line_of, measured, warning_of
from panprivacy.privacy.budget import and_delta
from panprivacy.release.period_pictures import draw_retention
from panprivacy.release.shares import Measured, as_columns

if TYPE_CHECKING:
    import polars as pl

_SHARES: tuple[Literal["cohort", "returned", "newcomers"], ...] = ("cohort", "returned", "newcomers")


@dataclass(frozen=True)
class RetentionRelease:
    """Estimates of who came in which of two periods, with their errors, that cost the stated part of the budget.

    All are shares of the universe, but for `rate`, which is a share of the cohort, and what is called a count, which is
    a number of users.
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
    curve_interval: tuple[tuple[float, float], ...]
    """Confidence intervals, each around a point of the raw curve."""
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

    @property
    def cohort_count(self) -> float:
        """The number of users that came in the first period; `count_of` has its error, too."""
        return self.cohort * self.universe

    @property
    def returned_count(self) -> float:
        """The number of users that came in both periods."""
        return self.returned * self.universe

    @property
    def newcomers_count(self) -> float:
        """The number of users that came in the second period only."""
        return self.newcomers * self.universe

    def count_of(self, name: Literal["cohort", "returned", "newcomers"]) -> Measured:
        """The number of users of a share, with its standard error and its interval: ``value, stderr, interval``."""
        return self._share(name).times(self.universe)

    def to_dict(self) -> dict[str, Any]:
        """Everything in the release as plain numbers, for JSON; None for what is not known."""
        counts: dict[str, Any] = {}
        for name in _SHARES:
            counts |= self.count_of(name).named(f"{name}_count")
        known: dict[str, Any] = finite(asdict(self) | counts)
        return known

    def to_polars(self) -> "pl.DataFrame":
        """A frame of the curve, with a row for each release of the second period, as shares and as counts.

        The cohort is the same in every row. The rate is that of this release: null in the rows of those before it.
        """
        import polars as pl

        points = [Measured(*point) for point in zip(self.curve, self.curve_stderr, self.curve_interval, strict=True)]
        columns: dict[str, Any] = {"release": list(range(1, len(points) + 1))}
        counts = as_columns(f"{self.asked}_count", [point.times(self.universe) for point in points])
        cohort = as_columns("cohort", [self._share("cohort")] * len(points))
        rate = as_columns("rate", [Measured(self.rate, self.rate_stderr, self.rate_interval)])
        rates = {name: [*[None] * (len(points) - 1), *values] for name, values in rate.items()}
        return pl.DataFrame(columns | as_columns(self.asked, points) | counts | cohort | rates)

    def plot(self, path: str | Path) -> None:
        """Draw the curve beside the cohort in a file: .png, .svg or .pdf. Needs Matplotlib."""
        draw_retention(self, path)

    def card(self) -> Card:
        """What is shown of it."""
        unasked = "newcomers" if self.asked == "returned" else "returned"
        rows = [
            row
            for name in _SHARES
            for row in self._share(name).rows(
                name, self.universe, self.level, ", of one user in 16" if name == unasked else ""
            )
        ]
        interval = f"{100 * self.level:g}% interval"
        rows.append(("rate", measured(self.rate, self.rate_stderr, self.rate_interval, interval, 4)))
        if len(self.curve) > 1:
            rows.append((f"{self.asked} by release", ", ".join(f"{share:.4f}" for share in self.curve)))
        spent = f"{self.epsilon_spent:.4g} spent, {self.epsilon_remaining:.4g} left{and_delta(self.delta_spent)}"
        return Card(f"Release {self.number}", (*rows, ("epsilon", spent)), warning_of(self.secure))

    def _share(self, name: Literal["cohort", "returned", "newcomers"]) -> Measured:
        return Measured(getattr(self, name), getattr(self, f"{name}_stderr"), getattr(self, f"{name}_interval"))

    __str__ = line_of
    __rich__ = grid_of
    _repr_html_ = html_of

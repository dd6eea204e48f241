"""A plan: what to build, and what it will do."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from panprivacy.density import Density
from panprivacy.display import Card, grid_of, html_of
from panprivacy.distinct import DistinctCount
from panprivacy.distinct.buckets import levels_for
from panprivacy.privacy.budget import Budget, Split, and_delta, budget_of
from panprivacy.privacy.coins import Coins
from panprivacy.sizes import counted, format_bytes
from panprivacy.table import Table
from panprivacy.universe import Range, Universe


class Errors(NamedTuple):
    """Standard errors of a plan with either noise, in the plan's unit; None where its epsilon is too small for one."""

    laplace: float | None
    gaussian: float | None

    def compared(self, delta: float, shown: Callable[[float], str]) -> str:
        """Which noise a plan takes, Gaussian if it has a delta, and what it would err by with the other."""
        laplace, gaussian = (None if each is None else shown(each) for each in self)
        if delta:
            other = f"would err by {laplace}" if laplace else "is out of reach at this epsilon"
            return f"Gaussian, which errs by {gaussian}; Laplace noise {other}"
        other = f"would err by {gaussian}" if gaussian else "is out of reach at this epsilon"
        return f"Laplace, which errs by {laplace} and needs no delta; Gaussian noise {other}"


@dataclass(frozen=True, repr=False)
class Plan:
    """An estimator to build, and the error that its last release will have, after all planned intrusions."""

    estimator: Literal["Density", "DistinctCount"]
    """What to build."""
    universe: Universe | None
    """The users there could be; None for an open universe."""
    size: int
    """Bits of the table: one for each user, or for each of a sample; levels x buckets for `DistinctCount`."""
    users: int | None
    """How many users own a bit: all, or of a sample the expected number; None where users share bits."""
    buckets: int | None
    """Buckets of a `DistinctCount`."""
    levels: int | None
    """Levels of a `DistinctCount`."""
    split: Split
    """How the total epsilon is split between the state and what is released."""
    density: float | None
    """The density at which `density_stderr` is stated: the expected one, or 1/2, where sampling errs most."""
    density_stderr: float | None
    """Standard error of the density; None for an open universe, which has no density."""
    relative_stderr: float | None
    """Standard error of the count as a share of the count, in an open universe; None in a known one."""
    alpha: float
    """The error in question: of the density, or, in an open universe, of the count as a share of it."""
    beta: float
    """How probable such an error may be."""
    probability: float
    """P(error >= alpha). For `Density`, exact and at the worst density; else about, at the stated density or count."""
    worst_density: float | None
    """The density at which `probability` is reached; None for an open universe."""
    count: float | None
    """The count that is expected in an open universe; `relative_stderr` and `probability` are those from there on."""
    counts: tuple[int, int] | None
    """The counts of an open universe for which P(error >= alpha) is about beta at most: from the first to the last."""

    errors: Errors | None
    """What the plan would err by with Laplace noise and with Gaussian noise; None unless a delta was allowed."""

    @property
    def epsilon(self) -> float:
        """The total budget."""
        return self.split.epsilon

    @property
    def delta(self) -> float:
        """The probability, at most, with which more than epsilon is lost: 0 with Laplace noise, which needs none."""
        return self.split.delta

    @property
    def noise(self) -> str:
        """The noise of the releases: ``"Laplace"``, or ``"Gaussian"`` if a delta was allowed and buys less error."""
        return type(self.split.noise).__name__

    @property
    def exact(self) -> bool:
        """Whether `probability` is summed from the true law, and holds at every density."""
        return self.estimator == "Density"

    @property
    def memory(self) -> int:
        """Bytes that the bits take."""
        return table_bytes(self.size)

    @property
    def sample(self) -> int | None:
        """The sample of a `Density`; None where it has a bit for every user, and for `DistinctCount`."""
        everyone = self.universe is None or self.size == self.universe.size
        return None if everyone or self.estimator != "Density" else self.size

    def build(self, *, coins: Coins | None = None) -> Density | DistinctCount:
        """Return the planned estimator, new and empty."""
        rest: dict[str, Any] = {"releases": self.split.releases, "intrusions": self.split.intrusions, "coins": coins}
        rest |= {"delta": self.delta or None}
        if self.universe is None or self.estimator == "DistinctCount":
            return DistinctCount(self.epsilon, self.buckets, levels=self.levels, **rest)
        return Density(self.universe, self.epsilon, sample=self.sample, **rest)

    @property
    def code(self) -> str:
        """What `build` does, as a line of Python."""
        told = ", ".join(f"{word}={value}" for word, value in self._words().items())
        if self.estimator == "DistinctCount" or self.universe is None:
            return f"pp.DistinctCount({told})"
        return f"pp.Density({_spelled(self.universe)}, {told})"

    @property
    def command(self) -> str | None:
        """What `build` does, for a shell; None where that takes a list of users, or levels of one's own."""
        words = self._words()
        if self.estimator == "DistinctCount" or self.universe is None:
            if words.pop("levels") != levels_for(words["buckets"]):
                return None
            verb = "distinct FILE -c NAME"
        elif isinstance(self.universe, Range):
            verb = f"density FILE -c NAME -n {self.universe.size}"
        else:
            return None
        epsilon = words.pop("epsilon")
        return " ".join([f"panprivacy {verb} -e {epsilon}", *(f"--{word} {value}" for word, value in words.items())])

    def _words(self) -> dict[str, Any]:
        """The keywords of the estimator besides its universe, without those that are left at their defaults."""
        words = {"epsilon": self.epsilon, "sample": self.sample, "buckets": self.buckets, "levels": self.levels}
        words |= {
            "releases": self.split.releases,
            "intrusions": self.split.intrusions,
            "delta": self.delta or None,
        }
        usual = {"releases": 1, "intrusions": 0}
        return {word: value for word, value in words.items() if value != usual.get(word)}

    def to_dict(self) -> dict[str, Any]:
        """Everything in the plan as plain numbers and words, for JSON."""
        budget = budget_of(self.split, self.split.releases, self.split.intrusions)
        return {
            "estimator": self.estimator,
            "universe": self.universe.size if self.universe else None,
            "sample": self.sample,
            "users": self.users,
            "buckets": self.buckets,
            "levels": self.levels,
            "bits": self.size,
            "memory": self.memory,
            "epsilon": self.epsilon,
            "epsilon_state": budget.state,
            "releases": budget.releases,
            "epsilon_release": budget.release_epsilon,
            "intrusions": budget.redraws,
            "epsilon_redraw": budget.redraw_epsilon,
            "epsilon_total": budget.total,
            "delta": budget.delta,
            "noise": self.noise,
            "noise_stderr": budget.noise_stderr,
            "errors": self.errors._asdict() if self.errors else None,
            "density": self.density,
            "density_stderr": self.density_stderr,
            "relative_stderr": self.relative_stderr,
            "alpha": self.alpha,
            "beta": self.beta,
            "probability": self.probability,
            "worst_density": self.worst_density,
            "count": self.count,
            "counts": list(self.counts) if self.counts else None,
            "exact": self.exact,
        }

    def __repr__(self) -> str:
        return (
            f"<Plan: {self._what()} in {format_bytes(self.memory)}; epsilon "
            f"{self.epsilon:g}{and_delta(self.delta)}; standard error "
            f"{self._stderr()}; P(error >= {self._error(self.alpha)}) {self._how_likely()}>"
        )

    def card(self) -> Card:
        """What is shown of it."""
        budget = budget_of(self.split, self.split.releases, self.split.intrusions)
        redraw = [("of each redraw", f"{budget.redraw_epsilon:.4g} (x {budget.redraws})")] if budget.redraws else []
        at = f" (at density {self.density:g})" if self.count is None else f" (from {self.count:,.0f} users on)"
        command = [] if self.command is None else [("in a shell", self.command)]
        rows = (
            ("build", self._what()),
            ("memory", f"{format_bytes(self.memory)} ({self.size:,} bits)"),
            ("epsilon in all", f"{self.epsilon:g}{and_delta(self.delta)}"),
            ("of the state", f"{budget.state:.4g}"),
            ("of the releases", _of_releases(budget)),
            *redraw,
            *([("noise", self.errors.compared(self.delta, self._error))] if self.errors else []),
            ("standard error", self._stderr() + at),
            (f"P(error >= {self._error(self.alpha)})", self._how_likely()),
            ("in Python", self.code),
            *command,
        )
        return Card("Plan", rows)

    __rich__ = grid_of
    _repr_html_ = html_of

    def _what(self) -> str:
        if self.universe is None or self.users is None:
            return f"{self.estimator} of {self.levels} levels x {self.buckets:,} buckets"
        whom = "a bit for each" if self.sample is None else f"a sample of {self.sample:,}"
        return f"{self.estimator} of {self.universe.describe()}, {whom}"

    def _stderr(self) -> str:
        return self._error(self.density_stderr or self.relative_stderr or 0.0)

    def _error(self, error: float) -> str:
        return f"{error:.4g}" if self.universe else f"{100 * error:.4g} %"

    def _how_likely(self) -> str:
        if self.exact:
            return f"= {self.probability:.4g} at worst (density {self.worst_density:.4g})"
        if self.counts is None:
            return f"about {self.probability:.2g} for densities up to {self.density:g}"
        first, last = self.counts
        return f"at most about {self.beta:g} for counts from {first:,} to {last:,}"


def _of_releases(budget: Budget) -> str:
    """What the releases cost, and the noise that this buys."""
    noise = f"noise ± {budget.noise_stderr:,.4g}"
    if budget.release_epsilon is None:
        return f"{budget.total - budget.state:.4g} for {counted(budget.releases, 'release')}, Gaussian {noise}"
    return f"{budget.release_epsilon:.4g} each (x {budget.releases}), Laplace {noise}"


def _spelled(universe: Universe) -> str:
    """A universe in Python code: its size, or a variable where the users are listed, since they are too many."""
    return str(universe.size) if isinstance(universe, Range) else "universe"


def table_bytes(bits: int) -> int:
    """Bytes of a table: bits come in words of 64.

    >>> table_bytes(64), table_bytes(65)
    (8, 16)
    """
    return 8 * Table.words_for(bits)

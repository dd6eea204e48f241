"""Plans for `Counts`: what a share, or the mean, will err by."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from panprivacy.checks import check_delta, check_epsilon
from panprivacy.counts import Counts
from panprivacy.display import Card, Rows, grid_of, html_of
from panprivacy.errors import CannotPlan
from panprivacy.planning.options import as_fraction
from panprivacy.planning.rounding import rounded_up
from panprivacy.planning.search import LARGEST_EPSILON
from panprivacy.privacy.budget import Split, and_delta, budget_of
from panprivacy.privacy.coins import Coins
from panprivacy.privacy.splitting import best_split
from panprivacy.release.appearing import MeanSpread, ShareSpread
from panprivacy.sizes import format_bytes
from panprivacy.table import Counters
from panprivacy.universe import Range, Universe


@dataclass(frozen=True, repr=False)
class CountsPlan:
    """A `Counts` to build, and the error that its last release will have, whoever appears how often."""

    universe: Universe
    """The users there could be."""
    up_to: int
    """How many appearances of a user count."""
    only: Literal["mean"] | None
    """What is released, if it is not everything."""
    split: Split
    """How the total epsilon is split between the state and what is released."""
    stderr: float
    """Standard error of each share of users who appear at least so often; with ``only="mean"``, of the mean at most."""
    alpha: float
    """The error in question, in the unit of `stderr`."""
    beta: float
    """How probable such an error may be."""
    probability: float
    """About P(error >= alpha)."""

    @property
    def epsilon(self) -> float:
        """The total budget."""
        return self.split.epsilon

    @property
    def delta(self) -> float:
        """The probability, at most, with which more than epsilon is lost: 0 with Laplace noise, which needs none."""
        return self.split.delta

    @property
    def memory(self) -> int:
        """Bytes that counters and bits take."""
        return 8 * Counters.words_for(self.universe.size, self.up_to)

    def build(self, *, coins: Coins | None = None) -> Counts:
        """Return the planned estimator, new and empty."""
        plan: dict[str, Any] = {"releases": self.split.releases, "delta": self.split.delta or None}
        return Counts(self.universe, self.epsilon, self.up_to, only=self.only, coins=coins, **plan)

    @property
    def code(self) -> str:
        """What `build` does, as a line of Python."""
        users = self.universe.size if isinstance(self.universe, Range) else "universe"
        return f"pp.Counts({users}, {', '.join(f'{word}={value!r}' for word, value in self._words().items())})"

    @property
    def command(self) -> str | None:
        """What `build` does, for a shell; None where that takes a list of users."""
        if not isinstance(self.universe, Range):
            return None
        words = " ".join(f"--{word.replace('_', '-')} {value}" for word, value in self._words().items())
        return f"panprivacy counts FILE -c NAME -n {self.universe.size} {words}"

    def _words(self) -> dict[str, Any]:
        """The keywords of the estimator besides its universe, without those that are left at their defaults."""
        words: dict[str, Any] = {"epsilon": self.epsilon, "up_to": self.up_to, "releases": self.split.releases}
        words |= {"only": self.only, "delta": self.split.delta or None}
        return {word: value for word, value in words.items() if value is not None and (word, value) != ("releases", 1)}

    def to_dict(self) -> dict[str, Any]:
        """Everything in the plan as plain numbers and words, for JSON."""
        budget = budget_of(self.split, self.split.releases, 0)
        return {
            "estimator": "Counts",
            "universe": self.universe.size,
            "up_to": self.up_to,
            "only": self.only,
            "memory": self.memory,
            "epsilon": self.epsilon,
            "epsilon_state": budget.state,
            "releases": budget.releases,
            "epsilon_release": budget.release_epsilon,
            "epsilon_total": budget.total,
            "delta": budget.delta,
            "noise_stderr": budget.noise_stderr,
            "stderr": self.stderr,
            "alpha": self.alpha,
            "beta": self.beta,
            "probability": self.probability,
        }

    def __repr__(self) -> str:
        return (
            f"<CountsPlan: {self.universe.describe()}, counted up to {self.up_to} times, in "
            f"{format_bytes(self.memory)}; epsilon {self.epsilon:g}; standard error {self.stderr:.4g} of "
            f"{self._of_what}; P(error >= {self.alpha:.4g}) about {self.probability:.2g}>"
        )

    def card(self) -> Card:
        """What is shown of it."""
        budget = budget_of(self.split, self.split.releases, 0)
        command: Rows = () if self.command is None else (("in a shell", self.command),)
        rows = (
            ("build", f"Counts of {self.universe.describe()}, up to {self.up_to} times each"),
            ("memory", format_bytes(self.memory)),
            ("epsilon in all", f"{self.epsilon:g}{and_delta(self.split.delta)}"),
            ("of the state", f"{budget.state:.4g}"),
            (
                "of the releases",
                f"{budget.total - budget.state:.4g}, noise ± {budget.noise_stderr:,.4g} on each number",
            ),
            ("standard error", f"{self.stderr:.4g} of {self._of_what}"),
            (f"P(error >= {self.alpha:.4g})", f"about {self.probability:.2g}"),
            ("in Python", self.code),
            *command,
        )
        return Card("CountsPlan", rows)

    __rich__ = grid_of
    _repr_html_ = html_of

    @property
    def _of_what(self) -> str:
        return "the mean, at most" if self.only else "each share"


@dataclass(frozen=True)
class CountsWish:
    """What is wanted of a `Counts`."""

    known: Universe | None
    epsilon: float | None
    up_to: int
    only: Literal["mean"] | None
    alpha: float | None
    beta: float
    releases: int
    delta: float | None = None

    def __post_init__(self) -> None:
        if self.epsilon is None and self.alpha is None:
            raise ValueError("give epsilon; or alpha, to be told the smallest epsilon")
        if self.epsilon is not None:
            check_epsilon(self.epsilon)
        most = self.up_to if self.only else 1
        if self.alpha is not None and not 0 < self.alpha < most:
            raise ValueError(f"alpha must be between 0 and {most}, got {self.alpha}")
        as_fraction("beta", self.beta)
        if self.delta is not None:
            check_delta(self.delta)

    @property
    def universe(self) -> Universe:
        """The users there could be."""
        if self.known is None:
            raise ValueError("a plan of Counts needs a universe: the users whose appearances are counted")
        return self.known

    def split(self, epsilon: float) -> Split:
        """The split that `Counts` makes of a budget."""
        places = None if self.only else self.up_to
        return best_split(epsilon, self.universe.size, self.releases, delta=self.delta, up_to=places)

    def beyond(self, split: Split) -> Callable[[float], float]:
        """The probability of an error of this size, or a larger one, of a share or of the mean."""
        users = self.universe.size
        if self.only:
            mean = MeanSpread(split.pair, users, users, users, split.noise)
            return lambda error: 2 * mean.cdf(-error / self.up_to, 0.5)
        share = ShareSpread(split.pair, users, users, users, split.noise, up_to=self.up_to)
        return lambda error: 2 * share.cdf(-error, 0.5)


def refuse_beside_counts(**asked: object) -> None:
    """Refuse what a `Counts` has no choice of."""
    for name, value in asked.items():
        if value is not None:
            raise ValueError(f"a plan of Counts knows no {name}: every user has a counter, which may be read once")


def best_counts(wish: CountsWish) -> CountsPlan:
    """The `Counts` of the least error, or of the least epsilon that keeps to one; with a delta, of the better noise."""
    if wish.delta is None:
        return _best_of_one_noise(wish)
    found = []
    for one in (replace(wish, delta=None), wish):
        try:
            found.append(_best_of_one_noise(one))
        except CannotPlan as error:
            impossible = error
    if not found:
        raise impossible
    return min(found, key=lambda plan: (plan.epsilon, plan.stderr))


def _best_of_one_noise(wish: CountsWish) -> CountsPlan:
    epsilon = _least_epsilon(wish) if wish.epsilon is None else wish.epsilon
    if epsilon is None:
        raise CannotPlan(
            f"alpha = {wish.alpha:g} is out of reach for {wish.universe.describe()} counted up to {wish.up_to} times "
            "at any epsilon: where counters stand is chance, too; a smaller up_to errs less"
        )
    split = wish.split(epsilon)
    beyond = wish.beyond(split)
    if wish.alpha is not None and beyond(wish.alpha) > wish.beta:
        more = _least_epsilon(wish)
        raise CannotPlan(
            f"alpha = {wish.alpha:g} with beta = {wish.beta:g} is out of reach for {wish.universe.describe()} at "
            f"epsilon = {epsilon:g}; possible: alpha = {_least_alpha(beyond, wish.beta):g} at epsilon = {epsilon:g}"
            f"{f'; or epsilon = {more:g} for alpha = {wish.alpha:g}' if more else ''}; a smaller up_to errs less"
        )
    alpha = _least_alpha(beyond, wish.beta) if wish.alpha is None else wish.alpha
    est = Counts(wish.universe.size, epsilon, wish.up_to, releases=wish.releases, only=wish.only, delta=wish.delta)
    stderr = est.mean_stderr if wish.only else est.share_stderr
    assert stderr is not None
    return CountsPlan(wish.universe, wish.up_to, wish.only, split, stderr, alpha, wish.beta, beyond(alpha))


def _least_alpha(beyond: Callable[[float], float], beta: float) -> float:
    """The error, rounded up to four digits, that is reached with probability beta."""
    from scipy.optimize import brentq

    high = 1e-6
    while beyond(high) > beta:
        high *= 2
    return rounded_up(brentq(lambda error: beyond(error) - beta, 0.0, high, xtol=1e-12))


def _least_epsilon(wish: CountsWish) -> float | None:
    """The smallest epsilon, to four digits, that keeps to alpha and beta, if there is one."""
    alpha = wish.alpha
    assert alpha is not None  # a wish without epsilon has one

    def enough(epsilon: float) -> bool:
        try:
            return wish.beyond(wish.split(epsilon))(alpha) <= wish.beta
        except ValueError:  # too little for any split
            return False

    if not enough(LARGEST_EPSILON):
        return None
    low, high = 0.0, LARGEST_EPSILON
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return rounded_up(high)  # where it is enough: bisection ends above what is needed

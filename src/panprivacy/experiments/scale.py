"""Sizes of the experiments: the paper's number of repetitions, or few of them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """The ranges of all experiments; the defaults are those of section 6.

    The paper does not say which epsilons it plots beyond ``epsilon <= 1/2``, nor alpha and beta of figure 1.
    """

    name: str = "full"
    universe: int = 100_000
    epsilons: tuple[float, ...] = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5)
    """Budgets of the state alone, which is what the paper calls epsilon."""
    alpha: float = 0.1
    beta: float = 0.05
    tail_repetitions: int = 1000
    """Repetitions of figure 4."""
    repetitions: int = 300
    """Repetitions of figures 5 to 8 and 10."""
    goal_repetitions: int = 8000
    """Repetitions of the two settings that figure 8 compares: enough to tell a factor of 31.6 from the goal of 30."""
    fractions: tuple[float, ...] = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
    """Sample sizes of figure 7, as shares of the universe."""
    ids: tuple[int, ...] = (100, 200, 500, 1000, 2000, 5000, 10_000)
    """Sizes of memory in figure 8, as numbers of ids that fit in."""
    coin_users: int = 1_000_000
    """Users whose bits figure 2 counts."""

    def sample(self, fraction: float) -> int:
        """The number of users that is this share of the universe."""
        return max(round(fraction * self.universe), 1)

    @property
    def goal_ids(self) -> int:
        """The memory at which figure 8 compares: ids for 1 % of the universe."""
        return self.sample(0.01)


FULL = Scale()
QUICK = Scale(
    name="quick",
    epsilons=(0.05, 0.1, 0.2, 0.35, 0.5),
    tail_repetitions=100,
    repetitions=40,
    goal_repetitions=200,
    fractions=(0.001, 0.005, 0.01, 0.05, 0.2, 1.0),
    ids=(100, 1000, 10_000),
    coin_users=200_000,
)

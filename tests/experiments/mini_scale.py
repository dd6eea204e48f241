"""A reproduction small enough for a test."""

from panprivacy.experiments.cells import Scale

MINI = Scale(
    name="mini",
    universe=2_000,
    epsilons=(0.2, 0.5),
    tail_repetitions=6,
    repetitions=5,
    goal_repetitions=24,
    fractions=(0.001, 0.01, 0.1, 1.0),
    ids=(20, 50),
    coin_users=20_000,
)

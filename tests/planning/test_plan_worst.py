"""The worst density is found."""

from fractions import Fraction

import pytest

from panprivacy.planning.law import Design, worst_case
from panprivacy.privacy.splitting import best_split

pytestmark = pytest.mark.slow


def designed(epsilon: float, bits: int, users: int, population: int) -> Design:
    split = best_split(epsilon, bits)
    return Design(split.pair, bits, users, population, split.noise)


@pytest.mark.parametrize(
    ("epsilon", "bits", "users", "population", "alpha"),
    [
        (0.4, 300, 300, 300, "0.45"),  # small: every density is tried
        (3.0, 1054, 1054, 1054, "0.023"),  # every user, and coins skewed enough to matter
        (0.4, 1500, 1500, 1500, "0.2"),
        (3.0, 250, 247, 1200, "0.05"),  # a sample, with slots that are nobody's
        (1.0, 400, 400, 1500, "0.13"),
        (1.0, 60, 60, 900, "0.6"),  # errors in one direction only
        (3.0, 40, 40, 1000, "0.004"),  # errors of less than one count
        (8.0, 466, 464, 886, "0.0542"),  # sampling errs more than coins and noise
        (5.0, 875, 875, 875, "0.0062"),  # three counts to a standard error
    ],
)
def test_search_finds_what_trying_every_density_finds(
    epsilon: float, bits: int, users: int, population: int, alpha: str
) -> None:
    design, error = designed(epsilon, bits, users, population), Fraction(alpha)
    every = max(design.error_probability(seen, error) for seen in range(population + 1))
    found = worst_case(design, error)
    assert found.probability == design.error_probability(found.seen, error)
    assert every * (1 - 1e-4) <= found.probability <= every


def test_a_sample_of_a_large_universe_errs_most_near_density_one_half() -> None:
    design = designed(1.0, 5000, 5000, 10**9)
    found = worst_case(design, Fraction(3, 100))
    assert found.seen / 10**9 == pytest.approx(0.5, abs=0.02)
    assert found.probability > design.error_probability(10**8, Fraction(3, 100))


def test_a_quick_look_is_never_above_the_thorough_one() -> None:
    for epsilon, size in ((0.4, 4000), (1.0, 900), (3.0, 100)):
        design = designed(epsilon, size, size, 10**6)
        alpha = Fraction(1, 10)
        assert worst_case(design, alpha, quick=True).probability <= worst_case(design, alpha).probability + 1e-12

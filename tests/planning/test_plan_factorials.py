"""Hypergeometric probabilities keep their digits at any size."""

from math import comb, fsum, log

import numpy as np
import pytest

from panprivacy.planning.law import log_hypergeometric


@pytest.mark.parametrize(
    ("population", "seen", "users"), [(10, 3, 4), (10, 8, 9), (60, 30, 25), (1_000, 7, 990), (5_000, 2_500, 100)]
)
def test_probabilities_are_those_of_the_binomial_coefficients(population: int, seen: int, users: int) -> None:
    possible = range(max(0, users + seen - population), min(users, seen) + 1)
    ways = np.array([comb(seen, k) * comb(population - seen, users - k) / comb(population, users) for k in possible])
    weights = np.exp(log_hypergeometric(np.array(possible) - users * seen / population, population, seen, users))
    assert weights / weights.sum() == pytest.approx(ways, rel=1e-11, abs=1e-300)


@pytest.mark.parametrize(
    ("population", "seen", "users"), [(10**9, 5 * 10**8, 10**8), (10**12, 10**11, 10**10), (10**9, 3000, 10**8)]
)
def test_ratios_are_exact_however_large_the_factorials(population: int, seen: int, users: int) -> None:
    mean, steps = users * seen // population, 200
    first, last = np.array([mean], dtype=float), np.array([mean + steps], dtype=float)
    excess = [k - users * seen / population for k in (first, last)]
    found = [log_hypergeometric(each, population, seen, users)[0] for each in excess]
    expected = fsum(
        log((seen - k) * (users - k)) - log((k + 1) * (population - seen - users + k + 1))
        for k in range(mean, mean + steps)
    )
    assert found[1] - found[0] == pytest.approx(expected, abs=1e-9)

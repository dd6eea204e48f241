"""Print the numbers that docs/explanation/planning.md states: ``python tests/planning/comparisons.py`` (some minutes).

The searches for the worst density and the smallest size against trying every density and every smaller size, on random
designs; and planned sizes beside those of the paper's bounds.
"""

from fractions import Fraction

import numpy as np

from panprivacy.estimates import ErrorModel
from panprivacy.planning import plan
from panprivacy.planning.law import Design, worst_case
from panprivacy.planning.search import Terms, smallest_size
from panprivacy.privacy.splitting import best_split
from panprivacy.theory import sample_size

_DESIGNS, _SIZES = 150, 100


def random_design(generator: np.random.Generator) -> tuple[Design, Fraction]:
    """A design of some hundred users, all of them or a sample, and an error of one to three and a half deviations."""
    population = int(generator.integers(513, 2_500))
    users = population if generator.random() < 0.5 else int(generator.integers(10, population))
    bits = users + (int(generator.integers(0, 5)) if users < population else 0)
    split = best_split(float(generator.choice([0.2, 0.4, 1, 2, 3, 5, 8])), bits)
    design = Design(split.pair, bits, users, population, split.noise)
    stderr = ErrorModel(design.pair, bits, users, population, design.noise).stderr(0.5)
    return design, Fraction(round(float(generator.uniform(1, 3.5)) * stderr, 4)).limit_denominator(10**4)


def compare_worst_densities() -> None:
    """How far below the worst of all densities the search ends."""
    generator = np.random.default_rng(11)
    short: list[float] = []
    while len(short) < _DESIGNS:
        design, alpha = random_design(generator)
        if not 0 < alpha < 1:
            continue
        every = max(design.error_probability(seen, alpha) for seen in range(design.population + 1))
        if every > 1e-6:
            short.append(1 - worst_case(design, alpha).probability / every)
    same = sum(each < 1e-12 for each in short)
    print(f"worst density: the same in {same} of {_DESIGNS} designs, else short by at most {max(short):.1e} of it")


def compare_smallest_sizes() -> None:
    """In how many cases a smaller size than the one found would do."""
    generator = np.random.default_rng(5)
    wrong = tried = 0
    while tried < _SIZES:
        universe = int(generator.choice([3, 8, 15, 30, 64, 100, 200, 400, 1_000, 3_000, 10**5, 10**9]))
        terms = Terms(universe, float(generator.choice([0.4, 1, 2, 5])))
        alpha = Fraction(round(float(generator.uniform(0.05, 0.9)), 3)).limit_denominator(1_000)
        beta = float(generator.choice([0.01, 0.05, 0.2, 0.3]))
        size = smallest_size(terms, alpha, beta, universe)
        end = universe + 1 if size is None else size
        if end > 1_000:
            continue
        tried += 1
        designs = (terms.design(smaller) for smaller in range(1, end))
        wrong += any(
            worst_case(design, alpha, quick=True).probability <= beta and worst_case(design, alpha).probability <= beta
            for design in designs
        )
    print(f"smallest size: a smaller one would do in {wrong} of {tried} cases")


def compare_with_the_paper() -> None:
    """Planned samples of a billion users beside the paper's."""
    for eps, alpha, beta in (
        (0.2, 0.1, 0.05),
        (0.2, 0.05, 0.05),
        (0.2, 0.01, 0.05),
        (0.5, 0.01, 0.01),
        (1.0, 0.01, 0.05),
    ):
        planned = plan(universe=10**9, epsilon=2 * eps, alpha=alpha, beta=beta)
        papers = {name: int(sample_size(name, eps, alpha, beta)) for name in ("optbern", "dwork")}
        ratios = ", ".join(f"{name} {size:,} ({size / planned.size:.1f} x)" for name, size in papers.items())
        print(f"eps {eps:g}, alpha {alpha:g}, beta {beta:g}: {planned.size:,}, P {planned.probability:.4f}; {ratios}")


if __name__ == "__main__":
    compare_with_the_paper()
    compare_smallest_sizes()
    compare_worst_densities()

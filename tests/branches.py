"""Programs that make random choices, followed along every branch."""

import heapq
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from itertools import count

from panprivacy.privacy import exact

Randbelow = Callable[[int], int]
Program = Callable[["Branch"], int]


class OpenEndError(Exception):
    """A program asked for one more choice than its branch has made."""

    def __init__(self, weights: list[Decimal]) -> None:
        self.weights = weights


class Branch:
    """One way through a program that makes random choices."""

    def __init__(self, choices: tuple[int, ...]) -> None:
        self._choices = iter(choices)

    def choose(self, weights: list[Decimal]) -> int:
        """The choice that this branch makes among outcomes of these probabilities."""
        for choice in self._choices:
            return choice
        raise OpenEndError(weights)

    def randbelow(self, n: int) -> int:
        """A uniform integer."""
        return self.choose([exact.decimal(Fraction(1, n))] * n)

    def bernoulli_exp(self, gamma: Fraction, _: object) -> bool:
        """A coin of probability ``exp(-gamma)``."""
        p = exact.exp(-exact.decimal(gamma))
        return self.choose([p, 1 - p]) == 0


def outcomes(program: Program, unexplored: str) -> dict[int, Decimal]:
    """Follow every branch of a program, the likeliest first, until what is left has less than this probability.

    The result is a lower bound of each outcome's probability, to 28 digits.
    """
    masses: dict[int, Decimal] = {}
    order = count()
    open_ends: list[tuple[Decimal, int, tuple[int, ...]]] = [(Decimal(-1), next(order), ())]
    left = Decimal(1)
    while left > Decimal(unexplored):
        negative, _, choices = heapq.heappop(open_ends)
        try:
            outcome = program(Branch(choices))
        except OpenEndError as end:
            for choice, weight in enumerate(end.weights):
                heapq.heappush(open_ends, (negative * weight, next(order), (*choices, choice)))
        else:
            masses[outcome] = masses.get(outcome, Decimal(0)) - negative
            left += negative
    return masses


def assert_law(masses: dict[int, Decimal], pmf: Callable[[int], Decimal]) -> None:
    """Assert that no outcome has more mass than it should, and none lacks more than was left unexplored."""
    left = 1 - sum(masses.values())
    for x in range(min(masses), max(masses) + 1):
        assert masses.get(x, 0) <= pmf(x) + Decimal("1e-20"), f"outcome {x} is too likely"
        assert pmf(x) <= masses.get(x, 0) + left + Decimal("1e-20"), f"outcome {x} is too rare"

"""The exact law of what a call returns, over every outcome of the coins it asks for."""

from collections.abc import Callable, Hashable
from fractions import Fraction
from typing import Any

from panprivacy.audit import EveryOutcome
from panprivacy.privacy.coins import Coins

SILENT = "ignore::panprivacy.paper.NotPrivateAsPrinted"
"""For `pytest.mark.filterwarnings`: these tests know what they are studying."""


def law(call: Callable[[Coins], Hashable]) -> dict[Hashable, Fraction]:
    """Each value that the call can return, with its probability."""
    coins = EveryOutcome()
    chances: dict[Hashable, Fraction] = {}
    for outcome in coins.outcomes(lambda: call(coins)):
        chances[outcome.value] = chances.get(outcome.value, Fraction(0)) + outcome.weight
    return chances


def outputs(make: Callable[[Coins], Any]) -> list[tuple[Any, float, float]]:
    """For every state that an algorithm can be in: the state, and the value and scale of the noise in its estimate."""
    coins = EveryOutcome()
    found = []

    def run() -> Hashable:
        est = make(coins)
        est.estimate()
        return est.state  # type: ignore[no-any-return]

    for outcome in coins.outcomes(run):
        (noised,) = outcome.noised  # one output, one noise
        assert not noised.whole
        found.append((outcome.value, float(noised.value), float(1 / noised.rate)))
    return found

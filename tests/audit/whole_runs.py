"""Whole runs under all coins: slow, and with nothing in common with the auditor but the coin source."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import permutations, product
from typing import Any

from panprivacy.audit.enumeration.outcomes import EveryOutcome

Run = tuple[Any, ...]


def all_runs(users: int, length: int, releases: int, verbs: tuple[str, ...]) -> Iterator[Run]:
    events = [(verb, user) for verb in verbs for user in range(users)]
    for size in range(length + 1):
        for stream in product(events, repeat=size):
            for places in product(range(size + 1), repeat=releases + 1):
                for order in permutations(range(releases + 1)):
                    marks = [("read",) if i == 0 else ("release",) for i in order]
                    run: list[Any] = []
                    for i in range(size + 1):
                        run += [mark for mark, place in zip(marks, sorted(places), strict=True) if place == i]
                        run += stream[i : i + 1]
                    yield tuple(run)


def without(run: Run, user: int) -> Run:
    return tuple(step for step in run if step[1:] != (user,))


def law_of(make: Any, run: Run) -> dict[Any, dict[tuple[Fraction, ...], Fraction]]:
    coins = EveryOutcome()

    def play() -> Any:
        est = make(coins)
        seen = None
        for verb, *user in run:
            if verb == "read":
                seen = tuple(est.bits)
            else:
                getattr(est, verb)(*user)
        return seen

    law: dict[Any, dict[tuple[Fraction, ...], Fraction]] = {}
    for outcome in coins.outcomes(play):
        values = tuple(number.value for number in outcome.noised)
        weights = law.setdefault(outcome.value, {})
        weights[values] = weights.get(values, Fraction(0)) + outcome.weight
    return law

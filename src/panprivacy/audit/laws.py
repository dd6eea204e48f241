"""Laws: the exact joint law of an estimator's state and of everything seen so far."""

from functools import cache
from math import gcd, lcm
from typing import NamedTuple, TypeAlias

from panprivacy.audit.machine import NOTHING, Machine, Step

GONE = -1
"""Stands for the state when nobody will look at it any more."""


class Glance(NamedTuple):
    """One thing seen: the whole state, by its number, or the sight of a release."""

    is_reading: bool
    what: int


Mass: TypeAlias = tuple[int, int, int]
"""The weight of one joint outcome: what was seen so far, the state now, and the share of the law's whole."""


class Law(NamedTuple):
    """A joint law in lowest terms: sorted masses that sum to `whole`."""

    masses: tuple[Mass, ...]
    whole: int


class Laws:
    """All laws met so far, each once, so that equal laws are one number and a step from a law is taken once."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.laws: list[Law] = []
        self._law_of: dict[Law, int] = {}
        self._histories: list[tuple[Glance, ...]] = [()]
        self._history_of: dict[tuple[int, Glance], int] = {}
        self.after = cache(self._after)
        self.read = cache(self._read)
        self.ended = cache(self._ended)
        first = machine.start
        self.start = self._law({(0, move.state): move.share for move in first.each}, first.whole)

    def history(self, number: int) -> tuple[Glance, ...]:
        """What was seen, in order."""
        return self._histories[number]

    def _after(self, law: int, step: Step) -> int:
        """The law after one more call."""
        masses, whole = self.laws[law]
        moves = {state: self.machine.moves(state, step) for _, state, _ in masses}
        scale = lcm(*(each.whole for each in moves.values()))
        shares: dict[tuple[int, int], int] = {}
        for history, state, share in masses:
            each, parts = moves[state]
            for move in each:
                seen = history if move.sight == NOTHING else self._seen(history, Glance(False, move.sight))
                key = seen, move.state
                shares[key] = shares.get(key, 0) + share * move.share * (scale // parts)
        return self._law(shares, whole * scale)

    def _read(self, law: int) -> int:
        """The law after someone has read the state."""
        masses, whole = self.laws[law]
        read = {(self._seen(history, Glance(True, state)), state): share for history, state, share in masses}
        return self._law(read, whole)

    def _ended(self, law: int) -> int:
        """The law of what was seen, once the state no longer matters."""
        masses, whole = self.laws[law]
        shares: dict[tuple[int, int], int] = {}
        for history, _, share in masses:
            shares[history, GONE] = shares.get((history, GONE), 0) + share
        return self._law(shares, whole)

    def _law(self, shares: dict[tuple[int, int], int], whole: int) -> int:
        common = gcd(whole, *shares.values())
        law = Law(tuple((*key, share // common) for key, share in sorted(shares.items())), whole // common)
        number = self._law_of.setdefault(law, len(self.laws))
        if number == len(self.laws):
            self.laws.append(law)
        return number

    def _seen(self, history: int, glance: Glance) -> int:
        number = self._history_of.setdefault((history, glance), len(self._histories))
        if number == len(self._histories):
            self._histories.append((*self._histories[history], glance))
        return number

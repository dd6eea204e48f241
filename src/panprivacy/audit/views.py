"""What an observer sees of a law: what stands open, and the numbers behind noise."""

from fractions import Fraction
from functools import cache
from typing import TypeAlias

from panprivacy.audit.laws import Laws
from panprivacy.audit.likelihood import Hidden, Weights
from panprivacy.audit.machine import Step
from panprivacy.audit.outcomes import Noised
from panprivacy.audit.search import Path

Visible: TypeAlias = tuple[tuple[object, ...], ...]
"""What is seen without noise: states, and what releases returned beside their noisy numbers."""


class Views:
    """Laws sorted by what is seen without noise; each thing seen has a number."""

    def __init__(self, laws: Laws) -> None:
        self._laws = laws
        self._hidden: dict[tuple[Noised, ...], Hidden] = {}
        self._visible_of: dict[Visible, int] = {}
        self.visible: list[Visible] = []
        self.of = cache(self._make_view)
        self._part = cache(self._make_part)

    def missing(self, law: int) -> Fraction:
        """The part of a law that was left out, since noise that stays in the state has infinitely many outcomes."""
        masses, whole = self._laws.laws[law]
        return max(1 - Fraction(sum(share for _, _, share in masses), whole), Fraction(0))

    def _make_view(self, law: int) -> dict[int, Weights]:
        masses, whole = self._laws.laws[law]
        view: dict[int, Weights] = {}
        for history, _, share in masses:
            visible, hidden = self._part(history)
            if visible not in view:
                view[visible] = Weights(whole)
            view[visible].add(hidden, share)
        return view

    def _make_part(self, history: int) -> tuple[int, Hidden]:
        """What was seen, parted into what stood open and what was behind noise."""
        visible: list[tuple[object, ...]] = []
        numbers: list[Noised] = []
        for glance in self._laws.history(history):
            if glance.is_reading:
                visible.append(("state", glance.what))
            else:
                sight = self._laws.machine.sights[glance.what]
                visible.append(("released", sight.returned, tuple(number.whole for number in sight.noised)))
                numbers.extend(sight.noised)
        key, behind = tuple(visible), tuple(numbers)
        seen = self._visible_of.setdefault(key, len(self.visible))
        if seen == len(self.visible):
            self.visible.append(key)
        return seen, self._hidden.setdefault(behind, Hidden(behind))


def steps_of(path: Path) -> tuple[Step, ...]:
    """The steps of a path in their order."""
    steps: list[Step] = []
    while path is not None:
        path, step = path
        steps.append(step)
    return tuple(reversed(steps))

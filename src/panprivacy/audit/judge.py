"""The worst of all timelines, kept with what it takes to show it."""

from dataclasses import dataclass
from decimal import Context, Decimal
from functools import cache
from typing import TypeAlias

from panprivacy.audit.laws import Laws
from panprivacy.audit.likelihood import Gap, Hidden, Weights, widest
from panprivacy.audit.machine import Step
from panprivacy.audit.outcomes import Noised
from panprivacy.audit.search import Finished, Path
from panprivacy.privacy import exact

Visible: TypeAlias = tuple[tuple[object, ...], ...]
"""What is seen without noise: states, and what releases returned beside their noisy numbers."""

_CONTEXT = Context(prec=50)
_LARGER = Decimal("1.000000000000000000000000000000000000000001")  # less is the rounding of another order of sums


@dataclass(frozen=True)
class Finding:
    """A gap between two laws, the steps that lead to each, and the noiseless part of what is seen."""

    gap: Gap
    steps_a: tuple[Step, ...]
    steps_b: tuple[Step, ...]
    visible: Visible
    rivals: tuple[Visible, ...]
    """What else could have been seen on that timeline."""


class Judge:
    """Compares the laws of finished timelines and remembers the widest gap."""

    def __init__(self, laws: Laws) -> None:
        self._laws = laws
        self._hidden: dict[tuple[Noised, ...], Hidden] = {}
        self._visible: list[Visible] = []
        self._visible_of: dict[Visible, int] = {}
        self._judged: set[frozenset[int]] = set()
        self._view = cache(self._make_view)
        self._part = cache(self._make_part)
        self.worst: Finding | None = None
        self.ratio = Decimal(1)
        self.settled = True

    @property
    def loss(self) -> Decimal:
        """The logarithm of the widest gap so far."""
        return exact.ln(self.ratio)

    def ratio_is_infinite(self) -> bool:
        """Whether the worst has been found."""
        return self.ratio.is_infinite()

    @property
    def timelines(self) -> int:
        """How many different sets of laws were compared."""
        return len(self._judged)

    def hear(self, finished: Finished) -> None:
        """Compare the laws of one timeline."""
        case = frozenset(finished)
        if len(case) < 2 or case in self._judged:
            return
        self._judged.add(case)
        laws = list(finished)
        views = [self._view(law) for law in laws]
        sights = dict.fromkeys(key for view in views for key in view)
        for visible in sights:
            if self.ratio.is_infinite():
                return
            gap = widest([view.get(visible) for view in views], beyond=self.ratio)
            if gap is None:
                continue
            self.settled &= gap.settled
            if gap.ratio > _CONTEXT.multiply(self.ratio, _LARGER):
                a, b = (_steps(finished[laws[i]]) for i in (gap.larger, gap.smaller))
                self.worst = Finding(gap, a, b, self._visible[visible], tuple(self._visible[i] for i in sights))
                self.ratio = gap.ratio

    def _make_view(self, law: int) -> dict[int, Weights]:
        """A law sorted by what is seen without noise."""
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
        seen = self._visible_of.setdefault(key, len(self._visible))
        if seen == len(self._visible):
            self._visible.append(key)
        return seen, self._hidden.setdefault(behind, Hidden(behind))


def _steps(path: Path) -> tuple[Step, ...]:
    steps: list[Step] = []
    while path is not None:
        path, step = path
        steps.append(step)
    return tuple(reversed(steps))

"""The worst of all timelines, kept with what it takes to show it."""

from dataclasses import dataclass
from decimal import Context, Decimal

from panprivacy.audit.laws import Laws
from panprivacy.audit.likelihood import Gap, widest
from panprivacy.audit.machine import Step
from panprivacy.audit.search import Finished
from panprivacy.audit.views import Views, Visible, steps_of
from panprivacy.privacy import exact

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
        self._views = Views(laws)
        self._judged: set[frozenset[int]] = set()
        self.worst: Finding | None = None
        self.ratio = Decimal(1)
        self.settled = True

    @property
    def loss(self) -> Decimal:
        """The logarithm of the widest gap so far."""
        return exact.ln(self.ratio)

    def is_certain(self) -> bool:
        """Whether nothing worse can come: something has been seen that rules a stream out."""
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
        views = [self._views.of(law) for law in laws]
        sights = dict.fromkeys(key for view in views for key in view)
        for visible in sights:
            if self.ratio.is_infinite():
                return
            gap = widest([view.get(visible) for view in views], beyond=self.ratio)
            if gap is None:
                continue
            self.settled &= gap.settled
            if gap.ratio > _CONTEXT.multiply(self.ratio, _LARGER):
                a, b = (steps_of(finished[laws[i]]) for i in (gap.larger, gap.smaller))
                seen = self._views.visible
                self.worst = Finding(gap, a, b, seen[visible], tuple(seen[i] for i in sights))
                self.ratio = gap.ratio

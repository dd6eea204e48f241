"""`Counts` by group or category with a bug each."""

from dataclasses import replace
from typing import Any

from panprivacy import Counts
from panprivacy.estimates import FrequencyRelease
from panprivacy.estimates.frequency import ShareErrors
from panprivacy.privacy.budget import Published


class ForgetsAGroup(Counts):
    """Adds up all groups but the last."""

    def _interpret(self, published: Published) -> FrequencyRelease:
        kept = published.noisy[: -self.up_to] + (0,) * self.up_to
        wrong = super()._interpret(published._replace(noisy=kept))
        return replace(wrong, groups=super()._interpret(published).groups)


class OneNoiseForTheTotal(Counts):
    """Takes the total for one count, though every group brought noise of its own to it."""

    def _law(self, ranges: Any = None, pair: Any = None) -> Any:
        law = super()._law(ranges, pair)
        assert isinstance(law, ShareErrors)
        return replace(law, times=1)


class CounterInEveryCategory(Counts):
    """Gives a user a counter in each category: who appears in both is seen twice."""

    def _redraw_one(self, user: Any, remove: bool) -> None:
        user, category = user
        flip = self._coins.flip(self._threshold(remove))
        each = self._slots.size // len(self.groups)
        self._table.redraw_one(each * self.groups.index(category) + user, flip, back=remove)


class MovesTheNextGroup(Counts):
    """Counts an event in the next group as well."""

    def _redraw_one(self, user: Any, remove: bool) -> None:
        super()._redraw_one(user, remove)
        slot = (self._slots.slot(self._events.index(user)) + 1) % self._slots.size
        self._table.redraw_one(slot, self._coins.flip(self._threshold(remove)), back=remove)

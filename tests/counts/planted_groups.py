"""`Counts` by group or category with a bug each."""

from dataclasses import replace
from typing import Any

from panprivacy import Counts
from panprivacy.privacy.ledger import Published
from panprivacy.release import FrequencyRelease
from panprivacy.release.appearing import ShareSpreads


class ForgetsAGroup(Counts):
    """Adds up all groups but the last."""

    def _interpret(self, published: Published) -> FrequencyRelease:
        kept = published.noisy[: -self.up_to] + (0,) * self.up_to
        wrong = super()._interpret(published._replace(noisy=kept))
        return replace(wrong, groups=super()._interpret(published).groups)


class OneNoiseForTheTotal(Counts):
    """Takes the total for one count, though every group brought noise of its own to it."""

    def _law(self, ranges: Any = None) -> Any:
        law = super()._law(ranges)
        assert isinstance(law, ShareSpreads)
        return replace(law, times=1)


class CounterInEveryCategory(Counts):
    """Gives a user a counter in each category: who appears in both is seen twice."""

    def _redraw_one(self, user: Any, remove: bool) -> None:
        user, category = user
        flip = self._coins.flip(self._threshold(remove))
        self._redraw_slot(2 * self.groups.index(category) + user, flip, remove)


class MovesTheNextGroup(Counts):
    """Counts an event in the next group as well."""

    def _redraw_slot(self, slot: int, flip: bool, remove: bool) -> None:
        super()._redraw_slot(slot, flip, remove)
        super()._redraw_slot((slot + 1) % self._slots.size, self._coins.flip(self._threshold(remove)), remove)

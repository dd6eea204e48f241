"""Adapters: stream verbs for what has none of its own, so that it can be audited."""

from collections.abc import Sequence
from typing import Any, Self

from panprivacy.continual import Continual
from panprivacy.continual.bits import drawn_bits
from panprivacy.continual.saved import Observed
from panprivacy.continual.shares import Shares
from panprivacy.continual.watch import Watch
from panprivacy.density import Density
from panprivacy.estimator import Estimator
from panprivacy.paper import LaplaceMechanism, RandomizedResponse
from panprivacy.privacy.budget import Budget
from panprivacy.privacy.coins import Coins
from panprivacy.retention import Retention
from panprivacy.state.merging import merge
from panprivacy.universe import Ids, Range


class Shards:
    """Shards of one universe, each fed the whole stream, that are merged for the first release and stay merged."""

    def __init__(self, parts: Sequence[Density]) -> None:
        self._parts = list(parts)

    @property
    def budget(self) -> Budget:
        """The budget of every part."""
        return self._parts[0].budget

    def update(self, user: Any) -> None:
        for part in self._parts:
            part.update(user)

    def update_many(self, ids: Ids) -> None:
        for part in self._parts:
            part.update_many(ids)

    def remove(self, user: Any) -> None:
        for part in self._parts:
            part.remove(user)

    def remove_many(self, ids: Ids) -> None:
        for part in self._parts:
            part.remove_many(ids)

    def rerandomize(self) -> None:
        for part in self._parts:
            part.rerandomize()

    def release(self) -> Any:
        if len(self._parts) > 1:
            self._parts = [merge(self._parts)]
        return self._parts[0].release()


class TwoCategories:
    """An estimator by category as its user meets it: able to appear in one category, and in the other, or in both."""

    def __init__(self, est: Estimator[Any], one: str, other: str) -> None:
        self._est = est
        self._one, self._other = one, other

    @property
    def budget(self) -> Budget:
        """That of the estimator."""
        return self._est.budget

    def update(self, user: Any) -> None:
        self._est.update(user, self._one)

    def update_other(self, user: Any) -> None:
        self._est.update(user, self._other)

    def update_many(self, ids: Ids) -> None:
        self._est.update_many(ids, self._one)

    def update_other_many(self, ids: Ids) -> None:
        self._est.update_many(ids, self._other)

    def remove(self, user: Any) -> None:
        self._est.remove(user, self._one)

    def remove_other(self, user: Any) -> None:
        self._est.remove(user, self._other)

    def rerandomize(self) -> None:
        self._est.rerandomize()

    def release(self) -> Any:
        return self._est.release()


class Observer(Continual):
    """Continual observation, its observations being what an audit takes for releases."""

    release = Continual.observe

    @classmethod
    def of(cls, shares: Shares, users: int, coins: Coins) -> Self:
        """An observer of a stream with deletions, by these shares; it moves as soon as one user more is seen."""
        density = drawn_bits(Range(users), users, shares, coins)
        return cls._of_parts(density, Observed(Watch(shares, bar=1), 1.0, 0.05, planned=1, insert_only=False))


class Periods(Retention):
    """Two periods, the first of which ends with the first release of an audit: that of the cohort."""

    def release(self, level: float = 0.95) -> Any:
        return super().release(level) if self.closed else self.close(level)


class Mechanism:
    """A mechanism of the static model: the data are held in the clear, and one answer is given about them."""

    def __init__(self, users: int, mechanism: RandomizedResponse | LaplaceMechanism) -> None:
        self._present = [0] * users
        self._mechanism = mechanism
        self.claimed_epsilon = mechanism.epsilon

    def update(self, user: int) -> None:
        self._present[user] = 1

    def remove(self, user: int) -> None:
        self._present[user] = 0

    def release(self) -> Any:
        if isinstance(self._mechanism, RandomizedResponse):
            return self._mechanism.answer(self._present)
        return self._mechanism.release(self._present)

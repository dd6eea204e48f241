"""Adapters: stream verbs for what has none of its own, so that it can be audited."""

from collections.abc import Sequence
from typing import Any

from panprivacy.continual import Continual
from panprivacy.density import Density
from panprivacy.paper import LaplaceMechanism, RandomizedResponse
from panprivacy.privacy.budget import Budget
from panprivacy.state.merging import merge
from panprivacy.universe import Ids


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


class Observer(Continual):
    """Continual observation, its observations being what an audit takes for releases."""

    release = Continual.observe


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

"""An estimator as a machine: from each state of its memory, what one call makes of it, with exact probabilities.

Every entry of the machine comes from running the estimator's own method on a copy of an object that is in that
state, once for each outcome of its coins. Since the state is the whole memory, what a call does next depends on
nothing else, and long streams can be put together from single calls.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import lcm
from typing import Any, NamedTuple, TypeAlias

from panprivacy.audit.copying import clone
from panprivacy.audit.memory import Frozen, freeze
from panprivacy.audit.outcomes import EveryOutcome, Noised
from panprivacy.privacy.coins import Coins

Make: TypeAlias = Callable[[Coins], Any]
"""Builds the estimator that is audited, on the coins that it is given."""

NOTHING = 0
"""The sight of a call that publishes nothing."""


class Step(NamedTuple):
    """A call: a verb of the estimator, and for events the positions of the users it is about."""

    verb: str
    users: tuple[int, ...] = ()


class Sight(NamedTuple):
    """What a release shows: the numbers behind noise, and the memory of what it returned beside them."""

    noised: tuple[Noised, ...]
    returned: Frozen


class Move(NamedTuple):
    """One outcome of a call: the state after it, the sight that was published, and its share of the whole."""

    state: int
    sight: int
    share: int


class Moves(NamedTuple):
    """All outcomes of a call from one state; shares sum to `whole`."""

    each: tuple[Move, ...]
    whole: int


class Machine:
    """The states that an estimator can reach, found as they are asked for."""

    def __init__(self, make: Make, users: Sequence[Any], reach: int | None = None) -> None:
        self.users = tuple(users)
        self.memories: list[Frozen] = []
        self.sights: list[Sight] = [Sight((), None)]
        self.returned: dict[Frozen, str] = {}
        """What releases returned, as it prints."""
        self.estimators: list[Any] = []  # one in each state, to be copied and never called
        self._state_of: dict[Frozen, int] = {}
        self._sight_of: dict[Sight, int] = {self.sights[NOTHING]: NOTHING}
        self._known: dict[tuple[int, Step], Moves] = {}
        self._coins = EveryOutcome(reach)
        self.most_outcomes = 1
        """Ways in which a single event can go, at most, so far."""
        self.start = self._enumerate(lambda: (make(self._coins), None), publishes=False)

    @property
    def sample(self) -> Any:
        """The estimator in one of its first states, to be asked what it claims."""
        return self.estimators[0]

    @property
    def reach(self) -> int | None:
        """How far from zero numbers with noise were followed that stay in the state; None if there are none."""
        return self._coins.reach if self._coins.cut else None

    def can(self, verb: str) -> bool:
        """Whether the estimator has such a method."""
        return callable(getattr(self.sample, verb, None))

    def moves(self, state: int, step: Step) -> Moves:
        """What a call does to a state."""
        key = state, step
        if key not in self._known:
            self._known[key] = self._enumerate(lambda: self._call(state, step), publishes=not _is_event(step))
            if len(step.users) == 1:
                self.most_outcomes = max(self.most_outcomes, self._coins.walked)
        return self._known[key]

    def _call(self, state: int, step: Step) -> tuple[Any, Any]:
        est = clone(self.estimators[state])
        method = getattr(est, step.verb)
        users = [self.users[i] for i in step.users]
        if step.verb.endswith("_many"):
            return est, method(users)
        return est, method(*users)

    def _enumerate(self, call: Callable[[], tuple[Any, Any]], *, publishes: bool) -> Moves:
        shares: dict[tuple[int, int], Fraction] = {}
        for outcome in self._coins.outcomes(call):
            est, returned = outcome.value
            if outcome.noised and not publishes:
                raise NotImplementedError("noise was drawn into the state, which has infinitely many outcomes")
            key = self._state(est), self._sight(outcome.noised, returned) if publishes else NOTHING
            shares[key] = shares.get(key, Fraction(0)) + outcome.weight
        whole = lcm(*(share.denominator for share in shares.values()))
        return Moves(tuple(Move(*key, int(share * whole)) for key, share in sorted(shares.items())), whole)

    def _state(self, est: Any) -> int:
        memory = freeze(est)
        state = self._state_of.setdefault(memory, len(self.memories))
        if state == len(self.memories):
            self.memories.append(memory)
            self.estimators.append(est)
        return state

    def _sight(self, noised: tuple[Noised, ...], returned: Any) -> int:
        sight = Sight(noised, freeze(returned))
        self.returned.setdefault(sight.returned, repr(returned))
        found = self._sight_of.setdefault(sight, len(self.sights))
        if found == len(self.sights):
            self.sights.append(sight)
        return found


def _is_event(step: Step) -> bool:
    return bool(step.users) or step.verb == "rerandomize"

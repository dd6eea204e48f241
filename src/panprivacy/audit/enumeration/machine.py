"""An estimator as a machine: what one call makes of each state, and the exact laws that streams of calls lead to.

Every entry of `Machine` comes from running the estimator's own method on a copy of an object in that state, once for
each outcome of its coins. The state is the whole memory, so what a call does next depends on nothing else, and `Laws`
composes long streams of single calls: the joint law of the state and of everything that was seen so far.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from math import gcd, lcm
from typing import Any, NamedTuple, TypeAlias

from panprivacy.audit.enumeration.memories import Frozen, clone, freeze
from panprivacy.audit.enumeration.outcomes import EveryOutcome, Noised
from panprivacy.privacy.coins import Coins

Make: TypeAlias = Callable[[Coins], Any]
"""Builds the estimator that is audited, on the coins that it is given."""

NOTHING = 0
"""The sight of a call that publishes nothing."""

GONE = -1
"""Stands for a state that is not observed any more."""


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

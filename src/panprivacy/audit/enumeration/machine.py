"""The memory and the laws of an estimator as a machine: what one call makes of each state, and where streams lead.

Every entry of `Machine` comes from running the estimator's own method on a copy of an object in that state, once for
each outcome of its coins. The state is the whole memory, so what a call does next depends on nothing else, and `Laws`
composes long streams of single calls: the joint law of the state and of everything that was seen so far.

**Memory.** The state is the memory of an object as an intruder finds it, compared by content, and copied. Nothing is
left out but the coin source of the auditor itself, locks, and code. An attribute that an estimator keeps in addition to
its bits, such as a count of events or the key of a generator, is therefore audited, too.
"""

import copy
import ctypes
import sys
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import cache, cached_property
from math import gcd, lcm
from threading import Lock, RLock
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from panprivacy.audit.enumeration.outcomes import EveryOutcome, Noised
from panprivacy.privacy.coins import Coins

T = TypeVar("T", bound=Hashable)

Frozen: TypeAlias = Hashable
"""A memory as nested tuples that compare and hash by content."""

LOCKS = (type(Lock()), type(RLock()))

ATOMS = (type(None), bool, int, float, complex, str, bytes, Fraction, Decimal, Enum)
CODE = (type, ModuleType, FunctionType)
METHODS = (MethodType, BuiltinFunctionType)
"""Code bound to an object; functions of compiled modules are bound to their module."""
Seen: TypeAlias = dict[int, tuple[Any, Any]]
"""Objects met on a walk, by id: what became of each, and the object, lest it be freed and its id used again."""


def attributes(thing: object) -> Iterator[tuple[str, Any]]:
    """The attributes of an object, those in slots first, in the order in which they lie in memory."""
    kind: Any = type(thing)
    for name in _slots(kind):
        if hasattr(thing, name):
            yield name, getattr(thing, name)
    yield from getattr(thing, "__dict__", {}).items()


@cache
def _slots(kind: Any) -> tuple[str, ...]:
    named = (vars(parent).get("__slots__", ()) for parent in kind.__mro__)
    listed = [name for slots in named for name in ((slots,) if isinstance(slots, str) else slots)]
    return tuple(name for name in listed if name not in ("__dict__", "__weakref__"))


def freeze(thing: Any, seen: Seen | None = None) -> Frozen:
    """Turn a memory into something that compares by content.

    >>> freeze([1, {2: 3}]) == freeze([1, {2: 3}]), freeze([1]) == freeze([2])
    (True, False)
    """
    kind: Any = type(thing)
    seen = {} if seen is None else seen
    if kind in (int, str, bytes):
        return thing  # type: ignore[no-any-return]
    if not issubclass(kind, _UNSHARED):
        if id(thing) in seen:
            return ("again", seen[id(thing)][0])
        seen[id(thing)] = (len(seen), thing)
    content, _ = _handling(kind)
    return (kind.__qualname__, *content(thing, seen))


def clone(thing: Any, made: Seen | None = None) -> Any:
    """Copy a memory whole, sharing nothing that can change, so that a call on the copy leaves the original be.

    Unlike `copy.deepcopy` it asks no `__reduce__`, which may save less than there is, and it can copy locks and
    views of arrays. The coin source is shared.
    """
    kind: Any = type(thing)
    _, make = _handling(kind)
    if make is None:
        return thing
    made = {} if made is None else made
    if id(thing) not in made:
        made[id(thing)] = (make(thing, made), thing)
    return made[id(thing)][0]


def tombstones(members: set[Any] | frozenset[Any]) -> int:
    """How many cells in the table behind a set are marked as "somebody was here": a removal leaves such a mark."""
    if sys.implementation.name != "cpython":
        return 0
    fill = ctypes.c_ssize_t.from_address(id(members) + object.__basicsize__).value  # cells in use, dead ones included
    return fill - len(members)


def _named(thing: object, seen: Seen) -> tuple[Frozen, ...]:
    return tuple([(name, freeze(value, seen)) for name, value in attributes(thing)])


def _items(thing: Any, seen: Seen) -> tuple[Frozen, ...]:
    pairs = thing.items() if isinstance(thing, dict) else thing
    return (*[freeze(item, seen) for item in pairs], *_named(thing, seen))


def _members(thing: Any, seen: Seen) -> tuple[Frozen, ...]:
    # The table behind a set tells more than its members: the order they stand in, how large it was, who was removed.
    return (sys.getsizeof(thing), tombstones(thing), *_items(thing, seen))


def _array(thing: Any, seen: Seen) -> tuple[Frozen, ...]:
    content = freeze(thing.tolist(), seen) if thing.dtype.hasobject else thing.tobytes()
    return thing.dtype.str, thing.shape, content


def _copy_plain(thing: Any, made: Seen) -> Any:
    new = object.__new__(type(thing))
    made[id(thing)] = (new, thing)  # before its attributes, which may point back to it
    for name, value in attributes(thing):
        object.__setattr__(new, name, clone(value, made))
    return new


def _copy_array(array: Any, made: Seen) -> Any:
    if not isinstance(array.base, np.ndarray) or array.dtype.hasobject:
        return copy.deepcopy(array)
    base = clone(array.base, made)
    offset = array.ctypes.data - array.base.ctypes.data
    return np.ndarray(array.shape, array.dtype, base, offset, array.strides)


def _copy_container(thing: Any, made: Seen) -> Any:
    new = copy.copy(thing)
    made[id(thing)] = (new, thing)
    new.clear()
    if isinstance(thing, dict):
        for key, value in thing.items():
            new[clone(key, made)] = clone(value, made)
    else:
        new.extend(clone(item, made) for item in thing)
    return new


def _copy_method(method: Any, made: Seen) -> Any:
    owner = clone(method.__self__, made)
    return MethodType(method.__func__, owner) if isinstance(method, MethodType) else getattr(owner, method.__name__)


def _without_closure(function: FunctionType) -> FunctionType:
    """The function, refused if it could carry state."""
    if function.__closure__:
        raise TypeError(f"{function.__qualname__} may hide state in its closure, where the auditor cannot follow")
    return function


Handling: TypeAlias = tuple[Callable[[Any, Seen], tuple[Frozen, ...]], Callable[[Any, Seen], Any] | None]
"""How to list what an object holds, and how to copy it; None for what cannot change."""

_HANDLING: tuple[tuple[tuple[type, ...], Handling], ...] = (
    ((EveryOutcome,), (lambda *_: (), None)),
    ((type(RLock()),), (lambda *_: (), lambda *_: RLock())),
    (LOCKS, (lambda *_: (), lambda *_: Lock())),
    (
        (FunctionType,),
        (lambda thing, _: (_without_closure(thing).__qualname__,), lambda thing, _: _without_closure(thing)),
    ),
    ((*ATOMS, *CODE), (lambda thing, _: (repr(thing),), None)),  # 1, True and 1.0 compare equal
    ((np.ndarray,), (_array, _copy_array)),
    ((np.generic,), (lambda thing, seen: (thing.dtype.str, freeze(thing.item(), seen)), None)),
    ((bytearray,), (lambda thing, _: (bytes(thing),), lambda thing, _: copy.copy(thing))),
    (
        (memoryview,),
        (lambda thing, _: (bytes(thing),), lambda x, made: memoryview(clone(x.obj, made)).cast("B").cast(x.format)),
    ),
    ((frozenset,), (_members, None)),
    ((set,), (_members, lambda thing, _: copy.copy(thing))),
    ((tuple,), (_items, lambda thing, made: tuple.__new__(type(thing), [clone(item, made) for item in thing]))),
    ((dict, list, deque), (_items, _copy_container)),
    (METHODS, (lambda thing, seen: (thing.__name__, freeze(thing.__self__, seen)), _copy_method)),
)

_UNSHARED = (*ATOMS, *CODE, *METHODS, tuple, frozenset)
"""What cannot change: whether two equal ones are one object is the interpreter's affair."""


@cache
def _handling(kind: Any) -> Handling:
    for kinds, handling in _HANDLING:
        if issubclass(kind, kinds):
            return handling
    made_in_python = kind.__flags__ & (1 << 9)  # Py_TPFLAGS_HEAPTYPE
    keeps_own_state = getattr(kind, "__getstate__", None) is not getattr(object, "__getstate__", None)
    if made_in_python and kind.__new__ is object.__new__ and not keeps_own_state:
        return _named, _copy_plain  # its attributes are all there is
    # An object of compiled code is what it would be pickled as.
    return lambda thing, seen: (freeze(thing.__reduce_ex__(4), seen),), lambda thing, _: copy.deepcopy(thing)


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


class Numbered(list[T]):
    """A list in which equal things have one number."""

    def __init__(self, *first: T) -> None:
        super().__init__(first)
        self._numbers = {thing: number for number, thing in enumerate(first)}

    def number(self, thing: T) -> int:
        """The number of a thing, which is listed if it is new."""
        number = self._numbers.setdefault(thing, len(self))
        if number == len(self):
            self.append(thing)
        return number


class Machine:
    """The states that an estimator can reach, found as they are asked for."""

    def __init__(self, make: Make, users: Sequence[Any], reach: int | None = None) -> None:
        self.users = tuple(users)
        self.memories: Numbered[Frozen] = Numbered()
        self.sights = Numbered(Sight((), None))
        self.returned: dict[Frozen, str] = {}
        """What releases returned, as it prints."""
        self.estimators: list[Any] = []  # one in each state, to be copied and never called
        self.moves = cache(self._make_moves)
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

    @cached_property
    def release(self) -> Step:
        """The call that makes a release: of an estimator with several kinds of release, the one that is due."""
        return Step(next((verb for verb in ("next_release", "release") if self.can(verb)), "estimate"))

    def _make_moves(self, state: int, step: Step) -> Moves:
        """What a call does to a state."""
        publishes = not step.users and step.verb != "rerandomize"
        moves = self._enumerate(lambda: self._call(state, step), publishes=publishes)
        if len(step.users) == 1:
            self.most_outcomes = max(self.most_outcomes, self._coins.walked)
        return moves

    def after(self, state: int, steps: Sequence[Step]) -> dict[int, Fraction]:
        """The law of the state after several calls."""
        law = {state: Fraction(1)}
        for step in steps:
            after: dict[int, Fraction] = {}
            for at, weight in law.items():
                each, whole = self.moves(at, step)
                for move in each:
                    after[move.state] = after.get(move.state, Fraction(0)) + weight * Fraction(move.share, whole)
            law = after
        return law

    def _call(self, state: int, step: Step) -> tuple[Any, Any]:
        est = clone(self.estimators[state])
        users = [self.users[i] for i in step.users]
        return est, getattr(est, step.verb)(*([users] if step.verb.endswith("_many") else users))

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
        state = self.memories.number(freeze(est))
        if state == len(self.estimators):
            self.estimators.append(est)
        return state

    def _sight(self, noised: tuple[Noised, ...], returned: Any) -> int:
        sight = Sight(noised, freeze(returned))
        self.returned.setdefault(sight.returned, repr(returned))
        return self.sights.number(sight)


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
        self.laws: Numbered[Law] = Numbered()
        self.histories: Numbered[tuple[Glance, ...]] = Numbered(())
        """What was seen, in order."""
        self.after = cache(self._after)
        self.read = cache(self._read)
        self.ended = cache(self._ended)
        first = machine.start
        self.start = self._law({(0, move.state): move.share for move in first.each}, first.whole)

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
        masses = tuple((*key, share // common) for key, share in sorted(shares.items()))
        return self.laws.number(Law(masses, whole // common))

    def _seen(self, history: int, glance: Glance) -> int:
        return self.histories.number((*self.histories[history], glance))

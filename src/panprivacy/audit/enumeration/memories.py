"""The whole memory of an object, as an intruder finds it: compared by content, and copied.

Nothing is left out but the coin source of the auditor itself, locks, and code. An attribute that an estimator keeps
in addition to its bits, such as a count of events or the key of a generator, is therefore audited, too.
"""

import copy
import ctypes
import sys
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import cache
from threading import Lock, RLock
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, TypeAlias

import numpy as np

from panprivacy.audit.enumeration.outcomes import EveryOutcome

Frozen: TypeAlias = Hashable
"""A memory as nested tuples that compare and hash by content."""

LOCKS = (type(Lock()), type(RLock()))

ATOMS = (type(None), bool, int, float, complex, str, bytes, Fraction, Decimal, Enum)
CODE = (type, ModuleType, FunctionType)
METHODS = (MethodType, BuiltinFunctionType)
"""Code bound to an object; functions of compiled modules are bound to their module."""
Seen: TypeAlias = dict[int, tuple[Any, Any]]
"""Objects met on a walk, by id: what became of each, and the object, lest it be freed and its id used again."""


def freeze(thing: object) -> Frozen:
    """Turn a memory into something that compares by content.

    >>> freeze([1, {2: 3}]) == freeze([1, {2: 3}]), freeze([1]) == freeze([2])
    (True, False)
    """
    return _freeze(thing, {})


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


def _freeze(thing: Any, seen: Seen) -> Frozen:
    kind: Any = type(thing)
    if kind in (int, str, bytes):
        return thing  # type: ignore[no-any-return]
    if not issubclass(kind, _UNSHARED):
        if id(thing) in seen:
            return ("again", seen[id(thing)][0])
        seen[id(thing)] = (len(seen), thing)
    return (kind.__qualname__, *_content(kind)(thing, seen))


@cache
def _content(kind: Any) -> Callable[[Any, Seen], tuple[Frozen, ...]]:
    """How to list what an object of this type holds."""
    for kinds, content in _CONTENTS:
        if issubclass(kind, kinds):
            return content
    return _named if is_plain(kind) else _compiled


def _named(thing: object, seen: Seen) -> tuple[Frozen, ...]:
    return tuple([(name, _freeze(value, seen)) for name, value in attributes(thing)])


def _items(thing: Any, seen: Seen) -> tuple[Frozen, ...]:
    pairs = thing.items() if isinstance(thing, dict) else thing
    return (*[_freeze(item, seen) for item in pairs], *_named(thing, seen))


def tombstones(members: set[Any] | frozenset[Any]) -> int:
    """How many cells in the table behind a set are marked as "somebody was here": a removal leaves such a mark."""
    if sys.implementation.name != "cpython":
        return 0
    fill = ctypes.c_ssize_t.from_address(id(members) + object.__basicsize__).value  # cells in use, dead ones included
    return fill - len(members)


def _members(thing: Any, seen: Seen) -> tuple[Frozen, ...]:
    # The table behind a set tells more than its members: the order they stand in, how large it was, who was removed.
    return (sys.getsizeof(thing), tombstones(thing), *_items(thing, seen))


def _array(thing: Any, seen: Seen) -> tuple[Frozen, ...]:
    content = _freeze(thing.tolist(), seen) if thing.dtype.hasobject else thing.tobytes()
    return thing.dtype.str, thing.shape, content


def _compiled(thing: Any, seen: Seen) -> tuple[Frozen, ...]:
    """What an object of compiled code would be pickled as."""
    return (_freeze(thing.__reduce_ex__(4), seen),)


_CONTENTS: tuple[tuple[tuple[type, ...], Callable[[Any, Seen], tuple[Frozen, ...]]], ...] = (
    ((EveryOutcome, *LOCKS), lambda thing, seen: ()),  # noqa: ARG005
    ((FunctionType,), lambda thing, seen: (without_closure(thing).__qualname__,)),  # noqa: ARG005
    ((*ATOMS, *CODE), lambda thing, seen: (repr(thing),)),  # noqa: ARG005 (1, True and 1.0 compare equal)
    ((np.ndarray,), _array),
    ((np.generic,), lambda thing, seen: (thing.dtype.str, _freeze(thing.item(), seen))),
    ((bytearray, memoryview), lambda thing, seen: (bytes(thing),)),  # noqa: ARG005
    ((set, frozenset), _members),
    ((dict, list, tuple, deque), _items),
    (METHODS, lambda thing, seen: (thing.__name__, _freeze(thing.__self__, seen))),
)

_UNSHARED = (*ATOMS, *CODE, *METHODS, tuple, frozenset)
"""What cannot change: whether two equal ones are one object is the interpreter's affair."""


@cache
def is_plain(kind: Any) -> bool:
    """Whether the attributes are all there is: an ordinary object of a class written in Python."""
    made_in_python = kind.__flags__ & (1 << 9)  # Py_TPFLAGS_HEAPTYPE
    keeps_own_state = getattr(kind, "__getstate__", None) is not getattr(object, "__getstate__", None)
    return bool(made_in_python) and kind.__new__ is object.__new__ and not keeps_own_state


def without_closure(function: FunctionType) -> FunctionType:
    """The function, refused if it could carry state."""
    if function.__closure__:
        raise TypeError(f"{function.__qualname__} may hide state in its closure, where the auditor cannot follow")
    return function


def clone(thing: Any) -> Any:
    """Copy a memory whole, sharing nothing that can change, so that a call on the copy leaves the original be.

    Unlike `copy.deepcopy` it asks no `__reduce__`, which may save less than there is, and it can copy locks and
    views of arrays. The coin source is shared.
    """
    return _clone(thing, {})


def _clone(thing: Any, made: Seen) -> Any:
    kind: Any = type(thing)
    make = _copier(kind)
    if make is None:
        return thing
    if id(thing) not in made:
        made[id(thing)] = (make(thing, made), thing)
    return made[id(thing)][0]


@cache
def _copier(kind: Any) -> Callable[[Any, Seen], Any] | None:
    """How to copy an object of this type; None for what cannot change."""
    for kinds, make in _COPIERS:
        if issubclass(kind, kinds):
            return make
    return _copy_plain if is_plain(kind) else _copy_compiled


def _copy_plain(thing: Any, made: Seen) -> Any:
    new = object.__new__(type(thing))
    made[id(thing)] = (new, thing)  # before its attributes, which may point back to it
    for name, value in attributes(thing):
        object.__setattr__(new, name, _clone(value, made))
    return new


def _copy_array(array: Any, made: Seen) -> Any:
    if not isinstance(array.base, np.ndarray) or array.dtype.hasobject:
        return copy.deepcopy(array)
    base = _clone(array.base, made)
    offset = array.ctypes.data - array.base.ctypes.data
    return np.ndarray(array.shape, array.dtype, base, offset, array.strides)


def _copy_container(thing: Any, made: Seen) -> Any:
    new = copy.copy(thing)
    made[id(thing)] = (new, thing)
    new.clear()
    if isinstance(thing, dict):
        for key, value in thing.items():
            new[_clone(key, made)] = _clone(value, made)
    else:
        new.extend(_clone(item, made) for item in thing)
    return new


def _copy_method(method: Any, made: Seen) -> Any:
    owner = _clone(method.__self__, made)
    return MethodType(method.__func__, owner) if isinstance(method, MethodType) else getattr(owner, method.__name__)


def _copy_compiled(thing: Any, made: Seen) -> Any:  # noqa: ARG001
    return copy.deepcopy(thing)


_COPIERS: tuple[tuple[tuple[type, ...], Callable[[Any, Seen], Any] | None], ...] = (
    ((*ATOMS, frozenset, np.generic, EveryOutcome), None),
    ((FunctionType,), lambda thing, made: without_closure(thing)),  # noqa: ARG005
    (CODE, None),
    ((type(RLock()),), lambda thing, made: RLock()),  # noqa: ARG005
    (LOCKS, lambda thing, made: Lock()),  # noqa: ARG005
    ((np.ndarray,), _copy_array),
    ((memoryview,), lambda thing, made: memoryview(_clone(thing.obj, made)).cast("B").cast(thing.format)),
    ((bytearray, set), lambda thing, made: copy.copy(thing)),  # noqa: ARG005
    ((tuple,), lambda thing, made: tuple.__new__(type(thing), [_clone(item, made) for item in thing])),
    ((dict, list, deque), _copy_container),
    (METHODS, _copy_method),
)

"""Copies of whole memories."""

import copy
from collections import deque
from collections.abc import Callable
from functools import cache
from threading import Lock, RLock
from types import FunctionType, MethodType
from typing import Any, TypeAlias

import numpy as np

from panprivacy.audit.memory import ATOMS, CODE, LOCKS, METHODS, Seen, attributes, is_plain, without_closure
from panprivacy.audit.outcomes import EveryOutcome

_Walk: TypeAlias = Callable[[Any, Seen], Any]


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
def _copier(kind: Any) -> _Walk | None:
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


_COPIERS: tuple[tuple[tuple[type, ...], _Walk | None], ...] = (
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

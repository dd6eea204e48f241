"""Which class reads which state. Classes are named here and imported when a state of theirs is read."""

from importlib import import_module
from typing import Any

from panprivacy.errors import CorruptState
from panprivacy.state.sealed import Sealed

_CLASSES = {
    1: "panprivacy.density:Density",
    2: "panprivacy.distinct:DistinctCount",
    3: "panprivacy.paper.fixed_level:FixedLevelPPDS",
    4: "panprivacy.continual.observer:Continual",
    5: "panprivacy.counts:Counts",
    6: "panprivacy.actives:ActiveUsers",
    7: "panprivacy.retention:Retention",
    8: "panprivacy.folder.parts:Alone",
    9: "panprivacy.folder.parts:Alone",
}


def register(kind: int, where: str) -> None:
    """Have states of a kind read by a class, named like ``package.module:Class``, with a method `from_sealed`."""
    if _CLASSES.setdefault(kind, where) != where:
        raise ValueError(f"states of kind {kind} are read by {_CLASSES[kind]}")


def class_of(kind: int) -> Any:
    """The class that reads states of a kind."""
    if kind not in _CLASSES:
        raise CorruptState(f"nobody here reads states of kind {kind}; a newer release may")
    module, _, name = _CLASSES[kind].partition(":")
    return getattr(import_module(module), name)


def loaded(parts: Sealed, universe: Any = None) -> Any:
    """The estimator that a state is of."""
    return class_of(parts.kind).from_sealed(parts, universe)

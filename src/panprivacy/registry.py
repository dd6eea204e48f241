"""The estimators of the package: one line each. Other rooms ask here, and name no classes.

A class is named like ``package.module:Class`` and imported when it is asked for. Its `TRAITS` say the rest
(`panprivacy.estimators.traits`).
"""

from importlib import import_module
from typing import Any

from panprivacy.errors import CorruptState, InvalidValue

_CLASSES = {
    1: "panprivacy.estimators.density:Density",
    2: "panprivacy.estimators.distinct:DistinctCount",
    3: "panprivacy.paper.fixed_level:FixedLevelPPDS",
    4: "panprivacy.estimators.continual:Continual",
    5: "panprivacy.estimators.counts:Counts",
    6: "panprivacy.estimators.actives:ActiveUsers",
    7: "panprivacy.estimators.retention:Retention",
    8: "panprivacy.folder.shards:NotLoadable",
    9: "panprivacy.folder.shards:NotLoadable",
}
"""The class that reads states of a kind, by the number of the kind: the `KIND` of the class."""


def register(kind: int, where: str) -> None:
    """Add a class that reads states of a kind with its method `from_sealed`; an estimator also has `TRAITS`."""
    if _CLASSES.setdefault(kind, where) != where:
        raise InvalidValue(f"states of kind {kind} are read by {_CLASSES[kind]}", code="kind-taken")


def class_of(kind: int) -> Any:
    """The class that reads states of a kind."""
    if kind not in _CLASSES:
        raise CorruptState(f"no class reads states of kind {kind}; a newer release may have one", code="kind-unknown")
    module, _, name = _CLASSES[kind].partition(":")
    return getattr(import_module(module), name)


def class_named(name: str) -> Any:
    """The class of this name."""
    return next(class_of(kind) for kind, where in _CLASSES.items() if where.endswith(f":{name}"))


def estimators() -> list[Any]:
    """The classes of all estimators, in order of their kinds."""
    return [kind for kind in map(class_of, _CLASSES) if hasattr(kind, "TRAITS")]


def served() -> dict[str, Any]:
    """The estimators that can be served, by the word that configuration files have for them."""
    return {kind.TRAITS.word: kind for kind in estimators() if kind.TRAITS.word is not None}

"""The estimators of the package: one line each, and what every class says about itself.

Other rooms ask here to build, keep, audit and serve estimators, and name no classes. A class is named like
``package.module:Class`` and imported when it is asked for. Facts that it shows by itself are not repeated in its
`TRAITS`: which options its constructor takes, and which verbs it has.
"""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
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


@dataclass(frozen=True)
class Traits:
    """Facts about an estimator class, in its attribute `TRAITS`.

    >>> import panprivacy as pp
    >>> pp.Density.TRAITS.word, pp.Density.TRAITS.in_folder
    ('density', True)
    """

    word: str | None = None
    """What configuration files call it; None if it is not served."""
    options: tuple[str, ...] = ()
    """Options that a configuration file may set, besides `universe` and `epsilon`."""
    small: Mapping[str, Any] = field(default_factory=dict)
    """Options with which an estimator of one or two users has so few states that an auditor can enumerate them."""
    example: Mapping[str, Any] = field(default_factory=dict)
    """Options that an estimator of some thousand users needs or has in examples: contract, memory images."""
    removes: bool = True
    """Whether users can be removed; where there are two periods, in the first one."""
    in_folder: bool = False
    """Whether a state folder can hold it: its table can be cut into shards, and a release only counts."""
    own_periods: bool = False
    """Whether an event of one period means something else in another, so that a late one cannot count."""
    unit: str = "releases"
    """What the budget is spent on: releases, moves or days."""


def options_of(kind: Any) -> frozenset[str]:
    """The options that the constructor of a class takes."""
    return frozenset(inspect.signature(kind.__init__).parameters) - {"self"}


def build(kind: Any, universe: Any, epsilon: float, **options: Any) -> Any:
    """An estimator of a class; `universe` is left out where the class takes none.

    >>> import panprivacy as pp
    >>> build(pp.DistinctCount, None, 1.0, buckets=256).buckets
    256
    """
    given = {"universe": universe} if "universe" in options_of(kind) else {}
    return kind(**given, epsilon=epsilon, **options)


def example(kind: Any, universe: Any, epsilon: float, **options: Any) -> Any:
    """An estimator of some thousand users; of these options it gets those that its constructor takes."""
    taken = {name: value for name, value in options.items() if name in options_of(kind)}
    return build(kind, universe, epsilon, **{**kind.TRAITS.example, **taken})

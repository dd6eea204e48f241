"""What an estimator class says about itself, so that other rooms can build, keep, audit and serve it.

Facts that the class shows by itself are not repeated: which options its constructor takes, and which verbs it has.
"""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


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

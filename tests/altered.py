"""Releases with other numbers than they were made with, for tests of what is done with releases."""

from dataclasses import replace
from typing import Any, TypeVar

from panprivacy.estimates import AnyRelease, Cost

R = TypeVar("R", bound=AnyRelease)
_COST = set(Cost.__dataclass_fields__)


def altered(release: R, **changes: Any) -> R:
    """The same release with other estimates (``count={"raw": 3.0}``), another cost (``number=2``), or other fields."""
    of_cost = {name: changes.pop(name) for name in list(changes) if name in _COST}
    of_estimates = {name: changes.pop(name) for name in list(changes) if name in release.estimates}
    estimates = {name: estimate._replace(**of_estimates.get(name, {})) for name, estimate in release.estimates.items()}
    return replace(release, estimates=estimates, cost=replace(release.cost, **of_cost), **changes)

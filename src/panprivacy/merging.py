"""Saved estimators back to life, and several as one."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from panprivacy import state
from panprivacy.density import Density
from panprivacy.errors import CannotMerge
from panprivacy.ledger import Ledger
from panprivacy.slots import Every, Sampled, Slots, Universe
from panprivacy.table import Table


def load(blob: bytes, universe: Any = None) -> Density:
    """Read what `to_bytes` wrote.

    A list of users is not part of the bytes: give the same `pp.Users` again to feed more events. Without it the
    estimator can still release.

    >>> import panprivacy as pp
    >>> est = pp.Density(universe=1000, epsilon=1.0)
    >>> pp.load(est.to_bytes()).to_bytes() == est.to_bytes()
    True
    """
    state.unseal(blob)
    return Density.from_bytes(blob, universe)


def merge(parts: Sequence[Density]) -> Density:
    """Join estimators over neighbouring parts of one universe into one: counts add, one noise.

    Each user has a bit in one part only, so what the parts spent is not added up: the merged ledger is that of the
    part that spent most.

    >>> import panprivacy as pp
    >>> north, south = (pp.Density(universe=1000, epsilon=1.0, shard=(i, 2)) for i in range(2))
    >>> pp.merge([north, south]).users
    1000
    """
    if not parts:
        raise CannotMerge("there is nothing to merge")
    ordered = sorted(parts, key=lambda part: part._slots.first)
    for before, part in pairwise(ordered):
        _check_neighbours(before, part)
    head = ordered[0]
    first, size = head._slots.first, sum(part._slots.size for part in ordered)
    table = Table.empty(size)
    for part in ordered:
        table.copy_bits(part._table, at=part._slots.first - first)
    slots: Slots = (
        Sampled(head._slots.universe, first, size, head._slots.key)
        if isinstance(head._slots, Sampled)
        else Every(head._slots.universe, first, size)
    )
    spent = Ledger(head._ledger.split, max(part._ledger.releases for part in parts), head._ledger.redraws)
    merged = Density.__new__(Density)
    merged._assemble(head._universe, slots, spent, table, head._coins)
    merged._drawn_securely = all(part.secure for part in parts)
    return merged


def _check_neighbours(before: Density, part: Density) -> None:
    same = {
        "universes": _identity(before._universe) == _identity(part._universe),
        "budgets": before._ledger.split == part._ledger.split,
        "samples": type(before._slots) is type(part._slots),
        "keys": getattr(before._slots, "key", None) == getattr(part._slots, "key", None),
        "numbers of rerandomisations": before._ledger.redraws == part._ledger.redraws,
    }
    different = [name for name, equal in same.items() if not equal]
    if different:
        raise CannotMerge(f"the parts have different {' and '.join(different)}")
    end = before._slots.first + before._slots.size
    if end != part._slots.first:
        what = "overlap" if end > part._slots.first else "leave a gap between them"
        raise CannotMerge(f"the parts {what}: one ends at slot {end}, the next starts at {part._slots.first}")


def _identity(universe: Universe) -> object:
    return getattr(universe, "fingerprint", universe)

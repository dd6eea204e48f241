"""Saved estimators back to life, and several as one."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, overload

from panprivacy import state
from panprivacy.counting.overlap import kernel, merge_tables, merged_pair
from panprivacy.density import Density
from panprivacy.distinct import DistinctCount
from panprivacy.errors import CannotMerge
from panprivacy.ledger import Ledger
from panprivacy.slots import Every, Sampled, Slots, Universe
from panprivacy.slots.hashed import Hashed
from panprivacy.table import Table


def load(source: bytes | str | Path, universe: Any = None) -> Any:
    """Read what `save` or `to_bytes` wrote, whichever estimator it was: from a file, or from bytes.

    From a file, the bits are read straight into the estimator's table. Bytes are one more reading of the state, and
    so is every further estimator that is loaded from the same place.

    A list of users is not part of a state: give the same `pp.Users` again to feed more events. Without it the
    estimator can still release.

    >>> import panprivacy as pp
    >>> est = pp.Density(universe=1000, epsilon=1.0)
    >>> pp.load(est.to_bytes()).to_bytes() == est.to_bytes()
    True
    """
    if isinstance(source, str | Path):
        return state.StateFile(source).load(universe)
    return state.loaded(state.unseal(source), universe)


@overload
def merge(parts: Sequence[Density]) -> Density: ...
@overload
def merge(parts: Sequence[DistinctCount], *, overlapping: bool = False) -> DistinctCount: ...


def merge(parts: Sequence[Density] | Sequence[DistinctCount], *, overlapping: bool = False) -> Density | DistinctCount:
    """Make one estimator of several.

    `Density`: shards of one universe become one table; counts add, one noise.

    `DistinctCount`: tables that saw disjoint users stay side by side in one object that releases their sum. A user is
    in one table only, so that costs no more than one of them, and loses nothing; it cannot be fed any more. Whether
    the users are disjoint is for the caller to know: one who is in two tables counts twice, and loses twice.

    Either way each user has a bit in one part only, so what the parts spent is not added up: the merged ledger is that
    of the part that spent most.

    `DistinctCount` with ``overlapping=True``: tables that may have seen the same users become one table, as if it had
    seen them all (see `panprivacy.counting.overlap`), which can be fed and released. The price is a noisier state: of
    the states' epsilons only ``-ln(1 - prod(1 - e^-eps_i))`` is left, which ``overlap.merged_epsilon`` there tells
    beforehand. A user may have been in every part, so the releases of all parts are added up and come off those that
    were planned, and the budget stays that of a part, which may have been read. The promise is then kept against one
    reading of one table, be it a part or the merge; against one reading of all the parts at once, a user in k of them
    is protected by k times epsilon.

    Ledgers do not know of each other: after a merge, release from the merge and no more from its parts.

    >>> import panprivacy as pp
    >>> north, south = (pp.Density(universe=1000, epsilon=1.0, shard=(i, 2)) for i in range(2))
    >>> pp.merge([north, south]).users
    1000
    """
    if not parts:
        raise CannotMerge("there is nothing to merge")
    tables = [part for part in parts if isinstance(part, DistinctCount)]
    shards = [part for part in parts if isinstance(part, Density)]
    if len(tables) == len(parts):
        return _united(tables) if overlapping else _side_by_side(tables)
    if len(shards) < len(parts):
        raise CannotMerge(f"a {type(parts[0]).__name__} and a {type(parts[-1]).__name__} have nothing in common")
    if overlapping:
        raise CannotMerge("the shards of a Density do not overlap: merge them without overlapping=True (--overlapping)")
    return _joined(shards)


def _side_by_side(parts: Sequence[DistinctCount]) -> DistinctCount:
    """Keep the tables one after the other: their counts are released apart, and their estimates added."""
    head = parts[0]
    for part in parts:
        _check_alike(head, part)
        if part._slots.unions != head._slots.unions:
            raise CannotMerge("some of the parts are unions of more tables than others")
    slots = replace(head._slots, parts=sum(part._slots.parts for part in parts))
    table, at = Table.empty(slots.size), 0
    for part in parts:
        table.copy_bits(part._table, at)
        at += part._table.size
    return _as_one(parts, slots, max(part._ledger.releases for part in parts), table)


def _united(parts: Sequence[DistinctCount]) -> DistinctCount:
    """Draw one table from all of them, two at a time."""
    head = parts[0]
    for part in parts:
        _check_alike(head, part)
        if part._slots.parts > 1 or part._ledger.split.intrusions:
            raise CannotMerge("tables side by side, or planned for announced readings, cannot be merged with others")
    made, planned = sum(part._ledger.releases for part in parts), head._ledger.split.releases
    if made > planned:
        raise CannotMerge(f"the parts have made {made} releases together, and {planned} were planned")
    pair, table = head._ledger.pair, Table(head._table.size, head._table.words.copy())
    for part in parts[1:]:
        table = merge_tables(table, part._table, kernel(pair, part._ledger.pair), head._coins)
        pair = merged_pair(pair, part._ledger.pair)
    return _as_one(parts, replace(head._slots, unions=sum(part._slots.unions for part in parts)), made, table)


def _as_one(parts: Sequence[DistinctCount], slots: Hashed, releases: int, table: Table) -> DistinctCount:
    head = parts[0]
    merged = DistinctCount.__new__(DistinctCount)
    merged._assemble(
        head._universe, slots, Ledger(head._ledger.split, releases, head._ledger.redraws), table, head._coins
    )
    merged._drawn_securely = all(part.secure for part in parts)
    return merged


def _check_alike(one: DistinctCount, other: DistinctCount) -> None:
    same = {
        "keys": one._universe == other._universe,
        "sizes": (one.levels, one.buckets) == (other.levels, other.buckets),
        "budgets": one._ledger.split == other._ledger.split,
        "numbers of rerandomisations": one._ledger.redraws == other._ledger.redraws,
    }
    different = [name for name, equal in same.items() if not equal]
    if different:
        raise CannotMerge(f"the parts have different {' and '.join(different)}")


def _joined(parts: Sequence[Density]) -> Density:
    """Put shards that own neighbouring slots together."""
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

"""Several estimators as one, which takes over: the parts keep nothing."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, TypeVar

from panprivacy.errors import CannotMerge, InvalidType
from panprivacy.estimators.base import Estimator

E = TypeVar("E", bound=Estimator[Any])
"""The class of the parts, and of their merge."""


def merge(parts: Sequence[E], *more: object, overlapping: bool = False) -> E:
    """Make one estimator of several.

    `Density`: shards of one universe become one table; counts add, one noise.

    `DistinctCount`: tables that saw disjoint users stay side by side in one object that releases their sum. A user is
    in one table only, so that costs no more than one of them, and loses nothing; it cannot be fed any more. Whether
    the users are disjoint is for the caller to know: one who is in two tables counts twice, and loses twice.

    Either way each user has a bit in one part only, so what the parts spent is not added up: the merged ledger is that
    of the part that spent most.

    `DistinctCount` with ``overlapping=True``: tables that may have seen the same users become one table, as if it had
    seen them all (see `distinct.overlap`), which can be fed and released. The price is a noisier state: of
    the states' epsilons only ``-ln(1 - prod(1 - e^-eps_i))`` is left, which ``overlap.merged_epsilon`` there tells
    beforehand. A user may have been in every part, so the releases of all parts are added up and come off those that
    were planned, and the budget of a part stays, since it may have been read. The promise is then kept against one
    reading of one table, be it a part or the merge; against one reading of all the parts at once, a user in k of them
    is protected by k times epsilon.

    The merge takes over: the parts are emptied, and refuse any further use. Otherwise one reading of a part and of
    the merge, which is fed on, would be two readings of the same people.

    >>> import panprivacy as pp
    >>> north, south = (pp.Density(universe=1000, epsilon=1.0, shard=(i, 2)) for i in range(2))
    >>> pp.merge([north, south]).users
    1000
    """
    _check_parts(parts, more)
    head = parts[0]
    with ExitStack() as locks:
        for part in sorted(parts, key=id):  # in one order everywhere, so that two merges do not wait for each other
            locks.enter_context(part._lock)
        for part in parts:
            part._check_in_use()
        merged: E = type(head)._merged(parts, overlapping=overlapping)
        tables = [part._table for part in parts]
        try:
            for part in parts:
                part._detach_table(
                    f"this {type(part).__name__} was merged into another, which holds its bits: use that one"
                )
        except BaseException:  # interrupted: the parts get their tables back, and stay as they were
            for part, table in zip(parts, tables, strict=True):
                part._attach_table(table)
            merged.end("the merge was interrupted, and its parts have kept their bits")
            raise
        for table in tables:
            table.wipe()
    return merged


def _check_parts(parts: Sequence[Estimator[Any]], more: tuple[object, ...]) -> None:
    """Refuse parts that are not several estimators of one class, each with bits that no file keeps."""
    if more or not isinstance(parts, list | tuple):
        got = f"{1 + len(more)} arguments" if more else f"a {type(parts).__name__}"
        raise InvalidType(f"merge takes a list of estimators, pp.merge([a, b]), got {got}", code="merge-type")
    if not parts:
        raise CannotMerge("there is nothing to merge", code="nothing-to-merge")
    if len({id(part) for part in parts}) < len(parts):
        raise CannotMerge(
            "the same part is there twice: its users would count twice, and lose twice", code="same-part-twice"
        )
    head, *others = parts
    if not hasattr(head, "_merged"):
        raise CannotMerge(
            f"a {type(head).__name__} cannot be merged; merge the parts of a Density first, and observe the result",
            code="not-mergeable",
        )
    for part in others:
        if type(part) is not type(head):
            raise CannotMerge(
                f"a {type(head).__name__} and a {type(part).__name__} have nothing in common", code="different-classes"
            )
    for part in parts:
        part.check_unbound("merged")

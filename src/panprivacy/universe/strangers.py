"""Strangers: rows whose user is not in the universe. `skip_outside` leaves them out."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from panprivacy.checks import shown
from panprivacy.errors import InvalidType, InvalidValue, OutsideUniverse
from panprivacy.memory.scratch import Scratch
from panprivacy.universe import Edges, Universe, Users
from panprivacy.universe.categories import CategorizedEvents
from panprivacy.universe.columns import Chunk, chosen_rows, chunks, readable, side_by_side
from panprivacy.universe.edges import ends_of
from panprivacy.universe.open import OpenUniverse
from panprivacy.universe.spelling import Lookalike

_MOST_COMPARED = 10_000  # strangers of a batch that are compared with the list


class StrangerFilter:
    """Leaves out rows whose user is not in the universe, in one call of `update_many`.

    How many rows are left out is neither kept nor told: it would be a count of people that nothing protects. Before the
    first batch is counted, its first strangers are compared with the list of users. One who is a listed user but for
    leading zeros, case, surrounding space, Unicode form or a trailing .0 refuses the batch.
    """

    def __init__(self, universe: Universe) -> None:
        if isinstance(universe, OpenUniverse):
            raise InvalidValue(
                "this estimator counts any id, so that no user is outside: leave skip_outside away", code="none-outside"
            )
        listed = listed_in(universe)
        if listed is not None:
            _ = listed.spellings  # made now: no stranger decides whether it is
        self._left = _MOST_COMPARED

    def chosen(self, events: Any, pieces: list[Chunk], scratch: Scratch) -> list[Chunk]:
        """The rows of a batch whose user is in the universe."""
        kept: list[Chunk] = []
        for cut in chunks(pieces):
            chunk = list(cut) if isinstance(cut, tuple) else cut  # two columns would be a tuple
            ids, universe = chunk, events
            if isinstance(events, CategorizedEvents):
                ids, universe = side_by_side(chunk)[0], events.users
            wanted = self.mask(universe, ids, scratch)
            kept.append(chosen_rows(chunk, wanted, scratch))
        if any(map(len, pieces)):
            self._left = 0  # of later batches, none is refused for its spelling
        return kept

    def mask(self, universe: Universe, ids: Any, scratch: Scratch) -> NDArray[np.bool_]:
        """Whether the user of each row is in the universe; lookalikes of listed users are refused."""
        inside = mask_inside(universe, ids, scratch)
        if self._left and not inside.all():
            found = lookalike_among(universe, ids, inside, scratch, self._left)
            if found is not None:
                raise _refused(found)
            self._left -= min(self._left, len(inside) - int(np.count_nonzero(inside)))
        return inside


def mask_inside(universe: Universe, ids: Any, scratch: Scratch) -> NDArray[np.bool_]:
    """Whether the user of each row is in the universe, in scratch; edges are two columns in a tuple, or pairs."""
    if isinstance(universe, Edges):
        return scratch.own(universe.inside(_pairs(universe, ids)))
    return scratch.own(universe.inside(readable(ids)))


def lookalike_among(
    universe: Universe, ids: Any, inside: NDArray[np.bool_], scratch: Scratch, most: int = _MOST_COMPARED
) -> Lookalike | None:
    """The first stranger, of the first few, whom the list of users spells otherwise."""
    listed = listed_in(universe)
    if listed is None or listed.spellings is None:
        return None
    outside = scratch.own(np.flatnonzero(scratch.own(np.logical_not(inside))))
    some = scratch.empty("strangers", len(inside), np.bool_)
    some.fill(False)
    some[outside[:most]] = True
    columns = ends_of(_pairs(universe, ids)) if isinstance(universe, Edges) else (ids,)
    for place, column in enumerate(columns):
        found = listed.lookalike(chosen_rows(readable(column), some, scratch))
        if found is not None:
            return found._replace(column=place)
    return None


def listed_in(universe: Universe) -> Users | None:
    """The list of users, or of the nodes of a graph; None if the universe is no list."""
    listed = universe.named if isinstance(universe, Edges) else universe
    return listed if isinstance(listed, Users) else None


def _pairs(universe: Edges, ids: Any) -> Any:
    """Edges as one column of pairs."""
    return universe.as_column(ids)[:] if isinstance(ids, tuple) else ids


def _refused(found: Lookalike) -> InvalidType | OutsideUniverse:
    if found.stranger == found.listed:
        return InvalidType(
            f"the listed users are text: pass ids as text, such as {found.listed!r}; nothing was changed",
            code="ids-type",
        )
    return OutsideUniverse(
        f"user {shown(found.stranger)} is not in the list of users, and {shown(found.listed)} is, so that rows of a "
        f"listed user would be left out: pp.Users(..., normalize={found.how!r}) reads both as one, and "
        "normalize='none' keeps them apart; nothing was changed",
        code="lookalike",
    )

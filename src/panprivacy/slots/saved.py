"""Universes and slots as bytes: a list of users only by its fingerprint."""

import struct
from typing import Any, NoReturn

from panprivacy.errors import OtherUniverse, PanPrivacyError
from panprivacy.slots.users import MORE_ROUNDS, ROUNDS, AllUsers, OneCategoryPerUser, Slots, UserSample, places_for
from panprivacy.universe import LARGEST_UNIVERSE, Edges, Range, Universe, Users, universe_of
from panprivacy.universe.categories import Categories
from panprivacy.universe.groups import Groups
from panprivacy.universe.integers import Lookup

_UNIVERSE = struct.Struct("<BBQQ32s")  # kind, directed, size, nodes, fingerprint
_SLOTS = struct.Struct("<B16sQQ")  # how users are chosen, key, first, size
_EVERY, _SAMPLED, _MIXED_MORE = 0, 1, 2
_RANGE, _USERS, _EDGES = 0, 1, 2


class Unlisted:
    """A list of users, or of nodes, that was left out when the estimator was loaded: it can release, but not be fed."""

    lookup = Lookup.SEARCHED

    def __init__(self, size: int, fingerprint: bytes, nodes: int = 0, directed: bool = False) -> None:
        self.size = size
        self.fingerprint = fingerprint
        self.nodes = nodes
        """How many nodes are listed, if the users are their edges."""
        self.directed = directed

    def as_column(self, ids: Any) -> Any:
        """Refuse: the list is not there."""
        self._refuse(ids)

    def index(self, user: Any) -> int:
        """Refuse: the list is not there."""
        self._refuse(user)

    def indices(self, chunk: Any, scratch: Any = None) -> Any:  # noqa: ARG002
        """Refuse: the list is not there."""
        self._refuse(chunk)

    unchecked = inside = indices

    def describe(self) -> str:
        """What the universe is, in a few words."""
        return f"{self.size:,} {'edges of listed nodes' if self.nodes else 'listed users'} (list not loaded)"

    def _refuse(self, _: Any) -> NoReturn:
        given = "pp.Edges(nodes=...)" if self.nodes else "pp.Users(...)"
        raise PanPrivacyError(
            f"this estimator was loaded without its users: pp.load(blob, universe={given})", code="users-not-loaded"
        )


def universe_bytes(universe: Universe) -> bytes:
    """Write what identifies a universe."""
    if isinstance(universe, Edges):
        return _UNIVERSE.pack(_EDGES, universe.directed, universe.size, universe.count, universe.fingerprint)
    if isinstance(universe, Unlisted) and universe.nodes:
        return _UNIVERSE.pack(_EDGES, universe.directed, universe.size, universe.nodes, universe.fingerprint)
    if isinstance(universe, Users | Unlisted):
        return _UNIVERSE.pack(_USERS, 0, universe.size, 0, universe.fingerprint)
    return _UNIVERSE.pack(_RANGE, 0, universe.size, 0, b"")


def universe_from(data: bytes, given: Any) -> tuple[Universe, bytes]:
    """Read a universe off the front of some bytes, matching the list that is given again; return the rest."""
    kind, directed, size, nodes, fingerprint = _UNIVERSE.unpack_from(data)
    listed = kind == _USERS or (kind == _EDGES and any(fingerprint))
    universe: Universe
    if listed:
        universe = Unlisted(size, fingerprint, nodes, bool(directed)) if given is None else universe_of(given)
        if universe_bytes(universe) != data[: _UNIVERSE.size]:
            raise OtherUniverse("the estimator was built with another list of users", code="other-users")
    elif kind == _EDGES:
        universe = Edges(nodes, bool(directed))
    elif kind == _RANGE:
        universe = Range(size)
    else:
        raise ValueError(f"there is no universe of kind {kind}")
    if not listed and given is not None and universe_of(given) != universe:
        raise OtherUniverse(
            f"the estimator was built for {universe.describe()}, not for {universe_of(given).describe()}",
            code="built-for-others",
        )
    if universe.size != size or not 1 <= size <= LARGEST_UNIVERSE:
        raise ValueError(f"a universe of {size} users is not possible")
    return universe, data[_UNIVERSE.size :]


def slots_bytes(slots: Slots | OneCategoryPerUser) -> bytes:
    """Write which slots a table has, and then the groups or categories that they are of, where there are any."""
    if isinstance(slots, OneCategoryPerUser):
        return slots_bytes(slots.places) + slots.categories.to_bytes()
    if isinstance(slots, UserSample):
        how = _SAMPLED if slots.rounds == ROUNDS else _MIXED_MORE
        return _SLOTS.pack(how, slots.key, slots.first, slots.size)
    groups = b"" if slots.groups is None else slots.groups.to_bytes()
    return _SLOTS.pack(_EVERY, b"", slots.first, slots.size) + groups


def slots_from(data: bytes, universe: int) -> Slots | OneCategoryPerUser:
    """Read which slots a table has."""
    how, key, first, size = _SLOTS.unpack_from(data)
    rest = data[_SLOTS.size :]
    asked = bool(rest) and how != _EVERY
    if not size or first + size > (places_for(universe) if asked else universe):
        raise ValueError(f"{size} slots from {first} on do not fit {universe} users")
    if how == _EVERY:
        groups = Groups.from_bytes(rest) if rest else None
        if groups is not None and (first, size, groups.size) != (0, universe, universe):
            raise ValueError("the groups belong to other users")
        return AllUsers(universe, first, size, groups)
    if how not in (_SAMPLED, _MIXED_MORE):
        raise ValueError(f"there are no slots of kind {how}")
    places = UserSample(universe, first, size, key, ROUNDS if how == _SAMPLED else MORE_ROUNDS)
    return OneCategoryPerUser(places, Categories.from_bytes(rest)) if asked else places

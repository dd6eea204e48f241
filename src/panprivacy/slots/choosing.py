"""Universe and slots of an estimator: chosen by its options, or read from a saved state, lists by their fingerprint."""

import struct
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from panprivacy.checks import check_key, check_whole, shown
from panprivacy.display import parse_bytes
from panprivacy.errors import InvalidType, InvalidValue, OtherUniverse, PanPrivacyError
from panprivacy.memory.scratch import Scratch
from panprivacy.privacy.coins import Coins
from panprivacy.slots.users import (
    MORE_ROUNDS,
    ROUNDS,
    AllUsers,
    OneCategoryPerUser,
    Slots,
    UserSample,
    drawn_key,
    places_for,
)
from panprivacy.universe import LARGEST_UNIVERSE, Edges, Range, Universe, Users, universe_of
from panprivacy.universe.categories import Categories
from panprivacy.universe.groups import Groups, Label, in_runs, label_column
from panprivacy.universe.integers import Lookup

_TRIES = 100  # keys that are drawn until each category has a user


@dataclass(frozen=True)
class ChosenSlots:
    """The users of an estimator, and the slots that they own."""

    users: Universe
    slots: Slots | OneCategoryPerUser
    each: int
    """Slots of one answer: of all users, or of a mean group or category."""


def choose_slots(
    universe: int | Universe,
    coins: Coins,
    *,
    sample: int | None = None,
    memory: str | int | None = None,
    groups: Any = None,
    categories: Iterable[Label] | None = None,
    other: bool = False,
    shard: tuple[int, int] | None = None,
    key: bytes | None = None,
) -> ChosenSlots:
    """Choose the slots of an estimator of a known universe, by the options of its constructor."""
    users, ranges = grouped(universe_of(universe), groups)
    kinds = parse_categories(categories, other)
    size = table_size(users.size, sample, memory)
    check_ranges(ranges, kinds, sampled=size < users.size, shard=shard)
    # All ranges together err as one of their mean size does, but for a factor that no split changes.
    answers = len(ranges.labels) if ranges else len(kinds) if kinds else 1
    slots: Slots | OneCategoryPerUser
    if kinds:
        slots = choose_categories(users.size, size, kinds, key, coins)
    else:
        slots = choose_users(users.size, size, shard, key, coins)
    if isinstance(slots, AllUsers) and ranges:
        slots = replace(slots, groups=ranges)
    return ChosenSlots(users, slots, max(size // answers, 1))


def table_size(universe: int, sample: int | None, memory: str | int | None) -> int:
    """How many users own a bit: all, or as many as `sample` or `memory` says."""
    if sample is not None and memory is not None:
        raise InvalidValue("give sample or memory, not both", code="sample-and-memory")
    if memory is not None:
        return min(8 * parse_bytes(memory), universe)
    if sample is None:
        return universe
    size = check_whole(sample, "sample")
    if not 1 <= size <= universe:
        raise InvalidValue(
            f"sample must be between 1 and the universe of {universe}, got {sample}", code="sample-range"
        )
    return size


def choose_users(universe: int, size: int, shard: tuple[int, int] | None, key: bytes | None, coins: Coins) -> Slots:
    """Slots of all users, or of a keyed sample, or of one shard of them."""
    part, parts = 0, 1
    if shard is not None:
        if not isinstance(shard, tuple | list) or len(shard) != 2:
            raise InvalidType(f"shard is a pair (i, n), such as (0, 4), got {shown(shard)}", code="shard-type")
        part, parts = check_whole(shard[0], "i of shard (i, n)"), check_whole(shard[1], "n of shard (i, n)")
    if not 0 <= part < parts <= size:
        raise InvalidValue(f"shard (i, n) needs 0 <= i < n <= {size} slots, got {shard}", code="shard-range")
    check_key(key)
    first, end = part * size // parts, (part + 1) * size // parts
    if size == universe:
        return AllUsers(universe, first, end - first)
    if key is None and parts > 1:
        raise InvalidValue(
            "sampled shards must share a key: pass the same key=secrets.token_bytes(16) to each",
            code="shard-key",
        )
    slots = UserSample(universe, first, end - first, key or drawn_key(coins))
    while not slots.users and key is None:  # a few slots have no owner: take others
        slots = replace(slots, key=drawn_key(coins))
    if not slots.users:
        raise InvalidValue(
            f"under this key the {slots.size} slots have no owner; take a larger sample or another key",
            code="empty-sample",
        )
    return slots


def grouped(universe: Universe, labels: Any) -> tuple[Universe, Groups | None]:
    """The universe in order of its groups, and the groups; None where users have none."""
    if labels is None:
        return universe, universe.groups if isinstance(universe, Users) else None
    if not isinstance(universe, Range):
        raise InvalidType(
            "groups=... is for users 0..N-1; listed users have theirs with them: pp.Users(ids, groups=...)",
            code="groups-of-listed-users",
        )
    column = label_column(labels, universe.size)
    groups = in_runs(column)
    if groups is not None:
        return universe, groups
    listed = Users(range(universe.size), groups=column)
    return listed, listed.groups


def parse_categories(categories: Iterable[Label] | None, other: bool) -> Categories | None:
    """The categories that were asked for, if any were."""
    if categories is None:
        if other:
            raise InvalidValue(
                "other=True gathers categories that are not listed: say which are, categories=[...]",
                code="other-without-categories",
            )
        return None
    return Categories(categories, other)


def check_ranges(
    groups: Groups | None, categories: Categories | None, *, sampled: bool, shard: tuple[int, int] | None
) -> None:
    """Refuse groups with categories or a sample, and a shard of either."""
    if groups is not None and categories is not None:
        raise InvalidValue("give groups of users or categories of events, not both", code="groups-and-categories")
    if groups is not None and sampled:
        raise InvalidValue(
            "a sample does not go with groups: the bits of a group stand together, and a sample has them in the order "
            "of its key; leave sample and memory out, or list fewer users",
            code="groups-and-sample",
        )
    if shard is not None and (groups is not None or categories is not None):
        raise InvalidValue(
            "a shard has parts of groups and categories only, of which nothing could be released: leave shard out",
            code="shards-with-groups",
        )


def choose_categories(
    universe: int, size: int, categories: Categories, key: bytes | None, coins: Coins
) -> OneCategoryPerUser:
    """Slots in which some user is asked about each category; all users have slots, or a sample of `size`."""
    check_key(key)
    places = places_for(universe) if size == universe else size
    for _ in range(1 if key is not None else _TRIES):
        if len(categories) > places:
            break
        slots = OneCategoryPerUser(UserSample(universe, 0, places, key or drawn_key(coins)), categories)
        if slots.ranges.users.min() > 0:
            return slots
    raise InvalidValue(
        f"{len(categories):,} categories are too many for {size:,} users, of whom each is asked about one: under "
        f"{'this key' if key is not None else 'all keys that were tried'} no user is asked about some of them",
        code="too-many-categories",
    )


_UNIVERSE = struct.Struct("<BBQQ32s")  # kind, directed, size, nodes, fingerprint
_SLOTS = struct.Struct("<B16sQQ")  # how users are chosen, key, first, size
_EVERY, _SAMPLED, _MIXED_MORE = 0, 1, 2
_RANGE, _USERS, _EDGES = 0, 1, 2


class Unlisted(Universe):
    """A list of users, or of nodes, that was left out when the estimator was loaded: it can release, but not be fed."""

    lookup = Lookup.SEARCHED

    def __init__(self, size: int, fingerprint: bytes, count: int, directed: bool) -> None:
        self.size = size
        self.fingerprint = fingerprint
        self.count = count
        """How many nodes are listed, if the users are their edges."""
        self.directed = directed

    def as_column(self, ids: Any) -> NoReturn:  # noqa: ARG002
        """Refuse: the list is not there."""
        given = "pp.Edges(nodes=...)" if self.count else "pp.Users(...)"
        raise PanPrivacyError(
            f"this estimator was loaded without its users: pp.load(blob, universe={given})", code="users-not-loaded"
        )

    def index(self, user: Any) -> NoReturn:
        self.as_column(user)

    def places(self, chunk: Any, scratch: Scratch) -> NoReturn:  # noqa: ARG002
        self.as_column(chunk)

    def describe(self) -> str:
        return f"{self.size:,} {'edges of listed nodes' if self.count else 'listed users'} (list not loaded)"


def universe_bytes(universe: Universe) -> bytes:
    """Write what identifies a universe."""
    if isinstance(universe, Edges) or (isinstance(universe, Unlisted) and universe.count):
        return _UNIVERSE.pack(_EDGES, universe.directed, universe.size, universe.count, universe.fingerprint)
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

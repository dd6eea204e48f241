"""Which slots the users of an estimator own, given its size, groups, categories and shard."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from panprivacy.checks import check_key, check_whole, shown
from panprivacy.errors import InvalidType, InvalidValue
from panprivacy.privacy.coins import Coins
from panprivacy.slots.users import AllUsers, OneCategoryPerUser, Slots, UserSample, drawn_key, places_for
from panprivacy.units import parse_bytes
from panprivacy.universe import Range, Universe, Users, universe_of
from panprivacy.universe.categories import Categories
from panprivacy.universe.groups import Groups, Label, in_runs, label_column

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
    if not 1 <= check_whole(sample, "sample") <= universe:
        raise InvalidValue(
            f"sample must be between 1 and the universe of {universe}, got {sample}", code="sample-range"
        )
    return check_whole(sample, "sample")


def choose_users(universe: int, size: int, shard: tuple[int, int] | None, key: bytes | None, coins: Coins) -> Slots:
    """Slots of all users, or of a keyed sample, or of one shard of them."""
    part, parts = parse_shard(shard)
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
        slots = UserSample(universe, first, end - first, drawn_key(coins))
    if not slots.users:
        raise InvalidValue(
            f"under this key the {slots.size} slots have no owner; take a larger sample or another key",
            code="empty-sample",
        )
    return slots


def parse_shard(shard: tuple[int, int] | None) -> tuple[int, int]:
    """The number of a shard, and the number of all shards; one shard has everything."""
    if shard is None:
        return 0, 1
    if not isinstance(shard, tuple | list) or len(shard) != 2:
        raise InvalidType(f"shard is a pair (i, n), such as (0, 4), got {shown(shard)}", code="shard-type")
    return check_whole(shard[0], "i of shard (i, n)"), check_whole(shard[1], "n of shard (i, n)")


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

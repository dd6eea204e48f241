"""Which groups or categories an estimator is built with, and the slots for categories."""

from collections.abc import Iterable
from typing import Any

from panprivacy.checks import KEY_BYTES, check_key
from panprivacy.privacy.coins import Coins
from panprivacy.slots.asked import Asked
from panprivacy.slots.places import Sampled, places_for
from panprivacy.universe import Range, Universe, Users
from panprivacy.universe.categories import Categories
from panprivacy.universe.groups import Groups, Label, in_runs, label_column

_TRIES = 100  # keys, until every category has somebody to ask


def grouped(universe: Universe, labels: Any) -> tuple[Universe, Groups | None]:
    """The universe in order of its groups, and the groups; None where users have none."""
    if labels is None:
        return universe, universe.groups if isinstance(universe, Users) else None
    if not isinstance(universe, Range):
        raise TypeError("groups=... is for users 0..N-1; listed users have theirs with them: pp.Users(ids, groups=...)")
    column = label_column(labels, universe.size)
    groups = in_runs(column)
    if groups is not None:
        return universe, groups
    listed = Users(range(universe.size), groups=column)
    return listed, listed.groups


def asked_about(categories: Iterable[Label] | None, other: bool) -> Categories | None:
    """The categories that were asked for, if any were."""
    if categories is None:
        if other:
            raise ValueError("other=True gathers categories that are not listed: say which are, categories=[...]")
        return None
    return Categories(categories, other)


def check_ranges(
    groups: Groups | None, categories: Categories | None, *, sampled: bool, shard: tuple[int, int] | None
) -> None:
    """Refuse what groups and categories do not go with."""
    if groups is not None and categories is not None:
        raise ValueError("give groups of users or categories of events, not both")
    if groups is not None and sampled:
        raise ValueError(
            "a sample does not go with groups: the bits of a group stand together, and a sample has them in the order "
            "of its key; leave sample and memory out, or list fewer users"
        )
    if shard is not None and (groups is not None or categories is not None):
        raise ValueError(
            "a shard has parts of groups and categories only, of which nothing could be released: leave shard out"
        )


def choose_asked(universe: int, size: int, categories: Categories, key: bytes | None, coins: Coins) -> Asked:
    """Slots in which every category has somebody who is asked about it; all users are asked, or a sample of `size`."""
    check_key(key)
    places = places_for(universe) if size == universe else size
    for _ in range(1 if key is not None else _TRIES):
        if len(categories) > places:
            break
        slots = Asked(Sampled(universe, 0, places, key or drawn_key(coins)), categories)
        if slots.ranges.users.min() > 0:
            return slots
    raise ValueError(
        f"{len(categories):,} categories are too many for {size:,} users, of whom each is asked about one: under "
        f"{'this key' if key is not None else 'all keys that were tried'} nobody is asked about some of them"
    )


def drawn_key(coins: Coins) -> bytes:
    """A new key from the coins."""
    return coins.randbelow(2 ** (8 * KEY_BYTES)).to_bytes(KEY_BYTES, "little")

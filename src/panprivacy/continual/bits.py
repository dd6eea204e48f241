"""The bits behind an observer: a `Density` whose planned releases are the observer's moves."""

from collections.abc import Callable
from dataclasses import replace
from operator import index
from typing import Any

from panprivacy.continual.shares import Shares
from panprivacy.continual.sharing import Plan, best_shares
from panprivacy.density import Density, _choose_slots, _table_size
from panprivacy.privacy import coins as coin_sources
from panprivacy.privacy.budget import Split
from panprivacy.privacy.coins import Coins
from panprivacy.privacy.ledger import Ledger
from panprivacy.release.tracked import Tracked
from panprivacy.universe import Universe, ungrouped, universe_of


def new_bits(
    universe: Any,
    epsilon: float,
    delta: float | None,
    plan: Plan,
    *,
    sample: int | None,
    memory: str | int | None,
    coins: Coins | None,
) -> tuple[Density, Shares]:
    """Draw the bits of a new observer, whose size completes its plan."""
    source = coins or coin_sources.system
    users = ungrouped(universe_of(universe), "a Continual")
    size = _table_size(users.size, None if sample is None else index(sample), memory)
    shares = best_shares(epsilon, replace(plan, size=size), delta)
    return drawn_bits(users, size, shares, source), shares


def drawn_bits(users: Universe, size: int, shares: Shares, source: Coins) -> Density:
    """Draw so many bits by the shares of an observer."""
    slots = _choose_slots(users.size, size, None, None, source)
    table = Density.TABLE.drawn(slots.size, shares.pair, source)
    return Density._of_parts(users, slots, Ledger(split_of(shares)), table, source, secure=True)


def taken_over(est: Density, plan: Plan, check: Callable[[Shares], object]) -> tuple[Density, Shares]:
    """Take the bits and the budget of an estimator that has released nothing; it refuses all use afterwards.

    `check` raises if the shares are no good, while the estimator still has its bits. Users may have been removed from
    it, which nobody remembers: its shares are those of any stream.
    """
    if est.TABLE is not Density.TABLE:
        raise ValueError(f"the bits of a {type(est).__name__} are kept in another way than those of a Density")
    if est.groups:
        raise ValueError("a Continual watches one density: it takes over none with groups or categories")
    with est._lock:
        est._table.in_use()
        ledger = est._ledger
        if ledger.releases or ledger.split.intrusions:
            raise ValueError(
                "only a Density that has released nothing, and plans no announced readings, can be taken over"
            )
        split, plan = ledger.split, replace(plan, size=est._slots.size, rising=False)
        shares = best_shares(split.epsilon, plan, split.delta or None, ledger.pair)
        check(shares)
        table = est._give_up("this Density was taken over by a Continual, which holds its bits: use that one")
        ledger = Ledger(split_of(shares))
        density = Density._of_parts(est._universe, est._slots, ledger, table, est._coins, secure=est.secure)
    return density, shares


def tracked_by(density: Density) -> Tracked:
    """Whom the bits of an observer speak for."""
    slots = density._slots
    return Tracked(density._ledger.pair, slots.size, slots.users, slots.population)


def split_of(shares: Shares) -> Split:
    """What the moves spend, as the releases of a `Density`; the tests spend more beside it."""
    noise, delta = shares.value, shares.delta
    split = Split(shares.epsilon, shares.pair, noise, shares.moves, flip=0, intrusions=0, delta=delta)
    return replace(split, epsilon=split.loss(shares.moves, 0)) if delta else split  # a delta is used up to its epsilon

"""`Density`: what fraction of these users has shown up?"""

from collections.abc import Sequence
from operator import index
from typing import Any, Self

from panprivacy.checks import KEY_BYTES, check_delta, check_epsilon, check_key
from panprivacy.display import Rows
from panprivacy.errors import CannotMerge, PanPrivacyError
from panprivacy.estimator import Estimator
from panprivacy.lazily import loaded
from panprivacy.memory import Scratch
from panprivacy.privacy import coins as coin_sources
from panprivacy.privacy.budget import and_delta, budget_of
from panprivacy.privacy.coins import CHUNK, Coins
from panprivacy.privacy.ledger import Ledger, Published
from panprivacy.privacy.pairs import Pair
from panprivacy.privacy.splitting import best_split
from panprivacy.release import Release, Spread
from panprivacy.sizes import format_bytes, parse_bytes
from panprivacy.slots import Every, Sampled, Slots
from panprivacy.slots.places import joined
from panprivacy.slots.saved import slots_bytes, slots_from, universe_bytes, universe_from
from panprivacy.table import Table
from panprivacy.universe import Universe, universe_of
from panprivacy.universe.growth import grown, moved


class Density(Estimator[Release]):
    r"""Estimate what fraction of a known universe of users has appeared in a stream, pan-privately.

    Every tracked user owns one bit. It starts as a coin of probability p0; each appearance redraws it with
    probability ``p1 = 1 - p0``, a deletion with p0 again. A release publishes the number of ones plus exact
    discrete noise, scaled to ``(noisy - m*p0) / (m*(p1-p0))``. Whoever reads the whole state once, at any
    moment, and sees all releases, learns at most `epsilon` about any one user, however often that user appears.

    Parameters
    ----------
    universe
        The users there could be: a number N for ids 0..N-1, `pp.Users` for a list, `pp.Edges` for a graph.
    epsilon
        The total budget of this object's life.
    sample, memory
        Track a random sample of this many users, or as many as fit in this memory (``"16 KiB"``), instead of all.
    releases, intrusions
        How many releases, and how many announced readings of the state (each followed by `rerandomize`), the
        budget is planned for.
    delta
        A probability, such as 1e-9, with which more than epsilon may be lost. It buys Gaussian noise, which grows with
        the root of the number of releases; without it noise is Laplace's, which grows with the number, and nothing is
        ever lost beyond epsilon. Worth it from some dozens of releases on.
    shard
        ``(i, n)``: this object owns part i of n of the slots, to be merged with the others by `pp.merge`. It may be
        fed the whole stream. Sampled shards must share a `key` of 16 bytes.
    coins
        The source of randomness; anything but the default makes the estimator insecure, and it says so.

    Examples
    --------
    >>> import panprivacy as pp
    >>> est = pp.Density(universe=100_000, epsilon=1.0)
    >>> est.update_many(range(63_000))
    >>> r = est.release()
    >>> 0.6 < r.density < 0.66, r.epsilon_remaining
    (True, 0.0)

    Notes
    -----
    This is the paper's OptBern (Alg. 2) with one bit for every user or a keyed sample, noise of the right size, and
    the split of the budget that errs least. Two readings without `rerandomize` between them are not protected, by
    this or any other algorithm of its kind.
    """

    KIND = 1
    _slots: Slots
    _table: Table

    def __init__(
        self,
        universe: int | Universe,
        epsilon: float,
        *,
        sample: int | None = None,
        memory: str | int | None = None,
        releases: int = 1,
        intrusions: int = 0,
        delta: float | None = None,
        shard: tuple[int, int] | None = None,
        key: bytes | None = None,
        coins: Coins | None = None,
    ) -> None:
        source = coins or coin_sources.system
        users = universe_of(universe)
        sample = None if sample is None else index(sample)
        size = _table_size(users.size, sample, memory)
        delta = None if delta is None else check_delta(delta)
        split = best_split(check_epsilon(epsilon), size, index(releases), index(intrusions), delta)
        slots = _choose_slots(users.size, size, shard, key, source)
        table = self.TABLE.drawn(slots.size, split.pair, source)
        self._assemble(users, slots, Ledger(split), table, source)

    @classmethod
    def _merged(cls, parts: Sequence[Self], *, overlapping: bool) -> Self:
        """Put shards that own neighbouring slots together."""
        if overlapping:
            raise CannotMerge("shards do not overlap: merge them without overlapping=True (--overlapping)")
        ordered = sorted(parts, key=lambda part: part._slots.first)
        head = ordered[0]
        for part in ordered[1:]:
            different = [] if universe_bytes(head._universe) == universe_bytes(part._universe) else ["universes"]
            different += head._ledger.differences(part._ledger)
            if different:
                raise CannotMerge(f"the parts have different {' and '.join(different)}")
        return cls._of_parts(
            head._universe,
            joined([part._slots for part in ordered]),
            head._ledger.with_releases(max(part._ledger.releases for part in parts)),
            Table.joined([part._table for part in ordered]),
            head._coins,
            secure=all(part.secure for part in parts),
        )

    # --- growing ------------------------------------------------------------------------------------------------

    def grow(self, more: Any) -> None:
        """Take more users into the universe: ids that come to a list, or the new size of a range.

        Every user still owns one bit. A new user's bit is drawn with p0, as all bits were at first; the bits of the
        others move, as they are, to the positions that their users have in the larger list. So the state has the law
        that it would have if the newcomers had been there from the start and had not appeared, and `epsilon` covers
        them and everybody else as before: the budget stays, and what is spent of it stays spent. That the list grew,
        and when, is public, as the list is.

        Later releases are about the larger universe, and their error is that of its size. `last` is forgotten: it was
        about the smaller one. A sample and a shard cannot grow, since other users would own their bits.

        >>> import panprivacy as pp
        >>> clinic = pp.Density(universe=pp.Users(["grace", "mary"]), epsilon=2.0)
        >>> clinic.update("mary")
        >>> clinic.grow(["ada", "rosalind"])
        >>> clinic.update("ada"); clinic.users
        4
        """
        with self._lock:
            self._table.in_use()
            if not isinstance(self._slots, Every) or self._slots.size < self._universe.size:
                part = "a shard" if isinstance(self._slots, Every) else "a sample"
                raise PanPrivacyError(f"{part} cannot grow: only a Density with a bit for every user can")
            universe = grown(self._universe, more)
            if universe.size > self._universe.size:
                self._move_to(universe)

    def _move_to(self, universe: Universe) -> None:
        """Draw a table for a larger universe, move the bits of everybody who was there into it, and wipe the old."""
        before, table = self._table, Table.drawn(universe.size, self._ledger.pair, self._coins)
        try:
            with Scratch() as scratch:
                for start in range(0, before.size, CHUNK):
                    stop = min(start + CHUNK, before.size)
                    table.place(before, start, moved(self._universe, universe, start, stop, scratch))
                    scratch.sweep()
        except BaseException:
            table.wipe()
            raise
        self._universe, self._slots, self._table = universe, Every(universe.size, 0, universe.size), table
        self._ledger = self._ledger.with_releases(self._ledger.releases)
        before.wipe()
        loaded("panprivacy.privacy.kernels").wipe_stack()

    # --- what leaves --------------------------------------------------------------------------------------------

    def _counts(self) -> tuple[int, ...]:
        return (self._table.ones(),)

    def _interpret(self, published: Published) -> Release:
        split = self._ledger.split
        spread = self._spread_under(split.pair_after(published.redraws))
        raw = spread.density(published.noisy[0])
        density = min(max(raw, 0.0), 1.0)
        budget = budget_of(split, published.number, published.redraws)
        return Release(
            density=density,
            density_stderr=spread.stderr(density),
            density_interval=spread.interval(raw, published.level),
            raw_density=raw,
            level=published.level,
            universe=spread.population,
            number=published.number,
            epsilon_spent=budget.spent,
            epsilon_remaining=budget.remaining,
            delta_spent=budget.delta_spent,
            noise_stderr=spread.noise_stderr,
            secure=self.secure,
        )

    @property
    def users(self) -> int:
        """How many users own a bit."""
        return self._slots.users

    def density_stderr_at(self, density: float) -> float:
        """The standard error that a release now would have, if this were the true density."""
        return self._spread_under(self._ledger.pair).stderr(density)

    def _spread_under(self, pair: Pair) -> Spread:
        slots = self._slots
        return Spread(pair, slots.size, slots.users, slots.population, self._ledger.split.noise)

    def _described(self) -> str:
        budget = self.budget
        tracked = "all" if self.users == self._universe.size else f"{self.users:,}"
        return (
            f"<{type(self).__name__} of {self._universe.describe()}, {tracked} tracked in {format_bytes(self.memory)}; "
            f"epsilon {self.epsilon:g}{and_delta(self.delta)}: {budget.spent:.3g} spent, {budget.releases_made} of "
            f"{budget.releases} releases made{'' if self.secure else '; NOT SECURE: seeded coins'}>"
        )

    def _rows(self) -> Rows:
        return (
            ("universe", self._universe.describe()),
            ("tracked", f"{self.users:,} users in {format_bytes(self.memory)}"),
            *self.budget.card().rows,
            ("error", f"± {self.density_stderr_at(0.5):.4f} (standard error at density 1/2)"),
        )

    # --- bytes --------------------------------------------------------------------------------------------------

    def _parameters(self) -> bytes:
        return universe_bytes(self._universe) + slots_bytes(self._slots)

    @classmethod
    def _from_parameters(cls, parameters: bytes, universe: Any) -> tuple[Universe, Slots]:
        known, rest = universe_from(parameters, universe)
        return known, slots_from(rest, known.size)


def _table_size(universe: int, sample: int | None, memory: str | int | None) -> int:
    if sample is not None and memory is not None:
        raise ValueError("give sample or memory, not both")
    if memory is not None:
        return min(8 * parse_bytes(memory), universe)
    if sample is None:
        return universe
    if not 1 <= sample <= universe:
        raise ValueError(f"sample must be between 1 and the universe of {universe}, got {sample}")
    return sample


def _choose_slots(universe: int, size: int, shard: tuple[int, int] | None, key: bytes | None, coins: Coins) -> Slots:
    part, parts = shard or (0, 1)
    if not 0 <= part < parts <= size:
        raise ValueError(f"shard (i, n) needs 0 <= i < n <= {size} slots, got {shard}")
    check_key(key)
    first, end = part * size // parts, (part + 1) * size // parts
    if size == universe:
        return Every(universe, first, end - first)
    if key is None and parts > 1:
        raise ValueError(
            "sampled shards must share a key: pass the same key=secrets.token_bytes(16) to each; in a shell, --shard "
            "I/N:KEY with 32 hexadecimal digits, from openssl rand -hex 16"
        )
    slots = Sampled(universe, first, end - first, key or _drawn_key(coins))
    while not slots.users and key is None:  # a few slots are nobody's: take others
        slots = Sampled(universe, first, end - first, _drawn_key(coins))
    if not slots.users:
        raise ValueError(f"under this key the {slots.size} slots are nobody's; take a larger sample or another key")
    return slots


def _drawn_key(coins: Coins) -> bytes:
    return coins.randbelow(2 ** (8 * KEY_BYTES)).to_bytes(KEY_BYTES, "little")

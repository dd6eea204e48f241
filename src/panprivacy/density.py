"""`Density`: what fraction of these users has shown up?"""

from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from panprivacy import coins as coin_sources
from panprivacy.budget import Budget, Split, best_split, budget_of
from panprivacy.coins import Coins
from panprivacy.errors import BudgetExhausted, NotPrivate
from panprivacy.release import Release, Spread, spread_of
from panprivacy.sizes import format_bytes, parse_bytes
from panprivacy.slots import Every, Sampled, Slots, Universe, universe_of
from panprivacy.slots.batches import batches, check_weights, chunks
from panprivacy.slots.places import KEY_BYTES
from panprivacy.table import Table

if TYPE_CHECKING:
    from rich.table import Table as RichTable


class _Last(NamedTuple):
    """The last release and what it was made from, so that it survives saving."""

    noisy: int
    redraws: int
    release: Release


class Density:
    r"""Estimate what fraction of a known universe of users has appeared in a stream, pan-privately.

    Every tracked user owns one bit. It starts as a coin of probability p0; each appearance redraws it with
    probability ``p1 = 1 - p0``, a deletion with p0 again. A release publishes the number of ones plus exact
    discrete Laplace noise, scaled to ``(noisy - m*p0) / (m*(p1-p0))``. Whoever reads the whole state once, at any
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

    def __init__(
        self,
        universe: int | Universe,
        epsilon: float,
        *,
        sample: int | None = None,
        memory: str | int | None = None,
        releases: int = 1,
        intrusions: int = 0,
        shard: tuple[int, int] | None = None,
        key: bytes | None = None,
        coins: Coins | None = None,
    ) -> None:
        source = coins or coin_sources.system
        users = universe_of(universe)
        size = _table_size(users.size, sample, memory)
        split = best_split(float(epsilon), size, releases, intrusions)
        slots = _choose_slots(users.size, size, shard, key, source)
        table = Table.drawn(slots.size, split.pair, source)
        self._assemble(users, slots, split, table, source)

    def _assemble(self, universe: Universe, slots: Slots, split: Split, table: Table, coins: Coins) -> None:
        self._universe = universe
        self._slots = slots
        self._split = split
        self._table = table
        self._coins = coins
        self._pair = split.pair
        self._releases_made = 0
        self._redraws_made = 0
        self._last: _Last | None = None
        self._drawn_securely = True
        self._lock = Lock()

    # --- events -------------------------------------------------------------------------------------------------

    def update(self, user: Any) -> None:
        """Note that a user appeared."""
        self._redraw_one(user, self._pair.present)

    def remove(self, user: Any) -> None:
        """Note that a user was deleted: as if it had never appeared."""
        self._redraw_one(user, self._pair.absent)

    def update_many(self, ids: Any, weight: Any = None) -> None:
        """Note that these users appeared.

        `ids` is an array, a Polars or Arrow column, a list or an iterator; for `pp.Edges` an (n, 2) array, a list of
        pairs or a tuple of two columns. A positive `weight` means one appearance. A batch with a user outside the
        universe is refused whole; an iterator is taken in chunks, each a batch. Feeding a batch twice does no harm.
        """
        self._redraw_many(ids, weight, remove=False)

    def remove_many(self, ids: Any, weight: Any = None) -> None:
        """Note that these users were deleted; takes what `update_many` takes."""
        self._redraw_many(ids, weight, remove=True)

    def _redraw_one(self, user: Any, threshold: int) -> None:
        slot = self._slots.slot(self._universe.index(user))
        if slot >= 0:
            with self._lock:
                self._table.redraw_one(slot, self._coins.flip(threshold))

    def _redraw_many(self, ids: Any, weight: Any, remove: bool) -> None:
        for pieces in batches(self._universe.as_batch(ids)):
            if weight is not None:
                check_weights(weight, pieces)
            for chunk in chunks(pieces):
                self._universe.check(chunk)
            for chunk in chunks(pieces):
                slots = self._slots.select(self._universe.indices(chunk))
                with self._lock:
                    self._table.redraw(slots, self._pair.absent if remove else self._pair.present, self._coins)

    # --- what leaves --------------------------------------------------------------------------------------------

    def release(self, level: float = 0.95) -> Release:
        """Spend one planned release on an estimate, with a confidence interval of the given level."""
        with self._lock:
            if self._releases_made >= self._split.releases:
                raise BudgetExhausted(
                    f"all {self._split.releases} planned releases are made; .last gives the last one again, and a new "
                    "estimator with releases=K plans for more"
                )
            self._spread.interval(0.5, level)  # refuses a bad level before anything is spent
            self._releases_made += 1
            noisy = self._coins.noisy(self._table.ones(), self._split.release)
            return self._remember(noisy, level)

    def _remember(self, noisy: int, level: float) -> Release:
        """Make a release of a noisy count, and keep it: from here on all is post-processing."""
        spread = self._spread
        raw = spread.density(noisy)
        density = min(max(raw, 0.0), 1.0)
        budget = self.budget
        release = Release(
            density=density,
            count=density * spread.population,
            stderr=spread.stderr(density),
            interval=spread.interval(raw, level),
            level=level,
            raw_density=raw,
            universe=spread.population,
            number=self._releases_made,
            epsilon_spent=budget.spent,
            epsilon_remaining=budget.remaining,
            secure=self.secure,
        )
        self._last = _Last(noisy, self._redraws_made, release)
        return release

    @property
    def last(self) -> Release | None:
        """The last release again, at no cost; None before the first."""
        return self._last.release if self._last else None

    def rerandomize(self) -> None:
        """After an announced reading of the state: redraw every bit through randomised response.

        The next reading then costs no more than planned. The estimate stays unbiased; its error grows.
        """
        with self._lock:
            if self._redraws_made >= self._split.intrusions:
                raise BudgetExhausted(
                    f"all {self._split.intrusions} planned rerandomisations are made; plan them with intrusions=J"
                )
            self._redraws_made += 1
            self._table.flip_each(self._split.flip, self._coins)
            self._pair = self._split.pair_after(self._redraws_made)

    # --- what it says of itself ---------------------------------------------------------------------------------

    @property
    def budget(self) -> Budget:
        """Where epsilon goes: shares, spent, left, and the exact total."""
        return budget_of(self._split, self._releases_made, self._redraws_made)

    @property
    def secure(self) -> bool:
        """Whether every coin so far came from the operating system."""
        return self._drawn_securely and self._coins.secure

    @property
    def epsilon(self) -> float:
        """The total budget."""
        return self._split.epsilon

    @property
    def universe(self) -> Universe:
        """The users there could be."""
        return self._universe

    @property
    def users(self) -> int:
        """How many users own a bit."""
        return self._slots.users

    @property
    def memory(self) -> int:
        """Bytes that the bits take."""
        return self._table.words.nbytes

    def stderr_at(self, density: float) -> float:
        """The standard error that a release now would have, if this were the true density."""
        return self._spread.stderr(density)

    @property
    def _spread(self) -> Spread:
        slots = self._slots
        return spread_of(self._pair, slots.size, slots.users, slots.population, float(self._split.release))

    def __repr__(self) -> str:
        budget = self.budget
        tracked = "all" if self.users == self._universe.size else f"{self.users:,}"
        return (
            f"<Density of {self._universe.describe()}, {tracked} tracked in {format_bytes(self.memory)}; epsilon "
            f"{self.epsilon:g}: {budget.spent:.3g} spent, {budget.releases_made} of {len(budget.releases)} releases made"
            f"{'' if self.secure else '; NOT SECURE: seeded coins'}>"
        )

    def __rich__(self) -> "RichTable":
        from rich.table import Table as Grid

        grid = Grid(title="Density", show_header=False)
        grid.add_row("universe", self._universe.describe())
        grid.add_row("tracked", f"{self.users:,} users in {format_bytes(self.memory)}")
        for line in str(self.budget).splitlines():
            grid.add_row(*line.split(maxsplit=1))
        grid.add_row("error", f"± {self.stderr_at(0.5):.4f} (standard error at density 1/2)")
        if not self.secure:
            grid.add_row("warning", "[bold red]not private: seeded coins")
        return grid

    # --- bytes --------------------------------------------------------------------------------------------------

    def to_bytes(self, *, insecure: bool = False) -> bytes:
        """The whole state, to be read by `pp.load`.

        An estimator on seeded coins is refused unless `insecure=True` says that this is known.
        """
        if not (self.secure or insecure):
            raise NotPrivate("this estimator used seeded coins and protects nobody; to_bytes(insecure=True) saves it")
        from panprivacy.density_state import to_bytes

        with self._lock:
            return to_bytes(self)

    def __reduce__(self) -> tuple[Any, ...]:
        from panprivacy.density_state import from_bytes

        return from_bytes, (self.to_bytes(), self._universe)


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
    if key is not None and len(key) != KEY_BYTES:
        raise ValueError(f"key needs {KEY_BYTES} bytes, got {len(key)}")
    first, end = part * size // parts, (part + 1) * size // parts
    if size == universe:
        return Every(universe, first, end - first)
    if key is None and parts > 1:
        raise ValueError("sampled shards must share a key: pass the same key=secrets.token_bytes(16) to each")
    key = key or coins.randbelow(2 ** (8 * KEY_BYTES)).to_bytes(KEY_BYTES, "little")
    return Sampled(universe, first, end - first, key)

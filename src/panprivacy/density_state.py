"""A `Density` as bytes and back, and several as one."""

import struct
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple, NoReturn

from panprivacy import coins, state
from panprivacy.budget import RELEASE_STEPS, Split
from panprivacy.coins import ONE
from panprivacy.density import Density
from panprivacy.errors import CannotMerge, CorruptState, PanPrivacyError
from panprivacy.pairs import Pair
from panprivacy.slots import Edges, Every, Range, Sampled, Slots, Universe, Users
from panprivacy.slots.places import LARGEST_UNIVERSE
from panprivacy.table import Table

KIND = 1
_UNIVERSES = {Range: 0, Users: 1, Edges: 2}


class Record(NamedTuple):
    """All that a `Density` is, besides its bits."""

    universe_kind: int
    directed: int
    universe: int
    nodes: int
    fingerprint: bytes
    sampled: int
    key: bytes
    first: int
    size: int
    epsilon: float
    present: int
    release_steps: int
    releases: int
    flip: int
    intrusions: int
    releases_made: int
    redraws_made: int
    last_known: int
    last_noisy: int
    last_level: float
    last_redraws: int


_RECORD = struct.Struct("<BBQQ32sB16sQQdIQIIIIIBqdI")


class Unlisted:
    """A list of users that was left out when the estimator was loaded: it can release, but not be fed."""

    def __init__(self, size: int, fingerprint: bytes) -> None:
        self.size = size
        self.fingerprint = fingerprint

    def as_batch(self, ids: Any) -> Any:
        """Refuse."""
        self._refuse(ids)

    def index(self, user: Any) -> int:
        """Refuse."""
        self._refuse(user)

    def check(self, chunk: Any) -> None:
        """Refuse."""
        self._refuse(chunk)

    def indices(self, chunk: Any) -> Any:
        """Refuse."""
        self._refuse(chunk)

    def describe(self) -> str:
        """What the universe is, in a few words."""
        return f"{self.size:,} listed users (list not loaded)"

    def _refuse(self, _: Any) -> NoReturn:
        raise PanPrivacyError("this estimator was loaded without its users: pp.load(blob, universe=pp.Users(...))")


def to_bytes(est: Density) -> bytes:
    """Write the state of a `Density`."""
    universe, slots, split, last = est._universe, est._slots, est._split, est._last
    listed = isinstance(universe, Users | Unlisted)
    record = Record(
        universe_kind=_UNIVERSES[Users if listed else type(universe)],
        directed=isinstance(universe, Edges) and universe.directed,
        universe=universe.size,
        nodes=universe.nodes if isinstance(universe, Edges) else 0,
        fingerprint=universe.fingerprint if isinstance(universe, Users | Unlisted) else bytes(32),
        sampled=isinstance(slots, Sampled),
        key=slots.key if isinstance(slots, Sampled) else bytes(16),
        first=slots.first,
        size=slots.size,
        epsilon=split.epsilon,
        present=split.pair.present,
        release_steps=int(split.release * RELEASE_STEPS),
        releases=split.releases,
        flip=split.flip,
        intrusions=split.intrusions,
        releases_made=est._releases_made,
        redraws_made=est._redraws_made,
        last_known=last is not None,
        last_noisy=last.noisy if last else 0,
        last_level=last.release.level if last else 0.0,
        last_redraws=last.redraws if last else 0,
    )
    return state.seal(KIND, est.secure, _RECORD.pack(*record), est._table.words)


def from_bytes(blob: bytes, universe: Universe | None = None) -> Density:
    """Read the state of a `Density`; a list of users must be given again to feed it."""
    kind, secure, parameters, words = state.unseal(blob)
    if kind != KIND or len(parameters) != _RECORD.size:
        raise CorruptState("this state is not that of a Density")
    record = Record(*_RECORD.unpack(parameters))
    try:
        split = Split(
            record.epsilon,
            Pair(ONE - record.present, record.present),
            Fraction(record.release_steps, RELEASE_STEPS),
            record.releases,
            record.flip,
            record.intrusions,
        )
        slots = _slots(record)
        table = Table(slots.size, words)
        _check(record, table)
    except (PanPrivacyError, ValueError, ArithmeticError) as error:
        raise CorruptState(f"the state contradicts itself: {error}") from error
    est = Density.__new__(Density)
    est._assemble(_universe(record, universe), slots, split, table, coins.system)
    est._drawn_securely = secure
    if record.last_known:
        # The last release was the one before the counter stood where it stands, under the pair of its time.
        est._redraws_made, est._pair = record.last_redraws, split.pair_after(record.last_redraws)
        est._releases_made = record.releases_made
        est._remember(record.last_noisy, record.last_level)
    est._releases_made, est._redraws_made = record.releases_made, record.redraws_made
    est._pair = split.pair_after(record.redraws_made)
    return est


def _universe(record: Record, given: Universe | None) -> Universe:
    if record.universe_kind == _UNIVERSES[Edges]:
        return Edges(record.nodes, bool(record.directed))
    if record.universe_kind == _UNIVERSES[Range]:
        return Range(record.universe)
    if given is None:
        return Unlisted(record.universe, record.fingerprint)
    if getattr(given, "fingerprint", None) != record.fingerprint:
        raise ValueError("this list of users is not the one that the estimator was built with")
    return given


def _slots(record: Record) -> Slots:
    if record.sampled:
        return Sampled(record.universe, record.first, record.size, record.key)
    return Every(record.universe, record.first, record.size)


def _check(record: Record, table: Table) -> None:
    expected = Edges(record.nodes, bool(record.directed)).size if record.universe_kind == 2 else record.universe
    facts = {
        "the universe": 1 <= record.universe == expected <= LARGEST_UNIVERSE and record.universe_kind in (0, 1, 2),
        "the slots": 1 <= record.size and record.first + record.size <= record.universe,
        "the bits": len(table.words) == -(-table.size // 64) and table.tail_is_clear(),
        "the pair": 2 * record.present > ONE,
        "the releases": 0 <= record.releases_made <= record.releases and record.release_steps > 0,
        "the redraws": record.redraws_made <= record.intrusions and bool(record.flip) == bool(record.intrusions),
        "the last release": not record.last_known
        or (record.releases_made > 0 and 0 < record.last_level < 1 and record.last_redraws <= record.redraws_made),
    }
    wrong = [name for name, holds in facts.items() if not holds]
    if wrong:
        raise ValueError(", ".join(wrong))


def merge(parts: Sequence[Density]) -> Density:
    """Join estimators over neighbouring parts of one universe into one: counts add, one noise.

    Each user has a bit in one part only, so what each part spent is not added up: the merged ledger is that of the
    part that spent most. Releases made by a part count for its users, who are now the merged estimator's too.

    >>> import panprivacy as pp
    >>> north, south = (pp.Density(universe=1000, epsilon=1.0, shard=(i, 2)) for i in range(2))
    >>> pp.merge([north, south]).users
    1000
    """
    if not parts:
        raise CannotMerge("there is nothing to merge")
    ordered = sorted(parts, key=lambda part: part._slots.first)
    head = ordered[0]
    for before, part in zip(ordered, ordered[1:], strict=False):
        _check_neighbours(before, part)
    size = sum(part._slots.size for part in ordered)
    table = Table.empty(size)
    for part in ordered:
        table.copy_bits(part._table, at=part._slots.first - head._slots.first)
    slots = head._slots
    joined: Slots = (
        Sampled(slots.universe, slots.first, size, slots.key)
        if isinstance(slots, Sampled)
        else Every(slots.universe, slots.first, size)
    )
    merged = Density.__new__(Density)
    merged._assemble(head._universe, joined, head._split, table, head._coins)
    merged._drawn_securely = all(part.secure for part in parts)
    merged._releases_made = max(part._releases_made for part in parts)
    merged._redraws_made, merged._pair = head._redraws_made, head._pair
    return merged


def _check_neighbours(before: Density, part: Density) -> None:
    same = {
        "universes": _identity(before._universe) == _identity(part._universe),
        "budgets": before._split == part._split,
        "samples": isinstance(before._slots, Sampled) == isinstance(part._slots, Sampled),
        "keys": getattr(before._slots, "key", None) == getattr(part._slots, "key", None),
        "numbers of rerandomisations": before._redraws_made == part._redraws_made,
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

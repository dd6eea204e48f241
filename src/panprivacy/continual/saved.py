"""An observer as bytes: what it planned, where its walk is, and the bits behind it."""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any

from panprivacy.checks import LARGEST_DELTA
from panprivacy.continual.accuracy import bar_for, farthest_walk
from panprivacy.continual.bits import split_of, tracked_by
from panprivacy.continual.shares import Shares
from panprivacy.continual.watch import Watch
from panprivacy.density import Density
from panprivacy.errors import CorruptState, NotPrivate, PanPrivacyError
from panprivacy.privacy.budget import RELEASE_STEPS
from panprivacy.privacy.coins import ONE
from panprivacy.privacy.ledger import noise_of, steps_of
from panprivacy.privacy.pairs import Pair
from panprivacy.state import Sealed

KIND = 4
"""Which estimator a saved state is of; `Density` is 1, `DistinctCount` 2."""

# epsilon, present, moves, three shares, bar, walk, step, beta, planned, insert-only, observed, published
_WITHOUT_DELTA = struct.Struct("<dII3QqqddQ?Qd")
# and: whether it only rises, delta
_OBSERVER = struct.Struct("<dII3QqqddQ?Qd?d")

_UNUSED = 0.01  # of epsilon, that a plan leaves at most: the search for the best shares ends before the last digits
_USABLE = 20.0  # the largest epsilon of which that holds: a coin of 32 bits cannot use more
_NEVER = 1e-12  # the probability that an honest walk is refused
_ROUNDING = 1e-6  # relative


@dataclass
class Observed:
    """What an observer keeps beside its bits."""

    watch: Watch
    step: float
    beta: float
    planned: int
    insert_only: bool
    observations: int = 0
    """How many have been made."""
    published: float = 0.0


@contextmanager
def sealed(density: Density, observed: Observed, *, insecure: bool) -> Iterator[Sealed]:
    """The parts of a saved observer, whose length depends on its plan alone; the bits keep still meanwhile."""
    if not (density.secure or insecure):
        raise NotPrivate("this observer used seeded coins and protects nobody; insecure=True saves it all the same")
    shares = observed.watch.shares
    head = _OBSERVER.pack(
        shares.epsilon,
        shares.pair.present,
        shares.moves,
        *(int(share * RELEASE_STEPS) for share in (shares.threshold, shares.test)),
        steps_of(shares.value),
        observed.watch.bar,
        observed.watch.walk,
        observed.step,
        observed.beta,
        observed.planned,
        observed.insert_only,
        observed.observations,
        observed.published,
        shares.rising,
        shares.delta,
    )
    with density._sealed(insecure) as bits:
        yield bits._replace(kind=KIND, parameters=head + bits.parameters)


def from_sealed(parts: Sealed, universe: Any) -> tuple[Density, Observed]:
    """Take an observer apart again, refusing what contradicts itself."""
    if parts.kind != KIND:
        raise CorruptState("this state is not that of a Continual")
    try:
        written = _OBSERVER if parts.version > 1 else _WITHOUT_DELTA
        observed = _read(written, parts.parameters)
        bits = parts._replace(kind=Density.KIND, parameters=parts.parameters[written.size :])
        density = Density.from_sealed(bits, universe)
        if density._ledger.split != split_of(observed.watch.shares):
            raise CorruptState("its bits have another plan")
        if parts.version > 1:
            _check_bar(observed, density)
    except (PanPrivacyError, ValueError, ArithmeticError, struct.error) as error:
        raise CorruptState(f"the state contradicts itself: {error}") from error
    return density, observed


def _read(written: struct.Struct, parameters: bytes) -> Observed:
    (epsilon, present, moves, *rest) = written.unpack_from(parameters)
    threshold, test = (Fraction(steps, RELEASE_STEPS) for steps in rest[:2])
    value, bar, walk, step, beta, planned, insert_only, observations, published, *law = rest[2:]
    rising, delta = law or (False, 0.0)
    if not (0 < step <= 1 and 0 < beta < 1 and planned and bar > 0 and 0 <= published <= 1):
        raise CorruptState("its plan is impossible")
    if not (2 * present > ONE and min(threshold, test, value) > 0 and 0 <= delta <= LARGEST_DELTA):
        raise CorruptState("its shares are impossible")
    if rising and not insert_only:
        raise CorruptState("its stream cannot have deletions and only rise")
    if insert_only and moves != ceil(1 / step):
        raise CorruptState("its moves are not those of its step")
    noise = noise_of(value, delta)
    shares = Shares(epsilon, Pair(ONE - present, present), moves, threshold, test, noise, rising, delta=delta)
    if rising and not delta and epsilon <= _USABLE and shares.loss(moves) < (1 - _UNUSED) * epsilon:
        raise CorruptState("its shares are those of a stream with deletions, and it claims to have none")
    if abs(walk) > farthest_walk(shares, observations, _NEVER):
        raise CorruptState("its walk is farther than its steps can have led")
    return Observed(Watch(shares, bar, walk), step, beta, planned, insert_only, observations, published)


def _check_bar(observed: Observed, density: Density) -> None:
    """Refuse a bar that is not that of the plan; the last digits of the plan's may differ between machines."""
    shares = observed.watch.shares
    planned = bar_for(observed.step, shares, tracked_by(density), observed.planned, observed.beta)
    if abs(observed.watch.bar - planned) > 1 + _ROUNDING * planned:
        raise CorruptState(f"its bar is {observed.watch.bar:,}, and that of its plan {planned:,}")

"""An observer as bytes: what it planned, where its walk is, and the bits behind it."""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from panprivacy.continual.bits import split_of
from panprivacy.continual.shares import Shares
from panprivacy.continual.watch import Watch
from panprivacy.density import Density
from panprivacy.errors import CorruptState, NotPrivate, PanPrivacyError
from panprivacy.privacy.budget import RELEASE_STEPS
from panprivacy.privacy.coins import ONE
from panprivacy.privacy.pairs import Pair
from panprivacy.state import Sealed

KIND = 4
"""Which estimator a saved state is of; `Density` is 1, `DistinctCount` 2."""

# epsilon, present, moves, three shares, bar, walk, step, beta, planned, insert-only, observed, published
_OBSERVER = struct.Struct("<dII3QqqddQ?Qd")


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
        *(int(share * RELEASE_STEPS) for share in (shares.threshold, shares.test, shares.value)),
        observed.watch.bar,
        observed.watch.walk,
        observed.step,
        observed.beta,
        observed.planned,
        observed.insert_only,
        observed.observations,
        observed.published,
    )
    with density._sealed(insecure) as bits:
        yield bits._replace(kind=KIND, parameters=head + bits.parameters)


def from_sealed(parts: Sealed, universe: Any) -> tuple[Density, Observed]:
    """Take an observer apart again, refusing what contradicts itself."""
    if parts.kind != KIND:
        raise CorruptState("this state is not that of a Continual")
    try:
        observed = _read(parts.parameters)
        bits = parts._replace(kind=Density.KIND, parameters=parts.parameters[_OBSERVER.size :])
        density = Density.from_sealed(bits, universe)
        if density._ledger.split != split_of(observed.watch.shares):
            raise CorruptState("its bits have another plan")
    except (PanPrivacyError, ValueError, ArithmeticError, struct.error) as error:
        raise CorruptState(f"the state contradicts itself: {error}") from error
    return density, observed


def _read(parameters: bytes) -> Observed:
    (epsilon, present, moves, *rest) = _OBSERVER.unpack_from(parameters)
    threshold, test, value = (Fraction(steps, RELEASE_STEPS) for steps in rest[:3])
    bar, walk, step, beta, planned, insert_only, observations, published = rest[3:]
    if not (0 < step <= 1 and 0 < beta < 1 and planned and bar > 0 and 0 <= published <= 1):
        raise CorruptState("its plan is impossible")
    if not (2 * present > ONE and min(threshold, test, value) > 0):
        raise CorruptState("its shares are impossible")
    shares = Shares(epsilon, Pair(ONE - present, present), moves, threshold, test, value)
    return Observed(Watch(shares, bar, walk), step, beta, planned, insert_only, observations, published)

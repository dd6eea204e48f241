"""The ledger of one estimator: the decided split, what has been spent of it, and what was published last."""

import struct
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from panprivacy.checks import LARGEST_DELTA
from panprivacy.errors import BudgetExhausted, CannotMerge, CorruptState
from panprivacy.privacy.budget import (
    MOST_INTRUSIONS,
    MOST_RELEASES,
    RELEASE_STEPS,
    SQUARE_STEPS,
    Budget,
    Split,
    budget_of,
)
from panprivacy.privacy.coins import ONE
from panprivacy.privacy.gaussian import LEAST_SQUARE
from panprivacy.privacy.noise import Gaussian, Laplace, Noise
from panprivacy.privacy.pairs import Pair
from panprivacy.units import counted


def all_made(planned: int, thing: str) -> str:
    """Say that nothing is left of what was planned.

    >>> all_made(0, "release"), all_made(1, "release"), all_made(2, "release")
    ('no release was planned', 'the only planned release is made', 'all 2 planned releases are made')
    """
    if planned > 1:
        return f"all {counted(planned, f'planned {thing}')} are made"
    return f"the only planned {thing} is made" if planned else f"no {thing} was planned"


class Published(NamedTuple):
    """What left in a release, so that it can be given again: noisy counts, and the moment they were taken."""

    noisy: tuple[int, ...]
    level: float
    number: int
    redraws: int


@dataclass
class Ledger:
    """Counts releases and redraws against the plan, and refuses what was not planned."""

    split: Split
    releases: int = 0
    redraws: int = 0
    published: Published | None = None

    def __post_init__(self) -> None:
        self.pair: Pair = self.split.pair_after(self.redraws)

    def spend_release(self) -> None:
        """Book one release, before anything of it is drawn."""
        if self.releases >= self.split.releases:
            raise BudgetExhausted(
                f"{all_made(self.split.releases, 'release')}; .last gives the last one again, and a new estimator with "
                "releases=K plans for more",
                code="budget-exhausted",
            )
        self.releases += 1

    def check_redraw(self) -> None:
        """Refuse a rerandomisation that was not planned."""
        if self.redraws >= self.split.intrusions:
            made = all_made(self.split.intrusions, "rerandomisation")
            raise BudgetExhausted(f"{made}; plan them with intrusions=J", code="rerandomisations-planned")

    def note_redraw(self) -> None:
        """Book a rerandomisation that was made; from now on the pair is the one behind it."""
        self.check_redraw()
        self.redraws, self.pair = self.redraws + 1, self.split.pair_after(self.redraws + 1)

    def publish(self, noisy: tuple[int, ...], level: float) -> Published:
        """Note what leaves."""
        self.published = Published(noisy, level, self.releases, self.redraws)
        return self.published

    def differences(self, other: "Ledger") -> list[str]:
        """In what another ledger has another plan, or stands elsewhere in it, so that the two cannot be merged."""
        same = {
            "budgets": self.split == other.split,
            "numbers of rerandomisations": self.redraws == other.redraws,
        }
        return [name for name, equal in same.items() if not equal]

    def with_releases(self, made: int) -> "Ledger":
        """The same plan, with this number of releases made."""
        if made > self.split.releases:
            raise CannotMerge(
                f"the parts have made {made} releases together, and {self.split.releases} were planned",
                code="merged-releases",
            )
        return Ledger(self.split, made, self.redraws)

    @property
    def budget(self) -> Budget:
        """The budget as it stands now."""
        return budget_of(self.split, self.releases, self.redraws)

    def to_bytes(self, counts: int) -> bytes:
        """Write the ledger of an estimator whose releases have this many counts."""
        split, last = self.split, self.published or Published((0,) * counts, 0.0, 0, 0)
        head = _LEDGER.pack(
            split.epsilon,
            split.pair.present,
            steps_of(split.noise),
            split.releases,
            split.flip,
            split.intrusions,
            self.releases,
            self.redraws,
            last.number,
            last.level,
            last.redraws,
            counts,
            split.delta,
            split.places,
        )
        return head + struct.pack(f"<{counts}q", *last.noisy)

    @classmethod
    def from_bytes(cls, data: bytes, version: int) -> tuple["Ledger", bytes]:
        """Read a ledger off the front of the bytes of a state of some version, and return the rest."""
        written = _LEDGER if version > 2 else _WITHOUT_PLACES if version > 1 else _WITHOUT_DELTA
        (epsilon, present, steps, planned, flip, intrusions, made, redraws, number, level, then, counts, *rest) = (
            written.unpack_from(data)
        )
        delta, places = rest or (0.0, 1)
        if version == 2 and places > 1:
            places = _MOST_PLACES  # it was not written
        end = written.size + 8 * counts
        noisy = struct.unpack(f"<{counts}q", data[written.size : end])
        sane = {
            "pair": 2 * present > ONE,
            "releases": made <= planned <= MOST_RELEASES and steps > 0,
            "redraws": redraws <= intrusions <= MOST_INTRUSIONS and bool(flip) == bool(intrusions),
            "delta": 0 <= delta <= LARGEST_DELTA,
            "last release": (0 < level < 1 and then <= redraws and number <= made) if number else not any(noisy),
        }
        wrong = [name for name, holds in sane.items() if not holds]
        if wrong:
            raise CorruptState(f"the state contradicts itself in its {' and '.join(wrong)}", code="state-contradictory")
        noise, pair = noise_of(steps, delta), Pair(ONE - present, present)
        split = Split(epsilon, pair, noise, planned, flip, intrusions, delta=delta, places=places)
        released, planned_for = split.loss(planned, intrusions) - pair.loss, epsilon - pair.loss
        if isinstance(noise, Gaussian) and noise.square > LEAST_SQUARE and released < _USED * planned_for:
            raise CorruptState(
                "the state has more noise than its epsilon and delta ask for", code="state-contradictory"
            )
        published = Published(noisy, level, number, then) if number else None
        return cls(split, made, redraws, published), data[end:]


def steps_of(noise: Noise) -> int:
    """The size of noise as it is written: in steps of an epsilon; with a delta, of a square."""
    return int(noise.epsilon * RELEASE_STEPS if isinstance(noise, Laplace) else noise.square * SQUARE_STEPS)


def noise_of(steps: int, delta: float) -> Noise:
    """The noise that was written so."""
    return Gaussian(Fraction(steps, SQUARE_STEPS)) if delta else Laplace(Fraction(steps, RELEASE_STEPS))


_USED = 0.5  # of the releases' epsilon: `best_split` leaves a millionth or so, earlier laws up to a third
_MOST_PLACES = 256
_WITHOUT_DELTA = struct.Struct("<dIQIIIIIIdII")
_WITHOUT_PLACES = struct.Struct("<dIQIIIIIIdIIdB")
_LEDGER = struct.Struct("<dIQIIIIIIdIIdH")

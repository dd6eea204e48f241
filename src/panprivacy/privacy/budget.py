r"""How one budget is split between the state and its releases, and the ledger of what is spent of it.

One user's bit is all that user touches, so the exact worst case over every pattern of that user's insertions and
deletions, with one reading of the state anywhere among them, is

    total = eps_state + ln(1 + p1*(e^R - 1)),                   R = the sum of the releases' epsilons.

The second term is the case of a user who stays away until the reading and appears after it: the reading fixed the
bit, the appearance redraws it as 1 with probability p1, and the releases see that 1 through noise of epsilon R.

J announced readings, the state being redrawn through randomised response of eps_r after each, add one more factor
each. The worst case puts all releases before the first redraw, on the bit that the redraw then shows:

    total = eps_state + ln(1 + p1*(e^(R + eps_r) - 1)) + sum over j = 1..J-1 of ln(1 + p1_j*(e^eps_r - 1)),

p1_j being the pair after j redraws. At most one reading, announced or not, may fall between two redraws.

With Gaussian noise and a delta the same formulas, for R = 0, say what all readings lose, and eps_G what the releases
add to it, against an intruder who chooses the moment of the reading by what was released:

    total = (the formula above for R = 0) + eps_G(releases, delta).

eps_G is the smaller one of two bounds, `panprivacy.privacy.gaussian` and, for one bit and one reading,
`panprivacy.privacy.renyi`. The second needs that the times of releases and the user's own events do not depend on what
was released; `Split.reacting_loss` is the total by the first alone, which does not need it.

A user who is a field of a counter and a bit (`panprivacy.table.counters`) is seen at the place where the counter
stands. Each appearance moves the user to another one, with certainty, and so takes 1 from one of the counts and gives
1 to another: the `sensitivity` of the counts of a release is 2 in all. The counter that was read is not redrawn, so
what the releases lose is not hidden by a coin, and the exact worst case is

    total = eps_state + R,                   R = the sum of 2 * (epsilon of the noise on each count);

with Gaussian noise, eps_G for a sensitivity of 2. That is the case of a user who comes back to the same counter with
another bit. One whose counter moves changes two counts by 1 each, whose sum is all that tells: X1 + X2 against X1 + X2
+ 2, and that is X against X + 2 with more noise on it, hence no worse, release by release.
"""

import struct
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from math import log, sqrt
from typing import NamedTuple

from panprivacy.checks import LARGEST_DELTA
from panprivacy.display import Card, counted, grid_of, html_of, text_of
from panprivacy.errors import BudgetExhausted, CannotMerge, CorruptState, InvalidValue, NotPrivate
from panprivacy.privacy import exact, gaussian, renyi
from panprivacy.privacy.coins import ONE
from panprivacy.privacy.gaussian import LEAST_SQUARE
from panprivacy.privacy.noise import Gaussian, Laplace, Noise
from panprivacy.privacy.pairs import Pair

RELEASE_STEPS = 2**40
"""The epsilon of a release is a whole number of these steps, so its noise is drawn exactly."""

SQUARE_STEPS, LARGEST_SQUARE = 2**16, 2**47
"""The square of Gaussian noise is a whole number of such steps, and has a largest value."""

MOST_INTRUSIONS, MOST_RELEASES = 1000, 100_000
"""No budget makes sense of more, and the worst case of more intrusions takes long to compute."""

LARGEST_STATE_EPSILON = 22.0
"""Of one bit: beyond it a 32-bit coin cannot be more certain."""


@dataclass(frozen=True)
class Law(ABC):
    """The largest loss of an estimator with these coins, as a function of how often things have been done.

    There are two laws: `Split` for planned releases and announced readings, `continual_law.Shares` for any number of
    observations. Each says which things it counts: `planned` has as many numbers as `exact_loss` takes.
    """

    epsilon: float
    """The total that was promised."""
    pair: Pair
    """The coins of the bits."""
    delta: float = field(default=0.0, kw_only=True)
    """The probability, at most, with which more than epsilon may be lost: none, without Gaussian noise."""

    def __post_init__(self) -> None:
        if self.exact_loss(*self.planned) > exact.decimal(self.epsilon):
            raise NotPrivate(f"this plan loses more than the {self.epsilon} it was given", code="plan-over-budget")

    @property
    @abstractmethod
    def planned(self) -> tuple[int, ...]:
        """How often each thing is planned to be done."""

    @abstractmethod
    def exact_loss(self, *done: int) -> Decimal:
        """The worst-case loss to 50 digits, once each thing has been done this number of times."""

    def loss(self, *done: int) -> float:
        """`exact_loss`, rounded up."""
        return exact.round_up(self.exact_loss(*done))

    @abstractmethod
    def delta_after(self, *done: int) -> float:
        """The delta that goes with `exact_loss`: all of it, as soon as Gaussian noise has been drawn once."""


def sensitivity_of(places: int) -> int:
    """By how much one user can move the counts of a release, taken together.

    `places` is the number of counts among which an appearance moves a user: 1 for a bit, t for a counter up to t.

    >>> sensitivity_of(1), sensitivity_of(8)
    (1, 2)
    """
    return 1 if places == 1 else 2


@dataclass(frozen=True)
class Split(Law):
    """The decided split of a total epsilon: the pair of the state, the noise of releases and redraws."""

    noise: Noise
    """The noise that is added to each count of a release."""
    releases: int
    flip: int
    intrusions: int
    places: int = field(default=1, kw_only=True)
    """Counts among which an appearance moves a user: 1 for a bit, t for a counter up to t and a bit."""

    def __post_init__(self) -> None:
        if self.places < 1 or (self.places > 1 and self.intrusions):
            raise InvalidValue(
                f"no plan has counters up to {self.places} and {self.intrusions} intrusions",
                code="counters-and-intrusions",
            )
        super().__post_init__()

    @property
    def sensitivity(self) -> int:
        """By how much one user can move the counts of a release, taken together."""
        return sensitivity_of(self.places)

    @property
    def of_one_bit(self) -> bool:
        """Whether releases see one bit of a user, which only the user's events redraw: tighter laws hold for it."""
        return self.places == 1 and not self.intrusions

    @property
    def planned(self) -> tuple[int, int]:
        """How many releases and how many redraws are planned."""
        return self.releases, self.intrusions

    def pair_after(self, redraws: int) -> Pair:
        """The pair in force after that many announced intrusions."""
        pair = self.pair
        for _ in range(redraws):
            pair = pair.after_randomized_response(self.flip)
        return pair

    def exact_loss(self, *done: int) -> Decimal:
        """The worst-case loss of a reading in every stretch between redraws, after these releases and redraws."""
        releases, redraws = done
        beside = self.gaussian_loss(releases, redraws)
        if self.of_one_bit and isinstance(self.noise, Gaussian):
            beside = min(beside, renyi.loss(self.noise.square, releases, self.delta, self.pair.p1))
        return self._with_readings(releases, redraws, beside)

    def gaussian_loss(self, releases: int, redraws: int) -> float:
        """What these releases lose beside the readings, if noise is Gaussian, whatever reacts to them."""
        if not isinstance(self.noise, Gaussian):
            return 0.0
        log_choices = gaussian.log_choices(releases, redraws, self.places)
        return gaussian.loss(self.noise.square, releases, self.delta, self.sensitivity, log_choices)

    def reacting_loss(self, releases: int, redraws: int) -> float:
        """The loss if the times of releases, or the user's own events, depend on what was released; rounded up."""
        return exact.round_up(self._with_readings(releases, redraws, self.gaussian_loss(releases, redraws)))

    @lru_cache(maxsize=64)  # noqa: B019 - splits are values, and few: what is planned is asked for at every release
    def _with_readings(self, releases: int, redraws: int, beside: float) -> Decimal:
        """The readings and the releases with Laplace noise, and what Gaussian noise loses beside them."""
        each = self.noise.epsilon if isinstance(self.noise, Laplace) else Fraction(0)
        released = exact.decimal(releases * self.sensitivity * each)
        state = exact.add(self.pair.exact_loss, exact.decimal(beside))
        if self.places > 1:
            return exact.add(state, released)
        if not redraws:
            return exact.add(state, exact.log_mixture(self.pair.p1, released))
        redraw = exact.ln(exact.decimal(Fraction(ONE - self.flip, self.flip)))
        first = exact.log_mixture(self.pair.p1, exact.add(released, redraw))
        later = (exact.log_mixture(self.pair_after(j).p1, redraw) for j in range(1, redraws))
        return exact.add(state, first, *later)

    def delta_after(self, *done: int) -> float:
        """The delta: all of it, from the first release on."""
        return self.delta if done[0] else 0.0


@dataclass(frozen=True)
class Spending:
    """What an estimator has spent of its epsilon and delta."""

    epsilon: float
    """The total that was promised."""
    state: float
    """Share of the state: spent as soon as the estimator exists, since it may be read at any time."""
    spent: float
    """Worst-case loss of what has happened so far, one reading of the state included."""
    total: float
    """Worst-case loss once everything planned has happened: at most `epsilon`."""
    delta: float
    """The probability, at most, with which more than `total` is lost: 0 unless a delta was given."""
    delta_spent: float
    """The probability, at most, with which more than `spent` is lost."""

    @property
    def remaining(self) -> float:
        """The epsilon that planned releases may still spend."""
        return max(self.total - self.spent, 0.0)


def spent_under(law: Law, *done: int) -> dict[str, float]:
    """The fields of `Spending` when each thing of a law has been done this number of times."""
    return {
        "epsilon": law.epsilon,
        "state": law.pair.loss,
        "spent": law.loss(*done),
        "total": law.loss(*law.planned),
        "delta": law.delta,
        "delta_spent": law.delta_after(*done),
    }


@dataclass(frozen=True)
class Budget(Spending):
    """Where an estimator's epsilon goes: planned shares, the part spent, the part left."""

    releases: int
    """How many releases are planned."""
    releases_made: int
    noise_stderr: float
    """Standard deviation of the noise that a release adds to a count."""
    release_epsilon: float | None
    """What each release adds to the releases' epsilon; None with Gaussian noise, whose releases do not just add up."""
    reacting: float
    """`total`, if the times of releases or a user's own events depend on what was released: more only with a delta."""
    redraws: int
    """How many rerandomisations are planned."""
    redraws_made: int
    redraw_epsilon: float
    """Epsilon of each rerandomisation."""

    def card(self) -> Card:
        """The display of a budget."""
        each = f" of {self.release_epsilon:.4g} each" if self.release_epsilon else f", noise ± {self.noise_stderr:,.1f}"
        rows = [
            ("total", f"{self.total:.6f} of epsilon {self.epsilon:g}{and_delta(self.delta)}"),
            ("state", f"{self.state:.6f}"),
            ("releases", f"{self.releases_made:,} of {self.releases:,} made{each}"),
            ("spent", f"{self.spent:.6f}{and_delta(self.delta_spent)}"),
            ("remaining", f"{self.remaining:.6f}"),
        ]
        if self.redraws:
            made = f"{self.redraws_made} of {self.redraws} made of {self.redraw_epsilon:.4g} each"
            rows.insert(3, ("redraws", made))
        return Card("Budget", tuple(rows))

    __str__ = text_of
    __rich__ = grid_of
    _repr_html_ = html_of


@lru_cache(maxsize=16)
def budget_of(split: Split, releases_made: int, redraws_made: int) -> Budget:
    """Lay a split open, with what has been spent of it."""
    return Budget(
        **spent_under(split, releases_made, redraws_made),
        releases=split.releases,
        releases_made=releases_made,
        noise_stderr=sqrt(split.noise.variance),
        release_epsilon=float(split.sensitivity * split.noise.epsilon) if isinstance(split.noise, Laplace) else None,
        reacting=split.reacting_loss(*split.planned),
        redraws=split.intrusions,
        redraws_made=redraws_made,
        redraw_epsilon=log((ONE - split.flip) / split.flip) if split.intrusions else 0.0,
    )


def and_delta(delta: float) -> str:
    """The words about a delta behind an epsilon.

    >>> and_delta(0.0), and_delta(2.5e-9)
    ('', ', delta 2.5e-09')
    """
    return f", delta {delta:g}" if delta else ""


def all_made(planned: int, thing: str) -> str:
    """Say that nothing is left of what was planned.

    >>> all_made(0, "release"), all_made(1, "release"), all_made(2, "release")
    ('no release was planned', 'the only planned release is made', 'all 2 planned releases are made')
    """
    if planned > 1:
        return f"all {counted(planned, f'planned {thing}')} are made"
    return f"the only planned {thing} is made" if planned else f"no {thing} was planned"


# --- the ledger of one estimator --------------------------------------------------------------------------------------

_USED = 0.5  # of the releases' epsilon: `best_split` leaves a millionth or so, earlier laws up to a third
_LEDGER = struct.Struct("<dIQIIIIIIdIIdH")


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
    def from_bytes(cls, data: bytes) -> tuple["Ledger", bytes]:
        """Read a ledger off the front of these bytes, and return the rest."""
        head = _LEDGER.unpack_from(data)
        epsilon, present, steps, planned, flip, intrusions, made, redraws, number, level, then, counts = head[:12]
        delta, places = head[12:]
        end = _LEDGER.size + 8 * counts
        noisy = struct.unpack(f"<{counts}q", data[_LEDGER.size : end])
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

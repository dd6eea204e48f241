r"""What tells two laws of one sight apart, reduced so that each comparison is made once, and in few dimensions.

A number under which all values are the same tells nothing and sums to 1.
Numbers under which the values move alike, such as two releases with no event between them, tell no more than their sum
if the noise is Gaussian: ``P(o - v)`` is proportional to ``P(o) * e^(o*v/s - v^2/(2s))``, so the product for several o
depends on v through their sum alone. The noise of that sum is a convolution. Adding the same to all values moves the
outputs and not the divergence, and a common factor of all weights is a factor of it. `Contrast` is what remains.
"""

from fractions import Fraction
from math import gcd, lcm
from typing import NamedTuple

from panprivacy.audit.likelihood import Weights
from panprivacy.audit.outcomes import Noised, RealLaplace
from panprivacy.privacy.noise import Gaussian, Noise


class Drawn(NamedTuple):
    """The sum of so many independent draws of a law."""

    law: Noise
    times: int


class Mass(NamedTuple):
    """Values under the noise, which kind of noise is on them, and the weight of all that under either law."""

    values: tuple[int, ...]
    kind: int
    a: int
    b: int


class Contrast(NamedTuple):
    """The weights of one sight under two laws, in lowest terms, the smallest value under each number being 0."""

    masses: tuple[Mass, ...]
    kinds: tuple[tuple[Drawn, ...], ...]
    """The noise on each number: of one kind, unless its width is hidden."""

    @property
    def whole(self) -> int:
        """The sum of all weights."""
        return sum(mass.a + mass.b for mass in self.masses)


class Place(NamedTuple):
    """Where a contrast lies: which of the numbers seen each of its own is the sum of, and how far that was moved."""

    told: tuple[tuple[int, ...], ...]
    moved: tuple[int, ...]


def contrast_of(a: Weights | None, b: Weights | None) -> tuple[Contrast, Fraction, Place]:
    """The contrast of two laws of one sight, its share of them, and its place. None stands for an impossible sight."""
    common = lcm(*(law.whole for law in (a, b) if law))
    shares = [
        {hidden: share * (common // law.whole) for hidden, share in law.shares.items()} if law else {} for law in (a, b)
    ]
    hidden = list(dict.fromkeys(one for each in shares for one in each))
    groups, moved = _groups([list(column) for column in zip(*(one.numbers for one in hidden), strict=True)])
    kinds: list[tuple[Drawn, ...]] = []
    masses: dict[tuple[tuple[int, ...], int], list[int]] = {}
    for one in hidden:
        values = tuple(
            sum(int(one.numbers[i].value) for i in group) - by for group, by in zip(groups, moved, strict=True)
        )
        noise = tuple(Drawn(_whole(one.numbers[group[0]].law), len(group)) for group in groups)
        if noise not in kinds:
            kinds.append(noise)
        both = masses.setdefault((values, kinds.index(noise)), [0, 0])
        for side in range(2):
            both[side] += shares[side].get(one, 0)
    factor = gcd(*(share for both in masses.values() for share in both))
    found = (Mass(*key, share_a // factor, share_b // factor) for key, (share_a, share_b) in masses.items())
    return Contrast(tuple(sorted(found)), tuple(kinds)), Fraction(factor, common), Place(groups, moved)


def _groups(columns: list[list[Noised]]) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
    """The numbers that tell anything, put together where they move alike, and the smallest sum under each group."""
    alike: dict[object, list[int]] = {}
    least = [min(int(number.value) for number in column) for column in columns]
    for i, column in enumerate(columns):
        law = column[0].law
        if any(number != column[0] for number in column):
            one_gaussian = isinstance(law, Gaussian) and all(
                number.law is law or number.law == law for number in column
            )
            moves = (law, *(int(number.value) - least[i] for number in column)) if one_gaussian else i
            alike.setdefault(moves, []).append(i)
    groups = tuple(tuple(group) for group in alike.values())
    return groups, tuple(sum(least[i] for i in group) for group in groups)


def _whole(law: Noise | RealLaplace) -> Noise:
    if isinstance(law, RealLaplace):
        raise NotImplementedError("a delta is a sum over whole numbers: noise on real numbers is not audited for it")
    return law

"""Exact counts of releases, and the noise on them, that are left in memory.

A count is a small number, and small numbers stand everywhere. So each is looked for beside *decoys*, numbers close to
it that nobody has counted: what a process holds anyway, it holds of both alike. Counts were left behind if they are
found so much oftener than decoys that chance does it less than once in 10^9 images.

Looked for are words of 4 bytes at multiples of 4, in memory that has changed since the first batch: an integer of 32 or
64 bits, the digit of one of Python's integers (also where a smaller object has taken the place of its head), and the
upper half of a float.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from panprivacy.audit.imaging import kernels
from panprivacy.audit.imaging.images import Image
from panprivacy.audit.imaging.searching import Earlier

Numbers: TypeAlias = NDArray[np.int64]

CHANCE = 1e-9
"""How often a process is accused that has left nothing."""
_LEAST = 1000  # smaller numbers are in every process, as often as their decoys
_DECOYS = np.array([sign * step for step in range(3, 163, 2) for sign in (1, -1)])
_MOST = 2**20  # finds in one segment: with so many, more say nothing new


@dataclass
class Counted:
    """The exact counts of all releases of a process, and what came of adding noise to them."""

    exact: list[int] = field(default_factory=list)
    noisy: list[int] = field(default_factory=list)

    @classmethod
    def told(cls, octets: bytes) -> "Counted":
        """Read what the process told: how many counts, these without noise, and with it, again and again."""
        numbers, found, at = np.frombuffer(octets, dtype=np.int64).tolist(), cls(), 0
        while at < len(numbers):
            n = numbers[at]
            found.exact += numbers[at + 1 : at + 1 + n]
            found.noisy += numbers[at + 1 + n : at + 1 + 2 * n]
            at += 1 + 2 * n
        return found

    def found_in(self, image: Image, before: Image | None) -> int:
        """How many counts, and how many numbers that are the noise on one, are in an image; 0 if that may be chance."""
        exact, noisy = np.array(self.exact, dtype=np.int64), np.array(self.noisy, dtype=np.int64)
        found = 0
        for secrets in (exact, noisy - exact):
            sought = np.setdiff1d(secrets[np.abs(secrets) >= _LEAST], noisy)
            others = np.setdiff1d((sought[:, None] + _DECOYS).ravel(), [*exact, *noisy, *(noisy - exact)])
            if len(sought):
                found += max(_found_by(layout, sought, others, image, before) for layout in _LAYOUTS)
        return found


def _digits(numbers: Numbers) -> NDArray[np.uint32]:
    return np.abs(numbers).astype(np.uint32) & np.uint32(2**30 - 1)


def _integers(numbers: Numbers) -> NDArray[np.uint32]:
    return numbers.astype(np.uint32)


def _floats(numbers: Numbers) -> NDArray[np.uint32]:
    return (numbers.astype(np.float64).view(np.uint64) >> np.uint64(32)).astype(np.uint32)


_LAYOUTS = (_digits, _integers, _floats)
_Layout: TypeAlias = Callable[[Numbers], NDArray[np.uint32]]


def _found_by(layout: _Layout, secrets: Numbers, decoys: Numbers, image: Image, before: Image | None) -> int:
    """How many secrets are in an image in a layout, unless that may be chance."""
    from scipy.stats import binom

    sought, others = np.unique(layout(secrets)), np.unique(layout(decoys))
    others = np.setdiff1d(others, sought)
    words = np.concatenate([sought, others])
    found = _words_in(image, before, words)
    hits, false = int(found[: len(sought)].sum()), int(found[len(sought) :].sum())
    by_chance = (false + 1) / (len(others) + 1)
    return hits if binom.sf(hits - 1, len(sought), by_chance) < CHANCE else 0


def _words_in(image: Image, before: Image | None, words: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Which words of 4 bytes stand in an image where they did not stand before."""
    order = np.argsort(words)
    ascending, found = words[order], np.zeros(len(words), dtype=np.bool_)
    bitmap = np.zeros(2**16, dtype=np.bool_)
    bitmap[ascending & np.uint32(0xFFFF)] = True
    places, which = np.empty(_MOST, dtype=np.int64), np.empty(_MOST, dtype=np.int64)
    for segment in image.segments:
        halves = segment.octets[: len(segment.octets) // 4 * 4].view(np.uint32)
        met = kernels.scan_words(halves, ascending, bitmap, places, which)
        if met:
            new = ~Earlier(before, segment).same(4 * places[:met], 4)
            found[order[which[:met][new]]] = True
    return found

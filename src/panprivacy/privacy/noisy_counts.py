"""Noise on the exact counts of a release, without a trace of either.

A freed integer of Python's keeps its value until its memory is used again, and so does a small array of NumPy's. An
exact count that is left behind is a part of an earlier state, and so is the noise, since the noisy count is published.
So counts stay in arrays that are wiped, from the table to the sum, and only the sum becomes an object.
"""

from collections.abc import Callable
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from panprivacy.memory.intrinsics import wipe_stack
from panprivacy.memory.scratch import Scratch
from panprivacy.privacy import coins as coin_sources
from panprivacy.privacy import kernels
from panprivacy.privacy.coins import Coins, SystemCoins
from panprivacy.privacy.noise import Gaussian, Laplace, Noise

_WORDS_EACH = 64  # random words that noise mostly needs fewer of
_LARGEST, _WIDEST, _FINEST = 2**63, 2**24, 2**46  # with these no number of the Gaussian sampler has more than 192 bits


def add_noise(counts: NDArray[np.int64], noise: Noise, coins: Coins) -> None:
    """Add exact noise to counts in place; they are published afterwards, and the caller wipes them.

    Coins that are not the system's draw one number after the other, as tests and auditors expect.

    >>> from fractions import Fraction
    >>> with Scratch() as scratch:
    ...     counts = scratch.own(np.array([10**6, 2 * 10**6]))
    ...     add_noise(counts, Laplace(Fraction(1, 2)), coin_sources.system)
    ...     noisy = counts.tolist()
    >>> [round(count, -3) for count in noisy]
    [1000000, 2000000]
    """
    if _leaves_nothing(coins):
        add_from_system(counts, noise)
        return
    for i in range(len(counts)):
        counts[i] = coins.noisy(int(counts[i]), noise)


def load_noise(noise: Noise) -> None:
    """Load the loop of a noise, before there is a count that it is added to."""
    if isinstance(noise, Gaussian):
        kernels.load_gaussian()


def add_kept_noise(number: NDArray[np.int64], noise: Noise, coins: Coins) -> None:
    """Add exact noise to one number that stays in the state and is not published."""
    if _leaves_nothing(coins):
        add_from_system(number, noise)
    else:
        number[0] = coins.noisy_inside(int(number[0]), noise)


def reaches(number: NDArray[np.int64], bar: NDArray[np.int64], noise: Noise, coins: Coins) -> bool:
    """Tell whether one number plus noise that is not released is at least the bar; the number is used up."""
    if not _leaves_nothing(coins):
        return coins.reaches(int(number[0]), int(bar[0]), noise)
    add_from_system(number, noise)
    return bool((number >= bar)[0])  # an array of one bool


def add_from_system(counts: NDArray[np.int64], noise: Noise) -> None:
    """Add noise from the operating system to counts, and leave nothing of it behind."""
    with Scratch() as scratch:
        add = _adder(noise, scratch)
        at = scratch.own(np.zeros(3, dtype=np.int64))
        words = _random_words(_WORDS_EACH * len(counts), scratch)
        try:
            while at[kernels.DONE] < len(counts):
                try:
                    add(counts, words, at)
                except IndexError:
                    words = _more(words, at, scratch)
        finally:
            wipe_stack()


def _leaves_nothing(coins: Coins) -> bool:
    """Whether these coins draw noise as the system's do, and no subclass draws its own."""
    return isinstance(coins, SystemCoins) and type(coins).noisy is Coins.noisy


def _random_words(n: int, scratch: Scratch) -> NDArray[np.uint64]:
    words: NDArray[np.uint64] = scratch.own(np.zeros(n, dtype=np.uint64))
    coin_sources.fill_from_system(words.view(np.uint8).data)
    return words


def _more(words: NDArray[np.uint64], at: NDArray[np.int64], scratch: Scratch) -> NDArray[np.uint64]:
    """The words of the count that is not done, and as many new ones as there were."""
    kept = words[at[kernels.KEPT] :]
    more = scratch.own(np.zeros(len(kept) + len(words), dtype=np.uint64))
    more[: len(kept)] = kept
    coin_sources.fill_from_system(more[len(kept) :].view(np.uint8).data)
    at[kernels.USED] = at[kernels.KEPT] = 0
    return more


def _adder(noise: Noise, scratch: Scratch) -> Callable[..., None]:
    """The loop that adds noise of a law to counts, given random words and how far it is."""
    if isinstance(noise, Laplace):
        epsilon = noise.epsilon
        if not 0 < epsilon.numerator < _LARGEST or epsilon.denominator > kernels.MOST_STEPS:
            raise ValueError(f"noise needs epsilon > 0, in steps of 2**-40 or larger, got {epsilon}")
        return lambda counts, words, at: kernels.add_laplace(counts, words, at, epsilon.numerator, epsilon.denominator)
    numerator, denominator = noise.square.numerator, noise.square.denominator
    width = isqrt(max(numerator // denominator, 0)) + 1
    if not 0 < numerator <= _LARGEST or width > _WIDEST or denominator * width > _FINEST:
        raise ValueError(f"noise needs a square above 0 that has at most 63 bits, got {noise.square}")
    divisor = 2 * numerator * denominator * width**2
    limbs = np.array([divisor >> 32 * i & 2**32 - 1 for i in range(kernels.LIMBS)], dtype=np.uint64)
    room = scratch.own(np.zeros(4 * kernels.LIMBS, dtype=np.uint64))
    return lambda counts, words, at: kernels.add_gaussian(counts, words, at, numerator, denominator, width, limbs, room)

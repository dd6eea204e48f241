"""The only source of randomness in the library.

An intruder who finds a generator's key replays its coins and undoes every bit they set, so the coins are part of
the state. `SystemCoins` therefore keeps nothing between two calls: each batch draws a fresh key from the operating
system, expands it with AES-256-CTR, replaces the key after every block by bytes of that block (fast key erasure),
and wipes keys and words before it returns.
"""

import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable
from math import copysign, log1p
from typing import TypeAlias

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from panprivacy.checks import shown
from panprivacy.errors import InvalidType
from panprivacy.privacy import kernels
from panprivacy.privacy.noise import Noise

Flips: TypeAlias = NDArray[np.bool_]
Octets: TypeAlias = NDArray[np.uint8]
Buffer: TypeAlias = bytearray | memoryview

ONE = 2**32
"""Probabilities are ``threshold / ONE``."""

BLOCK = 262_144  # flips that one key expands to: 256 KiB
SHORT = 4096  # flips that are read from the system as they are: a key of their own would take longer
_KEY_BYTES = 32
_COUNTER_START = bytes(16)  # a key is used for one block only, so the counter may start at zero


class Coins(ABC):
    """Where flips, keys and noise come from.

    An estimator asks for randomness in these ways and no other, so a source that enumerates every outcome
    can drive the very code that ships.
    """

    secure: bool = False
    """True only if the coins cannot be learned from memory afterwards."""

    @abstractmethod
    def below(self, threshold: int, n: int) -> Flips:
        """Return n independent flips, each true with probability ``threshold / 2**32``."""

    @abstractmethod
    def randbelow(self, n: int) -> int:
        """Return a uniform integer in 0..n-1."""

    def draw(self, threshold: int, flips: Octets) -> None:
        """Overwrite bytes with flips, 1 with probability ``threshold / 2**32`` and else 0; the caller wipes them."""
        flips[:] = self.below(threshold, len(flips))

    def flip(self, threshold: int) -> bool:
        """Return one flip; the same as ``below(threshold, 1)[0]``."""
        return bool(self.below(threshold, 1)[0])

    def fill_below(self, n: int, octets: Octets) -> None:
        """Overwrite bytes with uniform integers in 0..n-1, n being at most 256; the caller wipes them."""
        for i in range(len(octets)):
            octets[i] = self.randbelow(n)

    def subset(self, universe: int, size: int) -> NDArray[np.int64]:
        """Return a uniform random subset of 0..universe-1, in ascending order, by Floyd's algorithm."""
        chosen: set[int] = set()
        for last in range(universe - size, universe):
            pick = self.randbelow(last + 1)
            chosen.add(last if pick in chosen else pick)
        return np.array(sorted(chosen), dtype=np.int64)

    def noisy(self, value: int, noise: Noise) -> int:
        """Return an integer plus exact noise."""
        return value + noise.draw(self.randbelow)

    def noisy_inside(self, value: int, noise: Noise) -> int:
        """The same, for a number that stays in the state and is not published: an auditor must take its branches."""
        return self.noisy(value, noise)

    def reaches(self, value: int, bar: int, noise: Noise) -> bool:
        """Tell whether an integer plus noise that is not released is at least the bar."""
        return self.noisy(value, noise) >= bar

    def noisy_real(self, value: float, scale: float) -> float:
        """Return a number plus Laplace noise in floating point, as papers print it and no release should use it."""
        uniform = (self.randbelow(2**53) + 0.5) / 2**53 - 0.5
        return value - scale * copysign(log1p(-2 * abs(uniform)), uniform)


class SystemCoins(Coins):
    """Coins from the operating system that leave nothing behind.

    >>> flips = SystemCoins().below(ONE // 4, 100_000)
    >>> bool(0.24 < flips.mean() < 0.26)
    True
    """

    secure = True

    def below(self, threshold: int, n: int) -> Flips:
        flips = np.empty(n, dtype=np.uint8)
        self.draw(threshold, flips)
        return flips.view(np.bool_)

    def draw(self, threshold: int, flips: Octets) -> None:
        """Compare words of 32 bits with the threshold, drawing their low 24 bits only where the high 8 tie.

        The high 8 bits decide all but one flip in 256, which takes a quarter of the keystream, and the flips
        take the place of the words.
        """
        check_threshold(threshold)
        try:
            if len(flips) <= SHORT:
                _compare(flips, threshold, fill_from_system)
                return
            key = bytearray(_KEY_BYTES)
            flips.fill(0)
            try:
                fill_from_system(key)
                for start in range(0, len(flips), BLOCK):
                    draw = keystream(key)
                    key[:] = bytes(_KEY_BYTES)
                    draw(key)  # the next one
                    _compare(flips[start : start + BLOCK], threshold, draw)
            finally:
                key[:] = bytes(_KEY_BYTES)
        except BaseException:
            flips.fill(0)
            raise

    def flip(self, threshold: int) -> bool:
        # Opening the device would take longer than all the rest of an update. The price is a word of 4 bytes that
        # Python frees and cannot wipe; it names no user, and the bit it set is in the table for all to see.
        return os.urandom(4) < threshold.to_bytes(4, "big")

    def fill_below(self, n: int, octets: Octets) -> None:
        """Cut bytes of keystream down to remainders of n, and draw again for those beyond the last multiple of n."""
        key = bytearray(_KEY_BYTES)
        try:
            fill_from_system(key)
            done = 0
            while done < len(octets):
                draw = keystream(key)
                key[:] = bytes(_KEY_BYTES)
                draw(key)  # the next one
                block = octets[done : done + BLOCK]
                block.fill(0)
                draw(block.data)
                done += kernels.keep_remainders(block, n)
        except BaseException:
            octets.fill(0)
            raise
        finally:
            key[:] = bytes(_KEY_BYTES)

    def randbelow(self, n: int) -> int:
        return secrets.randbelow(n)

    def subset(self, universe: int, size: int) -> NDArray[np.int64]:
        """The first distinct values of uniform draws, of which the missing are drawn again: by symmetry, uniform."""
        few = min(size, universe - size)
        chosen = np.empty(0, dtype=np.int64)
        while len(chosen) < few:
            more = _uniform_below(universe, few - len(chosen))
            both = np.sort(np.concatenate([chosen, more]))
            chosen = both[np.diff(both, prepend=-1) > 0]
        return chosen if few == size else np.delete(np.arange(universe), chosen)


def _compare(flips: Octets, threshold: int, draw: Callable[[Buffer], None]) -> None:
    """Draw words over zeros and put flips in their place: the high 8 bits first, and the others where they tie."""
    high, low = divmod(threshold, 2**24)
    draw(flips.data)
    ties = np.empty(len(flips) + 1, dtype=np.uint32)  # most of it is never touched
    found = kernels.compare(flips, high, ties)
    words = np.zeros(found, dtype=np.uint32)
    try:
        if found:
            draw(words.view(np.uint8).data)
        kernels.settle(flips, ties, words, low)
    finally:
        ties[: found + 1].fill(0)
        words.fill(0)


def _uniform_below(n: int, most: int) -> NDArray[np.int64]:
    """Up to `most` uniform integers in 0..n-1: words of a keystream, cut to the bits of n; those below n are kept."""
    key = bytearray(_KEY_BYTES)
    fill_from_system(key)
    words = np.zeros(16 * most, dtype=np.uint8)  # at least half of them are below n: twice as many will mostly do
    keystream(key)(words.data)
    key[:] = bytes(_KEY_BYTES)
    cut: NDArray[np.int64] = words.view(np.int64) & (2 ** (n - 1).bit_length() - 1)
    words.fill(0)
    return cut[cut < n][:most]


def check_threshold(threshold: int) -> None:
    """Refuse a threshold that is no probability strictly inside (0, 1)."""
    if not 0 < threshold < ONE:
        raise ValueError(f"a coin needs a threshold in 1..2**32-1, got {threshold}")


def keystream(key: bytearray) -> Callable[[Buffer], None]:
    """Start the AES-256-CTR keystream of a key that is used this once; each call turns zeros into more of it."""
    encryptor = Cipher(algorithms.AES256(key), modes.CTR(_COUNTER_START)).encryptor()

    def draw(zeros: Buffer) -> None:
        encryptor.update_into(zeros, zeros)

    return draw


def fill_from_system(buffer: Buffer) -> None:
    """Overwrite a buffer with bytes of the operating system.

    Reading the device writes straight into the caller's buffer, which the caller can wipe. `os.urandom`, used
    where there is no such device, leaves its answer in a bytes object, which cannot be wiped. The device is opened each
    time: a descriptor that is kept may have been closed by others, and by now be another file's.
    """
    try:
        device = os.open("/dev/urandom", os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        try:
            if os.readv(device, [buffer]) == len(buffer):
                return
        finally:
            os.close(device)
    except (OSError, AttributeError):
        pass
    buffer[:] = os.urandom(len(buffer))


system: SystemCoins = SystemCoins()
"""The source that every estimator uses unless it is given another."""


def given(coins: Coins | None) -> Coins:
    """The coins that were given, or those of the operating system."""
    if coins is not None and not isinstance(coins, Coins):
        raise InvalidType(
            f"coins are a source of randomness, such as testing.SeededCoins(1), got {shown(coins)}", code="coins-type"
        )
    return system if coins is None else coins

"""The hash of Flajolet and Martin, as section 5 of the paper describes it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from panprivacy.privacy.coins import Coins


@dataclass(frozen=True)
class FMHash:
    """Give every user a level: level i to about one in ``2**(i+1)``.

    ``h(u) = (multiplier * u + offset) mod 2**bits`` with an odd multiplier, which sends the users to distinct
    numbers, and ``hash(u)`` = the number of trailing zeros of ``h(u)``. For ``h(u) = 0``, which has no lowest one,
    ``hash(u) = bits``: the paper's range ``0..Q`` needs it, and then ``P(hash(u) = Q) = 2**-Q``, not
    ``2**-(Q+1)``.

    Examples
    --------
    >>> plain = FMHash(multiplier=1, offset=0, bits=4)
    >>> [plain(u) for u in (12, 7, 8, 0)]
    [2, 0, 3, 4]

    Notes
    -----
    Section 5 of the paper ("Technical Details"). The users of level L or more are those with
    ``multiplier * u + offset`` divisible by ``2**L``: **an arithmetic progression** of ids with stride ``2**L``, not a
    random sample. A stream of all even ids is kept whole or not at all from level 1 on. Use it for reproduction only.
    """

    multiplier: int
    offset: int
    bits: int

    @classmethod
    def drawn(cls, universe: int, coins: Coins) -> "FMHash":
        """Draw the multiplier, odd, and the offset for the smallest Q >= 1 with ``universe <= 2**Q``."""
        bits = max((universe - 1).bit_length(), 1)
        return cls(2 * coins.randbelow(2 ** (bits - 1)) + 1, coins.randbelow(2**bits), bits)

    def __call__(self, user: int) -> int:
        """``hash(u)``, in 0..bits."""
        number = (self.multiplier * user + self.offset) % 2**self.bits
        return (number & -number).bit_length() - 1 if number else self.bits

    def levels(self, users: NDArray[np.integer]) -> NDArray[np.uint8]:
        """``hash(u)`` of many users."""
        number = users.astype(np.uint64) * np.uint64(self.multiplier) + np.uint64(self.offset)
        number &= np.uint64(2**self.bits - 1)
        below_lowest_one = (number & (~number + np.uint64(1))) - np.uint64(1)  # all ones if the number is zero
        return np.minimum(np.bitwise_count(below_lowest_one), np.uint8(self.bits))

    @property
    def numbers(self) -> NDArray[np.uint64]:
        """Multiplier, offset and bits as the kernels take them."""
        return np.array([self.multiplier, self.offset, self.bits], dtype=np.uint64)

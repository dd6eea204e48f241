"""The loops that draw, compiled by numba and run without the GIL: flips of bits from keystream, and noise.

They make no array of their own: what they need comes in as scratch, which the caller wipes. Their types are fixed, so
they are compiled or loaded when this module is, and no event changes them.

**Noise.** An intruder who knows the noise of a released count knows the count. So noise is drawn here in arrays that
the caller wipes, and nothing of it becomes an object of Python's. The algorithms are as in `panprivacy.privacy.noise`:
uniform integers, compared with integers, and exact. Two things differ, and neither changes the law:

- a coin of probability ``gamma / k`` is one of ``gamma`` and one of ``1 / k``, both of which must come out true: no
  product of more than 64 bits arises;
- a coin of probability ``N / D``, for numbers of up to 192 bits, compares the binary digits of the quotient with random
  bits, until they differ.

Randomness is an array of random words, which are used one after the other from `at[USED]` on. `IndexError` says that
there are too few: the caller adds more behind them and calls again. The same words lead the same way again, and so the
law does not depend on how many there were at first.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-untyped-decorators=False
import numpy as np
from numba import njit, types

u32, u64 = np.uint32, np.uint64

_EACH_BYTE, _LOW_BITS, _ALL_BITS = u64(0x0101010101010101), u64(0x7F7F7F7F7F7F7F7F), u64(0xFFFFFFFFFFFFFFFF)

_OCTETS, _PLACES = types.uint8[::1], types.uint32[::1]


@njit(types.int64(_OCTETS, types.uint8, _PLACES), nogil=True, cache=True)
def compare(octets, bound, ties):
    """Put 1 for each byte below the bound and 0 for the others; list in `ties` where bytes equalled the bound.

    Returns how many ties there are; one more place of `ties` may be written to. Eight bytes at a time are searched
    for equal ones: a byte of `differences` is zero where they are.
    """
    found = 0
    whole = len(octets) // 8 * 8
    words = octets[:whole].view(np.uint64)
    pattern = u64(bound) * _EACH_BYTE
    for w in range(len(words)):
        differences = words[w] ^ pattern
        if ((differences & _LOW_BITS) + _LOW_BITS | differences | _LOW_BITS) != _ALL_BITS:
            for i in range(8 * w, 8 * w + 8):
                ties[found] = i
                found += int(octets[i] == bound)
    for i in range(whole, len(octets)):
        if octets[i] == bound:
            ties[found] = i
            found += 1
    for i in range(len(octets)):
        octets[i] = octets[i] < bound
    return found


@njit(types.void(_OCTETS, _PLACES, _PLACES, types.uint32), nogil=True, cache=True)
def settle(octets, ties, words, bound):
    """Decide the bytes that tied: 1 where the high 24 bits of the tie's own word are below the bound."""
    for i in range(len(words)):
        octets[ties[i]] = u32(words[i] >> u32(8)) < bound


@njit(types.int64(_OCTETS, types.int64), nogil=True, cache=True)
def keep_remainders(octets, n):
    """Move the remainders modulo n to the front, of all bytes below the largest multiple of n; return how many."""
    end = 256 // n * n
    kept = 0
    for i in range(len(octets)):
        octet = octets[i]
        octets[kept] = octet % n
        kept += int(octet < end)
    return kept


USED, DONE, KEPT = 0, 1, 2
"""Places of `at`: how many words were used, how many counts are done, and how many words were used for those."""
LIMBS = 6
"""Digits of 32 bits that a number of the Gaussian sampler has."""
MOST_STEPS = 2**40
"""The largest denominator of an epsilon."""

_MOST_WHOLE = 2**22  # passed with a probability of exp(-2**22); below it no number overflows
_LOW = u64(2**32 - 1)
_WORDS, _COUNTS = types.uint64[::1], types.int64[::1]


@njit(nogil=True)
def below(words, at, n):
    """A uniform integer in 0..n-1: words cut to the bits of n - 1, until one is below n."""
    if n == u64(1):
        return u64(0)
    mask = n - u64(1)
    for shift in (1, 2, 4, 8, 16, 32):
        mask |= mask >> u64(shift)
    while True:
        if at[USED] == len(words):
            raise IndexError
        drawn = words[at[USED]] & mask
        at[USED] += 1
        if drawn < n:
            return drawn


@njit(nogil=True)
def exponential_coin(words, at, part, steps):
    """True with probability ``exp(-part/steps)``, part being at most steps."""
    draws = u64(1)
    while below(words, at, steps) < part and below(words, at, draws) == u64(0):
        draws += u64(1)
    return draws & u64(1) == u64(1)


@njit(nogil=True)
def laplace(words, at, numerator, denominator):
    """Noise of the law `Laplace(numerator/denominator)`."""
    while True:
        part = below(words, at, denominator)
        while not exponential_coin(words, at, part, denominator):
            part = below(words, at, denominator)
        whole = u64(0)
        while exponential_coin(words, at, u64(1), u64(1)):
            whole += u64(1)
            if whole == u64(_MOST_WHOLE):
                raise OverflowError
        size = np.int64((part + denominator * whole) // numerator)
        negative = below(words, at, u64(2)) == u64(1)
        if size or not negative:  # zero is kept with one sign only
            return -size if negative else size


@njit(nogil=True)
def _set(number, value):
    number[:] = u64(0)
    number[0], number[1] = value & _LOW, value >> u64(32)


@njit(nogil=True)
def _multiply(one, other, product):
    product[:] = u64(0)
    for i in range(LIMBS):
        carried = u64(0)
        for j in range(LIMBS - i):
            total = one[i] * other[j] + product[i + j] + carried
            product[i + j], carried = total & _LOW, total >> u64(32)


@njit(nogil=True)
def _reaches(number, other):
    """Whether a number is at least another."""
    for i in range(LIMBS - 1, -1, -1):
        if number[i] != other[i]:
            return number[i] > other[i]
    return True


@njit(nogil=True)
def _subtract(number, smaller):
    borrowed = u64(0)
    for i in range(LIMBS):
        total = number[i] - smaller[i] - borrowed
        number[i], borrowed = total & _LOW, total >> u64(63)


@njit(nogil=True)
def quotient_coin(words, at, dividend, divisor, rest):
    """True with probability ``dividend/divisor``, which is at most 1: is it above a number of random binary digits?"""
    for i in range(LIMBS):  # numba takes seconds to compile a slice, for the words of an error
        rest[i] = dividend[i]
    while True:
        carried = u64(0)
        for i in range(LIMBS):
            doubled = rest[i] << u64(1) | carried
            rest[i], carried = doubled & _LOW, doubled >> u64(32)
        digit = _reaches(rest, divisor)
        if digit:
            _subtract(rest, divisor)
        if (below(words, at, u64(2)) == u64(1)) != digit:
            return digit


@njit(nogil=True)
def _large_coin(words, at, dividend, divisor, rest):
    """True with probability ``exp(-dividend/divisor)``: one coin for every whole 1, one for the rest."""
    while not _reaches(divisor, dividend):
        if not exponential_coin(words, at, u64(1), u64(1)):
            return False
        _subtract(dividend, divisor)
    draws = u64(1)
    while quotient_coin(words, at, dividend, divisor, rest) and below(words, at, draws) == u64(0):
        draws += u64(1)
    return draws & u64(1) == u64(1)


@njit(nogil=True)
def gaussian(words, at, numerator, denominator, width, divisor, room):
    """Noise of the law `Gaussian(numerator/denominator)`.

    A number y of the law ``Laplace(1/width)`` is kept with probability ``exp(-N/D)``, where
    ``N = (|y| * denominator * width - numerator)**2`` and ``D = 2 * numerator * denominator * width**2``, which is the
    `divisor`. `room` is for 4 numbers of `LIMBS` digits.
    """
    distance, dividend = room[:LIMBS], room[LIMBS : 2 * LIMBS]
    rest, other = room[2 * LIMBS : 3 * LIMBS], room[3 * LIMBS : 4 * LIMBS]
    while True:
        drawn = laplace(words, at, u64(1), width)
        _set(other, u64(abs(drawn)))
        _set(rest, denominator * width)
        _multiply(other, rest, distance)
        _set(other, numerator)
        if _reaches(distance, other):
            _subtract(distance, other)
        else:
            _subtract(other, distance)
            for i in range(LIMBS):
                distance[i] = other[i]
        _multiply(distance, distance, dividend)
        if _large_coin(words, at, dividend, divisor, rest):
            return drawn


@njit(types.void(_COUNTS, _WORDS, _COUNTS, types.uint64, types.uint64), nogil=True, cache=True)
def add_laplace(counts, words, at, numerator, denominator):
    """Add noise to each count that is not done."""
    for i in range(at[DONE], len(counts)):
        counts[i] += laplace(words, at, numerator, denominator)
        at[DONE], at[KEPT] = i + 1, at[USED]


@njit(nogil=True, cache=True)
def add_gaussian(counts, words, at, numerator, denominator, width, divisor, room):
    """Add noise to each count that is not done."""
    for i in range(at[DONE], len(counts)):
        counts[i] += gaussian(words, at, numerator, denominator, width, divisor, room)
        at[DONE], at[KEPT] = i + 1, at[USED]


def load_gaussian() -> None:
    """Compile or load `add_gaussian`, which takes longest and is needed where there is a delta only."""
    if not add_gaussian.signatures:
        add_gaussian.compile((_COUNTS, _WORDS, _COUNTS, types.uint64, types.uint64, types.uint64, _WORDS, _WORDS))
        add_gaussian.disable_compile()  # other types are turned into these

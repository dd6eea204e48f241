"""NDJSON of flat objects with an integer under one key: the integers, found without a parser of all JSON.

A line is plain if it is an object whose keys are written without escapes, and whose values are integers, texts without
escapes in ASCII, true, false or null; the key that is asked for comes once, with an integer of at most 18 digits.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-untyped-decorators=False
import numpy as np
from numba import njit, types
from numpy.typing import NDArray

from panprivacy.memory.scratch import Scratch

_OCTETS = types.Array(types.uint8, 1, "C", readonly=True)
_SHORTEST = 6  # bytes of a line with a key and an integer
_NOT_PLAIN = -1
_DIGITS = 18

_TAB, _NEWLINE, _RETURN, _SPACE = 9, 10, 13, 32
_QUOTE, _COMMA, _MINUS, _ZERO, _NINE, _COLON, _BACKSLASH = 34, 44, 45, 48, 57, 58, 92
_OPEN, _CLOSE, _DELETE = 123, 125, 127

_TRUE, _FALSE, _NULL = (np.frombuffer(word, dtype=np.uint8) for word in (b"true", b"false", b"null"))


def integers_in_lines(octets: NDArray[np.uint8], key: str, scratch: Scratch) -> NDArray[np.int64] | None:
    """The integers under a key, one of each line; None if a line is not plain."""
    wanted = np.frombuffer(key.encode(), dtype=np.uint8)
    if not key.isascii() or not key.isprintable() or '"' in key or "\\" in key or "." in key:
        return None
    integers = scratch.empty("integers", len(octets) // (_SHORTEST + len(wanted)) + 1, np.int64)
    octets = octets.view()
    octets.flags.writeable = False
    rows = _integers(octets, wanted, integers)
    return integers[:rows] if rows > 0 else None


# A place is where something begins in the text, or `_NOT_PLAIN`, of which everything makes `_NOT_PLAIN` again.


@njit(nogil=True, inline="always")
def _after_blanks(text, at):
    while 0 <= at < len(text) and (text[at] == _SPACE or text[at] == _TAB or text[at] == _RETURN):
        at += 1
    return at


@njit(nogil=True, inline="always")
def _after_sign(text, at, sign):
    return at + 1 if 0 <= at < len(text) and text[at] == sign else _NOT_PLAIN


@njit(nogil=True, inline="always")
def _after_text(text, at):
    at = _after_sign(text, at, _QUOTE)
    while 0 <= at < len(text) and text[at] != _QUOTE:
        plain = _SPACE <= text[at] < _DELETE and text[at] != _BACKSLASH
        at = at + 1 if plain else _NOT_PLAIN
    return _after_sign(text, at, _QUOTE)


@njit(nogil=True, inline="always")
def after_integer(text, at):
    """Where a plain integer that begins here ends: of at most 18 digits, without leading zeros."""
    first = at + 1 if 0 <= at < len(text) and text[at] == _MINUS else at
    end = first
    while 0 <= end < len(text) and _ZERO <= text[end] <= _NINE:
        end += 1
    digits = end - first
    if digits == 0 or digits > _DIGITS or (text[first] == _ZERO and (digits > 1 or first > at)):
        return _NOT_PLAIN
    return end


@njit(nogil=True, inline="always")
def _after_word(text, at, word):
    same = 0 <= at <= len(text) - len(word)
    for i in range(len(word) if same else 0):
        same &= text[at + i] == word[i]
    return at + len(word) if same else _NOT_PLAIN


@njit(nogil=True)
def _after_other(text, at):
    """What comes after a text, true, false or null."""
    end = _after_text(text, at)
    for word in (_TRUE, _FALSE, _NULL):
        end = _after_word(text, at, word) if end < 0 else end
    return end


@njit(nogil=True, inline="always")
def value_of(text, start, end):
    """The plain integer between two places."""
    negative = text[start] == _MINUS
    value = np.int64(0)
    for i in range(start + 1 if negative else start, end):
        value = value * 10 + np.int64(text[i] - np.uint8(_ZERO))
    return -value if negative else value


@njit(nogil=True, inline="always")
def _member(text, at, key):
    """The member of an object that begins here: where it ends, whether its key is ours, and where its value begins."""
    start = _after_blanks(text, at)
    end = _after_text(text, start)
    ours = end - start == len(key) + 2 and _after_word(text, start + 1, key) > 0
    value = _after_blanks(text, _after_sign(text, _after_blanks(text, end), _COLON))
    after = after_integer(text, value)
    return (after if after > 0 or ours else _after_other(text, value)), ours, value


@njit(nogil=True)
def _line(text, at, key):
    """Read the line that begins here: where its integer begins and ends, and where the next line begins."""
    at, found, more = _after_sign(text, _after_blanks(text, at), _OPEN), 0, True
    start = end = 0
    while at >= 0 and more:
        at, ours, value = _member(text, at, key)
        if ours:
            start, end, found = value, at, found + 1
        at = _after_blanks(text, at)
        more = 0 <= at < len(text) and text[at] == _COMMA
        at += more
    at = _after_blanks(text, _after_sign(text, at, _CLOSE))
    if found != 1 or at < 0 or (at < len(text) and text[at] != _NEWLINE):
        at = _NOT_PLAIN - 1
    return start, end, at + 1


@njit(nogil=True, inline="always")
def _after_same(text, at, begin, end):
    """What comes after something that is the same as what stands from `begin` to `end`."""
    same = 0 <= at <= len(text) - (end - begin)
    for i in range(end - begin if same else 0):
        same &= text[at + i] == text[begin + i]
    return at + end - begin if same else _NOT_PLAIN


@njit(types.int64(_OCTETS, _OCTETS, types.int64[::1]), nogil=True, cache=True)
def _integers(text, key, integers):
    """Write the integers of all lines; return how many there are, or `_NOT_PLAIN`.

    Mostly lines differ in their integer alone: a line like the one before it around the integer is as plain.
    """
    at, rows = 0, 0
    line = begin = end = after = 0  # of the line before
    while 0 <= at < len(text) and rows < len(integers):
        start = _after_same(text, at, line, begin)
        stop = after_integer(text, start)
        following = _after_same(text, stop, end, after)
        if rows == 0 or following < 0:
            start, stop, following = _line(text, at, key)
        if following > 0:
            integers[rows] = value_of(text, start, stop)
        line, begin, end, after, at, rows = at, start, stop, following, following, rows + 1
    return rows if at >= len(text) else _NOT_PLAIN

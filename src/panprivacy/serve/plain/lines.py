"""NDJSON of flat objects with an integer under one key: the integers, found without a parser of all JSON.

A line is plain if it is an object whose keys are written without escapes, and whose values are integers, texts without
escapes in ASCII, true, false or null; the key that is asked for comes once, with an integer of at most 18 digits.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-untyped-decorators=False
import numpy as np
from numba import njit, types
from numpy.typing import NDArray

from panprivacy.memory import Scratch

_OCTETS = types.Array(types.uint8, 1, "C", readonly=True)
_SHORTEST = 6  # bytes of a line with a key and an integer
_NOT_PLAIN = -1
_DIGITS = 18

_TAB, _NEWLINE, _RETURN, _SPACE = 9, 10, 13, 32
_QUOTE, _COMMA, _MINUS, _ZERO, _NINE, _COLON, _BACKSLASH = 34, 44, 45, 48, 57, 58, 92
_OPEN, _CLOSE = 123, 125

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


@njit(nogil=True, inline="always")
def _after_blanks(text, at):
    while at < len(text) and (text[at] == _SPACE or text[at] == _TAB or text[at] == _RETURN):
        at += 1
    return at


@njit(nogil=True, inline="always")
def _after_text(text, at):
    """Where the text ends that begins here; `_NOT_PLAIN` if none does, or if it is not plain."""
    if at >= len(text) or text[at] != _QUOTE:
        return _NOT_PLAIN
    at += 1
    while at < len(text) and text[at] != _QUOTE:
        if text[at] == _BACKSLASH or text[at] < 32 or text[at] > 126:
            return _NOT_PLAIN
        at += 1
    return at + 1 if at < len(text) else _NOT_PLAIN


@njit(nogil=True, inline="always")
def _same(text, start, end, key):
    if end - start != len(key):
        return False
    for i in range(len(key)):
        if text[start + i] != key[i]:
            return False
    return True


@njit(nogil=True, inline="always")
def _after_integer(text, at):
    """Where the integer ends that begins here; `_NOT_PLAIN` if none does."""
    first = at + 1 if at < len(text) and text[at] == _MINUS else at
    end = first
    while end < len(text) and _ZERO <= text[end] <= _NINE:
        end += 1
    digits = end - first
    if digits == 0 or digits > _DIGITS or (text[first] == _ZERO and (digits > 1 or first > at)):
        return _NOT_PLAIN
    return end


@njit(nogil=True, inline="always")
def _value(text, start, end):
    negative = text[start] == _MINUS
    value = np.int64(0)
    for i in range(start + 1 if negative else start, end):
        value = value * 10 + np.int64(text[i] - np.uint8(_ZERO))
    return -value if negative else value


@njit(nogil=True, inline="always")
def _after_other(text, at):
    """Where a text, true, false or null ends; `_NOT_PLAIN` for all else."""
    if at >= len(text):
        return _NOT_PLAIN
    if text[at] == _QUOTE:
        return _after_text(text, at)
    for word in (_TRUE, _FALSE, _NULL):
        if _same(text, at, min(at + len(word), len(text)), word):
            return at + len(word)
    return _NOT_PLAIN


@njit(nogil=True)
def _line(text, at, key, integers, row):
    """Read the line that begins here; return where the next one does, or `_NOT_PLAIN`."""
    end, found = len(text), False
    at = _after_blanks(text, at)
    if at >= end or text[at] != _OPEN:
        return _NOT_PLAIN
    while True:
        start = _after_blanks(text, at + 1) + 1
        at = _after_text(text, start - 1)
        if at < 0:
            return _NOT_PLAIN
        ours = _same(text, start, at - 1, key)
        at = _after_blanks(text, at)
        if at >= end or text[at] != _COLON:
            return _NOT_PLAIN
        start = _after_blanks(text, at + 1)
        at = _after_integer(text, start)
        if at > 0:
            if ours and found:
                return _NOT_PLAIN
            if ours:
                integers[row], found = _value(text, start, at), True
        elif ours:
            return _NOT_PLAIN
        else:
            at = _after_other(text, start)
            if at < 0:
                return _NOT_PLAIN
        at = _after_blanks(text, at)
        if at >= end:
            return _NOT_PLAIN
        if text[at] == _CLOSE:
            break
        if text[at] != _COMMA:
            return _NOT_PLAIN
    at = _after_blanks(text, at + 1)
    if not found or (at < end and text[at] != _NEWLINE):
        return _NOT_PLAIN
    return at + 1


@njit(types.int64(_OCTETS, _OCTETS, types.int64[::1]), nogil=True, cache=True)
def _integers(text, key, integers):
    """Write the integers of all lines; return how many there are, or `_NOT_PLAIN`."""
    at, rows, end = 0, 0, len(text)
    while at < end:
        if rows == len(integers):
            return _NOT_PLAIN
        at = _line(text, at, key, integers, rows)
        if at < 0:
            return _NOT_PLAIN
        rows += 1
    return rows

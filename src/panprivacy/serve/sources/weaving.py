"""Bare ids made NDJSON of: the same text before and after each of them, written in one go."""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-untyped-decorators=False
import numpy as np
from numba import njit, types
from numpy.typing import NDArray

from panprivacy.memory import wipe
from panprivacy.serve.sources.block import Block

_OCTETS = types.Array(types.uint8, 1, "C", readonly=True)
_STARTS = types.Array(types.int64, 1, "C", readonly=True)
_NEWLINE, _SPACE, _QUOTE, _BACKSLASH, _DELETE = 10, 32, 34, 92, 127


def woven(payloads: Block, before: bytes, after: bytes) -> NDArray[np.uint8] | None:
    """Lines that have each payload between two texts; None if one has blanks around it, or a sign that JSON escapes."""
    first, last = (np.frombuffer(text, dtype=np.uint8) for text in (before, after))
    lines = np.empty(len(payloads.octets) + len(payloads) * (len(first) + len(last)), dtype=np.uint8)
    if _weave(payloads.octets, payloads.starts, first, last, lines):
        return lines
    wipe(lines)
    return None


@njit(nogil=True, inline="always")
def _put(text, start, end, lines, at):
    for i in range(start, end):
        lines[at] = text[i]
        at += 1
    return at


@njit(types.boolean(_OCTETS, _STARTS, _OCTETS, _OCTETS, types.uint8[::1]), nogil=True, cache=True)
def _weave(text, starts, before, after, lines):
    at = 0
    for i in range(len(starts) - 1):
        start, end = starts[i] - starts[0], starts[i + 1] - starts[0] - 1
        plain = text[start] > _SPACE and text[end - 1] > _SPACE
        for j in range(start, end):
            plain &= (_SPACE <= text[j] < _DELETE) & (text[j] != _QUOTE) & (text[j] != _BACKSLASH)
        if not plain:
            return False
        at = _put(before, 0, len(before), lines, at)
        at = _put(text, start, end, lines, at)
        at = _put(after, 0, len(after), lines, at)
        lines[at] = _NEWLINE
        at += 1
    return True

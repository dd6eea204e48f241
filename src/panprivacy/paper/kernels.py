"""The loops of this folder that touch every event, compiled by numba.

They draw nothing themselves: flips come in as arrays. Ids are found by linear probing in an array of `cells`, a power
of two long and at most half full, in which `FREE` marks a cell without an id.
"""

import numpy as np
from numba import njit, types

from panprivacy.table.kernels import READ_WORDS, WORDS

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-untyped-decorators=False

FREE = -1

u64 = np.uint64


@njit(nogil=True, inline="always")
def _home(user, mask):
    """The cell where the search for a user starts."""
    h = u64(user) * u64(0x9E3779B97F4A7C15)
    h = (h ^ (h >> u64(32))) * u64(0xD6E8FEB86659FD93)
    return np.int64(h >> u64(32)) & mask


@njit(nogil=True, inline="always")
def _find(cells, user):
    """The cell that holds a user, or else the free one where it would go."""
    mask = len(cells) - 1
    place = _home(user, mask)
    while cells[place] != user and cells[place] != FREE:
        place = (place + 1) & mask
    return place


@njit(nogil=True, inline="always")
def _drop(cells, hole):
    """Free a cell, and move up the users behind it whose search passes the free cell."""
    mask = len(cells) - 1
    place = (hole + 1) & mask
    while cells[place] != FREE:
        if (place - _home(cells[place], mask)) & mask >= (place - hole) & mask:
            cells[hole] = cells[place]
            hole = place
        place = (place + 1) & mask
    cells[hole] = FREE


@njit(nogil=True, cache=True)
def put(users, cells):
    """Enter distinct users into the cells."""
    for user in users:
        cells[_find(cells, user)] = user


AT, SIZE, LEVEL, SAMPLE = range(4)
"""Places in the `counters` below: the next event, the size of the set, its level L, and m, at which it is full."""


@njit(nogil=True, inline="always")
def _reaches(user, level, hashing):
    """Whether ``hash(user) >= level``, that is, whether the low `level` bits of h(user) are zero.

    `hashing` is multiplier, offset and bits; h = 0 has level `bits`.
    """
    multiplier, offset, bits = hashing[0], hashing[1], hashing[2]
    h = (multiplier * u64(user) + offset) & ((u64(1) << bits) - u64(1))
    return u64(level) <= bits and h & ((u64(1) << u64(level)) - u64(1)) == u64(0)


@njit(nogil=True, cache=True)
def flips_ahead(ids, hashing, counters):
    """How many events need a flip before the level can rise: each adds one user at most."""
    most = max(counters[SAMPLE] - counters[SIZE], 1)
    found = 0
    for i in range(counters[AT], len(ids)):
        if found == most:
            break
        found += _reaches(ids[i], counters[LEVEL], hashing)
    return found


@njit(nogil=True, cache=True)
def sift(ids, flips, cells, hashing, counters):
    """The loop body of Alg. 3 for the next events, until one needs a flip and all are used; `cells` hold the set."""
    size, level = counters[SIZE], counters[LEVEL]
    used = 0
    at = counters[AT]
    while at < len(ids):
        user = ids[at]
        was_in = False
        if _reaches(user, level, hashing):  # no user below the level is in the set
            if used == len(flips):
                break
            place = _find(cells, user)
            was_in = cells[place] == user
            if flips[used] and not was_in:
                cells[place] = user
                size += 1
            elif was_in and not flips[used]:
                _drop(cells, place)
                size -= 1
            used += 1
        if not was_in and size >= counters[SAMPLE]:
            level += 1
            size = _evict(cells, level, hashing)
        at += 1
    counters[AT], counters[SIZE], counters[LEVEL] = at, size, level


@njit(nogil=True, cache=True)
def _evict(cells, level, hashing):
    """Keep the users that reach the level; return how many they are."""
    users = cells[cells != FREE]
    cells[:] = FREE
    size = 0
    for user in users:
        if _reaches(user, level, hashing):
            cells[_find(cells, user)] = user
            size += 1
    return size


# --- lists of slots, and bits ----------------------------------------------------------------------------------------


@njit(types.void(READ_WORDS, types.uint64, WORDS), nogil=True, cache=True)
def spread(listed, size, bits):
    """Set the bits of the listed slots, up to the first that is `size` or more, and no others."""
    bits[:] = u64(0)
    for slot in listed:
        if slot >= size:
            break
        bits[slot >> u64(6)] |= u64(1) << (slot & u64(63))


@njit(types.void(READ_WORDS, WORDS), nogil=True, cache=True)
def gather(bits, listed):
    """List the slots whose bit is 1, in ascending order; the rest of the list becomes 2**64-1."""
    found = 0
    for slot in range(len(listed)):
        if bits[slot >> 6] >> u64(slot & 63) & u64(1):
            listed[found] = slot
            found += 1
    listed[found:] = u64(0xFFFFFFFFFFFFFFFF)


@njit(types.void(READ_WORDS, types.Array(types.int64, 1, "C", readonly=True), types.int64[::1]), nogil=True, cache=True)
def count_ones(listed, edges, counts):
    """Write how many of the listed slots are between each edge and the next one."""
    counts[:] = 0
    for slot in listed:
        for i in range(len(counts)):
            if u64(edges[i]) <= slot < u64(edges[i + 1]):
                counts[i] += 1


@njit(types.boolean(READ_WORDS, types.uint64), nogil=True, cache=True)
def is_list(words, size):
    """Whether these are ascending slots below `size`, and after them 2**64-1 only."""
    for i in range(len(words)):
        if words[i] >= size and words[i] != u64(0xFFFFFFFFFFFFFFFF):
            return False
        if i and words[i] <= words[i - 1] and words[i - 1] < size:
            return False
        if i and words[i] < size and words[i - 1] >= size:
            return False
    return True

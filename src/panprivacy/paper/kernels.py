"""The loops of this folder that touch every event, compiled by numba.

They draw nothing themselves: flips come in as arrays. Ids are found by linear probing in an array of `cells`, a power
of two long and at most half full, in which `FREE` marks a cell without an id.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-untyped-decorators=False
import numpy as np
from numba import njit

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
        if _reaches(user, level, hashing):  # nobody below the level is in the set
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

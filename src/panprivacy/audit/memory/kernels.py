"""The loops of the attack, compiled: they look at every byte of an image.

A *window* is 64 bits of something secret. An image is read in several *lanes*: eight neighbouring bytes; or eight
neighbouring numbers below 256 that take 2, 4 or 8 bytes each (text in UCS-4, counts as integers); or 64 neighbouring
numbers that are 0 or 1 and take 1, 2, 4 or 8 bytes each (a byte a bit). Whatever a lane shows is looked up among the
secret windows: first in a bitmap that fits a cache, then in a table.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-untyped-decorators=False
import numpy as np
from numba import njit

u64 = np.uint64
_MIX = u64(0x9E3779B97F4A7C15)
_ONE, _BYTE, _TOP, _LAST = u64(1), u64(8), u64(56), u64(63)


@njit(nogil=True, cache=True)
def index_windows(keys, bitmap, map_shift, table, table_shift):
    """Enter the windows into a bitmap and into a table of open addresses."""
    mask = len(table) - 1
    for i in range(len(keys)):
        mixed = keys[i] * _MIX
        place = mixed >> map_shift
        bitmap[place >> u64(6)] |= _ONE << (place & _LAST)
        at = np.int64(mixed >> table_shift)
        while table[at] >= 0:
            at = (at + 1) & mask
        table[at] = i


@njit(nogil=True, inline="always")
def _look_up(key, keys, bitmap, map_shift, table, table_shift):
    """Which of the windows this is, -1 if it is none."""
    mixed = key * _MIX
    place = mixed >> map_shift
    if not (bitmap[place >> u64(6)] >> (place & _LAST)) & _ONE:
        return -1
    mask = len(table) - 1
    at = np.int64(mixed >> table_shift)
    while table[at] >= 0:
        if keys[table[at]] == key:
            return table[at]
        at = (at + 1) & mask
    return -1


@njit(nogil=True, cache=True)
def scan_bytes(octets, keys, bitmap, map_shift, table, table_shift, places, which):
    """Look up every eight bytes in a row; write where the known ones start and which they are; return how many."""
    found = 0
    window = u64(0)
    for i in range(len(octets)):
        window = (window >> _BYTE) | (u64(octets[i]) << _TOP)
        if window == 0 or i < 7:
            continue
        pattern = _look_up(window, keys, bitmap, map_shift, table, table_shift)
        if pattern >= 0 and found < len(places):
            places[found] = i - 7
            which[found] = pattern
            found += 1
    return found


@njit(nogil=True, cache=True)
def scan_numbers(numbers, per_bit, keys, bitmap, map_shift, table, table_shift, places, which):
    """Look up every eight numbers below 256, or every 64 below 2, in a row; places count numbers."""
    found = 0
    window = u64(0)
    run = 0
    below = 2 if per_bit else 256
    step, top, need = (_ONE, _LAST, 64) if per_bit else (_BYTE, _TOP, 8)
    for i in range(len(numbers)):
        if numbers[i] >= below:
            run = 0
            continue
        window = (window >> step) | (u64(numbers[i]) << top)
        run += 1
        if run < need or window == 0:
            continue
        pattern = _look_up(window, keys, bitmap, map_shift, table, table_shift)
        if pattern >= 0 and found < len(places):
            places[found] = i - need + 1
            which[found] = pattern
            found += 1
    return found


@njit(nogil=True, cache=True)
def _window_at(numbers, at, per_bit):
    """The window that starts at a number, and whether there is one."""
    count = 64 if per_bit else 8
    if at < 0 or at + count > len(numbers):
        return u64(0), False
    window = u64(0)
    for i in range(count):
        number = u64(numbers[at + i])
        if number >= (u64(2) if per_bit else u64(256)):
            return u64(0), False
        window |= number << u64(i if per_bit else 8 * i)
    return window, True


@njit(nogil=True, cache=True)
def confirm(numbers, per_bit, places, which, patterns, keep):
    """Of each find, tell whether enough of its neighbours are there as well."""
    before, after, sides, need, step = patterns
    for i in range(len(places)):
        pattern = which[i]
        distance = (64 if per_bit else 8) * step[pattern] // 8
        agreeing = 0
        if sides[pattern] & 1:
            window, there = _window_at(numbers, places[i] - distance, per_bit)
            agreeing += int(there and window == before[pattern])
        if sides[pattern] & 2:
            window, there = _window_at(numbers, places[i] + distance, per_bit)
            agreeing += int(there and window == after[pattern])
        keep[i] = agreeing >= need[pattern]


@njit(nogil=True, inline="always")
def pair_key(first, second):
    """Two numbers as one window."""
    mixed = (first ^ u64(0x2545F4914F6CDD1D)) * _MIX
    return (mixed ^ (mixed >> u64(29)) ^ second) * u64(0xBF58476D1CE4E5B9)


@njit(nogil=True, cache=True)
def pair_keys(values, places, keys):
    """The windows of the numbers at these places and those behind them."""
    for i in range(len(places)):
        keys[i] = pair_key(values[places[i]], values[places[i] + 1])


@njit(nogil=True, inline="always")
def _number_at(halves, at, wide, swapped):
    """The number of 4 or 8 bytes that starts at a multiple of 4 bytes."""
    number = u64(halves[at])
    if wide:
        number |= u64(halves[at + 1]) << u64(32)
    if swapped:
        turned = u64(0)
        for _ in range(8):
            turned = (turned << _BYTE) | (number & u64(255))
            number >>= _BYTE
        return turned
    return number


@njit(nogil=True, cache=True)
def scan_pairs(halves, wide, stride, swapped, limit, keys, bitmap, map_shift, table, table_shift, places, which):
    """Look up every two different numbers below the limit that stand `stride` times 4 bytes from each other."""
    found = 0
    for i in range(len(halves) - stride - 1):
        first = _number_at(halves, i, wide, swapped)
        if first >= limit or first == 0:  # zeros are everywhere, and a run has other pairs
            continue
        second = _number_at(halves, i + stride, wide, swapped)
        if second >= limit or first == second:
            continue
        pattern = _look_up(pair_key(first, second), keys, bitmap, map_shift, table, table_shift)
        if pattern >= 0 and found < len(places):
            places[found] = i
            which[found] = pattern
            found += 1
    return found


@njit(nogil=True, cache=True)
def scan_small_pairs(halves, lanes, limit, keys, bitmap, map_shift, table, table_shift, places, which, lane_of):
    """`scan_pairs` in several lanes at once, for a limit of at most 2**32: most numbers are looked at once only.

    A lane is how many halves a number takes, 1 or 2, and how many are from one number to the next.
    """
    found = 0
    end = len(halves)
    for i in range(end - 1):
        first = u64(halves[i])
        if first == 0 or first >= limit:
            continue
        for lane in range(len(lanes)):
            wide, next_ = lanes[lane, 0] == 2, i + lanes[lane, 1]
            if next_ + 1 >= end or (wide and (halves[i + 1] != 0 or halves[next_ + 1] != 0)):
                continue
            second = u64(halves[next_])
            if second == 0 or second >= limit or second == first:
                continue
            pattern = _look_up(pair_key(first, second), keys, bitmap, map_shift, table, table_shift)
            if pattern >= 0 and found < len(places):
                places[found] = i
                which[found] = pattern
                lane_of[found] = lane
                found += 1
    return found


@njit(nogil=True, cache=True)
def confirm_runs(halves, wide, stride, swapped, places, starts, values, bounds, need, reach, lengths):
    """How long the runs around finds are, if long enough, and where they begin in the secret sequence.

    `starts` is where the pair of each find stands in the sequences, and becomes where its run begins.
    """
    for i in range(len(places)):
        low, high = bounds[i]
        at, place = starts[i], places[i]
        forward = 0
        while forward < reach and at + forward < high:
            next_ = place + forward * stride
            if next_ + 1 >= len(halves) or _number_at(halves, next_, wide, swapped) != values[at + forward]:
                break
            forward += 1
        backward = 0
        while backward < reach and at - backward - 1 >= low:
            previous = place - (backward + 1) * stride
            if previous < 0 or _number_at(halves, previous, wide, swapped) != values[at - backward - 1]:
                break
            backward += 1
        starts[i] = at - backward
        lengths[i] = forward + backward if forward + backward >= need[i] else 0


@njit(nogil=True, cache=True)
def scan_words(halves, ascending, bitmap, places, which):
    """Where words of 4 bytes are one of an ascending list, and which one; the bitmap knows their lower halves."""
    found = 0
    for i in range(len(halves)):
        word = halves[i]
        if bitmap[word & np.uint32(0xFFFF)]:
            at = np.searchsorted(ascending, word)
            if at < len(ascending) and ascending[at] == word and found < len(places):
                places[found] = i
                which[found] = at
                found += 1
    return found

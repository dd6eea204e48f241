"""The search of an image: for patterns of secrets, and for exact counts of releases and the noise on them.

`look_for` finds windows and runs of `patterns`. Counts are searched by `find_counts`. A count is a small number, and
small numbers stand everywhere. So each is searched beside *decoys*, numbers close to it that were never counted: a
process holds both alike by accident. Counts were left behind if they are found so much oftener than decoys that chance
does it less than once in 10^9 images. Searched are words of 4 bytes at multiples of 4, in memory that has changed since
the first batch: an integer of 32 or 64 bits, the digit of one of Python's integers (also where a smaller object has
taken the place of its head), and the upper half of a float.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from panprivacy.audit.memory import kernels
from panprivacy.audit.memory.images import Image, Octets, Segment
from panprivacy.audit.memory.patterns import Run, Windows, Words

Numbers: TypeAlias = NDArray[np.int64]

CHANCE = 1e-9  # the probability at most of a find in a process that has left nothing
_LEAST = 1000  # smaller numbers are in every process, as often as their decoys
_DECOYS = np.array([sign * step for step in range(3, 163, 2) for sign in (1, -1)])
_MOST = 2**20  # finds in one lane of one segment: more of them would say nothing new
_REACH = 32  # how far a run is followed either way from where it was met
_WIDTHS = (np.uint8, np.uint16, np.uint32, np.uint64)
# Numbers of 8 bytes or 4, and how many times 4 bytes are from one to the next: arrays, columns of two and of three,
# and Python's small integers, which take 32 bytes each, or 48 where malloc gives them out.
_WIDE_LANES = ((True, 2, False), (True, 4, False), (True, 6, False))
_LANES = (*_WIDE_LANES, (False, 1, False), (False, 8, False), (False, 12, False))
_SWAPPED_LANE = (True, 2, True)  # 8 bytes the other way round


def look_for(patterns: Sequence[Windows | Run], image: Image, before: Image | None) -> None:
    """Mark the patterns that are found in an image, and where; `before` is the image before the first batch."""
    windows = [pattern for pattern in patterns if isinstance(pattern, Windows) and len(pattern.keys)]
    runs = [pattern for pattern in patterns if isinstance(pattern, Run) and len(pattern.values) >= pattern.need]
    small = [run for run in runs if run.values.max() < 2**32]
    large = [run for run in runs if run.values.max() >= 2**32]
    searches: list[_WindowSearch | _RunSearch] = [
        *([_WindowSearch(windows)] if windows else []),
        *(_RunSearch(group) for group in (small, large) if group),
    ]
    for segment in image.segments:
        searched = _Searched(segment, before)
        for search in searches:
            search.through(searched)


def _index(keys: Words) -> tuple[Any, ...]:
    """Windows of 64 bits by their value, as kernels take them: a bitmap, and a table."""
    bits = max((2 * len(keys)).bit_length(), 8)
    map_bits = bits + 4
    bitmap, table = np.zeros(2**map_bits // 64, dtype=np.uint64), np.full(2**bits, -1, dtype=np.int32)
    index = keys, bitmap, np.uint64(64 - map_bits), table, np.uint64(64 - bits)
    kernels.index_windows(*index)
    return index


class _Searched:
    """A segment, and the bytes in its place before the first batch, copied when they are first compared."""

    def __init__(self, segment: Segment, before: Image | None) -> None:
        self.octets, self.name = segment.octets, segment.name
        self.halves = self.octets[: len(self.octets) // 4 * 4].view(np.uint32)
        self._segment, self._before = segment, before

    @cached_property
    def _earlier(self) -> Octets | None:
        return None if self._before is None else self._before.earlier(self._segment)

    def same(self, places: Numbers, size: int) -> NDArray[np.bool_]:
        """Whether the bytes at these places have not changed."""
        if not len(places) or self._earlier is None:
            return np.zeros(len(places), dtype=np.bool_)
        steps = places[:, None] + np.arange(size)
        return np.asarray((self._earlier[steps] == self.octets[steps]).all(axis=1))


class _WindowSearch:
    def __init__(self, windows: list[Windows]) -> None:
        self._windows = windows
        keys, first = np.unique(np.concatenate([w.keys for w in windows]), return_index=True)
        self._owner = np.repeat(np.arange(len(windows)), [len(w.keys) for w in windows])[first]
        self._number = np.concatenate([np.arange(len(w.keys)) for w in windows])[first]
        self._index = _index(keys)
        around = (np.concatenate([getattr(w, name) for w in windows])[first] for name in ("before", "after", "sides"))
        need, step, self._new, self._per_bit = (
            np.array([getattr(w, name) for w in windows])[self._owner] for name in ("need", "step", "new", "per_bit")
        )
        self._neighbours = (*around, need, step)

    def through(self, segment: _Searched) -> None:
        places, which = np.empty((2, _MOST), dtype=np.int64)
        for width in _WIDTHS:
            size = np.dtype(width).itemsize
            numbers = segment.octets[: len(segment.octets) // size * size].view(width)
            for per_bit in (False, True):
                if size == 1 and not per_bit:
                    found = kernels.scan_bytes(numbers, *self._index, places, which)  # type: ignore[call-arg]
                else:
                    found = kernels.scan_numbers(numbers, per_bit, *self._index, places, which)  # type: ignore[call-arg]
                if found:
                    self._note(segment, numbers, per_bit, places[:found], which[:found])

    def _note(self, segment: _Searched, numbers: NDArray[Any], per_bit: bool, places: Numbers, which: Numbers) -> None:
        keep = np.empty(len(places), dtype=np.bool_)
        kernels.confirm(numbers, per_bit, places, which, self._neighbours, keep)
        if per_bit:
            keep &= self._per_bit[which]
        places, which = places[keep], which[keep]
        doubtful = self._new[which]
        keep = np.ones(len(which), dtype=np.bool_)
        keep[doubtful] = ~segment.same(places[doubtful] * numbers.itemsize, 8)
        which = which[keep]
        for owner in np.unique(self._owner[which]):
            of_this = which[self._owner[which] == owner]
            self._windows[owner].found[self._number[of_this]] = True
            self._windows[owner].where.add(segment.name)


class _RunSearch:
    def __init__(self, runs: list[Run]) -> None:
        self._runs = runs
        small = max(int(run.values.max()) for run in runs) < 2**32
        self._lanes = (() if small else _WIDE_LANES) + ((_SWAPPED_LANE,) if any(run.swapped for run in runs) else ())
        self._values = np.concatenate([run.values for run in runs]).astype(np.uint64)
        ends = np.cumsum([len(run.values) for run in runs])
        self._bounds = np.stack([np.concatenate([[0], ends[:-1]]), ends], axis=1)
        self._limit = np.uint64(self._values.max() + np.uint64(1))
        starts = [self._pairs(run, first) for run, (first, _) in zip(runs, self._bounds, strict=True)]
        places = np.concatenate(starts)
        owners = np.repeat(np.arange(len(runs)), [len(each) for each in starts])
        keys = np.empty(len(places), dtype=np.uint64)
        kernels.pair_keys(self._values, places, keys)
        keys, first = np.unique(keys, return_index=True)
        self._starts, self._owner = places[first], owners[first]
        self._need = np.array([run.need for run in runs])
        self._index = _index(keys)
        self._new = np.array([run.new for run in runs])

    @staticmethod
    def _pairs(run: Run, first: int) -> NDArray[np.int64]:
        """Where pairs begin that are looked for: one or two in every run of the needed length."""
        at = np.arange(0, len(run.values) - 1, run.need // 2)
        if len(run.skip) > 1:
            there = np.minimum(np.searchsorted(run.skip, run.values[at]), len(run.skip) - 2)
            at = at[(run.skip[there] != run.values[at]) | (run.skip[there + 1] != run.values[at + 1])]
        return at + first

    def through(self, segment: _Searched) -> None:
        halves = segment.halves
        places, which, lane_of = np.empty((3, _MOST), dtype=np.int64)
        if self._limit <= 2**32:
            lanes = np.array([(1 + wide, stride) for wide, stride, _ in _LANES])
            found = kernels.scan_small_pairs(  # type: ignore[call-arg]
                halves, lanes, self._limit, *self._index, places, which, lane_of
            )
            for number in np.unique(lane_of[:found]):
                of_this = lane_of[:found] == number
                self._note(segment, _LANES[number], places[:found][of_this], which[:found][of_this])
        for lane in self._lanes:
            found = kernels.scan_pairs(halves, *lane, self._limit, *self._index, places, which)  # type: ignore[call-arg]
            if found:
                self._note(segment, lane, places[:found], which[:found])

    def _note(self, segment: _Searched, lane: tuple[bool, int, bool], places: Numbers, which: Numbers) -> None:
        wide, stride, swapped = lane
        starts, owners = self._starts[which].copy(), self._owner[which]
        lengths = np.empty(len(places), dtype=np.int64)
        bounds, need = self._bounds[owners], self._need[owners]
        found = segment.halves, wide, stride, swapped, places, starts
        kernels.confirm_runs(*found, self._values, bounds, need, _REACH, lengths)
        keep = lengths > 0
        doubtful = keep & self._new[owners]
        keep[doubtful] = ~segment.same(4 * places[doubtful], 4 * stride + (8 if wide else 4))
        for start, length, owner in zip(starts[keep], lengths[keep], owners[keep], strict=True):
            run, at = self._runs[owner], start - self._bounds[owner, 0]
            run.found[at : at + length] = True
            run.where.add(segment.name)


# --- counts -----------------------------------------------------------------------------------------------------------


def find_counts(told: bytes, image: Image, before: Image | None) -> int:
    """How many exact counts, and how many numbers that are the noise on one, are in an image; 0 if that may be chance.

    The process told how many counts a release has, these without noise, and with it, again and again.
    """
    numbers = np.frombuffer(told, dtype=np.int64)
    exact = noisy = np.empty(0, dtype=np.int64)
    while len(numbers):
        n = int(numbers[0])
        exact, noisy = np.append(exact, numbers[1 : 1 + n]), np.append(noisy, numbers[1 + n : 1 + 2 * n])
        numbers = numbers[1 + 2 * n :]
    searched = []
    for secrets in (exact, noisy - exact):
        sought = np.setdiff1d(secrets[np.abs(secrets) >= _LEAST], noisy)
        decoys = np.setdiff1d((sought[:, None] + _DECOYS).ravel(), [*exact, *noisy, *(noisy - exact)])
        searched.append(list(zip(_laid_out(sought), _laid_out(decoys), strict=True)))
    words = np.unique(np.concatenate([each for layouts in searched for pair in layouts for each in pair]))
    if not len(words):
        return 0
    there = words[_words_in(image, before, words)]
    return sum(max(_found_among(there, *pair) for pair in layouts) for layouts in searched)


def _laid_out(numbers: Numbers) -> list[NDArray[np.uint32]]:
    """The words of numbers as digits of Python's integers, as integers, and as upper halves of floats."""
    digits = np.abs(numbers).astype(np.uint32) & np.uint32(2**30 - 1)
    floats = (numbers.astype(np.float64).view(np.uint64) >> np.uint64(32)).astype(np.uint32)
    return [digits, numbers.astype(np.uint32), floats]


def _found_among(there: NDArray[np.uint32], secrets: NDArray[np.uint32], others: NDArray[np.uint32]) -> int:
    """How many words of secrets are among those that are there, unless that may be chance."""
    from scipy.special import bdtrc

    sought = np.unique(secrets)
    decoys = np.setdiff1d(others, sought)
    hits, false = (int(np.isin(words, there).sum()) for words in (sought, decoys))
    by_chance = (false + 1) / (len(decoys) + 1)
    return hits if hits and bdtrc(hits - 1, len(sought), by_chance) < CHANCE else 0


def _words_in(image: Image, before: Image | None, words: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Which words of 4 bytes, in ascending order, stand in an image where they did not stand before."""
    found, bitmap = np.zeros(len(words), dtype=np.bool_), np.zeros(2**16, dtype=np.bool_)
    bitmap[words & np.uint32(0xFFFF)] = True
    places, which = np.empty((2, _MOST), dtype=np.int64)
    for each in image.segments:
        segment = _Searched(each, before)
        for start in range(0, len(segment.halves), _MOST):  # so that no find is left out
            met = kernels.scan_words(segment.halves[start : start + _MOST], words, bitmap, places, which)
            if met:
                new = ~segment.same(4 * (start + places[:met]), 4)
                found[which[:met][new]] = True
    return found

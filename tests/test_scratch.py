"""Memory for what depends on people: pages of their own, and scratch that is wiped."""

import ctypes
import gc
import mmap
import resource
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from forking import in_child
from panprivacy.memory import scratch
from panprivacy.memory.scratch import Scratch

SMAPS = Path("/proc/self/smaps")
LARGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
HAS_LARGE_PAGES = LARGE_PAGES.exists() and "[never]" not in LARGE_PAGES.read_text()
linux = pytest.mark.skipif(not SMAPS.exists(), reason="the maps of a process are Linux's")


def area_of(words: NDArray[np.uint64]) -> mmap.mmap:
    """The pages that words live in."""
    return scratch._area_of(words)


def test_threads_may_look_for_pages_while_others_make_them() -> None:
    tables, ended, before = [scratch.bit_pages(1) for _ in range(500)], threading.Event(), sys.getswitchinterval()

    def make() -> None:
        while not ended.is_set():
            tables[:50] = [scratch.bit_pages(1) for _ in range(50)]

    thread = threading.Thread(target=make)
    sys.setswitchinterval(1e-6)
    thread.start()
    try:
        assert all(scratch.are_bits(tables[-1]) for _ in range(200))
    finally:
        sys.setswitchinterval(before)
        ended.set()
        thread.join()


def faults(part: NDArray[np.uint8]) -> int:
    """How many pages the system lends while a part of an array is written."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    part.fill(1)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def shown_by_system(words: NDArray[np.uint64]) -> dict[str, str]:
    """What Linux says of the pages that words live in."""
    facts: dict[str, str] = {}
    inside = False
    for line in SMAPS.read_text().splitlines():
        name, _, rest = line.partition(" ")
        if "-" in name and not name.endswith(":"):
            start, end = (int(edge, 16) for edge in name.split("-"))
            inside = start <= words.ctypes.data < end
        elif inside:
            facts[name.rstrip(":")] = rest.strip()
    return facts


# --- bits -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [0, 1, 3, 511, 512, 513, 600_000])
def test_bits_are_zeros_that_can_be_written(words: int) -> None:
    bits = scratch.bit_pages(words)
    assert len(bits) == words
    assert bits.dtype == np.uint64
    assert bits.flags.writeable
    assert not bits.any()
    bits.fill(7)
    assert (bits == 7).all()


def test_two_tables_share_no_page() -> None:
    one, other = scratch.bit_pages(3), scratch.bit_pages(3)
    assert one.ctypes.data % mmap.PAGESIZE == other.ctypes.data % mmap.PAGESIZE == 0
    assert abs(one.ctypes.data - other.ctypes.data) >= mmap.PAGESIZE


def test_the_pages_go_back_to_the_system_with_the_last_view_of_the_bits() -> None:
    bits = scratch.bit_pages(1000)
    area = weakref.ref(area_of(bits))
    view = bits[5:7]
    del bits
    assert area() is not None
    del view
    assert area() is None


@pytest.mark.slow
def test_a_forked_child_finds_zeros_where_the_bits_were() -> None:
    bits, heap = scratch.bit_pages(1000), np.zeros(1000, dtype=np.uint64)
    bits.fill(7)
    heap.fill(7)
    assert in_child(bits.sum) == "0"
    assert in_child(heap.sum) == "7000", "of memory that is not marked, a child has a copy: this test can fail"
    assert bits.sum() == 7000


@pytest.mark.slow
def test_bits_may_be_kept_for_one_child() -> None:
    bits, other = scratch.bit_pages(1000), scratch.bit_pages(1000)
    bits.fill(7)
    other.fill(7)
    with scratch.kept_on_fork(bits):
        assert in_child(bits.sum) == "7000"
        assert in_child(other.sum) == "0"
    assert in_child(bits.sum) == "0"


@linux
@pytest.mark.skipif(
    "[never]" in LARGE_PAGES.read_text() if LARGE_PAGES.exists() else True, reason="no large pages here"
)
def test_the_part_that_is_not_written_yet_gets_large_pages_when_it_is_asked_for() -> None:
    half = 2**23
    array = scratch.pages(2 * half, small=True)
    small = faults(array[:half])
    scratch.use_large_pages(array)
    assert small >= half // mmap.PAGESIZE  # one for each page: so it is measured
    assert faults(array[half:]) < small / 2  # all but two of the large pages lie within the second half


@pytest.mark.slow
@linux
def test_bits_are_left_out_of_core_dumps() -> None:
    bits, heap = scratch.bit_pages(1000), np.zeros(1000, dtype=np.uint64)
    bits.fill(7)
    assert "dd" in shown_by_system(bits)["VmFlags"].split()
    assert "dd" not in shown_by_system(heap)["VmFlags"].split()


# --- locking --------------------------------------------------------------------------------------------------------


@pytest.fixture
def _not_locking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a test before this one switched on, and switched back afterwards."""
    monkeypatch.setattr(scratch, "_locking", False)


@pytest.mark.slow
@linux
@pytest.mark.usefixtures("_not_locking")
def test_locked_bits_stay_in_memory_those_of_later_tables_too() -> None:
    gc.collect()  # tables of other tests would be locked as well, up to the limit of the system
    before = scratch.bit_pages(1000)
    assert shown_by_system(before)["Locked"] == "0 kB"
    problem = scratch.lock_bits()
    if problem is not None:
        pytest.skip(f"this system locks nothing: {problem}")
    after = scratch.bit_pages(1000)
    for bits in (before, after):
        bits.fill(7)
        assert shown_by_system(bits)["Locked"] != "0 kB"


@pytest.mark.usefixtures("_not_locking")
def test_why_bits_cannot_be_locked_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoMemory:
        @staticmethod
        def mlock(*_: object) -> int:
            ctypes.set_errno(12)
            return -1

    bits = scratch.bit_pages(10)
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: NoMemory)
    assert scratch.lock_bits() == "cannot allocate memory"
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: object())
    assert scratch.lock_bits() == "this system has no mlock"
    assert not bits.any()


# --- scratch --------------------------------------------------------------------------------------------------------


def hashes_of_polars() -> NDArray[Any]:
    """An array that is Polars' own, and read-only."""
    array = pl.Series([5, 6, 7]).to_numpy()
    assert not array.flags.writeable
    return array


def read_only() -> NDArray[Any]:
    array = np.array([5, 6, 7])
    array.flags.writeable = False
    return array


ARRAYS: dict[str, Callable[[], NDArray[Any]]] = {
    "integers": lambda: np.array([5, 6, 7]),
    "flips": lambda: np.array([True, True]),
    "floats": lambda: np.array([0.5]),
    "a part": lambda: np.arange(1, 9)[2:5],
    "with gaps": lambda: np.arange(1, 9)[::2],
    "two columns": lambda: np.ones((3, 2)),
    "read-only": read_only,
    "read-only two columns": lambda: np.broadcast_to(read_only(), (1, 3)),
    "of Polars": hashes_of_polars,
    "empty": lambda: np.empty(0),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_scratch_is_wiped_where_the_block_ends(name: str) -> None:
    array = ARRAYS[name]()
    with Scratch() as scratch:
        assert scratch.own(array) is array
        assert array.size == 0 or array.all()
    assert not array.any()


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("name", ARRAYS)
def test_scratch_is_wiped_however_the_block_ends(name: str, error: type[BaseException]) -> None:
    array = ARRAYS[name]()

    def interrupted() -> None:
        with Scratch() as scratch:
            scratch.own(array)
            raise error

    with pytest.raises(error):
        interrupted()
    assert not array.any()


def test_one_array_that_cannot_be_wiped_does_not_save_the_others() -> None:
    gaps = np.arange(1, 9)[::2]
    gaps.flags.writeable = False
    before, behind = np.array([5]), np.array([6])
    scratch = Scratch()
    for array in (before, gaps, behind):
        scratch.own(array)
    with pytest.raises(ValueError, match="cannot be wiped"), scratch:
        pass
    assert (before.tolist(), behind.tolist()) == ([0], [0])


def test_scratch_that_no_block_ends_stays() -> None:
    """Which is why the estimators use blocks, and tests need not."""
    array = Scratch().own(np.array([5]))
    assert array.tolist() == [5]


def test_a_name_gives_the_same_memory_again_while_it_is_long_enough() -> None:
    with Scratch() as scratch:
        first = scratch.empty("slots", 10, np.uint64)
        first.fill(7)
        shorter = scratch.empty("slots", 4, np.uint64)
        assert np.shares_memory(first, shorter)
        assert len(shorter) == 4
        other = scratch.empty("flips", 4, np.uint8)
        assert not np.shares_memory(first, other)
        longer = scratch.empty("slots", 11, np.uint64)
        longer.fill(8)
        assert not np.shares_memory(first, longer)
    assert not first.any(), "what a longer one took the place of is wiped as well"
    assert not longer.any()


def test_scratch_can_be_used_again_after_its_block() -> None:
    scratch = Scratch()
    with scratch:
        first = scratch.empty("slots", 3, np.uint64)
    with scratch:
        again = scratch.empty("slots", 3, np.uint64)
        again.fill(7)
        assert not np.shares_memory(first, again)
    assert not again.any()

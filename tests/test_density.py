"""What `Density` does, verb by verb."""

import io
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from rich.console import Console

import panprivacy as pp
from panprivacy.memory.threads import CHUNK
from panprivacy.privacy import coins
from panprivacy.testing import SeededCoins, ledger_of, refused, set_coins, table_of
from sources import Always, Scripted
from together import run_together

UNIVERSE = 1000


def set_bits(est: pp.Density) -> set[int]:
    """The slots whose bit is 1."""
    return set(np.flatnonzero(table_of(est).bits(0, table_of(est).size)).tolist())


def all_zero() -> pp.Density:
    """An estimator whose bits are all 0, and whose next flips are all 1."""
    est = pp.Density(UNIVERSE, 1.0, coins=Always(False))
    set_coins(est, Always(True))
    return est


@pytest.mark.parametrize(
    "ids",
    [
        [3, 1, 4],
        (3, 1, 4),
        range(0),
        np.array([3, 1, 4], dtype=np.int8),
        np.array([3, 1, 4], dtype=np.uint64),
        np.array([9, 3, 9, 1, 9, 4])[1::2],
        np.array([3, 1, 4], dtype=">i4"),
        pl.Series([3, 1, 4]),
        pl.concat([pl.Series([3, 1]), pl.Series([4])], rechunk=False),
        pa.array([3, 1, 4]),
        pa.chunked_array([[3], [1, 4]]),
        [],
        np.array([], dtype=np.int64),
        pl.Series([], dtype=pl.Int64),
    ],
    ids=lambda ids: type(ids).__module__ + str(getattr(ids, "dtype", "")),
)
def test_ids_come_in_any_container(ids: Any) -> None:
    est = all_zero()
    est.update_many(ids)
    assert set_bits(est) == set(map(int, ids))


def test_iterators_are_taken_in_chunks() -> None:
    est = all_zero()
    est.update_many(i % UNIVERSE for i in range(5, 300_005))
    assert len(set_bits(est)) == UNIVERSE


def test_one_update_sets_one_bit_and_a_removal_draws_from_the_other_coin() -> None:
    est = all_zero()
    est.update(np.int16(7))
    assert set_bits(est) == {7}
    set_coins(est, Always(False))
    est.remove(7)
    assert set_bits(est) == set()


@pytest.mark.parametrize(
    ("ids", "named"),
    [
        ([1, 2, 1000], "user 1000 "),
        (np.array([1, -1], dtype=np.int8), "user -1 "),
        (np.array([2**64 - 1], dtype=np.uint64), f"user {2**64 - 1} "),
        ([2**70, 1], f"user {2**70} "),
        (list(range(998, 1005)), "users 1000, 1001, 1002 and 2 more"),
        (np.append(np.zeros(400_000, dtype=np.int64), 5000), "user 5000 "),  # found after many bits were redrawn
    ],
)
def test_a_batch_with_a_bad_id_is_refused_whole(ids: pp.Ids, named: str) -> None:
    est = pp.Density(UNIVERSE, 1.0)
    before = est.to_bytes()
    with refused("outside-universe", named):
        est.update_many(ids)
    with pytest.raises(pp.OutsideUniverse):
        est.remove_many(ids)
    assert est.to_bytes() == before


@pytest.mark.parametrize("ids", [[3, UNIVERSE], np.full(CHUNK + 5, UNIVERSE), pl.Series([3, None])], ids=len)
def test_a_batch_may_be_checked_without_being_counted(ids: Any) -> None:
    est = pp.Density(UNIVERSE, 1.0, coins=Always(False))
    with pytest.raises((pp.OutsideUniverse, ValueError)):
        est.check_many(ids)
    est.check_many(range(UNIVERSE))
    once = iter([3, 4])
    est.check_many(once)
    assert (set_bits(est), list(once)) == (set(), [3, 4])


@pytest.mark.parametrize("ids", [[1.5], [True], ["7"], np.array([1.25]), 7, "7", None, pl.Series([1, None])])
def test_what_is_no_column_of_integers_is_refused(ids: Any) -> None:
    est = pp.Density(UNIVERSE, 1.0)
    before = est.to_bytes()
    with pytest.raises((TypeError, ValueError)):
        est.update_many(ids)
    assert est.to_bytes() == before


@pytest.mark.parametrize("user", [-1, 1000, 2**80])
def test_one_bad_id_is_refused(user: int) -> None:
    with refused("outside-universe", user):
        pp.Density(UNIVERSE, 1.0).update(user)


def test_releases_beyond_the_plan_spend_nothing() -> None:
    est = pp.Density(UNIVERSE, 1.0, releases=2)
    assert est.last is None
    first, second = est.release(), est.release()
    assert (first.number, second.number) == (1, 2)
    assert first.epsilon_spent < second.epsilon_spent <= 1.0
    assert first.epsilon_remaining > 0 == second.epsilon_remaining
    before = est.budget
    with refused("budget-exhausted", "2"):
        est.release()
    assert est.budget == before
    assert est.last == second


BAD_LEVELS = [0, 1, -1, 2, float("nan"), None, "high", [0.9], 1j, Decimal("NaN"), Decimal(1), Fraction(3, 2)]


@pytest.mark.parametrize("make", [lambda: pp.Density(UNIVERSE, 1.0), lambda: pp.DistinctCount(1.0, 64)])
@pytest.mark.parametrize("level", BAD_LEVELS, ids=repr)
def test_a_bad_level_is_refused_before_anything_is_spent(level: Any, make: Callable[[], Any]) -> None:
    est = make()
    before = est.budget
    with refused("level-range"):
        est.release(level=level)
    assert est.budget == before
    assert est.last is None
    assert est.release().number == 1


@pytest.mark.parametrize("make", [lambda: pp.Density(UNIVERSE, 1.0), lambda: pp.DistinctCount(1.0, 64)])
@pytest.mark.parametrize("level", [Decimal("0.9"), Fraction(9, 10), np.float32(0.9), np.float64(0.9)], ids=repr)
def test_a_level_may_be_any_number(level: Any, make: Callable[[], Any]) -> None:
    est = make()
    released = est.release(level=level)
    assert released.level == pytest.approx(0.9)
    assert type(released.level) is float
    assert est.last == released
    assert pp.load(est.to_bytes()).last == released


def test_a_release_keeps_the_raw_value_and_clamps_the_density() -> None:
    est = pp.Density(UNIVERSE, 1.0, coins=Always(False))  # no ones at all: far below what absent users give
    release = est.release(level=0.9)
    assert release.raw_density < 0 == release.density == release.count
    assert release.level == 0.9
    assert release.density_interval[0] == release.count_interval[0] == 0
    assert 0 < release.density_interval[1] < release.density_stderr


def test_wider_levels_have_wider_intervals() -> None:
    est = pp.Density(UNIVERSE, 1.0, releases=3, coins=SeededCoins(1))
    est.update_many(range(500))
    widths = [
        (r.density_interval[1] - r.density_interval[0]) for r in (est.release(level) for level in (0.5, 0.9, 0.99))
    ]
    assert widths == sorted(widths)


def test_rerandomising_is_planned_and_weakens_the_pair() -> None:
    est = pp.Density(UNIVERSE, 2.0, intrusions=1)
    strong, error = ledger_of(est).pair.gap, est.density_stderr_at(0.5)
    est.rerandomize()
    assert ledger_of(est).pair.gap < strong
    assert est.density_stderr_at(0.5) > error
    with refused("rerandomisations-planned"):
        est.rerandomize()
    with refused("rerandomisations-planned", "no rerandomisation was planned"):
        pp.Density(UNIVERSE, 2.0).rerandomize()


def test_a_redraw_that_breaks_off_was_none() -> None:
    est = pp.Density(3 * CHUNK, epsilon=4.0, intrusions=1)
    before, calls = est.to_bytes(), iter([True, False])

    def break_off(_: int, n: int) -> NDArray[np.bool_]:
        if not next(calls):
            raise KeyboardInterrupt
        return np.ones(n, dtype=np.bool_)

    set_coins(est, Scripted(break_off))
    with pytest.raises(KeyboardInterrupt):
        est.rerandomize()
    set_coins(est, coins.system)
    assert est.to_bytes() == before
    est.rerandomize()
    assert est.budget.redraws_made == 1


def test_the_last_release_stays_what_it_was_after_rerandomising() -> None:
    est = pp.Density(UNIVERSE, 2.0, intrusions=1)
    release = est.release()
    est.rerandomize()
    assert est.last == release


def test_memory_and_sample_say_the_same() -> None:
    by_memory = pp.Density(1_000_000, 1.0, memory="16 KiB", key=bytes(16))
    by_sample = pp.Density(1_000_000, 1.0, sample=131_072, key=bytes(16))
    assert by_memory.users == by_sample.users
    assert by_memory.memory == 16_384
    assert len(by_memory.to_bytes()) < 16_384 + 4096
    assert pp.Density(100, 1.0, memory="1 MiB").users == 100


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"epsilon": 0}, "epsilon-range"),
        ({"epsilon": float("nan")}, "epsilon-range"),
        ({"epsilon": 1, "sample": 0}, "sample-range"),
        ({"epsilon": 1, "sample": 1001}, "sample-range"),
        ({"epsilon": 1, "sample": 10, "memory": "1 KiB"}, "sample-and-memory"),
        ({"epsilon": 1, "memory": "many"}, "memory-format"),
        ({"epsilon": 1, "releases": 0}, "releases-range"),
        ({"epsilon": 1, "intrusions": -1}, "intrusions-range"),
        ({"epsilon": 1, "shard": (2, 2)}, "shard-range"),
        ({"epsilon": 1, "sample": 10, "shard": (0, 2)}, "shard-key"),
        ({"epsilon": 1, "sample": 10, "key": b"short"}, "key-length"),
    ],
)
def test_wrong_options_are_refused_in_words(options: dict[str, object], code: str) -> None:
    with refused(code):
        pp.Density(UNIVERSE, **options)  # type: ignore[arg-type]


def test_threads_do_not_lose_each_others_bits() -> None:
    est = pp.Density(100_000, 1.0, coins=Always(False))
    set_coins(est, Always(True))
    halves = [np.arange(0, 100_000, 2), np.arange(1, 100_000, 2)]  # neighbouring bits: every word is shared

    def feed(ids: NDArray[np.int64]) -> None:
        for _ in range(20):
            est.update_many(ids)

    assert run_together(*(partial(feed, ids) for ids in halves)) == []
    assert table_of(est).ones() == 100_000


def test_an_update_takes_no_memory_that_grows_with_the_batch() -> None:
    """Beside the ids themselves: a chunk's flips and slots, whatever the length."""
    import tracemalloc

    est = pp.Density(100_000, 1.0, sample=50_000)
    peaks = []
    for length in (1_000_000, 4_000_000):
        ids = np.zeros(length, dtype=np.int32)
        tracemalloc.start()
        est.update_many(ids, threads=1)  # each has a chunk of its own, and how many had one at once is a matter of luck
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.1 * peaks[0] + 100_000


def test_seeded_coins_are_named_everywhere() -> None:
    est = pp.Density(UNIVERSE, 1.0, coins=SeededCoins(1))
    assert not est.secure
    assert not est.release().secure
    assert "NOT SECURE" in repr(est)
    assert "NOT PRIVATE" in str(est.last)


def test_what_a_person_sees_fits_a_glance() -> None:
    est = pp.Density(UNIVERSE, 1.0)
    est.release()
    assert repr(est).startswith("<Density of 1,000 users, all tracked in 128 B; epsilon 1: 1 spent, 1 of 1 releases")
    console = Console(width=100, record=True, file=io.StringIO())
    for shown in (est, est.last, str(est.budget)):
        console.print(shown)
    text = console.export_text()
    for word in ("universe", "tracked", "error", "interval", "epsilon", "remaining"):
        assert word in text


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = "import sys, panprivacy; print([m for m in ('numba', 'scipy', 'polars', 'matplotlib') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

"""Several threads work on a long batch: nobody is lost, a bad batch changes nothing, and nothing is left behind."""

from itertools import count, pairwise
from pathlib import Path
from threading import Barrier, Event, Thread, get_ident
from typing import Any

import numpy as np
import pytest

import panprivacy as pp
from panprivacy import audit
from panprivacy.memory import scratch, threads
from panprivacy.memory.scratch import Scratch
from panprivacy.table import Table
from panprivacy.table.batch import ROWS_PER_THREAD, BatchUpdate, PartitionedSlots
from panprivacy.testing import CertainCoins, ledger_of, refused, slots_of, table_of
from panprivacy.universe.integers import HashIndex, Lookup
from panprivacy.universe.range import Range

MANY = 600_000


class Certain(CertainCoins):
    """Coins that pass for the system's, with which threads may be used."""

    secure = True


def present(est: pp.Density) -> np.ndarray[Any, Any]:
    """Who came."""
    return np.flatnonzero(table_of(est).bits(0, table_of(est).size))


@pytest.fixture(autouse=True)
def _worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads for batches that a test can afford, and for tables that are not far."""
    monkeypatch.setitem(ROWS_PER_THREAD, Lookup.DIRECT, 50_000)
    monkeypatch.setattr("panprivacy.table.batch.LARGE_TABLE", 0)


@pytest.fixture(params=[True, False], ids=["gathered", "parted"])
def gathered(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether users are marked first and drawn afterwards, or dealt to threads that have a part of the table each."""
    monkeypatch.setattr(BatchUpdate, "_marks_first", lambda *_: request.param)
    return bool(request.param)


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """The threads that looked users up."""
    seen: set[int] = set()
    several, look_up = Event(), Range.unchecked

    def noted(*arguments: Any) -> Any:
        seen.add(get_ident())
        if len(seen) > 1:
            several.set()
        if len(arguments[1]) > 1000:
            several.wait(60)  # so that the others get their share
        return look_up(*arguments)

    monkeypatch.setattr(Range, "unchecked", noted)
    return seen


@pytest.mark.usefixtures("gathered")
@pytest.mark.parametrize("number", [2, 5])
def test_every_user_of_a_long_batch_is_counted(number: int, busy: set[int]) -> None:
    est = pp.Density(MANY, 1.0, coins=Certain())
    ids = np.random.default_rng(1).permutation(np.arange(0, MANY, 3).repeat(4))
    est.update_many(ids, threads=number)
    assert np.array_equal(present(est), np.arange(0, MANY, 3))
    assert 2 <= len(busy) <= number


def test_a_short_batch_stays_with_the_thread_that_brings_it(busy: set[int]) -> None:
    est = pp.Density(MANY, 1.0, coins=Certain())
    est.update_many(np.arange(1000), threads=8)
    assert busy == {get_ident()}


def test_seeded_coins_are_drawn_in_one_order(busy: set[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ROWS_PER_THREAD, Lookup.DIRECT, 400)
    est = pp.Density(MANY, 1.0, coins=CertainCoins())
    est.update_many(np.arange(1000), threads=8)
    assert busy == {get_ident()}


@pytest.mark.parametrize("number", [2, 3, 8])
@pytest.mark.parametrize("up_to", [3, 8, 16])
def test_every_event_of_a_counter_is_counted(up_to: int, number: int) -> None:
    est = pp.Counts(1001, 1.0, up_to=up_to, coins=Certain())
    before = [counter for counter, _ in table_of(est).fields()]
    est.update_many(np.tile(np.arange(1001), 703), threads=number)
    assert [counter for counter, _ in table_of(est).fields()] == [(counter + 703) % up_to for counter in before]
    est.remove_many(np.tile(np.arange(1001), 703), threads=number)
    assert [counter for counter, _ in table_of(est).fields()] == before


@pytest.mark.parametrize("size", [1, 63, 64, 65, 1000, 10**7 + 1, 2**35])
@pytest.mark.parametrize("number", [2, 3, 4, 7, 64])
def test_stretches_cover_a_table_and_share_no_word(size: int, number: int) -> None:
    with Scratch() as scratch:
        stretches = PartitionedSlots(size, number, scratch).stretches
    assert stretches[0][0] == 0
    assert stretches[-1][1] == size
    assert all(before[1] == after[0] and after[0] % 64 == 0 for before, after in pairwise(stretches))
    assert all(stop - first <= 2**32 for first, stop in stretches)


@pytest.mark.usefixtures("gathered")
@pytest.mark.parametrize("at", [0, 300_000, MANY - 1])
def test_a_stranger_in_a_long_batch_is_named_and_changes_nothing(at: int) -> None:
    est = pp.Density(MANY, 1.0, coins=Certain())
    ids = np.arange(MANY)
    ids[at] = MANY + 7
    with refused("outside-universe", MANY + 7):
        est.update_many(ids, threads=3)
    assert not len(present(est))


@pytest.mark.usefixtures("gathered")
def test_ctrl_c_in_any_thread_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    est = pp.Density(MANY, 1.0, coins=Certain())
    select, calls = type(slots_of(est)).select, count()

    def interrupted(*arguments: Any) -> Any:
        if next(calls) == 2:
            raise KeyboardInterrupt
        return select(*arguments)

    monkeypatch.setattr(type(slots_of(est)), "select", interrupted)
    with pytest.raises(KeyboardInterrupt):
        est.update_many(np.arange(MANY).repeat(2), threads=3)
    assert not len(present(est))


@pytest.mark.usefixtures("gathered")
def test_scratch_of_every_thread_is_wiped(monkeypatch: pytest.MonkeyPatch) -> None:
    arrays: list[np.ndarray[Any, Any]] = []
    empty, own = Scratch.empty, Scratch.own

    def noted(scratch: Scratch, name: str, n: int, dtype: Any) -> Any:
        array = empty(scratch, name, n, dtype)
        arrays.append(array)
        return array

    def noted_too(scratch: Scratch, array: Any) -> Any:
        arrays.append(array)
        return own(scratch, array)

    monkeypatch.setattr(Scratch, "empty", noted)
    monkeypatch.setattr(Scratch, "own", noted_too)
    est = pp.Density(MANY, 1.0)
    est.update_many(np.arange(MANY, dtype=np.int32), threads=3)
    assert len(arrays) >= 3
    assert not any(any(array.tobytes()) for array in arrays)


def test_a_system_without_more_threads_does_the_work_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(Thread, "start", refuse)
    est = pp.Density(MANY, 1.0, coins=Certain())
    est.update_many(np.arange(MANY), threads=4)
    assert len(present(est)) == MANY


@pytest.mark.usefixtures("gathered")
def test_bits_have_their_law_whoever_drew_them() -> None:
    """False alarms: 1e-6 in all."""
    est = pp.Density(MANY, 1.0)
    est.update_many(np.arange(0, MANY, 2).repeat(2), threads=4)
    p0, p1 = float(ledger_of(est).pair.p0), float(ledger_of(est).pair.p1)
    bits = table_of(est).bits(0, MANY)
    for which, p in ((bits[::2], p1), (bits[1::2], p0)):
        assert abs(int(which.sum()) - MANY // 2 * p) < 5.2 * (MANY // 2 * p * (1 - p)) ** 0.5


@pytest.mark.slow
def test_the_auditor_finds_the_same_loss_where_threads_work(gathered: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under every outcome of the coins: the code that threads run, by a machine whose chunks are one event long."""
    monkeypatch.setattr(BatchUpdate, "_cut", lambda _, rows: (1, 2 if rows else 1))
    monkeypatch.setattr("panprivacy.table.batch.each", in_one_thread)
    drawn: list[int] = []
    where: Any = Table if gathered else PartitionedSlots
    name = "replace_marked" if gathered else "count_each"
    draw = getattr(where, name)

    def noted(*arguments: Any) -> None:
        drawn.append(1)
        draw(*arguments)

    monkeypatch.setattr(where, name, noted)
    result = audit.exact(lambda coins: pp.Density(2, 0.5, coins=coins), 2, 3, deletions=True)
    assert drawn
    assert result.worst_loss == pytest.approx(result.claimed, abs=1e-14)


def in_one_thread(chunks: Any, work: Any, _: int) -> None:
    """What `each` does, in order: whoever enumerates coins asks for them in one order."""
    threads.each(chunks, work, 1)


@pytest.mark.parametrize("said", ["batch", "process"])
def test_one_thread_works_alone_if_told(said: str, busy: set[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_most", None)
    monkeypatch.setattr(threads, "cores", lambda: 2)
    est = pp.Density(1000, 1.0, coins=Certain())
    ids = np.tile(np.arange(1000), 200)
    est.update_many(ids)
    assert len(busy) == 2
    busy.clear()
    if said == "process":
        pp.use_threads(1)
    est.update_many(ids, threads=1 if said == "batch" else None)
    assert busy == {get_ident()}


@pytest.mark.parametrize("number", ["1", 1.0])
def test_threads_that_are_no_whole_number_are_refused_in_words(number: Any) -> None:
    with refused("threads-type"):
        pp.Density(MANY, 1.0).update_many([1], threads=number)
    with refused("threads-type"):
        pp.use_threads(number)


@pytest.mark.parametrize("number", [0, -1, 257])
def test_a_silly_number_of_threads_is_refused(number: int) -> None:
    est = pp.Density(MANY, 1.0)
    with refused("threads-range", "256"):
        est.update_many([1], threads=number)
    with refused("threads-range", "256"):
        pp.use_threads(number)


# --- bugs that have to be found -------------------------------------------------------------------------------------


def test_threads_that_share_a_word_would_lose_users() -> None:
    """Two threads that read, change and write one word: planted by making each wait until the other has read."""
    words, both = scratch.bit_pages(1), Barrier(2, timeout=30)

    def careless(bit: int, _: Scratch) -> None:
        before = int(words[0])
        both.wait()
        words[0] = before | 1 << bit

    threads.each(iter(range(2)), careless, 2)
    assert int(words[0]).bit_count() == 1


def test_stretches_that_begin_within_a_word_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = PartitionedSlots.__init__

    def shifted(parted: PartitionedSlots, *arguments: Any) -> None:
        begin(parted, *arguments)
        parted._step += 1

    monkeypatch.setattr(PartitionedSlots, "__init__", shifted)
    with pytest.raises(AssertionError):
        test_stretches_cover_a_table_and_share_no_word(1000, 2)
    with pytest.raises(AssertionError):
        test_every_event_of_a_counter_is_counted(8, 2)


def test_a_coin_for_every_event_of_a_gathered_user_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: marked bits that keep a 1 that they had, so that they are 1 if one of two coins is."""

    def keep(table: Table, _marks: Any, flips: Any) -> None:
        table.words |= flips

    monkeypatch.setattr(Table, "replace_marked", keep)
    with pytest.raises(AssertionError):
        test_bits_have_their_law_whoever_drew_them()


# --- looking up --------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 2])
def test_listed_users_of_a_long_batch_are_looked_up_once(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    est = pp.Density(pp.Users(np.arange(10**6) * 3), 1.0, coins=Certain())
    looked_up: list[int] = []
    find = HashIndex.find

    def noted(directory: HashIndex, hashes: Any, *more: Any) -> Any:
        looked_up.append(len(hashes))
        return find(directory, hashes, *more)

    monkeypatch.setattr(HashIndex, "find", noted)
    est.update_many(np.arange(300_000) * 3, threads=number)
    assert sum(looked_up) == 300_000
    assert np.array_equal(present(est), np.arange(300_000))


@pytest.mark.slow
def test_a_stranger_to_a_list_changes_nothing_whoever_looks_it_up() -> None:
    est = pp.Density(pp.Users(np.arange(10**6) * 3), 1.0, coins=Certain())
    ids = np.arange(300_000) * 3
    ids[-1] = 7
    with refused("outside-universe", "7"):
        est.update_many(ids, threads=2)
    assert not len(present(est))


def test_a_folder_takes_a_long_batch_of_listed_users(tmp_path: Path) -> None:
    """Its table has no stretches: shards are loaded one after the other."""
    folder = pp.StateFolder.create(
        str(tmp_path / "state"), universe=pp.Users(np.arange(1000) * 3), epsilon=20.0, shards=2
    )
    folder.update_many(np.tile(np.arange(500) * 3, 600))
    assert folder.release().density == pytest.approx(0.5, abs=0.05)  # but for one run in more than 10^9

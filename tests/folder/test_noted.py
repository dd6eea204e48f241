"""A batch that says which it is counts once, however often it is fed and wherever it broke off."""

import signal
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import panprivacy as pp
from panprivacy import testing
from panprivacy.folder.shards import MOST_WRITERS, BatchLog, LateBatch, ShardedBits
from panprivacy.folder.stores import Files
from panprivacy.testing import CertainCoins, folder_table, refused

UP_TO = 5


def made(place: Path, shards: int = 4) -> pp.StateFolder:
    """A folder whose counters say how often users came, up to four times, and whether more often."""
    return pp.StateFolder.create(
        place / "folder", universe=100, epsilon=2.0, up_to=UP_TO, shards=shards, coins=CertainCoins()
    )


def counted(folder: pp.StateFolder) -> list[int]:
    """How often each user came, five standing for five to nine times."""
    return [counter + UP_TO * bit for counter, bit in folder_table(folder).fields()]


def before_shard(monkeypatch: pytest.MonkeyPatch, shard: int, act: Callable[[], None]) -> None:
    """Let something happen whenever a shard is about to be changed."""
    change = Files.change_one

    def changed(store: Files, name: str, edit: Any) -> None:
        if name == f"shard-{shard:05d}":
            act()
        change(store, name, edit)

    monkeypatch.setattr(Files, "change_one", changed)


def break_off() -> None:
    raise KeyboardInterrupt


@pytest.mark.slow
def test_a_batch_with_a_name_counts_once(tmp_path: Path) -> None:
    folder = made(tmp_path)
    for _ in range(3):
        folder.update_many([0, 0, 99], batch=("north", 1))
        folder.update_many([0, 50], batch=("south", 1))
    folder.update_many([99], batch=("north", 2))
    with testing.refused("late-batch", "batch 1 of north", "2"):
        folder.update_many([1] * 50, batch=("north", 1))
    assert {user: times for user, times in enumerate(counted(folder)) if times} == {0: 3, 50: 1, 99: 2}
    assert (folder.last_batch("north"), folder.last_batch("south"), folder.last_batch("west")) == (2, 1, None)
    folder.remove_many([0, 99], batch=("north", 3))
    folder.remove(0, batch=("north", 3))
    assert (counted(folder)[0], counted(folder)[99]) == (2, 1)


def test_a_batch_without_a_name_counts_as_often_as_it_is_fed(tmp_path: Path) -> None:
    folder = made(tmp_path)
    folder.update_many([7, 7])
    folder.update(7)
    assert counted(folder)[7] == 3


def test_a_batch_without_a_name_is_not_begun_if_a_shard_is_corrupt(tmp_path: Path) -> None:
    folder, shard = made(tmp_path), tmp_path / "folder" / "shard-00002.pp"
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(pp.CorruptState):
        folder.update_many(range(100))
    shard.write_bytes(whole)
    assert counted(folder) == [0] * 100


def test_a_batch_without_a_name_that_breaks_off_says_which_shards_have_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = made(tmp_path)

    def fail() -> None:
        raise OSError("no space left")

    before_shard(monkeypatch, 2, fail)
    with testing.refused("half-counted", "no space left", "2", "4"):
        folder.update_many(range(100))
    assert counted(folder) == [1] * 50 + [0] * 50


@pytest.mark.parametrize("shard", [1, *(pytest.param(shard, marks=pytest.mark.slow) for shard in (0, 2, 3))])
def test_a_batch_that_broke_off_is_fed_again_and_counts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shard: int
) -> None:
    folder = made(tmp_path)
    folder.update_many(range(100), batch=("w", 7))
    with monkeypatch.context() as patch:
        before_shard(patch, shard, break_off)
        with pytest.raises(KeyboardInterrupt):
            folder.update_many(range(100), batch=("w", 8))
    folder.update_many(range(100), batch=("w", 8))
    assert counted(folder) == [2] * 100
    assert folder.last_batch("w") == 8


def test_the_next_batch_is_refused_while_some_shards_lack_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = made(tmp_path)
    folder.update_many([], batch=("north", 7))
    with monkeypatch.context() as patch:
        before_shard(patch, 2, break_off)
        with pytest.raises(KeyboardInterrupt):
            folder.update_many(range(100), batch=("north", 8))
    assert folder.last_batch("north") == 7
    with testing.refused("batch-broken-off", "batch 8 of north"):
        folder.update_many(range(100), batch=("north", 9))
    with pytest.raises(LateBatch):
        folder.update_many(range(100), batch=("north", 7))
    folder.update_many([5], batch=("south", 9))
    folder.update_many(range(100), batch=("north", 8))
    folder.update_many([], batch=("north", 9))
    assert counted(folder) == [1] * 5 + [2] + [1] * 94


def test_a_late_deletion_does_not_undo_what_came_after_it(tmp_path: Path) -> None:
    folder = pp.StateFolder.create(tmp_path / "x", universe=100, epsilon=2.0, shards=2, coins=CertainCoins())
    folder.remove_many([5], batch=("w", 1))
    folder.update_many([5], batch=("w", 2))
    with pytest.raises(LateBatch):
        folder.remove_many([5], batch=("w", 1))  # from somebody who slept
    assert folder_table(folder).ones() == 1


@pytest.mark.slow
def test_there_is_room_for_some_writers_and_for_others_when_these_are_forgotten(tmp_path: Path) -> None:
    folder = made(tmp_path, shards=1)
    sizes = [path.stat().st_size for path in sorted((tmp_path / "folder").iterdir())]
    for i in range(MOST_WRITERS):
        folder.update_many([3] if i < 3 else [], batch=(f"writer {i}", 0))
    with testing.refused("too-many-writers"):
        folder.update_many([3], batch=("one more", 0))
    assert counted(folder)[3] == 3
    folder.forget("writer 5")
    folder.update_many([3], batch=("one more", 0))
    assert counted(folder)[3] == 4
    assert sizes == [path.stat().st_size for path in sorted((tmp_path / "folder").iterdir())]


@pytest.mark.parametrize(
    ("batch", "code"),
    [
        (("a", -1), "batch-number"),
        (("a", 2**62), "batch-number"),
        *((wrong, "batch-name") for wrong in (17, (1, 2), ("a", 1.5), True, ("a", True), "till:17", ("a",), ["a", 1])),
    ],
)
def test_names_that_are_none_are_refused(tmp_path: Path, batch: Any, code: str) -> None:
    with refused(code):
        made(tmp_path).update_many([1], batch=batch)


@pytest.mark.parametrize("dies_at", range(8))
def test_a_name_that_is_half_forgotten_takes_nothing_until_it_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies_at: int
) -> None:
    folder = made(tmp_path)
    folder.update_many(range(100), batch=("till", 17))
    change, calls = Files.change_one, iter(range(100))

    def dying(store: Files, name: str, edit: Any) -> None:
        if next(calls) == dies_at:
            raise KeyboardInterrupt
        change(store, name, edit)

    with monkeypatch.context() as patch:
        patch.setattr(Files, "change_one", dying)
        with pytest.raises(KeyboardInterrupt):
            folder.forget("till")
    if dies_at:  # else nothing was done yet
        with testing.refused("writer-half-forgotten", "'till'"):
            folder.update_many(range(100), batch=("till", 1))
        with testing.refused("writer-half-forgotten", "'till'"):
            folder.last_batch("till")
    folder.forget("till")
    folder.update_many(range(100), batch=("till", 1))
    assert counted(folder) == [2] * 100


@pytest.mark.parametrize(("first", "second", "at"), [(1, 2, 0), (1, 2, 1), (1, 2, 3), (2, 1, 0), (2, 1, 2)])
def test_of_two_batches_of_one_writer_at_once_one_is_refused_and_fed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int, second: int, at: int
) -> None:
    folder, other = made(tmp_path), pp.StateFolder(tmp_path / "folder", coins=CertainCoins())
    change, refused = Files.change_one, list[tuple[int, bool]]()  # which, and whether for good

    def overtaken(store: Files, name: str, edit: Any) -> None:
        """Let the other batch come whole before this one comes to a shard."""
        if store is folder._store and name == f"shard-{at:05d}":
            feed(other, second)
        change(store, name, edit)

    def feed(opened: pp.StateFolder, number: int) -> None:
        try:
            opened.update_many(range(100), batch=("till", number))
        except pp.PanPrivacyError as error:
            refused.append((number, isinstance(error, LateBatch)))

    monkeypatch.setattr(Files, "change_one", overtaken)
    feed(folder, first)
    monkeypatch.undo()
    ((number, late),) = refused
    assert counted(folder) == [1] * 100
    assert late is (number == 1)
    if not late:
        folder.update_many(range(100), batch=("till", number))
        assert counted(folder) == [2] * 100


def test_batches_that_shards_take_and_batches_that_are_fed_keep_to_one_order(tmp_path: Path) -> None:
    folder = made(tmp_path)

    def take(shards: tuple[int, ...], number: int) -> None:
        with folder.gather() as gathered:
            gathered.add(range(100))
            for shard in shards:
                folder.take(shard, [gathered.packed(shard)], batch=("till", number))

    take((0, 3), 1)
    with testing.refused("batch-broken-off", "batch 1 of till"):
        folder.update_many(range(100), batch=("till", 2))
    take((1, 2), 1)
    folder.update_many(range(100), batch=("till", 2))
    assert counted(folder) == [2] * 100
    with pytest.raises(LateBatch):
        take((1,), 1)


def test_counters_in_a_store_of_objects_are_not_fed_without_a_name() -> None:
    pytest.importorskip("fsspec")
    folder = pp.StateFolder.create(
        "memory://named", universe=100, epsilon=2.0, up_to=UP_TO, shards=2, coins=CertainCoins()
    )
    with testing.refused("batch-unnamed"):
        folder.update_many([1])
    folder.update_many([1, 1], batch=("w", 1))
    folder.update_many([1, 1], batch=("w", 1))
    assert counted(folder)[1] == 2


def test_counters_are_not_rerandomised_and_shared_bits_not_removed(tmp_path: Path) -> None:
    with refused("no-rerandomize"):
        made(tmp_path).rerandomize()
    visitors = pp.StateFolder.create(tmp_path / "visitors", epsilon=1.0, shards=2, buckets=64)
    with testing.refused("no-deletions"):
        visitors.remove_many(["x"])


# --- what many events at once do to a counter -----------------------------------------------------------------------


@pytest.mark.parametrize(("up_to", "back"), list(product([2, 3, 8, 256], [False, True])))
def test_many_events_at_once_move_a_counter_as_they_do_one_by_one(up_to: int, back: bool) -> None:
    from panprivacy.folder.marks import Tallied
    from panprivacy.memory.scratch import Scratch
    from panprivacy.table import Counters

    coins = CertainCoins()
    for start in {0, 1, up_to // 2, up_to - 1}:
        tables = [Counters.empty(70, up_to) for _ in range(2)]
        one_by_one, at_once = tables
        with Scratch() as scratch:
            for table in tables:
                begin = np.repeat(np.arange(70, dtype=np.uint64), start)
                table.redraw(begin, 1, coins, scratch)
            events = np.repeat(np.arange(70, dtype=np.uint64), np.arange(70) * up_to // 10)
            one_by_one.redraw(events, 2**32 - 1, coins, scratch, back=back)
            marks = Tallied(70, up_to)
            marks.add(events)
            slots, times = marks.between(0, 70, scratch)
            assert times is not None
            at_once.redraw_often(slots, times, 2**32 - 1, coins, scratch, back=back)
            assert int(times.max()) < 2 * up_to
        assert one_by_one.fields() == at_once.fields()


# --- bugs that have to be found -------------------------------------------------------------------------------------


def test_a_shard_that_notes_nothing_would_be_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = made(tmp_path)
    monkeypatch.setattr(BatchLog, "with_batch", lambda noted, _: noted)
    folder.update_many([0], batch=("w", 1))
    folder.update_many([0], batch=("w", 1))
    assert counted(folder)[0] == 2


def test_a_batch_that_looks_at_no_other_shard_would_be_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = made(tmp_path)
    with folder.gather() as gathered:
        folder.take(0, [gathered.packed(0)], batch=("w", 1))
    monkeypatch.setattr(ShardedBits, "check_whole", lambda *_: None)
    folder.update_many(range(100), batch=("w", 2))
    assert folder.last_batch("w") == 2


def test_an_interrupt_waits_until_all_shards_have_a_batch_without_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = made(tmp_path)
    before_shard(monkeypatch, 1, lambda: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        folder.update_many(range(100))
    assert counted(folder) == [1] * 100

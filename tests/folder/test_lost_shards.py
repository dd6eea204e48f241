"""A lost or corrupt shard is replaced by a new one, and nothing that is fed from then on is lost or counted twice."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import panprivacy as pp
from panprivacy import testing
from panprivacy.folder.shards import BatchLog
from panprivacy.folder.stores import Files, Objects
from panprivacy.testing import CertainCoins, folder_table

fsspec = pytest.importorskip("fsspec")
UP_TO = 9


@pytest.fixture(params=["files", "objects"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "folder") if request.param == "files" else f"memory://{tmp_path.name}/folder"


def made(url: str, shards: int = 4) -> pp.StateFolder:
    """A folder of 100 users whose counters say how often they came."""
    return pp.StateFolder.create(url, universe=100, epsilon=2.0, up_to=UP_TO, shards=shards, coins=CertainCoins())


def opened(url: str) -> pp.StateFolder:
    return pp.StateFolder(url, coins=CertainCoins())


def counted(folder: pp.StateFolder) -> list[int]:
    return [counter + UP_TO * bit for counter, bit in folder_table(folder).fields()]


def files_of(url: str, shard: int) -> tuple[Any, list[str]]:
    """The file system, and the files or objects of a shard."""
    files, path = fsspec.core.url_to_fs(url)
    files.invalidate_cache()
    return files, [each for each in files.ls(path, detail=False) if f"/shard-{shard:05d}" in each]


def lose(url: str, shard: int) -> None:
    files, paths = files_of(url, shard)
    for path in paths:
        files.rm_file(path)


def corrupt(url: str, shard: int) -> None:
    files, (path,) = files_of(url, shard)
    whole = files.cat_file(path)
    files.pipe_file(path, whole[:200] + bytes([whole[200] ^ 1]) + whole[201:])


@pytest.mark.parametrize("damage", [lose, corrupt])
def test_a_folder_goes_on_with_a_new_shard(place: str, damage: Callable[[str, int], None]) -> None:
    folder = made(place)
    folder.update_many(range(100), batch=("w", 1))
    damage(place, 2)
    with pytest.raises((FileNotFoundError, pp.CorruptState)):
        folder.update_many([0], batch=("w", 2))
    with testing.refused("shard-whole"):
        folder.replace_shard(1)
    assert folder.replace_shard(2) == 0.25
    with testing.refused("shard-whole"):
        folder.replace_shard(2)
    folder.update_many(range(100), batch=("w", 2))
    assert counted(opened(place)) == [2] * 50 + [1] * 25 + [2] * 25
    assert len(files_of(place, 2)[1]) == 1


@pytest.mark.parametrize("damage", [lose, corrupt])
def test_two_lost_shards_are_replaced_one_after_the_other(place: str, damage: Callable[[str, int], None]) -> None:
    folder = made(place)
    folder.update_many(range(100), batch=("w", 1))
    damage(place, 1)
    damage(place, 2)
    assert folder.replace_shard(1) + folder.replace_shard(2) == 0.5
    folder.update_many(range(100), batch=("w", 2))
    assert counted(opened(place)) == [2] * 25 + [1] * 50 + [2] * 25


def break_off(folder: pp.StateFolder, batch: tuple[str, int], shards: list[int]) -> None:
    """Let only some shards have a batch of all users."""
    with folder.gather() as gathered:
        gathered.add(range(100))
        for number in shards:
            folder.take(number, [gathered.packed(number)], batch=batch)


def broken_off(url: str, shards: list[int]) -> list[int]:
    """A folder with a lost shard, in which batches broke off, and are then fed again."""
    folder = made(url)
    folder.update_many(range(100), batch=("w", 1))
    break_off(folder, ("w", 2), shards)
    break_off(folder, ("first", 1), shards)
    lose(url, 1)
    folder.replace_shard(1)
    folder.update_many(range(100), batch=("w", 2))
    folder.update_many(range(100), batch=("first", 1))
    folder.update_many(range(100), batch=("w", 2))
    folder.update_many(range(100), batch=("w", 3))
    return counted(folder)


WANTED = [4] * 25 + [3] * 25 + [4] * 50


@pytest.mark.parametrize("shards", [[0], [3], [0, 2, 3]])
def test_a_batch_that_broke_off_is_not_taken_for_one_that_the_new_shard_has(place: str, shards: list[int]) -> None:
    assert broken_off(place, shards) == WANTED


@pytest.mark.parametrize("choose", [min, max])
def test_a_new_shard_that_notes_batches_of_others_as_its_own_would_be_found(
    place: str, choose: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def copied(logs: Any) -> BatchLog:
        logs = [log.numbers for log in logs]
        return BatchLog({writer: choose(log[writer] for log in logs) for writer in logs[0]})

    monkeypatch.setattr(BatchLog, "of_new", copied)
    assert broken_off(place, [0, 2, 3]) != WANTED


def test_a_new_shard_takes_no_batch_that_is_older_than_the_last_of_all_others(place: str) -> None:
    folder = made(place)
    folder.update_many(range(100), batch=("w", 1))
    folder.update_many(range(100), batch=("w", 2))
    lose(place, 1)
    folder.replace_shard(1)
    assert folder.last_batch("w") == 2
    with testing.refused("late-batch"):
        folder.update_many(range(100), batch=("w", 1))
    lose(place, 2)
    folder.replace_shard(2)
    folder.update_many(range(100), batch=("w", 3))
    assert counted(folder) == [3] * 25 + [1] * 50 + [3] * 25


def test_of_two_that_replace_a_shard_the_second_does_not_undo_what_was_fed_to_the_first(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, other = made(place), opened(place)
    lose(place, 1)
    store, begun = Objects if "://" in place else Files, list[str]()
    replace: Any = store.replace

    def late(objects: Any, name: str, *arguments: Any) -> bool:
        if not begun:
            begun.append(name)
            other.replace_shard(1)
            other.update_many(range(100), batch=("w", 1))
        return bool(replace(objects, name, *arguments))

    monkeypatch.setattr(store, "replace", late)
    with testing.refused("shard-whole"):
        folder.replace_shard(1)
    assert counted(folder) == [1] * 100


def test_a_writer_that_read_a_shard_before_it_was_lost_does_not_bring_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    url = "memory://brought-back/folder"
    folder, late = made(url), opened(url)
    for number in range(5):
        folder.update_many([], batch=("w", number))
    create, begun = Objects.create_object, list[str]()

    def slept(objects: Objects, path: str, blob: bytes) -> bool:
        """Sleep before the first write, while the shard that was read is lost and replaced."""
        if not begun and "shard" in path:
            begun.append(path)
            lose(url, 0)
            folder.replace_shard(0)
            folder.update_many(range(100), batch=("w", 5))
        return create(objects, path, blob)

    monkeypatch.setattr(Objects, "create_object", slept)
    late.update_many(range(100), batch=("late", 1))
    assert begun
    assert counted(folder) == [2] * 100

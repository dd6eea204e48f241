"""Slots are gathered in one process and taken by a shard in another; the folder is opened wherever it is sent."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import panprivacy as pp
from panprivacy.testing import CertainCoins, folder_table, refused, table_of

NAMES = [f"person {i}" for i in range(300)]


def made(place: Path, **options: Any) -> pp.StateFolder:
    """A folder of 1,000 users whose bits are a plain list of who came."""
    return pp.StateFolder.create(place, universe=1000, epsilon=2.0, shards=3, coins=CertainCoins(), **options)


def sent(folder: pp.StateFolder, *batches: Any) -> list[list[bytes]]:
    """For each shard what several processes gathered."""
    found: list[list[bytes]] = [[] for _ in range(folder.shards)]
    for ids in batches:
        with folder.gather() as gathered:
            gathered.add(ids)
            for number, parts in enumerate(found):
                parts.append(gathered.packed(number).tobytes())
    return found


def bits(folder: pp.StateFolder) -> Any:
    """All bits, or counters and bits."""
    table = folder_table(folder)
    return table.fields() if hasattr(table, "fields") else np.flatnonzero(table.bits(0, table.size)).tolist()


@pytest.mark.parametrize("options", [{}, {"up_to": 3}], ids=["bits", "counters"])
@pytest.mark.parametrize("many", [40, *(pytest.param(many, marks=pytest.mark.slow) for many in (3, 5000))])
def test_what_is_gathered_elsewhere_is_taken_as_if_it_were_fed(tmp_path: Path, options: Any, many: int) -> None:
    draw = np.random.default_rng(5)
    batches = [draw.integers(0, 1000, many) for _ in range(3)]
    fed, taken = made(tmp_path / "fed", **options), made(tmp_path / "taken", **options)
    for ids in batches:
        fed.update_many(ids)
    before = [path.read_bytes() for path in sorted((tmp_path / "taken").iterdir())]
    parts = sent(taken, *batches)
    assert before == [path.read_bytes() for path in sorted((tmp_path / "taken").iterdir())]
    for number in range(3):
        for _ in range(2):  # an attempt that comes too late
            pickle.loads(pickle.dumps(taken)).take(number, parts[number], batch=("query", 4))
    assert bits(fed) == bits(taken)
    assert taken.last_batch("query") == 4


def test_removals_are_taken_too(tmp_path: Path) -> None:
    folder = made(tmp_path)
    folder.update_many(range(1000))
    for number, parts in enumerate(sent(folder, range(2, 1000))):
        folder.take(number, parts, remove=True)
    assert bits(folder) == [0, 1]


def test_a_bad_id_is_named_and_nothing_is_changed(tmp_path: Path) -> None:
    folder = made(tmp_path)
    with folder.gather() as gathered, refused("outside-universe", "1000"):
        gathered.add([5, 1000])
    assert bits(folder) == []


def test_what_was_gathered_is_wiped(tmp_path: Path) -> None:
    folder = made(tmp_path)
    with folder.gather() as gathered:
        gathered.add(range(0, 1000, 3))
        packed, words = gathered.packed(1), table_of(gathered.marks).words
        assert packed.any()
        assert words.any()
    assert not packed.any()
    assert not words.any()


def test_slots_of_another_shard_or_folder_and_nonsense_are_refused(tmp_path: Path) -> None:
    folder, other = made(tmp_path / "a"), made(tmp_path / "b")
    (first, *_), (elsewhere, *_) = sent(folder, range(1000)), sent(other, range(1000))
    few = sent(folder, [0])[0][0]
    for wrong in (
        elsewhere[0],
        sent(folder, [0])[1][0],
        b"",
        b"nonsense",
        first[0][:-1],
        few[:-1],
        few[:-4] + b"\xff" * 4,
    ):
        with pytest.raises(pp.CorruptState):
            folder.take(0, [wrong])
    with refused("no-such-shard", "2"):
        folder.take(3, [])
    assert bits(folder) == []


@pytest.mark.parametrize("options", [{}, {"up_to": 3}], ids=["bits", "counters"])
def test_shards_that_are_none_are_refused_by_whoever_packs(tmp_path: Path, options: Any) -> None:
    folder = made(tmp_path, **options)
    with folder.gather() as gathered:
        gathered.add(range(10))
        for number in (3, 1_000_000_000, -1):
            with refused("no-such-shard", "2"):
                gathered.packed(number)
        for wrong in (1.5, None, True, "1"):
            with refused("not-a-whole-number"):
                gathered.packed(wrong)  # type: ignore[arg-type]
        assert len(gathered.packed(np.int64(2)))  # type: ignore[arg-type]


def test_nothing_is_gathered_or_packed_after_the_block(tmp_path: Path) -> None:
    with made(tmp_path).gather() as gathered:
        gathered.add(range(10))
    for late in (lambda: gathered.add([1]), lambda: gathered.packed(0)):
        with refused("batch-over"):
            late()


@pytest.mark.parametrize("options", [{}, {"up_to": 3}], ids=["bits", "counters"])
@pytest.mark.parametrize("many", [20, 1000], ids=["listed", "each"])
def test_altered_parts_are_refused(tmp_path: Path, options: Any, many: int) -> None:
    folder = made(tmp_path, **options)
    (part,) = sent(folder, range(many))[0]
    for at in range(0, len(part), 7):
        altered = bytearray(part)
        altered[at] ^= 1
        with pytest.raises(pp.CorruptState):
            folder.take(0, [altered])
    folder.take(0, [part])


def test_a_pickled_folder_is_opened_with_its_list(tmp_path: Path) -> None:
    clinic = pp.StateFolder.create(
        tmp_path, universe=pp.Users(NAMES, groups=["a", "b"] * 150), epsilon=9.0, shards=2, coins=CertainCoins()
    )
    again = pickle.loads(pickle.dumps(clinic))
    again.update_many(NAMES[:40:2])
    found = again.release()
    assert [row.group for row in found.groups] == ["a", "b"]
    assert found.groups[0].count > 10 > found.groups[1].count

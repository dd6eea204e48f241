"""What Python workers make of partitions and of sets, without a Spark around them."""

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sparks import UNIVERSE, counted, density, present

import panprivacy as pp
from panprivacy.folder import LateBatch
from panprivacy.folder.shards import BatchLog
from panprivacy.spark import Columns, Fault, make_sets, take_sets
from panprivacy.testing import refused

pa = pytest.importorskip("pyarrow")

IDS = Columns(ids=1, categorised=False, skip_outside=False)


def partition(*chunks: list[Any], kind: Any = None) -> Iterator[Any]:
    """Record batches as Spark gives them to a worker."""
    return iter([pa.record_batch([pa.array(chunk, kind or pa.int64())], ["id"]) for chunk in chunks])


def sets_of(folder: pp.StateFolder, *partitions: Iterator[Any], columns: Columns = IDS) -> list[Any]:
    """What the first stage sends."""
    return [
        copied(row)
        for number, rows in enumerate(partitions)
        for row in make_sets(folder, columns, tasks(folder), number, rows)
    ]


def tasks(folder: pp.StateFolder) -> int:
    """Two tasks, if there are two shards: the first has the first, the third, and so on."""
    return min(folder.shards, 2)


def copied(row: Any) -> Any:
    """A copy: what was sent is wiped."""
    return pa.record_batch([pa.array(column.to_pylist(), column.type) for column in row.columns], row.schema.names)


def take(folder: pp.StateFolder, rows: list[Any], batch: Any = None) -> list[Any]:
    """What the second stage reports, each task having what was sent to it."""
    return [
        report.column(1)[0].as_py()
        for task in range(tasks(folder))
        for report in take_sets(
            folder, batch, tasks(folder), task, iter([row for row in rows if row.column(0)[0].as_py() == task])
        )
    ]


def test_sets_of_all_partitions_are_taken(tmp_path: Path) -> None:
    folder = density(tmp_path / "folder")
    rows = sets_of(folder, partition([5, 6], [3999]), partition(), partition([1000] * 50))
    assert [row.column(0)[0].as_py() for row in rows] == [0, 1, 0] * 3  # empty ones, too: their absence would tell
    assert take(folder, rows) == [None] * 2
    assert present(folder) == {5, 6, 1000, 3999}


def test_a_set_is_as_long_as_its_slots_need_and_not_as_the_events(tmp_path: Path) -> None:
    folder = density(tmp_path / "folder", universe=1_000_000, shards=2)
    few, many, more = (
        sum(len(row.column(1)[0].as_py()) for row in sets_of(folder, partition(*chunks)))
        for chunks in ([[7]], [list(range(200_000))], [list(range(200_000))] * 3)
    )
    assert few < 150
    assert many == more < 1_000_000 / 8 + 100


def test_what_was_sent_is_wiped(tmp_path: Path) -> None:
    folder = density(tmp_path / "folder", shards=1)
    sent = list(make_sets(folder, IDS, tasks(folder), 0, partition([5, 6])))
    assert set(sent[0].column(1)[0].as_py()) == {0}


def test_the_first_bad_id_reaches_every_task_and_changes_none(tmp_path: Path) -> None:
    folder = density(tmp_path / "folder")
    rows = sets_of(folder, partition([1, 2]), partition([3], [4, 4001, -1]), partition([4000]))
    reports = take(folder, rows[::-1])
    faults = {Fault.first([report]) for report in reports}
    assert len(faults) == 1
    (fault,) = faults
    assert fault is not None
    with refused("outside-universe", "4001", "-1"):
        raise fault.error()
    assert present(folder) == set()


@pytest.mark.parametrize(
    ("rows", "code"),
    [
        (partition([1, None]), "missing-value"),
        (partition(["1"], kind=pa.string()), "ids-type"),
        (partition([1.5], kind=pa.float64()), "float-ids"),
    ],
)
def test_what_is_no_id_is_said_so(tmp_path: Path, rows: Iterator[Any], code: str) -> None:
    folder = density(tmp_path / "folder", shards=1)
    fault = Fault.first(take(folder, sets_of(folder, rows)))
    assert fault is not None
    assert fault.code == code


def test_strangers_are_left_out_if_that_is_asked(tmp_path: Path) -> None:
    leave = Columns(ids=1, categorised=False, skip_outside=True)
    folder = density(tmp_path / "folder")
    take(folder, sets_of(folder, partition([5, UNIVERSE, -1], [UNIVERSE]), columns=leave))
    assert present(folder) == {5}
    named = density(tmp_path / "named", universe=pp.Users(["ada", "grace"]), shards=1)
    take(named, sets_of(named, partition(["bob", "ada"], kind=pa.string()), columns=leave))
    assert len(present(named)) == 1


def test_a_late_attempt_undoes_nothing(tmp_path: Path) -> None:
    folder = density(tmp_path / "folder")
    late = sets_of(folder, partition([1, 2]))
    take(folder, late)
    take(folder, sets_of(folder, partition([2, 3])))
    take(folder, late)
    assert present(folder) == {1, 2, 3}

    visits = density(tmp_path / "visits", up_to=8)
    late = sets_of(visits, partition([1, 2], [2]))
    for rows, number in ((late, 0), (late, 0), (sets_of(visits, partition([2, 3])), 1), (late, 0)):
        fault = Fault.first(said for said in take(visits, rows, ("stream", number)) if said is not None)
    assert counted(visits) == {1: 2, 3: 1}
    assert fault is not None  # which reaches no driver, unless one feeds batches in a wrong order
    assert isinstance(fault.error(), LateBatch)


def test_a_folder_of_a_relative_path_is_found_by_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sent = pickle.dumps(density(Path("folder")))
    monkeypatch.chdir("/")
    folder = pickle.loads(sent)
    take(folder, sets_of(folder, partition([5])))
    assert present(folder) == {5}


def test_a_batch_that_broke_off_is_asked_for_again(tmp_path: Path) -> None:
    visits = density(tmp_path / "visits", up_to=8)
    rows = sets_of(visits, partition([1, 2, 3999]))
    visits.check_batch(("till", 1))
    list(take_sets(visits, ("till", 1), tasks(visits), 1, iter([row for row in rows if row.column(0)[0].as_py()])))
    with refused("batch-broken-off", "batch 1 of till"):
        visits.check_batch(("till", 2))
    visits.check_batch(("till", 1))
    take(visits, rows, ("till", 1))
    visits.check_batch(("till", 2))
    assert counted(visits) == {1: 3}


# --- bugs that have to be found -------------------------------------------------------------------------------------


def test_shards_that_do_not_know_their_batches_would_be_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BatchLog, "has", lambda *_: False)
    visits = density(tmp_path / "visits", up_to=8)
    rows = sets_of(visits, partition([1, 2]))
    take(visits, rows, ("stream", 0))
    take(visits, rows, ("stream", 0))
    assert counted(visits) == {2: 2}


def test_a_task_that_is_not_told_of_bad_ids_would_be_found(tmp_path: Path) -> None:
    folder = density(tmp_path / "folder")
    rows = sets_of(folder, partition([1, 2]), partition([4000]))
    take(folder, [row for row in rows if row.column(2)[0].as_py() is None])
    assert present(folder) == {1, 2}

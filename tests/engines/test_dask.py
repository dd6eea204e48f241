"""Dask feeds a folder: on its own threads and processes, each shard once, and nothing if an id is bad."""

from pathlib import Path
from typing import Any

import pytest
from fed_folders import made, present

import panprivacy as pp
from panprivacy.testing import folder_table, refused

dask = pytest.importorskip("dask")
pd = pytest.importorskip("pandas")
pytestmark = pytest.mark.slow


class Frame:
    """The partitions of a DataFrame of Dask, without the rest of it, which takes seconds to import."""

    def __init__(self, *parts: Any) -> None:
        self._parts = [dask.delayed(part) for part in parts]

    def to_delayed(self) -> list[Any]:
        return self._parts


@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
def test_a_frame_is_fed(scheduler: str, tmp_path: Path) -> None:
    from panprivacy.dask import update

    dataframe = pytest.importorskip("dask.dataframe")
    folder = made(tmp_path)
    frame = dataframe.from_pandas(pd.DataFrame({"user": range(0, 1000, 3), "x": 1}), npartitions=5)
    with dask.config.set(scheduler=scheduler):
        update(frame, "user", folder)
    assert present(folder) == list(range(0, 1000, 3))


def test_processes_open_the_folder_where_they_are(tmp_path: Path) -> None:
    from panprivacy.dask import update

    folder = made(tmp_path)
    with dask.config.set(scheduler="processes", num_workers=2):
        update(Frame(*(pd.DataFrame({"user": range(i, 1000, 7)}) for i in range(2))), "user", folder)
    assert present(folder) == sorted({*range(0, 1000, 7), *range(1, 1000, 7)})


def test_a_bad_id_changes_nothing(tmp_path: Path) -> None:
    from panprivacy.dask import update

    folder = made(tmp_path)
    frame = Frame(pd.DataFrame({"user": [1, 2]}), pd.DataFrame({"user": [3, 1000]}))
    with pytest.raises(pp.OutsideUniverse), dask.config.set(scheduler="synchronous"):
        update(frame, "user", folder)
    assert present(folder) == []
    with dask.config.set(scheduler="synchronous"):
        update(frame, "user", folder, skip_outside=True)
    assert present(folder) == [1, 2, 3]


def test_counters_take_a_named_batch_once(tmp_path: Path) -> None:
    from panprivacy.dask import update

    folder = made(tmp_path, up_to=8)
    frame = Frame(pd.DataFrame({"user": [5, 5, 6]}), pd.DataFrame({"user": [5]}))
    with refused("batch-needed"):
        update(frame, "user", folder)
    with dask.config.set(scheduler="synchronous"):
        for _ in range(2):
            update(frame, "user", folder, batch=("tills", 1))
    moved = [counter for counter, _ in folder_table(folder).fields()]
    assert (moved[5], moved[6], sum(moved)) == (3, 1, 4)


def test_a_cluster_that_spills_is_refused(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    from panprivacy.dask import update

    folder, frame = made(tmp_path), Frame(pd.DataFrame({"user": [5]}))
    options: dict[str, Any] = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster):
        with refused("plain-spill"):
            update(frame, "user", folder)
        with dask.config.set({"distributed.worker.memory.spill": False}), refused("plain-spill", "TARGET"):
            update(frame, "user", folder)
        with dask.config.set({f"distributed.worker.memory.{each}": False for each in ("target", "spill")}):
            update(frame, "user", folder)
    assert present(folder) == [5]

"""Apache Beam feeds a folder, on its own runner: each shard once, and nothing if an id is bad."""

from pathlib import Path
from typing import Any

import pytest
from fed_folders import made, present

import panprivacy as pp
from panprivacy.testing import folder_table, refused

beam = pytest.importorskip("apache_beam")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # those of Beam itself


def feed(ids: list[int], folder: pp.StateFolder, **options: Any) -> None:
    from panprivacy.beam import update

    with beam.Pipeline("FnApiRunner") as pipeline:
        update(pipeline | beam.Create(ids), folder, **options)


def test_a_collection_is_fed(tmp_path: Path) -> None:
    folder = made(tmp_path)
    feed(list(range(0, 1000, 3)), folder)
    assert present(folder) == list(range(0, 1000, 3))


def test_a_bad_id_changes_nothing(tmp_path: Path) -> None:
    folder = made(tmp_path)
    with pytest.raises((pp.OutsideUniverse, RuntimeError)):  # Beam wraps it on some runners
        feed([1, 2, 1000], folder)
    assert present(folder) == []
    feed([1, 2, 1000], folder, skip_outside=True)
    assert present(folder) == [1, 2]


def test_counters_take_a_named_batch_once(tmp_path: Path) -> None:
    folder = made(tmp_path, up_to=8)
    with refused("batch-needed"):
        feed([5], folder)
    for _ in range(2):
        feed([5, 5, 6], folder, batch=("tills", 1))
    moved = [counter for counter, _ in folder_table(folder).fields()]
    assert (moved[5], moved[6], sum(moved)) == (2, 1, 3)

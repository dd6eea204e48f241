"""Writers and a releaser of one folder are killed at random moments: nothing is lost, and nothing spent twice."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from benchmark_modules import benchmark
from panprivacy.folder.shards import BatchLog, ShardedBits
from panprivacy.folder.stores import Files
from panprivacy.state.format import Snapshot

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def crashes() -> Any:
    """The command that counts, which takes 1,000 kills where it is not a test."""
    return benchmark("folder_crashes")


def test_fifty_kills_lose_nothing(crashes: Any, tmp_path: Path) -> None:
    tally = crashes.run(str(tmp_path / "folder"), kills=50, seed=5)
    assert (tally.lost, tally.double_spent, tally.spent_unseen, tally.unreadable) == (0, 0, 0, 0)
    assert tally.batches > 10
    assert tally.shown


def test_counters_move_exactly_as_often_as_their_users_came(crashes: Any, tmp_path: Path) -> None:
    tally = crashes.run(str(tmp_path / "folder"), kills=40, seed=6, counts=True)
    assert (tally.lost, tally.counted_twice, tally.double_spent, tally.unreadable) == (0, 0, 0, 0)
    assert tally.batches > 10
    assert tally.shown


def test_batches_that_are_not_noted_would_count_twice(
    crashes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BatchLog, "has", lambda *_: False)
    monkeypatch.setattr(ShardedBits, "check_whole", lambda *_: None)  # which would refuse
    assert crashes.run(str(tmp_path / "folder"), kills=20, seed=6, counts=True).counted_twice


def test_writers_without_a_lock_would_lose_events(
    crashes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def unlocked(store: Files, name: str) -> Iterator[Any]:
        yield _Unlocked(store, name)

    monkeypatch.setattr(Files, "_locked", unlocked)
    tally = crashes.run(str(tmp_path / "folder"), kills=40, seed=5)
    assert not tally.clean


class _Unlocked:
    """A file that is read and written without asking who else does."""

    def __init__(self, store: Files, name: str) -> None:
        self._file = store._file(name)
        self.path = self._file.path

    @property
    def exists(self) -> bool:
        return self._file.exists

    def read(self) -> Snapshot:
        return self._file.read()

    def write(self, parts: Snapshot) -> None:
        from panprivacy.state import seal

        self.path.write_bytes(seal(parts))

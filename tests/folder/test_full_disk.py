"""A disk that is nearly full tells nothing about who came: every shard asks for the same room, whatever changes."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest

import panprivacy as pp
from journals import of_changed_blocks
from panprivacy.state.journal import Journal
from panprivacy.testing import CertainCoins

resource = pytest.importorskip("resource")

USERS, SHARDS = 200_000, 4
BATCHES = {"nobody": [], "one": [170_000], "a shard": range(100_000, 150_000), "all": range(USERS)}


@contextmanager
def no_file_longer_than(size: int) -> Iterator[None]:
    """Let longer files fail, as they do on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def shards_that_have(place: Path, room: int) -> dict[str, list[bool]]:
    """For every batch, which shards have it when journals may be so many bytes longer than their files."""
    found = {}
    for name, ids in BATCHES.items():
        folder = pp.StateFolder.create(
            place / name, universe=USERS, epsilon=2.0, up_to=4, shards=SHARDS, coins=CertainCoins()
        )
        size = (place / name / "shard-00000.pp").stat().st_size
        with no_file_longer_than(size + room), suppress(pp.PanPrivacyError):
            folder.update_many(np.array(ids, dtype=np.int64), batch=("w", 1))
        found[name] = [last is not None for last in folder._bits.last_batches("w")]
        assert not list((place / name).glob(".*journal"))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("room", [-1, 0])
def test_which_shards_find_room_does_not_tell_who_came(tmp_path: Path, room: int) -> None:
    assert shards_that_have(tmp_path, room) == dict.fromkeys(BATCHES, [room == 0] * SHARDS)


@pytest.mark.slow
def test_a_journal_as_long_as_what_changes_would_be_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Journal, "commit", of_changed_blocks)
    found = shards_that_have(tmp_path, 0)
    assert found["one"] == [True] * SHARDS
    assert found["a shard"] == [True, True, False, False]

"""A state folder behind a URL: an S3-compatible server, several writers, none of whom undoes another."""

import random
import socket
from collections.abc import Iterator
from threading import Thread
from typing import Any

import numpy as np
import pytest

import panprivacy as pp
from panprivacy.folder.bits import ShardedBits
from panprivacy.folder.noted import Noted
from panprivacy.state.sealed import unseal
from panprivacy.state.stores import Objects
from panprivacy.testing import CertainCoins

fsspec = pytest.importorskip("fsspec")
pytest.importorskip("s3fs")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    threaded = pytest.importorskip("moto.server")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    running = threaded.ThreadedMotoServer(ip_address="127.0.0.1", port=port)
    running.start()
    yield f"http://127.0.0.1:{port}"
    running.stop()


@pytest.fixture
def store(server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in {"KEY_ID": "someone", "SECRET_ACCESS_KEY": "secret"}.items():
        monkeypatch.setenv(f"AWS_ACCESS_{name}" if name == "KEY_ID" else f"AWS_{name}", value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    bucket = f"counts-{random.SystemRandom().getrandbits(32):08x}"
    fsspec.filesystem("s3").mkdir(bucket)
    return f"s3://{bucket}/flu"


def present(folder: pp.StateFolder) -> set[int]:
    """Who came."""
    table = folder._bits.gathered()
    return set(np.flatnonzero(table.bits(0, table.size)).tolist())


def made(url: str, **options: Any) -> pp.StateFolder:
    """A folder of 1,000 users whose bits are a plain list of who came."""
    return pp.StateFolder.create(url, universe=1000, epsilon=2.0, shards=3, coins=CertainCoins(), **options)


def test_a_folder_behind_a_url_is_fed_released_and_opened_again(store: str) -> None:
    folder = made(store, releases=2, intrusions=1)
    folder.update_many(range(0, 1000, 2))
    folder.remove_many([0])
    again = pp.StateFolder(store, coins=CertainCoins())
    assert present(again) == set(range(2, 1000, 2))
    assert again.release().number == 1
    again.rerandomize()
    assert folder.release().number == 2
    with pytest.raises(pp.BudgetExhausted):
        again.release()


def test_one_version_of_every_shard_remains(store: str) -> None:
    folder = made(store)
    for user in range(20):
        folder.update(user * 50)
    names = sorted(path.rsplit("/", 1)[-1] for path in fsspec.filesystem("s3").ls(store, detail=False, refresh=True))
    assert len([name for name in names if name.startswith("shard")]) == 3


def test_names_and_lengths_of_objects_do_not_tell_of_one_user(store: str) -> None:
    shown = []
    for world, batches in (("with", [[1], [1, 999], [1]]), ("without", [[], [999], []])):
        folder = made(f"{store}/{world}")
        for ids in batches:
            folder.update_many(np.array(ids, dtype=np.int64))
        with folder.pending() as pending:
            pending.estimator.update_many([999])
            if world == "with":
                pending.estimator.remove_many([1])
            pending.estimator.update_many([999])
            pending.write()
        found = fsspec.filesystem("s3").ls(f"{store}/{world}", detail=True, refresh=True)
        shown.append(sorted((each["name"].rsplit("/", 1)[-1], each["size"]) for each in found))
    assert len(shown[0]) == 4
    assert shown[0] == shown[1]


def test_writers_at_once_lose_nothing_and_releases_are_numbered_once(store: str) -> None:
    made(store, releases=20)
    numbers: list[int] = []

    def write(first: int) -> None:
        folder = pp.StateFolder(store, coins=CertainCoins())
        for user in range(first, 1000, 80):
            folder.update(user)

    def release() -> None:
        folder = pp.StateFolder(store, coins=CertainCoins())
        numbers.extend(folder.release().number for _ in range(5))

    threads = [Thread(target=write, args=(first,)) for first in range(4)] + [Thread(target=release) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    folder = pp.StateFolder(store, coins=CertainCoins())
    assert present(folder) == {user for first in range(4) for user in range(first, 1000, 80)}
    assert sorted(numbers) == list(range(1, 11))
    assert folder.budget.releases_made == 10


def test_a_writer_that_is_long_past_undoes_nothing(store: str) -> None:
    folder = made(store)
    late = pp.StateFolder(store, coins=CertainCoins())
    objects = late._store
    assert isinstance(objects, Objects)
    newest = objects._newest
    tries: list[str] = []

    def stale(name: str) -> Any:
        """What was read before others wrote three times; only the first look is late."""
        found = newest(name)
        if not tries:
            tries.append(name)
            for user in (1, 2, 3):
                folder.update(user)
        return found

    objects._newest = stale  # type: ignore[method-assign]
    late.update(0)
    assert tries
    assert present(folder) == {0, 1, 2, 3}


@pytest.mark.parametrize("noted", [True, False], ids=["noted", "not noted"])
def test_a_change_that_is_made_again_moves_no_counter_twice(
    store: str, monkeypatch: pytest.MonkeyPatch, noted: bool
) -> None:
    folder = made(store, up_to=200)
    built_upon: list[str] = []
    put = Objects._put

    def put_and_wait(objects: Objects, name: str, epoch: int, parts: Any) -> None:
        """Let another build on a version before its writer looks whether it is the newest."""
        put(objects, name, epoch, parts)
        if not built_upon and name == "shard-00001":
            built_upon.append(name)
            other.update_many(range(0, 1000, 2), batch=("other", 1))

    other = pp.StateFolder(store, coins=CertainCoins())
    with monkeypatch.context() as patch:
        patch.setattr(Objects, "_put", put_and_wait)
        if not noted:  # a bug that has to be found
            patch.setattr(Noted, "has", lambda *_: False)
            patch.setattr(ShardedBits, "check_whole", lambda *_: None)  # which would refuse
        folder.update_many([*range(1000)] * 3, batch=("one", 1))
    assert built_upon
    assert ([counter for counter, _ in folder._bits.gathered().fields()] == [4, 3] * 500) is noted


def test_what_a_crash_leaves_behind_is_deleted_by_the_next_writer(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = made(store)
    with monkeypatch.context() as patch:
        patch.setattr(Objects, "_delete", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            folder.update(5)
    folder = pp.StateFolder(store, coins=CertainCoins())
    folder.update(6)
    assert present(folder) == {5, 6}
    files = fsspec.filesystem("s3")
    shards = [path for path in files.ls(store, detail=False, refresh=True) if "shard-00000" in path]
    assert len(shards) == 1
    assert unseal(files.cat_file(shards[0])).kind == 9


def test_a_store_that_cannot_create_exclusively_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = fsspec.filesystem("memory")
    pipe = type(memory).pipe_file
    monkeypatch.setattr(type(memory), "pipe_file", lambda self, path, value, mode=None: pipe(self, path, value))  # noqa: ARG005
    with pytest.raises(pp.PanPrivacyError, match="two writers"):
        made("memory://flu")

"""A state folder behind a URL: an S3-compatible server, several writers, none of whom undoes another."""

import random
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

import panprivacy as pp
from benchmark_modules import benchmark
from buckets import new_bucket, s3_server
from panprivacy import testing
from panprivacy.folder import shards, stores
from panprivacy.folder.shards import BatchLog
from panprivacy.folder.stores import Objects, store_at
from panprivacy.state.format import unseal
from panprivacy.testing import CertainCoins, folder_table

fsspec = pytest.importorskip("fsspec")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(find_spec("s3fs") is None, reason="s3fs is not installed")]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with s3_server() as url:
        yield url


@pytest.fixture
def store(server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    return f"{new_bucket(server, monkeypatch)}/flu"


def present(folder: pp.StateFolder) -> set[int]:
    """Who came."""
    table = folder_table(folder)
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
        own = re.compile(r"\.[0-9a-f]{32}\.")  # the name of the folder
        shown.append(sorted((own.sub(".", each["name"].rsplit("/", 1)[-1]), each["size"]) for each in found))
    assert len(shown[0]) == 5
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
    newest = objects.newest
    tries: list[str] = []

    def stale(name: str, *arguments: Any) -> Any:
        """What was read before others wrote three times; only the first look is late."""
        found = newest(name, *arguments)
        if not tries:
            tries.append(name)
            for user in (1, 2, 3):
                folder.update(user)
        return found

    objects.newest = stale  # type: ignore[method-assign,assignment]
    late.update(0)
    assert tries
    assert present(folder) == {0, 1, 2, 3}


def test_a_release_by_a_ledger_that_is_long_past_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = made("memory://long-past", releases=300, delta=1e-9)
    late = pp.StateFolder("memory://long-past", coins=CertainCoins())
    newest, begun, before = Objects.newest, list[str](), list[int]()

    def stale(objects: Objects, name: str, *arguments: Any) -> Any:
        """What was read before others released more often than versions of the ledger stay."""
        found = newest(objects, name, *arguments)
        if not begun:
            begun.append(name)
            before.extend(folder.release().number for _ in range(stores.KEPT_LEDGERS + 20))
        return found

    monkeypatch.setattr(Objects, "newest", stale)
    assert late.release().number == len(before) + 1 == folder.budget.releases_made
    ledgers = [path for path in fsspec.filesystem("memory").ls("/long-past", detail=False) if "ledger" in path]
    assert len(ledgers) <= stores.KEPT_LEDGERS + 1


@pytest.mark.parametrize("noted", [True, False], ids=["noted", "not noted"])
def test_a_change_that_is_made_again_moves_no_counter_twice(
    store: str, monkeypatch: pytest.MonkeyPatch, noted: bool
) -> None:
    folder = made(store, up_to=200)
    built_upon: list[str] = []
    created = Objects.create_object

    def create_and_wait(objects: Objects, path: str, blob: bytes) -> bool:
        """Let another build on a version before its writer looks whether it is the newest."""
        done = created(objects, path, blob)
        if not built_upon and "/shard-00001" in path:
            built_upon.append(path)
            other.update_many(range(0, 1000, 2), batch=("other", 1))
        return done

    other = pp.StateFolder(store, coins=CertainCoins())
    with monkeypatch.context() as patch:
        patch.setattr(Objects, "create_object", create_and_wait)
        if not noted:  # a bug that has to be found
            patch.setattr(BatchLog, "has", lambda *_: False)
            patch.setattr(shards, "_check_same", lambda *_: None)  # which would refuse
        folder.update_many([*range(1000)] * 3, batch=("one", 1))
    assert built_upon
    assert ([counter for counter, _ in folder_table(folder).fields()] == [4, 3] * 500) is noted


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
    left = [path for path in files.ls(store, detail=False, refresh=True) if "shard-00000" in path]
    assert len(left) == 1
    assert unseal(files.cat_file(left[0])[:-16]).kind == 9


def test_a_store_that_cannot_create_exclusively_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = fsspec.filesystem("memory")
    pipe = type(memory).pipe_file
    monkeypatch.setattr(type(memory), "pipe_file", lambda self, path, value, mode=None: pipe(self, path, value))  # noqa: ARG005
    with testing.refused("store-not-exclusive"):
        made("memory://flu")


@pytest.mark.parametrize("protocol", ["hdfs", "webhdfs", "dbfs", "sftp", "smb", "ftp"])
def test_stores_that_look_and_then_write_are_refused(protocol: str) -> None:
    try:
        kind = fsspec.get_filesystem_class(protocol)
    except ImportError as missing:
        pytest.skip(str(missing))
    assert not stores.creates_atomically(kind)


def test_a_file_system_of_arrow_such_as_hdfs_is_refused(tmp_path: Path) -> None:
    arrow = pytest.importorskip("fsspec.implementations.arrow")
    files = arrow.ArrowFSWrapper(pytest.importorskip("pyarrow.fs").LocalFileSystem())
    for wrapped in (files, fsspec.filesystem("dir", path=str(tmp_path), fs=files)):
        with testing.refused("store-not-exclusive"):
            Objects(wrapped, str(tmp_path)).claim(bytes(16), 100)
    assert not list(tmp_path.iterdir())


def test_a_store_that_looks_and_then_writes_is_refused_when_a_folder_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(type(fsspec.filesystem("memory")), "pipe_file")
    with testing.refused("store-not-exclusive"):
        made("memory://looks-first")


def test_a_store_that_looks_and_then_writes_is_refused_before_it_is_asked_anything() -> None:
    with testing.refused("store-not-exclusive"):
        made("webhdfs://localhost:1/flu")  # where nothing listens


@pytest.mark.parametrize("url", ["dbfs:/flu", "simplecache::s3://bucket/flu", "s3:/bucket"])
def test_what_looks_like_a_url_is_no_path(url: str) -> None:
    with testing.refused("not-a-url"):
        store_at(url)


# --- stores that may lie --------------------------------------------------------------------------------------------


class Unreliable:
    """Makes a file system answer wrongly at random, before or after it has done what was asked."""

    def __init__(self, files: Any, seed: int, share: float) -> None:
        self._draw = random.Random(seed)
        self._share = share
        self.wrong = 0
        self._asked = {name: getattr(files, name) for name in ("pipe_file", "cat_file", "ls", "rm")}

    def answer(self, name: str) -> Any:
        def asked(*arguments: Any, **options: Any) -> Any:
            kind = self._draw.random() / self._share
            if kind < 0.5:
                self.wrong += 1
                raise OSError(121, "500 Internal Error, and nothing was done")
            answer = self._asked[name](*arguments, **options)
            if kind < 1:
                self.wrong += 1
                raise self._draw.choice(
                    [
                        OSError(121, "500 Internal Error, and it was done"),
                        OSError(16, "409 Conditional Request Conflict"),
                        OSError(22, "412 Precondition Failed, without a condition"),
                        TimeoutError("503"),
                    ]
                )
            return answer

        return asked


def unreliable(folder: pp.StateFolder, monkeypatch: pytest.MonkeyPatch, seed: int, share: float) -> Unreliable:
    files = folder._store.files  # type: ignore[attr-defined]
    wrong = Unreliable(files, seed, share)
    for name in ("pipe_file", "cat_file", "ls", "rm"):
        monkeypatch.setattr(files, name, wrong.answer(name), raising=False)
    monkeypatch.setattr(stores, "sleep", lambda _: None)
    return wrong


@pytest.mark.parametrize("seed", range(3))
def test_answers_that_are_wrong_lose_nothing_and_burn_no_release(
    store: str, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    folder = made(store, releases=20, up_to=50)
    with monkeypatch.context() as patch:
        wrong = unreliable(folder, patch, seed, 0.25)
        for number in range(10):
            folder.update_many(range(number, 1000, 10), batch=("writer", number))
            assert folder.release().number == number + 1
    assert wrong.wrong > 50
    assert [counter for counter, _ in folder_table(folder).fields()] == [1] * 1000
    assert folder.budget.releases_made == 10


def test_a_writer_that_believes_every_answer_would_burn_releases(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = made(store, releases=40)

    def believing(objects: Objects, path: str, blob: bytes) -> bool:
        for _ in range(8):
            try:
                objects.files.pipe_file(path, blob, mode="create")
            except FileExistsError:
                return False
            except OSError:
                continue
            return True
        raise AssertionError

    with monkeypatch.context() as patch:
        unreliable(folder, patch, 1, 0.25)
        patch.setattr(Objects, "create_object", believing)
        made_here = 0
        for _ in range(10):
            folder.release()
            made_here += 1
    assert folder.budget.releases_made > made_here


@pytest.fixture
def proxy(store: str) -> Iterator[tuple[str, Any]]:  # noqa: ARG001 - which starts the store
    pytest.importorskip("moto.moto_server.werkzeug_app")
    with benchmark("lying_store").lying_store(writes=2, reads=10) as running:
        yield running


def test_a_proxy_that_answers_by_errors_loses_nothing_and_hides_no_release(
    store: str, proxy: tuple[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    made(store, releases=30, up_to=50)
    monkeypatch.setattr(stores, "sleep", lambda _: None)
    monkeypatch.setattr(fsspec.get_filesystem_class("s3"), "retries", 1)  # all others are ours
    url, lying = proxy
    options = {"endpoint_url": url, "config_kwargs": {"retries": {"max_attempts": 1}}}
    folder = pp.StateFolder(store, coins=CertainCoins(), storage_options=options)
    for number in range(4):
        folder.update_many(range(number, 1000, 4), batch=("writer", number))
        assert folder.release().number == number + 1
    assert lying.lied == set(lying.LIES)
    honest = pp.StateFolder(store, coins=CertainCoins())
    assert [counter for counter, _ in folder_table(honest).fields()] == [1] * 1000
    assert honest.budget.releases_made == honest.last.number == 4


def test_a_writer_of_a_deleted_folder_harms_no_new_one(store: str) -> None:
    late = made(store)
    late.update(1)
    files = fsspec.filesystem("s3")
    files.rm(store, recursive=True)
    new = made(store)
    new.update(2)
    with pytest.raises((pp.PanPrivacyError, FileNotFoundError)):
        late.update(3)
    assert present(pp.StateFolder(store, coins=CertainCoins())) == {2}
    left = [path for path in files.ls(store, detail=False, refresh=True) if "shard" in path]
    assert len(left) == new.shards  # nothing of the old one


def test_a_folder_without_names_in_its_objects_is_still_read(store: str) -> None:
    folder = made(store)
    folder.update_many(range(10))
    files = fsspec.filesystem("s3")
    own = folder._store.own_name  # type: ignore[attr-defined]
    for path in files.ls(store, detail=False, refresh=True):
        if own in path:  # as they were written before: no name, and no mark
            files.pipe_file(path.replace(f".{own}", ""), files.cat_file(path)[:-16])
        files.rm_file(path)
    old = pp.StateFolder(store, coins=CertainCoins())
    old.update_many(range(10, 20))
    assert present(pp.StateFolder(store, coins=CertainCoins())) == set(range(20))
    with pytest.raises(FileExistsError):
        made(store)


@pytest.mark.parametrize("named", [False, True], ids=["bits", "counters, named"])
def test_a_batch_takes_two_requests_a_shard_and_a_few_more(store: str, named: bool) -> None:
    counters: dict[str, Any] = {"up_to": 4} if named else {}
    folder = pp.StateFolder.create(store, universe=100_000, epsilon=1.0, shards=16, **counters)
    folder.update(1, batch=("w", 1) if named else None)
    files = folder._store.files  # type: ignore[attr-defined]
    asked: list[str] = []
    call = files._call_s3

    async def counted(method: str, *arguments: Any, **options: Any) -> Any:
        asked.append(method)
        return await call(method, *arguments, **options)

    files._call_s3 = counted
    try:
        folder.update_many(range(100), batch=("w", 2) if named else None)
        assert len(asked) <= 2 * 16 + 6, asked
        asked.clear()
        folder.release()
        assert asked.count("get_object") <= 16 + 3
    finally:
        files._call_s3 = call


@pytest.mark.parametrize("together", [True, False], ids=["read together", "logs first"])
def test_a_batch_with_a_name_is_refused_before_a_shard_is_written(
    store: str, monkeypatch: pytest.MonkeyPatch, together: bool
) -> None:
    folder = pp.StateFolder.create(store, universe=1000, epsilon=2.0, shards=12, up_to=50, coins=CertainCoins())
    folder.update_many(range(1000), batch=("w", 1))
    with folder.gather() as gathered:  # of the last shard only
        gathered.add(range(1000))
        folder.take(11, [gathered.packed(11)], batch=("w", 2))
    monkeypatch.setattr(Objects, "TOGETHER", 2**40 if together else 0)
    with testing.refused("batch-broken-off", "batch 2 of w"):
        folder.update_many(range(1000), batch=("w", 3))
    folder.update_many(range(1000), batch=("w", 2))
    folder.update_many(range(1000), batch=("w", 3))
    assert [counter for counter, _ in folder_table(folder).fields()] == [3] * 1000


def test_a_bucket_that_keeps_versions_is_refused_unless_told(store: str) -> None:
    files = fsspec.filesystem("s3")
    files.call_s3("put_bucket_versioning", Bucket=store.split("/")[2], VersioningConfiguration={"Status": "Enabled"})
    with testing.refused("versioned"):
        made(store)
    made(store, versioned=True)


def test_a_lost_shard_is_replaced_and_a_whole_one_stays(store: str) -> None:
    folder = made(store)
    folder.update_many(range(1000))
    files = fsspec.filesystem("s3")
    for path in files.ls(store, detail=False, refresh=True):
        if "shard-00001" in path:
            files.rm_file(path)
    with pytest.raises(FileNotFoundError):
        folder.update(5)
    with testing.refused("shard-whole"):
        folder.replace_shard(0)
    assert folder.replace_shard(1) == pytest.approx(1 / 3, abs=0.01)
    folder.update(5)
    assert len(present(folder)) == pytest.approx(667, abs=2)

"""An acknowledged batch is on disk, many batches go with one write, and what cannot be written did not happen."""

import errno
import json
import os
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from service_for_tests import FLU, client_for, settings_for
from test_readiness import until

import panprivacy as pp
from panprivacy.ingest.batch import Refused
from panprivacy.ingest.bodies import Body, ContentType
from panprivacy.privacy import coins
from panprivacy.serve.service import Service
from panprivacy.serve.worker import KeptEstimator, Worker
from panprivacy.state import StateFile
from panprivacy.testing import CertainCoins, refused, table_of


class Certain(CertainCoins):
    """Certain coins that say they are secure."""

    secure = True


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """A service whose bits are a plain list of who came."""
    monkeypatch.setattr(coins, "system", Certain())
    counts = {"kind": "counts", "universe": 1000, "epsilon": 1.0, "column": "user", "up_to": 4}
    with Service(settings_for(tmp_path, flu=FLU, visits=counts)) as service:
        yield service


def body(*users: int) -> Body:
    return Body.copied(json.dumps(users).encode(), ContentType.json)


def on_disk(tmp_path: Path) -> set[int]:
    est: Any = pp.load(tmp_path / "states" / "flu.pp")
    return set(np.flatnonzero(table_of(est).bits(0, 1000)).tolist())


def in_memory(service: Service, counter: str = "flu") -> bytes:
    est = service.counter(counter)._kept.est
    return bytes(table_of(est).words.tobytes())


def test_what_is_acknowledged_is_on_disk(service: Service, tmp_path: Path) -> None:
    for user in range(5):
        service.counter("flu").take(body(user)).result()
        assert on_disk(tmp_path) == set(range(user + 1))


def test_a_worker_that_confirms_before_it_writes_would_be_found(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save, held = StateFile.write, threading.Event()

    def late(self: StateFile, parts: Any) -> None:
        held.wait(60)
        save(self, parts)

    def hasty(_self: Worker, job: Any) -> None:
        job.done.set_result(job.do())

    monkeypatch.setattr(StateFile, "write", late)
    monkeypatch.setattr(Worker, "_work", hasty)
    service.counter("flu").take(body(7)).result()
    assert 7 not in on_disk(tmp_path)
    held.set()


def test_batches_that_wait_together_are_written_once(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    save, writes, first = StateFile.write, 0, threading.Event()

    def counted(self: StateFile, parts: Any) -> None:
        nonlocal writes
        writes += 1
        first.wait(60)
        save(self, parts)

    monkeypatch.setattr(StateFile, "write", counted)
    monkeypatch.setattr("panprivacy.serve.worker._GROUP", 60.0)  # also where a hundred bodies take long
    waiting = [service.counter("flu").take(body(user)) for user in range(100)]
    first.set()
    assert [each.result(60) for each in waiting] == [1] * 100
    assert writes <= 3


def quoted(rows: int) -> Body:
    """A long body that is read in blocks; without the quotes a kernel would read it at once."""
    return Body.copied(b'"user"\n' + b"1\n" * rows, ContentType.csv)


@pytest.mark.slow
def test_while_a_long_body_is_read_short_ones_of_other_senders_are_counted_and_written(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flu = service.counter("flu")
    came: list[Future[int]] = []
    done: list[bool] = []
    give_way = flu.worker.give_way

    def crowded() -> None:
        if not came:
            came.append(flu.take(body(7), b"honest"))
            came.append(flu.take(body(8), b"careless"))
            came.append(flu.take(quoted(2**20), b"another"))
            give_way()
            done.extend(future.done() for future in came)
            done.append(7 in on_disk(tmp_path))

    monkeypatch.setattr(flu.worker, "give_way", crowded)
    assert flu.take(quoted(10**5), b"careless").result(20) == 10**5
    assert done == [True, False, False, True]
    assert [future.result(20) for future in came] == [1, 1, 2**20]


def test_a_body_that_was_counted_before_a_long_one_does_not_wait_for_it(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    flu, seen = service.counter("flu"), []
    give_way = flu.worker.give_way

    def noted() -> None:
        give_way()
        seen.append(first.done())

    monkeypatch.setattr(flu.worker, "give_way", noted)
    with flu.worker._ready:  # so that both are of one group
        first = flu.take(body(7), b"honest")
        flu.take(quoted(10**5), b"careless")
    service.counter("flu").take(body(9)).result(20)
    assert seen
    assert all(seen)


def test_one_bad_batch_of_a_group_does_not_harm_the_others(service: Service, tmp_path: Path) -> None:
    waiting = [service.counter("flu").take(body(user)) for user in (1, 5000, 2)]
    assert waiting[0].result() == waiting[2].result() == 1
    with pytest.raises(Refused):
        waiting[1].result()
    assert on_disk(tmp_path) == {1, 2}


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> dict[str, bool]:
    """A disk that can be made full: nothing can be written, everything can be read."""
    state = {"full": False}
    write = os.pwrite

    def pwrite(handle: int, data: Any, at: int) -> int:
        if state["full"]:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(handle, data, at)

    monkeypatch.setattr(os, "pwrite", pwrite)
    monkeypatch.setattr("panprivacy.serve.worker._PAUSE", 0.0)
    return state


@pytest.mark.parametrize("counter", ["flu", "visits"])
def test_a_full_disk_answers_507_keeps_serving_reads_and_undoes_what_it_could_not_write(
    counter: str, service: Service, full: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    with client_for(service) as client:
        headers, path = {"content-type": "application/json"}, f"/counters/{counter}"
        assert client.post(f"{path}/events", content="[1, 2]", headers=headers).status_code == 204
        before = in_memory(service, counter)
        full["full"] = True
        refused = client.post(f"{path}/events", content="[3, 4]", headers=headers)
        assert (refused.status_code, refused.json()["type"]) == (507, "/problems#disk")
        assert client.post(f"{path}/releases").status_code == 507
        assert in_memory(service, counter) == before, "memory and file would be two versions of the bits"
        assert client.get(path).json()["budget"]["releases_left"] == FLU["releases"] if counter == "flu" else 1
        assert client.get("/health").status_code == 503
        full["full"] = False
        assert client.post(f"{path}/events", content="[3, 4]", headers=headers).status_code == 204
        assert until(lambda: client.get("/health").status_code == 200), "a tick may have met the full disk just before"
        assert client.post(f"{path}/releases").json()["release"]["number"] == 1
    logged = [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()]
    failed = [f"the disk does not take {what}" for what in ("the state", "a release")]
    assert logged == [*failed, "the disk takes the state again", "released"]


def test_a_file_that_was_written_in_part_is_mended(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("panprivacy.serve.worker._PAUSE", 0.0)
    file: Any = import_module("panprivacy.state.file")
    apply, failing = file.apply, True

    def broken(*arguments: Any) -> None:
        if failing:
            raise OSError(errno.EIO, "Input/output error")
        apply(*arguments)

    service.counter("flu").take(body(1)).result()
    monkeypatch.setattr(file, "apply", broken)
    with pytest.raises(Refused):
        service.counter("flu").take(body(2)).result()
    failing = False
    service.counter("flu").take(body(3)).result()
    assert {1, 3} <= on_disk(tmp_path)


def test_a_job_that_fails_is_undone_and_nobody_hears_why(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: Any) -> None:
        raise RuntimeError("user 123456")

    service.counter("flu").take(body(1)).result()
    with monkeypatch.context() as patched:
        patched.setattr("panprivacy.serve.feeding.BodyFeeder.take", fails)
        with refused("broken"):
            service.counter("flu").take(body(2)).result()
    service.counter("flu").take(body(3)).result()
    assert on_disk(tmp_path) == {1, 3}
    assert "123456" not in capsys.readouterr().err


def test_a_release_that_a_crash_kept_from_being_published_is_published_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduled = FLU | {"schedule": {"every": "1d", "start": "2026-01-05", "time": "at", "ahead": 30}}
    rows = b"user,at\n1,2026-01-05\n2,2026-01-06\n"
    with Service(settings_for(tmp_path, flu=scheduled)) as service, monkeypatch.context() as crashing:
        crashing.setattr("panprivacy.serve.records.ReleaseLog.publish", _crash)
        with pytest.raises(Refused):
            service.counter("flu").take(Body.copied(rows, ContentType.csv)).result()
    with Service(settings_for(tmp_path, flu=scheduled)) as service:
        counter = service.counter("flu")
        (record,) = counter.release_log.records
        assert record["period"] == {"number": 0, "until": "2026-01-06T00:00:00+00:00", "missed": 0}
        counter.take(Body.copied(rows, ContentType.csv)).result()
        assert len(counter.release_log.records) == 1, "the period that was released is not released again"
        assert counter.status["budget"]["releases_left"] == 2


def test_a_release_that_the_disk_kept_from_being_published_is_given_to_who_asks_again(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as failing:
        failing.setattr("panprivacy.serve.records.ReleaseLog.publish", _crash)
        with pytest.raises(Refused) as caught:
            service.counter("flu").release().result()
        assert caught.value.code == "unlisted"
        assert service.counter("flu").trouble
    assert service.counter("flu").release().result()["release"]["number"] == 1
    assert not service.counter("flu").trouble
    assert service.counter("flu").release().result()["release"]["number"] == 2
    assert [record["id"] for record in service.counter("flu").release_log.records] == [1, 2]


def _crash(*_: Any) -> None:
    raise OSError(errno.EIO, "as if it had ended here")


@pytest.mark.parametrize("name", ["flu.json.new", "flu.releases.ndjson"])
def test_a_link_in_the_place_of_a_file_is_not_followed_and_the_release_comes_when_it_is_gone(
    name: str, service: Service, tmp_path: Path
) -> None:
    other, link = tmp_path / "other", tmp_path / "states" / name
    other.write_text("of somebody else")
    link.symlink_to(other)
    with client_for(service) as client:
        assert client.post("/counters/flu/releases").status_code == 507
        assert client.get("/ready").status_code == 503
        link.unlink()
        assert client.post("/counters/flu/releases").json()["id"] == 1
        assert client.get("/ready").status_code == 200
    assert other.read_text() == "of somebody else"


def test_who_gives_up_waiting_for_a_release_does_not_end_the_thread_of_the_counter(service: Service) -> None:
    given_up = service.counter("flu").release()
    assert not given_up.cancel()
    assert service.counter("flu").release().result(60)["release"]["number"] == 2


def test_a_line_that_a_crash_cut_short_is_taken_off(tmp_path: Path) -> None:
    with Service(settings_for(tmp_path)) as service:
        first = service.counter("flu").release().result()
    listed = tmp_path / "states" / "flu.releases.ndjson"
    listed.write_bytes(listed.read_bytes() + b'{"id": 2, "at"')
    with Service(settings_for(tmp_path)) as service:
        assert service.counter("flu").release_log.records == [first]
        second = service.counter("flu").release().result()
    assert [json.loads(line) for line in listed.read_text().splitlines()] == [first, second]


def test_two_services_cannot_have_one_folder_and_the_second_touches_nothing(tmp_path: Path) -> None:
    with Service(settings_for(tmp_path)) as service:
        service.counter("flu").release().result()
        listed = tmp_path / "states" / "flu.releases.ndjson"
        half_written = listed.read_bytes() + b'{"id": 2'
        listed.write_bytes(half_written)  # as it is while the first one publishes
        with refused("invalid-settings", "flu.pp", "another process"):
            Service(settings_for(tmp_path)).__enter__()
        assert listed.read_bytes() == half_written


@pytest.mark.parametrize("also", [(), ("flu.json",), ("flu.releases.ndjson",)])
def test_a_counter_whose_state_is_lost_does_not_begin_again_with_the_whole_budget(
    tmp_path: Path, also: tuple[str, ...]
) -> None:
    with Service(settings_for(tmp_path)) as service:
        service.counter("flu").release().result()
    for name in ("flu.pp", *also):
        (tmp_path / "states" / name).unlink()
    with refused("invalid-settings", "counters.flu", "flu.pp", "missing"):
        Service(settings_for(tmp_path)).__enter__()
    assert not (tmp_path / "states" / "flu.pp").exists()


def test_an_older_copy_of_a_state_is_refused(tmp_path: Path) -> None:
    state = tmp_path / "states" / "flu.pp"
    with Service(settings_for(tmp_path)) as service:
        service.counter("flu").release().result()
    older = state.read_bytes()
    with Service(settings_for(tmp_path)) as service:
        service.counter("flu").release().result()
    state.write_bytes(older)
    with refused("invalid-settings", "counters.flu", "lacks releases"):
        Service(settings_for(tmp_path)).__enter__()


def test_a_counter_that_a_crash_kept_from_being_made_is_made_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as crashing:
        crashing.setattr(KeptEstimator, "open", _crash)
        with refused("invalid-settings", "counters.flu", "ended here"):
            Service(settings_for(tmp_path)).__enter__()
    assert (tmp_path / "states" / "flu.json").exists()
    with Service(settings_for(tmp_path)) as service:
        assert service.counter("flu").release().result()["id"] == 1


def test_a_service_that_ends_counts_what_waits(tmp_path: Path) -> None:
    waiting: list[Future[int]] = []
    with Service(settings_for(tmp_path)) as service:
        counter = service.counter("flu")
        waiting = [counter.take(body(user)) for user in range(50)]
    assert all(each.result(0) == 1 for each in waiting)
    with pytest.raises(Refused):
        counter.take(body(1))


def test_a_job_that_waits_is_confirmed_by_the_next_write(tmp_path: Path) -> None:
    kept, done = KeptEstimator(StateFile(tmp_path / "x.pp"), None), Future[int]()
    kept.open(lambda: pp.Density(100, 1.0))
    kept.waiting.append((done, 7))
    kept.save_if_changed()
    assert not done.done()
    kept.changed = True
    kept.save_if_changed()
    kept.save_if_changed()
    kept.close()
    assert done.result(0) == 7

"""Whether the service is live and ready, per counter and source, with the reason; and back by itself."""

import errno
import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from service_for_tests import FLU, client_for, client_of, settings_for

from panprivacy.brokers.consumer import Take
from panprivacy.serve.http.openapi import Counters, Live, Ready
from panprivacy.serve.service import Service
from panprivacy.serve.tokens import new_token, written_hash
from panprivacy.settings import InvalidSettings
from panprivacy.state.disk import replace_file

JSON = {"content-type": "application/json"}
BOTH = {"flu": FLU, "cold": FLU}


def until(true: Callable[[], bool], seconds: float = 20.0) -> bool:
    """Whether something becomes true in time."""
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.02)
    return true()


class Quiet:
    """A source without messages, whose broker may be down."""

    stopped: str | None = None
    trouble: str | None = None
    lag: int | None = None

    def start(self, take: Take) -> None:
        """Begin."""

    def close(self) -> None:
        """End."""


def damage(folder: Path, name: str) -> None:
    """Cut a file of states."""
    path = folder / "states" / name
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2] + b"\n")


@pytest.mark.parametrize("name", ["flu.pp", "flu.json", "flu.releases.ndjson"])
def test_one_damaged_counter_does_not_stop_the_others(name: str, tmp_path: Path) -> None:
    settings = settings_for(tmp_path, **BOTH)
    with client_of(settings) as client:
        assert client.post("/counters/flu/releases").status_code == 201
    damage(tmp_path, name)
    with client_of(settings) as client:
        for method, path in (("GET", ""), ("GET", "/releases"), ("POST", "/releases"), ("GET", "/stream")):
            refused = client.request(method, f"/counters/flu{path}")
            assert (refused.status_code, refused.json()["type"]) == (503, "/problems#damaged")
        sent = client.post("/counters/flu/events", content="[1]", headers=JSON)
        assert (sent.status_code, sent.json()["type"]) == (503, "/problems#damaged")
        assert client.post("/counters/cold/events", content="[1]", headers=JSON).status_code == 204
        assert client.post("/counters/cold/releases").status_code == 201
        listed = Counters.model_validate_json(client.get("/counters").text)
        assert ([each.name for each in listed.counters], listed.damaged) == (["cold"], ["flu"])
        ready = client.get("/ready")
        state = ready.json()["counters"]
        assert ready.status_code == 503
        assert (state["flu"]["state"], state["cold"]) == ("damaged", {"state": "ready", "reason": None})
        assert name in state["flu"]["reason"]
        assert client.get("/health").json()["failing"] == ["flu"]
        assert client.get("/live").status_code == 200


@pytest.mark.parametrize(
    "wrong",
    [
        {"begun": -1},
        {"begun": 10**40},
        {"under_way": {"number": "two"}},
        {"under_way": {"number": 1, "period": 3}},
        {"requests": [1, 2]},
        {"requests": [["a", "b"]]},
        {"secret": "no hexadecimal digits"},
    ],
    ids=str,
)
def test_settings_beside_a_state_that_make_no_sense_are_damaged(wrong: dict[str, Any], tmp_path: Path) -> None:
    settings = settings_for(tmp_path, **BOTH)
    with client_of(settings) as client:
        assert client.post("/counters/flu/releases").status_code == 201
    path = tmp_path / "states" / "flu.json"
    path.write_text(json.dumps(json.loads(path.read_bytes()) | wrong))
    with client_of(settings) as client:
        assert client.get("/counters/flu").json()["type"] == "/problems#damaged"
        assert client.post("/counters/cold/events", content="[1]", headers=JSON).status_code == 204


@pytest.mark.slow
def test_a_counter_without_room_for_a_release_is_not_ready_until_there_is_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Room for its state is reserved; a release needs more."""
    full = [False]

    def replaced(path: Path, content: bytes) -> None:
        if full[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replace_file(path, content)

    monkeypatch.setattr("panprivacy.serve.records.replace_file", replaced)
    monkeypatch.setattr("panprivacy.serve.counter._AGAIN", 0.05)
    with client_of(settings_for(tmp_path)) as client:
        full[0] = True
        assert client.post("/counters/flu/releases").status_code == 507
        assert client.get("/ready").json()["counters"]["flu"]["reason"] == "the disk does not take a release"
        assert client.post("/counters/flu/events", content="[1]", headers=JSON).status_code == 204
        time.sleep(0.3)
        assert client.get("/ready").status_code == 503
        full[0] = False
        assert until(lambda: client.get("/ready").status_code == 200)
        assert client.get("/counters/flu").json()["budget"]["releases_left"] == FLU["releases"]


def test_a_service_whose_counters_are_all_damaged_does_not_start(tmp_path: Path) -> None:
    with client_of(settings_for(tmp_path, **BOTH)):
        pass
    for name in BOTH:
        damage(tmp_path, f"{name}.pp")
    with pytest.raises(InvalidSettings) as refused, Service(settings_for(tmp_path, **BOTH)):
        pass
    assert len(refused.value.problems) == 2


def test_a_counter_is_ready_again_by_itself_when_the_disk_takes_its_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, full = os.pwrite, [False]

    def pwrite(handle: int, data: Any, at: int) -> int:
        if full[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(handle, data, at)

    monkeypatch.setattr(os, "pwrite", pwrite)
    monkeypatch.setattr("panprivacy.serve.counter._AGAIN", 0.05)
    monkeypatch.setattr("panprivacy.serve.worker._PAUSE", 0.0)
    with client_of(settings_for(tmp_path)) as client:
        assert client.get("/ready").status_code == 200
        full[0] = True
        assert client.post("/counters/flu/events", content="[1]", headers=JSON).status_code == 507
        ready = client.get("/ready")
        reason = "the disk does not take its state"
        assert (ready.status_code, ready.json()["counters"]["flu"]["reason"]) == (503, reason)
        assert client.get("/live").status_code == 200
        full[0] = False
        assert until(lambda: client.get("/ready").status_code == 200)
        assert client.get("/health").status_code == 200


def test_a_release_that_was_not_listed_is_published_by_itself_and_returned_to_the_next_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from panprivacy.serve.records import ReleaseLog

    publish, full = ReleaseLog.publish, [True]

    def refused(self: ReleaseLog, record: Any) -> None:
        if full[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        publish(self, record)

    monkeypatch.setattr(ReleaseLog, "publish", refused)
    monkeypatch.setattr("panprivacy.serve.counter._AGAIN", 0.05)
    with client_of(settings_for(tmp_path)) as client:
        assert client.post("/counters/flu/releases").status_code == 507
        assert client.get("/ready").json()["counters"]["flu"]["reason"] == "the disk does not take a release"
        full[0] = False
        assert until(lambda: client.get("/ready").status_code == 200)
        listed = client.get("/counters/flu/releases").json()["releases"]
        assert client.post("/counters/flu/releases").json() == listed[0]
        assert client.get("/counters/flu").json()["budget"]["releases_left"] == 2
        assert client.post("/counters/flu/releases").json()["id"] == 2


def test_a_broker_that_is_down_is_told_and_so_is_one_that_came_back(tmp_path: Path) -> None:
    source = Quiet()
    with client_of(replace(settings_for(tmp_path), sources={"flu": source})) as client:
        assert client.get("/ready").status_code == 200
        source.trouble = "connection refused"
        ready = client.get("/ready")
        assert ready.status_code == 503
        assert ready.json()["sources"] == {"flu": {"state": "unreachable", "reason": "connection refused", "lag": None}}
        source.trouble = None
        assert client.get("/ready").status_code == 200
        source.stopped = "message 3: a row is bad"
        assert client.get("/ready").json()["sources"]["flu"]["state"] == "stopped"


def test_the_details_are_for_those_who_may_read_metrics(tmp_path: Path) -> None:
    tokens = {role: new_token() for role in ("metrics", "read", "admin")}
    tables = {role: {"hash": written_hash(token), "roles": [role]} for role, token in tokens.items()}
    with Service(settings_for(tmp_path, {"anonymous": [], "tokens": tables})) as service, client_for(service) as client:
        assert client.get("/ready").json() == {"status": "ready"}
        assert Live.model_validate_json(client.get("/live").text).status == "live"
        for role, is_told in {"metrics": True, "read": False, "admin": True}.items():
            answer = client.get("/ready", headers={"authorization": f"Bearer {tokens[role]}"})
            assert ("counters" in answer.json()) == is_told
            Ready.model_validate_json(answer.text)

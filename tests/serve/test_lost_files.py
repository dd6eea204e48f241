"""Files that are lost: nothing starts with a fresh budget, or a shorter list of releases, unless it is told to."""

import json
import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest
from service_for_tests import FLU, client_of, settings_for

from panprivacy.serve import server
from panprivacy.serve.config import Settings
from panprivacy.serve.service import Service
from panprivacy.settings import InvalidSettings
from panprivacy.testing import refused


def released(folder: Path, times: int) -> Settings:
    """Settings of a counter that was released."""
    settings = settings_for(folder)
    with client_of(settings) as client:
        for number in range(times):
            key = {"idempotency-key": f"release {number}"}
            assert client.post("/counters/flu/releases", headers=key).status_code == 201
    return settings


def problem_of(settings: Settings) -> str:
    """The one line with which a start is refused, which --check has as well."""
    with pytest.raises(InvalidSettings) as refused, Service(settings):
        pass
    with pytest.raises(InvalidSettings) as found:
        server.check_all(replace(settings, service=settings.service.model_copy(update={"port": 0})))
    assert found.value.problems == refused.value.problems
    assert len(refused.value.problems) == 1
    return str(refused.value.problems[0])


def test_a_folder_without_any_counter_is_refused_unless_that_is_known(tmp_path: Path) -> None:
    settings = released(tmp_path, 2)
    server.check(settings)
    (tmp_path / "states").rename(tmp_path / "lost")
    assert found_by_check(settings) == ["service.folder"]
    assert found_by_check(replace(settings, initialize=True)) == []
    (tmp_path / "states").mkdir(mode=0o700)
    with refused("invalid-settings", "service.folder", "no counters"):
        server.run(settings, None, lambda _: None)
    assert list((tmp_path / "states").iterdir()) == []
    (tmp_path / "lost" / "flu.json").rename(tmp_path / "states" / "flu.json")
    assert found_by_check(settings) == ["counters.flu"]


def test_a_new_counter_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with client_of(settings_for(tmp_path)) as client:
        assert client.get("/ready").status_code == 200
    with client_of(settings_for(tmp_path)):
        pass
    logged = [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()]
    assert logged == ["a new counter, with its whole budget"]


@pytest.mark.parametrize("left", [0, 1])
def test_a_list_that_lacks_releases_is_refused_and_goes_on_if_that_is_known(left: int, tmp_path: Path) -> None:
    settings = released(tmp_path, 3)
    path = tmp_path / "states" / "flu.releases.ndjson"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:left]))
    if not left:
        path.unlink()
    assert f"has {left} of the 2 that were published" in problem_of(settings)
    with client_of(replace(settings, initialize=True)) as client:
        assert client.get("/counters/flu").json()["budget"]["releases_left"] == 0
        retried = client.post("/counters/flu/releases", headers={"idempotency-key": "release 0"})
        assert (retried.status_code, retried.json()["type"]) == (409, "/problems#budget-spent")
    with client_of(settings) as client:
        assert client.get("/counters/flu/releases").json()["releases"][-1]["release"]["number"] == 3


def test_a_list_that_lacks_the_last_release_gets_it_back(tmp_path: Path) -> None:
    settings = released(tmp_path, 2)
    path = tmp_path / "states" / "flu.releases.ndjson"
    whole = path.read_bytes()
    path.write_bytes(whole.splitlines(keepends=True)[0])
    with client_of(settings):
        pass
    assert json.loads(path.read_bytes().splitlines()[1])["values"] == json.loads(whole.splitlines()[1])["values"]


def test_a_lost_state_begins_anew_only_if_that_is_known(tmp_path: Path) -> None:
    settings, states = released(tmp_path, 2), tmp_path / "states"
    (states / "flu.pp").unlink()
    assert "its state" in problem_of(settings)
    before = (states / "flu.releases.ndjson").read_bytes()
    server.check(replace(settings, initialize=True))
    with client_of(replace(settings, initialize=True)) as client:
        assert client.get("/counters/flu").json()["budget"]["releases_left"] == FLU["releases"]
        assert client.get("/counters/flu/releases").json()["releases"] == []
    assert (states / "flu.lost-1.releases.ndjson").read_bytes() == before
    with client_of(settings) as client:
        assert client.get("/counters/flu").json()["budget"]["releases_left"] == FLU["releases"]


def test_initialize_changes_nothing_where_nothing_is_lost(tmp_path: Path) -> None:
    settings = released(tmp_path, 2)
    with client_of(replace(settings, initialize=True)) as client:
        assert len(client.get("/counters/flu/releases").json()["releases"]) == 2
        key = {"idempotency-key": "release 0"}
        assert client.post("/counters/flu/releases", headers=key).json()["id"] == 1


def found_by_check(settings: Settings) -> list[str]:
    """The keys that a check complains of."""
    try:
        server.check_all(settings)
    except InvalidSettings as error:
        return [problem.partition(": ")[0] for problem in error.problems]
    return []


def test_a_check_finds_a_port_that_is_taken_and_rights_that_lack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = replace(settings_for(tmp_path, {"port": taken.getsockname()[1]}), initialize=True)
        assert found_by_check(settings) == ["service.host and service.port"]
        with Service(settings):
            assert found_by_check(settings) == [], "a running service has its port"
    assert found_by_check(settings) == []
    access = os.access
    for name, key in {"flu.json": "counters.flu", "states": "service.folder"}.items():
        monkeypatch.setattr(os, "access", lambda path, mode, name=name: Path(path).name != name and access(path, mode))
        assert found_by_check(settings) == [key]

"""The service as a combiner: packed sets of slots from many gatherers, united in one write."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from service_for_tests import FLU, client_for, client_of, settings_for
from starlette.testclient import TestClient

import panprivacy as pp
from panprivacy.folder.batches import Combiner
from panprivacy.ingest.bodies import Body, ContentType
from panprivacy.serve.service import Service
from panprivacy.state import StateFile

SLOTS = "application/vnd.panprivacy.slots"
CERTAIN = FLU | {"epsilon": 60.0, "releases": 1}  # where one user more or less is seen


def send(client: TestClient, body: bytes, counter: str = "flu", **query: str) -> Any:
    return client.post(f"/counters/{counter}/events", content=body, headers={"content-type": SLOTS}, params=query)


def gathered(client: TestClient, ids: Any, counter: str = "flu", universe: Any = None) -> bytes:
    with pp.gather(client.get(f"/counters/{counter}/layout").content, universe) as marks:
        marks.add(ids)
        return marks.packed().tobytes()


def released(client: TestClient, counter: str = "flu") -> dict[str, Any]:
    release: dict[str, Any] = client.post(f"/counters/{counter}/releases").json()["release"]
    return release


@pytest.mark.slow
def test_sets_of_many_gatherers_are_counted_and_taken_back(tmp_path: Path) -> None:
    with client_of(settings_for(tmp_path, flu=CERTAIN, cold=CERTAIN)) as client:
        for counter in ("flu", "cold"):
            for first in range(0, 400, 100):
                assert send(client, gathered(client, range(first, first + 150), counter), counter).status_code == 204
        assert send(client, gathered(client, range(1000), "cold"), "cold", action="delete").status_code == 204
        shares = [released(client, name)["density"] for name in ("flu", "cold")]
    assert shares == pytest.approx([0.45, 0.0], abs=0.02)


def test_counters_move_as_often_as_gathered(tmp_path: Path) -> None:
    counts = CERTAIN | {"kind": "counts", "up_to": 4}
    with client_of(settings_for(tmp_path, flu=counts)) as client:
        assert send(client, gathered(client, [*range(500)] * 2)).status_code == 204
        assert send(client, gathered(client, range(500))).status_code == 204
        assert send(client, gathered(client, range(500)), action="delete").status_code == 204
        assert client.get("/counters/flu").json()["repeatable"] is False
        # The sum of the shares has a standard error of .055: 5.4 of them, a false alarm in 10^7 runs.
        assert sum(released(client)["at_least"]) == pytest.approx(0.5 * 2, abs=0.3)


def test_rows_and_slots_count_in_the_order_in_which_they_came(tmp_path: Path) -> None:
    with Service(settings_for(tmp_path, flu=CERTAIN)) as service, client_for(service) as client:
        body = gathered(client, range(400))
        assert send(client, body).status_code == 204
        rows = "user\n" + "\n".join(map(str, range(200)))
        url, csv = "/counters/flu/events?action=delete", {"content-type": "text/csv"}
        assert client.post(url, content=rows, headers=csv).status_code == 204
        assert released(client)["density"] == pytest.approx(0.2, abs=0.02)


def test_what_was_acknowledged_is_on_disk(tmp_path: Path) -> None:
    settings = settings_for(tmp_path, flu=CERTAIN)
    with client_of(settings) as client:
        assert send(client, gathered(client, range(300))).status_code == 204
    with client_of(settings) as client:
        assert released(client)["density"] == pytest.approx(0.3, abs=0.02)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda body: b"", "unreadable"),  # noqa: ARG005
        (lambda body: body[:-1], "unreadable"),
        (lambda body: body[:-1] + bytes([body[-1] ^ 1]), "unreadable"),
        (lambda body: body.replace(b"PPslots\0\1", b"PPslots\0\2"), "unreadable"),
    ],
)
def test_a_body_that_is_wrong_is_refused_and_named(change: Any, problem: str, tmp_path: Path) -> None:
    with client_of(settings_for(tmp_path)) as client:
        answer = send(client, change(gathered(client, [7, 500])))
        assert (answer.status_code, answer.json()["type"]) == (422, f"/problems#{problem}")
        assert "500" not in answer.text


def test_slots_of_another_layout_are_refused_with_what_to_do(tmp_path: Path) -> None:
    with client_of(settings_for(tmp_path, flu=FLU, cold=FLU | {"universe": 2000})) as client:
        answer = send(client, gathered(client, [7], "cold"))
        assert (answer.status_code, answer.json()["type"]) == (409, "/problems#layout")


@pytest.mark.parametrize(
    "counter",
    [
        {"kind": "retention", "universe": 1000, "epsilon": 1.0, "column": "user"},
        FLU | {"schedule": {"every": "1d", "start": "2026-01-05", "time": "at"}},
    ],
    ids=["retention", "times"],
)
def test_counters_whose_events_have_times_take_rows_only(counter: dict[str, Any], tmp_path: Path) -> None:
    with client_of(settings_for(tmp_path, flu=counter, cold=FLU)) as client:
        answer = send(client, gathered(client, [7], "cold"))
        assert (answer.status_code, answer.json()["type"]) == (415, "/problems#content-type")
        assert "rows" in answer.json()["detail"]


def test_the_layout_is_for_feeders(tmp_path: Path) -> None:
    with client_of(settings_for(tmp_path, {"anonymous": ["read"]})) as client:
        assert client.get("/counters/flu/layout").status_code == 401
    with client_of(settings_for(tmp_path, {"anonymous": ["feed"]})) as client:
        assert client.get("/counters/flu/releases").status_code == 401
        assert client.get("/counters/flu/layout").status_code == 200


def test_a_set_whose_redraw_fails_is_not_acknowledged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with client_of(settings_for(tmp_path, flu=CERTAIN)) as client:
        body = gathered(client, range(400))
        with monkeypatch.context() as patch:
            patch.setattr(Combiner, "redraw", lambda *_: (_ for _ in ()).throw(MemoryError))
            assert send(client, body).status_code == 500
        assert send(client, gathered(client, range(100))).status_code == 204
        assert released(client)["density"] == pytest.approx(0.1, abs=0.02)


def test_many_sets_that_wait_are_one_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Service(settings_for(tmp_path, flu=CERTAIN)) as service, client_for(service) as client:
        counter, write = service.counters["flu"], StateFile.write
        bodies = [Body.copied(gathered(client, range(i, 1000, 8)), ContentType.slots) for i in range(8)]
        writes, go_on = list[int](), threading.Event()

        def slowly(*arguments: Any) -> Any:
            writes.append(1)
            assert go_on.wait(60)
            return write(*arguments)

        monkeypatch.setattr(StateFile, "write", slowly)
        futures = [counter.take(bodies[0])]
        while not writes:
            time.sleep(0.01)
        futures += [counter.take(body) for body in bodies[1:]]
        go_on.set()
        for future in futures:
            future.result(60)
        assert len(writes) == 2
        assert released(client)["density"] == pytest.approx(1.0, abs=0.02)

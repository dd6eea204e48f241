"""What each address takes and answers."""

import gzip
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from service_for_tests import FLU, client_for, client_of, settings_for
from starlette.testclient import TestClient

from panprivacy.serve.service import Service

ARROW, NDJSON, CSV, JSON = (
    "application/vnd.apache.arrow.stream",
    "application/x-ndjson",
    "text/csv",
    "application/json",
)


def arrow(frame: pl.DataFrame) -> bytes:
    out = io.BytesIO()
    frame.write_ipc_stream(out)
    return out.getvalue()


def send(client: TestClient, body: bytes | str, content: str, counter: str = "flu", **query: str) -> Any:
    return client.post(f"/counters/{counter}/events", content=body, headers={"content-type": content}, params=query)


CERTAIN = FLU | {"epsilon": 60.0, "releases": 1}  # where one user more or less is seen


@pytest.mark.parametrize(
    ("content", "body"),
    [
        (ARROW, arrow(pl.DataFrame({"user": np.arange(400)}))),
        (ARROW, arrow(pl.DataFrame({"user": np.arange(400), "other": ["x"] * 400}))),
        (NDJSON, "".join(f'{{"user": {i}}}\n' for i in range(400))),
        (NDJSON, "".join(f'{{"user": {i}, "other": [1, 2]}}\n' for i in range(400))),
        (CSV, "user\n" + "".join(f"{i}\n" for i in range(400))),
        (JSON, json.dumps(list(range(400)))),
        (JSON, json.dumps([{"user": i, "other": None} for i in range(400)])),
    ],
)
def test_every_kind_of_body_is_counted_and_taken_back(content: str, body: bytes | str, tmp_path: Path) -> None:
    with client_of(settings_for(tmp_path, flu=CERTAIN, cold=CERTAIN)) as client:
        for counter in ("flu", "cold"):
            assert send(client, body, content, counter).status_code == 204
        assert send(client, body, content, "cold", action="delete").status_code == 204
        shares = [client.post(f"/counters/{name}/releases").json()["release"]["density"] for name in ("flu", "cold")]
    assert shares == pytest.approx([0.4, 0.0], abs=0.02)


@pytest.mark.parametrize(
    ("content", "body", "problem"),
    [
        (NDJSON, '{"user": 1}\n{"user": 123456}\n', ("outside-universe", 2)),
        (NDJSON, '{"user": 1}\n{"user": "123456x"}\n', ("unreadable", 2)),
        (NDJSON, '{"user": 1}\n{"user": null}\n', ("missing-value", 2)),
        (NDJSON, '{"id": 123456}\n', ("no-column", None)),
        (CSV, "user\n1\n123456\n", ("outside-universe", 2)),
        (CSV, "user\n1\n0123456\n", ("unreadable", 2)),
        (CSV, "123456\n123457\n", ("no-column", None)),
        (JSON, "[1, 123456]", ("outside-universe", 2)),
        (JSON, '[1, "123456"]', ("unreadable", 2)),
        (JSON, '{"user": 123456}', ("unreadable", None)),
        (JSON, "[1, 123456", ("unreadable", None)),
        (JSON, "[]", ("unreadable", None)),
        (JSON, "[1, [2, 123456]]", ("unreadable", 2)),
        (ARROW, arrow(pl.DataFrame({"user": [1, 123456]})), ("outside-universe", 2)),
        (ARROW, arrow(pl.DataFrame({"user": ["123456"]})), ("unreadable", None)),
        (ARROW, b"123456", ("unreadable", None)),
        (CSV, "", ("unreadable", None)),
    ],
)
def test_a_body_is_refused_whole_and_what_it_holds_is_not_repeated(
    content: str, body: bytes | str, problem: tuple[str, int | None], tmp_path: Path, capsys: Any
) -> None:
    with Service(settings_for(tmp_path, flu=CERTAIN)) as service, client_for(service) as client:
        answer = send(client, body, content)
        release = client.post("/counters/flu/releases").json()["release"]
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    said = answer.json()
    assert (said["type"], said.get("row")) == (f"/problems#{problem[0]}", problem[1])
    assert "123456" not in answer.text
    assert "123456" not in capsys.readouterr().err
    assert release["density"] == pytest.approx(0, abs=0.01), "the good row of a bad body was counted"


IDS = "ids are integers, without quotes or leading zeros"


def arrow_file(frame: pl.DataFrame) -> bytes:
    out = io.BytesIO()
    frame.write_ipc(out)
    return out.getvalue()


@pytest.mark.parametrize(
    ("content", "body", "detail"),
    [
        (NDJSON, '{"user": "17"}\n', f"this row is malformed, or its id is not what ids are here: {IDS}"),
        (CSV, "user\n017\n", f"this row is malformed, or its id is not what ids are here: {IDS}"),
        (JSON, '["17"]', IDS),
        (ARROW, arrow(pl.DataFrame({"user": ["17"]})), IDS),
        (ARROW, arrow(pl.DataFrame({"user": [1.0]})), f"ids or categories are floats, which merge large ids: {IDS}"),
        (ARROW, arrow_file(pl.DataFrame({"user": [17]})), "this is an Arrow file; send an IPC stream"),
        (CSV, "patient,visited_at\n17,3\n", "there is no column user; there are patient, visited_at"),
        (NDJSON, '{"patient": {"id": 17}}\n', "there is no column user; there are patient.id"),
        (ARROW, arrow(pl.DataFrame({"patient": [17]})), "there is no column user; there are patient"),
        (CSV, "patient,p17\n17,3\n", "there is no column user"),
        (CSV, f"patient,{'x' * 41}\n17,3\n", "there is no column user"),
        (CSV, ",".join("abcdefghijklmnopqrstv") + "\n", "there is no column user"),
    ],
)
def test_a_refusal_says_what_to_mend(content: str, body: bytes | str, detail: str, tmp_path: Path) -> None:
    with client_of(settings_for(tmp_path)) as client:
        answer = send(client, body, content)
    assert (answer.status_code, answer.json()["detail"]) == (422, detail)


def test_a_name_that_may_be_an_id_is_not_repeated(tmp_path: Path) -> None:
    people = {"kind": "distinct", "ids": "text", "epsilon": 1.0, "column": "user"}
    with client_of(settings_for(tmp_path, people=people)) as client:
        answer = send(client, "ada\ngrace\n", CSV, "people")
    assert answer.json()["detail"] == "there is no column user"


def test_a_body_that_is_packed_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with client_of(settings_for(tmp_path)) as client:
        packed = {"content-type": JSON, "content-encoding": "gzip"}
        answer = client.post("/counters/flu/events", content=gzip.compress(b"[1]"), headers=packed)
    assert (answer.status_code, answer.json()["detail"]) == (415, "send it without Content-Encoding")


def test_a_release_that_is_mostly_noise_says_so(tmp_path: Path) -> None:
    with client_of(settings_for(tmp_path, flu=CERTAIN, faint=FLU | {"epsilon": 0.01})) as client:
        said = {name: client.post(f"/counters/{name}/releases").json()["mostly_noise"] for name in ("flu", "faint")}
    assert said == {"flu": False, "faint": True}


def test_what_cannot_take_users_back_says_so(tmp_path: Path) -> None:
    people = {"kind": "distinct", "ids": "integers", "epsilon": 1.0, "column": "user"}
    watched = FLU | {"kind": "continual", "universe": 100_000, "step": 0.2, "releases": None}
    del watched["releases"]
    with client_of(settings_for(tmp_path, people=people, watched=watched)) as client:
        assert send(client, "[1]", JSON, "watched", action="delete").json()["type"] == "/problems#no-deletions"
        assert send(client, "[1]", JSON, "people", action="delete").json()["type"] == "/problems#no-deletions"
        assert send(client, "[1]", JSON, "people", action="burn").status_code == 400


def test_a_parameter_that_is_misspelled_or_said_twice_is_refused(tmp_path: Path) -> None:
    with client_of(settings_for(tmp_path)) as client:
        for asked in ("acton=delete", "action=delete&action=insert", "action=delete&x=1"):
            answer = client.post(f"/counters/flu/events?{asked}", content="[1]", headers={"content-type": JSON})
            assert answer.status_code == 400, asked
        for path in ("/counters", "/counters/flu", "/counters/flu/releases", "/stream"):
            assert client.get(f"{path}?x=123456").status_code == 400
        plain = {"content-type": JSON, "content-encoding": "Identity"}
        assert client.post("/counters/flu/events", content="[1]", headers=plain).status_code == 204


def test_a_reader_that_comes_back_with_anything_else_is_refused(tmp_path: Path) -> None:
    with client_of(settings_for(tmp_path)) as client:
        for seen in ("flu:" + "9" * 5000, "flu", "flu:1,", "flu:-1"):
            assert client.get("/stream", headers={"last-event-id": seen}).status_code == 400


def test_an_action_column_says_of_each_row_what_it_does(tmp_path: Path) -> None:
    with client_of(settings_for(tmp_path, flu=CERTAIN | {"action": "what", "unlisted": "refuse"})) as client:
        rows = "".join(f"{i},insert\n" for i in range(500)) + "".join(f"{i},delete\n" for i in range(100))
        assert send(client, f"user,what\n{rows}", CSV).status_code == 204
        assert send(client, "user,what\n1,burn\n", CSV).json()["type"] == "/problems#unknown-action"
        assert client.post("/counters/flu/releases").json()["release"]["density"] == pytest.approx(0.4, abs=0.02)


def test_a_deletion_that_is_not_possible_is_left_out_and_refuses_nobody_else(tmp_path: Path) -> None:
    plan = {"kind": "retention", "universe": 1000, "epsilon": 60.0, "column": "user", "action": "what"}
    with client_of(settings_for(tmp_path, flu=plan)) as client:
        assert send(client, "user,what\n" + "".join(f"{i},insert\n" for i in range(500)), CSV).status_code == 204
        assert client.post("/counters/flu/releases").status_code == 201
        rows = "".join(f"{i},insert\n" for i in range(300))
        assert send(client, f"user,what\n900,delete\n{rows}", CSV).status_code == 204
        assert client.post("/counters/flu/releases").json()["release"]["returned"] == pytest.approx(0.3, abs=0.05)


def test_reading_is_free_and_a_release_spends_one(tmp_path: Path) -> None:
    with client_of(settings_for(tmp_path)) as client:
        for _ in range(5):
            assert client.get("/counters/flu").json()["budget"]["releases_left"] == 3
        made = client.post("/counters/flu/releases", json={"level": 0.9})
        assert made.status_code == 201
        assert made.json()["level"] == 0.9
        assert client.get("/counters/flu").json()["last"] == made.json()
        for left in (1, 0):
            client.post("/counters/flu/releases")
            assert client.get("/counters/flu").json()["budget"]["releases_left"] == left
        refused = client.post("/counters/flu/releases")
        assert (refused.status_code, refused.json()["type"]) == (409, "/problems#budget-spent")
        assert [each["id"] for each in client.get("/counters/flu/releases").json()["releases"]] == [1, 2, 3]
        assert [each["id"] for each in client.get("/counters/flu/releases?since=2").json()["releases"]] == [3]


@pytest.mark.parametrize("body", ["[" * 990, b"\xff\xfe", '{"level": 7}', '{"level": [', '{"levle": 0.9}'])
def test_a_release_that_is_asked_for_in_other_words_is_refused_and_not_spent(body: bytes | str, tmp_path: Path) -> None:
    with client_of(settings_for(tmp_path)) as client:
        assert client.post("/counters/flu/releases", content=body).status_code == 400
        assert client.get("/counters/flu").json()["budget"]["releases_left"] == 3


@pytest.mark.slow
def test_every_estimator_can_be_served_and_published_in_one_shape(tmp_path: Path) -> None:
    plain = {"universe": 1000, "epsilon": 2.0, "column": "user"}
    days = {"schedule": {"every": "1d", "start": "2026-01-05", "time": "at", "ahead": 30}, "span": "3d"}
    kinds: dict[str, dict[str, Any]] = {
        "density": plain,
        "categories": plain | {"kind": "density", "categories": ["a", "b"], "by": "what"},
        "distinct": {"ids": "text", "epsilon": 2.0, "column": "user"},
        "counts": plain | {"up_to": 4},
        "retention": plain | {"releases": 2},
        "continual": plain | {"step": 0.2, "universe": 100_000},
        "actives": plain | days,
    }
    rows = [{"user": i, "what": "a", "at": f"2026-01-{5 + i % 2:02}"} for i in range(100)]
    counters = {name: {"kind": name} | table for name, table in kinds.items()}
    with client_of(settings_for(tmp_path, **counters)) as client:
        for name in kinds:
            assert send(client, json.dumps(rows), JSON, name).status_code == 204, name
            if name != "actives":
                assert client.post(f"/counters/{name}/releases").status_code == 201, name
        assert client.post("/counters/actives/releases").json()["type"] == "/problems#not-now"
        for counter in client.get("/counters").json()["counters"]:
            last = counter["last"]
            values = last["values"] or last["groups"][0]["values"]
            assert {"name", "unit", "value", "stderr", "low", "high"} == set(values[0]), counter["name"]
            assert values[0]["low"] <= values[0]["value"] <= values[0]["high"]
            assert counter["error"]


def test_groups_are_published_with_their_names(tmp_path: Path) -> None:
    (tmp_path / "users.csv").write_text("id,region\n" + "".join(f"{i},{'ns'[i % 2]}\n" for i in range(1000)))
    listed = {"kind": "density", "universe_file": "users.csv:id", "group": "region", "epsilon": 60.0, "column": "user"}
    with client_of(settings_for(tmp_path, flu=listed)) as client:
        send(client, json.dumps(list(range(0, 1000, 2))), JSON)
        groups = client.post("/counters/flu/releases").json()["groups"]
    assert {each["group"]: round(each["values"][0]["value"], 1) for each in groups} == {"n": 1.0, "s": 0.0}


def test_a_retired_counter_can_be_read_and_nothing_else(tmp_path: Path) -> None:
    with client_of(settings_for(tmp_path)) as client:
        made = client.post("/counters/flu/releases").json()
    with client_of(settings_for(tmp_path, flu=FLU | {"retired": True})) as client:
        assert client.get("/counters/flu").json()["last"] == made
        assert send(client, "[1]", JSON).status_code == 410
        assert client.post("/counters/flu/releases").status_code == 410


def test_what_is_not_there_is_a_problem_too(tmp_path: Path) -> None:
    with client_of(settings_for(tmp_path)) as client:
        for path, status in (("/counters/cold", 404), ("/nothing", 404), ("/static/../server.py", 404)):
            answer = client.get(path)
            assert (answer.status_code, answer.json()["status"]) == (status, status)
        assert client.put("/counters/flu").status_code == 405
        assert send(client, "[1]", "text/plain").status_code == 415
        assert client.get("/problems").text.count("<tr id=") > 10


def test_health_tells_and_no_body_changes_the_metrics(tmp_path: Path) -> None:
    with client_of(settings_for(tmp_path)) as client:
        before = client.get("/metrics").text
        send(client, json.dumps(list(range(777))), JSON)
        refused = send(client, "[1", JSON)
        health = client.get("/health")
        quiet = client.get("/metrics").text
    with client_of(settings_for(tmp_path, {"count_events": True})) as client:
        send(client, json.dumps(list(range(777))), JSON)
        told = client.get("/metrics").text
    assert (health.status_code, health.json()["status"], refused.status_code) == (200, "ok", 422)
    assert quiet == before
    assert 'panprivacy_releases_left{counter="flu"} 3.0' in quiet
    assert 'panprivacy_duration_seconds{quantile="0.5",route="/counters/{name}/events"}' in told
    assert "panprivacy_waiting_bytes 0.0" in told
    assert 'panprivacy_rows_total{counter="flu"} 777.0' in told

"""Who may what: tokens, roles, limits, and pages of other sites."""

import socket
from pathlib import Path
from typing import Any

import pytest
from served import served
from service_for_tests import FLU, client_of, settings_for
from starlette.testclient import TestClient

from panprivacy.ingest.batch import Refused
from panprivacy.serve.http.bodies import BodyQuota
from panprivacy.serve.tokens import ROLES, Token, hash_of, holder_of, new_token, written_hash

TOKENS = {role: new_token() for role in ROLES}
SERVICE = {
    "anonymous": [],
    "tokens": {role: {"hash": written_hash(token), "roles": [role]} for role, token in TOKENS.items()},
}
CALLS = {
    "feed": ("POST", "/counters/flu/events"),
    "read": ("GET", "/counters/flu/releases"),
    "release": ("POST", "/counters/flu/releases"),
    "metrics": ("GET", "/metrics"),
}


def ask(client: TestClient, call: str, token: str | None = None, **headers: str) -> Any:
    method, path = CALLS[call]
    given = {"authorization": f"Bearer {token}"} if token else {}
    body = {"content": "[1]", "headers": given | headers | {"content-type": "application/json"}}
    return client.request(method, path, **(body if call == "feed" else {"headers": given | headers}))


@pytest.mark.slow
def test_without_a_token_401_and_with_the_wrong_role_403(tmp_path: Path) -> None:
    with client_of(settings_for(tmp_path, SERVICE)) as client:
        for call in CALLS:
            refused = ask(client, call)
            assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
            assert ask(client, call, new_token()).status_code == 401
            for role, token in TOKENS.items():
                allowed = role in (call, "admin")
                assert (ask(client, call, token).status_code < 300) == allowed, (role, call)
                assert allowed or ask(client, call, token).status_code == 403
        for path in ("/", "/health", "/openapi.json", "/problems"):
            assert client.get(path).status_code == 200


def test_a_token_is_for_its_counters_only(tmp_path: Path) -> None:
    token = new_token()
    tokens = {"clinic": {"hash": written_hash(token), "roles": ["read"], "counters": ["flu"]}}
    settings = settings_for(tmp_path, {"anonymous": [], "tokens": tokens}, flu=FLU, cold=FLU)
    with client_of(settings) as client:
        headers = {"authorization": f"bearer {token}"}
        assert client.get("/counters/flu", headers=headers).status_code == 200
        assert client.get("/counters/cold", headers=headers).status_code == 403
        assert client.get("/counters/mumps", headers=headers).status_code == 403
        listed = client.get("/counters", headers=headers).json()
        assert [each["name"] for each in listed["counters"]] == ["flu"]
        assert listed["may"] == ["read"]


def test_nothing_of_a_token_is_kept_but_its_hash(tmp_path: Path) -> None:
    settings = settings_for(tmp_path, SERVICE)
    assert not any(token in repr(settings) for token in TOKENS.values())


def test_all_tokens_are_compared_whichever_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[bytes] = []
    known = [Token(name, hash_of(name), frozenset()) for name in "abc"]

    def compare(one: bytes, other: bytes) -> bool:
        compared.append(other)
        return one == other

    monkeypatch.setattr("panprivacy.serve.tokens.compare_digest", compare)
    for token in "axc":
        compared.clear()
        found = holder_of(token, known)
        assert (found.name if found else None) == (token if token != "x" else None)
        assert len(compared) == 3


def test_a_page_of_another_site_is_refused(tmp_path: Path) -> None:
    with client_of(settings_for(tmp_path)) as client:
        refused = ask(client, "release", origin="https://evil.example")
        assert (refused.status_code, refused.json()["type"]) == (403, "/problems#cross-site")
        assert ask(client, "release", origin="http://127.0.0.1").status_code == 201


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("evil.example", "http://evil.example", 421),  # whose name leads here for a moment
        ("evil.example:8787", None, 421),
        ("127.0.0.1.evil.example", None, 421),
        ("[", None, 421),
        ("localhost:8787", "http://localhost:8787", 201),
        ("[::1]:8787", "http://[::1]:8787", 201),
        ("192.168.0.7", None, 201),
        ("127.0.0.1", "https://127.0.0.1", 403),
        ("127.0.0.1", "http://[", 403),
        ("127.0.0.1", "null", 403),
        ("counts.example", "https://counts.example", 201),
        ("Counts.Example", "http://counts.example", 201),
    ],
)
def test_only_its_own_names_lead_to_the_service(host: str, origin: str | None, status: int, tmp_path: Path) -> None:
    with client_of(settings_for(tmp_path, {"hosts": ["counts.example"]})) as client:
        headers = {"host": host} | ({"origin": origin} if origin else {})
        assert ask(client, "release", **headers).status_code == status


@pytest.mark.slow
@pytest.mark.parametrize(
    ("hosts", "status"),
    [([], 421), (["127.0.0.1"], 200), (["127.0.0.1", "127.0.0.1"], 421), (["localhost", "evil"], 421)],
)
@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_a_request_has_one_host_header(hosts: list[str], status: int, version: str, tmp_path: Path) -> None:
    head = "".join(f"host: {host}\r\n" for host in hosts)
    with (
        served(settings_for(tmp_path)) as here,
        socket.create_connection(("127.0.0.1", here.port), timeout=5) as connection,
    ):
        connection.sendall(f"GET /health HTTP/{version}\r\n{head}\r\n".encode())
        assert connection.recv(1000).split()[1] == str(status).encode()


def test_a_body_that_is_too_large_is_refused_whether_it_says_so_or_not(tmp_path: Path) -> None:
    with client_of(settings_for(tmp_path, {"limits": {"body": "1 KiB", "waiting": "1 KiB"}})) as client:
        for content in ("[1]" + " " * 2000, (piece for piece in [b"[1]", b" " * 2000])):
            answer = client.post("/counters/flu/events", content=content, headers={"content-type": "application/json"})
            assert answer.status_code == 413


def test_a_body_without_a_length_is_taken(tmp_path: Path) -> None:
    with client_of(settings_for(tmp_path)) as client:
        pieces = (piece for piece in [b"[1", b", 2", b" " * 100_000, b"]"])
        headers = {"content-type": "application/json"}
        assert client.post("/counters/flu/events", content=pieces, headers=headers).status_code == 204


def test_who_comes_too_often_waits(tmp_path: Path) -> None:
    with client_of(settings_for(tmp_path, {"limits": {"requests": 2.0}})) as client:
        answers = [client.get("/counters/flu") for _ in range(10)]
    assert [answer.status_code for answer in answers[:4]] == [200] * 4
    late = answers[-1]
    assert (late.status_code, late.headers["retry-after"]) == (429, "1")


def test_who_tries_tokens_out_waits_too(tmp_path: Path) -> None:
    with client_of(settings_for(tmp_path, SERVICE | {"limits": {"requests": 2.0}})) as client:
        assert [ask(client, "read", new_token()).status_code for _ in range(6)] == [401] * 4 + [429] * 2


def test_a_refusal_does_not_repeat_the_name_that_was_asked_for(tmp_path: Path) -> None:
    with client_of(settings_for(tmp_path, SERVICE)) as client:
        headers = {"authorization": f"Bearer {TOKENS['feed']}"}
        refused = client.get("/counters/alice@example.org/releases", headers=headers)
        assert refused.status_code == 403
        assert "alice" not in refused.text


def test_bodies_take_room_as_they_come_and_not_as_they_are_announced() -> None:
    quota = BodyQuota(1000)
    with quota.reserve() as one, quota.reserve() as other:
        one(600)
        with pytest.raises(Refused):
            other(500)
        other(400)
        assert quota.taken == 1000
    assert quota.taken == 0


@pytest.mark.slow
def test_connections_on_which_nobody_asks_for_anything_are_closed_and_readers_are_not(tmp_path: Path) -> None:
    with served(settings_for(tmp_path, {"limits": {"seconds": 1}})) as here:
        said = {
            "silent": b"",
            "slow": b"GET /health HTTP/1.1\r\nHost: ",
            "reader": b"GET /stream HTTP/1.1\r\nhost: localhost\r\n\r\n",
        }
        connections = {}
        for name, begun in said.items():
            connections[name] = socket.create_connection(("127.0.0.1", here.port), timeout=60)
            connections[name].sendall(begun)
        for name in ("silent", "slow"):
            assert connections[name].recv(1000) == b"", name
        reader = connections["reader"]
        assert reader.recv(1000).startswith(b"HTTP/1.1 200")
        here.service.counter("flu").release().result()
        heard = b""
        while b"event: release" not in heard:
            heard += reader.recv(10_000)
        for connection in connections.values():
            connection.close()


@pytest.mark.slow
def test_what_is_no_http_and_who_comes_when_it_is_crowded_gets_a_problem_too(tmp_path: Path) -> None:
    with served(settings_for(tmp_path, {"limits": {"readers": 1}})) as here:
        with socket.create_connection(("127.0.0.1", here.port), timeout=60) as alone:
            alone.sendall(b"7654321 what is this\r\n\r\n")
            answer = alone.recv(1000)
            assert answer.startswith(b"HTTP/1.1 400")
            assert b"/problems#bad-request" in answer
            assert b"7654321" not in answer
        first, second = (socket.create_connection(("127.0.0.1", here.port), timeout=60) for _ in range(2))
        with first, second:
            second.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
            answer = second.recv(1000)
            assert answer.startswith(b"HTTP/1.1 503")
            assert b"retry-after: 1" in answer

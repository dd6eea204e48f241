"""SIGHUP: tokens, certificates, titles and new counters are taken over, all of them or none."""

import asyncio
import json
import signal
import ssl
import time
from collections.abc import Callable
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from processes import FLU_TABLE, ask, started
from service_for_tests import EVERYTHING, FLU, settings_for
from starlette.testclient import TestClient

from panprivacy.audit.memory.services import write_certificate
from panprivacy.serve.config import Settings
from panprivacy.serve.http import AppContext, make_app
from panprivacy.serve.server import Reloader
from panprivacy.serve.service import Service
from panprivacy.serve.tokens import new_token, written_hash

JSON = {"content-type": "application/json"}


def reload(context: AppContext, settings: Settings) -> bool:
    """Reload, as SIGHUP does."""
    return asyncio.run(Reloader(context, lambda: settings).reload())


def with_tokens(folder: Path, tokens: dict[str, str], **counters: dict[str, Any]) -> Settings:
    """Settings with tokens that may do everything."""
    tables = {name: {"hash": written_hash(token), "roles": list(EVERYTHING)} for name, token in tokens.items()}
    return settings_for(folder, {"anonymous": [], "tokens": tables, "count_events": True}, **counters)


def test_tokens_titles_and_new_counters_are_taken_over(tmp_path: Path) -> None:
    old, new = new_token(), new_token()
    with Service(with_tokens(tmp_path, {"a": old})) as service:
        context = AppContext(service)
        with TestClient(make_app(context), base_url="http://127.0.0.1") as client:
            bearer = {"authorization": f"Bearer {new}"}
            assert client.get("/counters/flu", headers=bearer).status_code == 401
            titled = {"flu": FLU | {"title": "Influenza"}, "cold": FLU}
            assert reload(context, with_tokens(tmp_path, {"b": new}, **titled))
            assert client.get("/counters/flu", headers={"authorization": f"Bearer {old}"}).status_code == 401
            assert client.get("/counters/flu", headers=bearer).json()["title"] == "Influenza"
            sent = client.post("/counters/cold/events", content="[1, 2]", headers=bearer | JSON)
            assert sent.status_code == 204
            assert client.post("/counters/cold/releases", headers=bearer).json()["id"] == 1
            assert 'panprivacy_rows_total{counter="cold"} 2.0' in client.get("/metrics", headers=bearer).text
    with Service(with_tokens(tmp_path, {"b": new}, **titled)) as again:
        assert len(again.counter("cold").release_log) == 1


@pytest.mark.parametrize(
    ("changed", "key"),
    [
        ({"flu": FLU | {"level": 0.9}, "cold": FLU}, "counters.flu"),
        ({"cold": FLU}, "counters.flu"),
        ({"flu": FLU, "lost": FLU, "cold": FLU}, "counters.lost"),
    ],
)
def test_what_needs_a_restart_is_refused_and_all_goes_on_as_before(
    changed: dict[str, Any], key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Service(settings_for(tmp_path, lost=FLU)) as service:
        service.counter("lost").release().result()
    (tmp_path / "states" / "lost.pp").unlink()
    with Service(settings_for(tmp_path)) as service:
        context = AppContext(service)
        assert not reload(context, settings_for(tmp_path, **changed))
        refused = json.loads(capsys.readouterr().err.splitlines()[-1])
        assert (refused["level"], refused["cause"].partition(":")[0]) == ("error", key)
        assert list(service.counters) == ["flu"]
        assert service.settings == settings_for(tmp_path)
        assert reload(context, settings_for(tmp_path, flu=FLU, cold=FLU)), "the files of the refused one are free"


def test_a_damaged_counter_is_served_again_when_its_file_is_put_back(tmp_path: Path) -> None:
    settings = settings_for(tmp_path, flu=FLU, cold=FLU)
    with Service(settings):
        pass
    state = tmp_path / "states" / "flu.pp"
    whole = state.read_bytes()
    state.write_bytes(whole[:-9])
    with Service(settings) as service:
        context = AppContext(service)
        assert reload(context, settings)
        assert list(service.damaged) == ["flu"]
        state.write_bytes(whole)
        assert reload(context, settings)
        assert service.damaged == {}
        assert service.counter("flu").release().result()["id"] == 1


def test_certificates_are_taken_over(tmp_path: Path) -> None:
    class Noted(ssl.SSLContext):
        loaded: list[str]

        def load_cert_chain(self, certfile: Any, keyfile: Any = None, password: Any = None) -> None:  # noqa: ARG002
            self.loaded = [Path(certfile).name, Path(keyfile).name]

    from panprivacy.serve.config import Tls

    def settings(name: str) -> Settings:
        found = settings_for(tmp_path)
        tls = Tls(certificate=f"{name}.pem", key=f"{name}.key")
        return Settings(
            found.service.model_copy(update={"tls": tls}), found.limits, found.tokens, found.counters, found.folder
        )

    with Service(settings("old")) as service:
        certificates = Noted(ssl.PROTOCOL_TLS_SERVER)
        assert asyncio.run(Reloader(AppContext(service), lambda: settings("new"), certificates).reload())
        assert certificates.loaded == ["new.pem", "new.key"]
        assert not asyncio.run(Reloader(AppContext(service), lambda: settings_for(tmp_path), certificates).reload())


MEAN_SOMETHING = {
    signal.Signals[f"SIG{name}"]
    for name in "HUP TERM INT QUIT PWR KILL STOP TSTP TTIN TTOU ABRT SEGV BUS FPE ILL".split()  # noqa: SIM905
}
"""Signals that end or stop a process in order, and those of faults."""


@pytest.mark.slow
def test_a_process_reloads_its_file_on_a_signal_or_goes_on_as_before(tmp_path: Path) -> None:
    path, head = tmp_path / "counters.toml", '[service]\nport = 0\nanonymous = ["feed", "read", "release", "admin"]\n'
    path.write_text(head + FLU_TABLE)

    def until(true: Callable[[], bool]) -> bool:
        end = time.monotonic() + 60
        while not true() and time.monotonic() < end:
            time.sleep(0.1)
        return true()

    with started(path) as (process, port), closing(HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        path.write_text(head + FLU_TABLE + FLU_TABLE.replace("flu", "cold"))
        process.send_signal(signal.SIGHUP)
        assert until(lambda: ask(connection, "GET", "/counters/cold")[0] == 200)
        path.write_text("nonsense")
        process.send_signal(signal.SIGHUP)
        time.sleep(1)
        for number in signal.valid_signals() - MEAN_SOMETHING:
            process.send_signal(number)
        time.sleep(0.5)
        assert ask(connection, "POST", "/counters/cold/events", b"[1]")[0] == 204
        process.send_signal(signal.SIGPWR)
        assert process.wait(60) == 0
        assert process.stderr is not None
        said = [json.loads(line) for line in process.stderr.read().splitlines()]
    assert [each["counters"] for each in said if each["event"] == "reloaded"] == [["cold"]]
    assert sum("not reloaded" in each["event"] for each in said) == 1
    assert said[-1]["event"] == "stopped"


@pytest.mark.slow
def test_a_process_shows_a_new_certificate_after_a_signal(tmp_path: Path) -> None:
    path = tmp_path / "counters.toml"
    tls = '[service.tls]\ncertificate = "cert.pem"\nkey = "key.pem"\n'
    path.write_text('[service]\nport = 0\nanonymous = ["read"]\n' + tls + FLU_TABLE)

    def renew() -> str:
        (tmp_path / "made").mkdir(exist_ok=True)
        for made, name in zip(write_certificate(tmp_path / "made"), ("cert.pem", "key.pem"), strict=True):
            (tmp_path / name).write_bytes((tmp_path / "made" / made).read_bytes())
        return (tmp_path / "cert.pem").read_text().strip()

    first = renew()
    with started(path) as (process, port):
        assert ssl.get_server_certificate(("127.0.0.1", port)).strip() == first
        second = renew()
        process.send_signal(signal.SIGHUP)
        end = time.monotonic() + 60
        while ssl.get_server_certificate(("127.0.0.1", port)).strip() != second and time.monotonic() < end:
            time.sleep(0.1)
        assert ssl.get_server_certificate(("127.0.0.1", port)).strip() == second != first

"""Refused requests leave nothing to Python's collector of cycles: what only it would free stays for a while."""

import gc
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import refusal_leaks
import uvicorn
from served import Served, served

from panprivacy.audit.memory import refusals
from panprivacy.audit.memory.refusals import RefusedRequests
from panprivacy.audit.memory.services import write_certificate
from panprivacy.estimators.base import Estimator
from panprivacy.ingest.batch import ProblemType, Refused
from panprivacy.ingest.bodies import Body
from panprivacy.serve import worker
from panprivacy.serve.config import Settings, settings_of
from panprivacy.serve.http import connections, guard
from panprivacy.state import StateFile


@pytest.fixture(autouse=True)
def faults(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counting fails in one counter, and the disk of another is full, as in the process that the auditor images."""
    for owner, name in ((StateFile, "write"), (Estimator, "update_many")):
        monkeypatch.setattr(owner, name, getattr(owner, name))  # so that it is put back in the end
    refusals.plant_faults()


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Served]:
    with served(settings(tmp_path)) as running:
        yield running


@pytest.fixture
def encrypted(tmp_path: Path) -> Iterator[Served]:
    certificate, key = write_certificate(tmp_path)
    with served(settings(tmp_path, f'[service.tls]\ncertificate = "{certificate}"\nkey = "{key}"\n')) as running:
        yield running


def settings(folder: Path, tls: str = "") -> Settings:
    said = tomllib.loads(refusals.settings('kind = "distinct"\nids = "text"', folder / "states", tls))
    return settings_of(said, folder)


def garbage_of(here: Served) -> set[str]:
    """Which requests are still there when all is done but the collecting of cycles: any ids or addresses of theirs."""
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    sender = RefusedRequests(here.port, encrypted=here.server.config.is_ssl)
    try:
        sender.send_quickly()
        _wait_for_the_end(here.server)
        gc.collect()
        held = b"".join(_octets(thing) for found in gc.garbage for thing in (found, *gc.get_referents(found)))
    finally:
        sender.close()
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    sent = zip(sender.sent, sender.addresses, strict=True)  # each request has a connection of its own
    return {name for (name, ids), address in sent if any(text in held for text in (*ids.tolist(), address.encode()))}


def _wait_for_the_end(server: uvicorn.Server) -> None:
    """Wait until all connections are closed."""
    patience = time.monotonic() + 60
    while server.server_state.connections and time.monotonic() < patience:
        time.sleep(0.05)
    assert not server.server_state.connections


def _octets(thing: object) -> bytes:
    if isinstance(thing, str):
        return thing.encode(errors="replace")
    return bytes(thing) if isinstance(thing, bytes | bytearray) else b""


@pytest.mark.slow
def test_a_refused_request_is_no_garbage(here: Served) -> None:
    assert garbage_of(here) == set()


@pytest.mark.slow
def test_a_refused_request_over_tls_is_no_garbage(encrypted: Served) -> None:
    assert garbage_of(encrypted) == set()


@pytest.mark.slow
def test_a_transport_that_refers_to_itself_is_found(encrypted: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: asyncio's transports keep the addresses of their peers, and refer to themselves."""
    monkeypatch.setattr(connections, "_forget_address", lambda _: None)
    assert len(garbage_of(encrypted)) > 1


@pytest.mark.slow
@pytest.mark.parametrize("leak", [refusal_leaks.frames_of_refusals, refusal_leaks.requests])
def test_what_refers_to_itself_is_found(
    here: Served, leak: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the test above would find it."""
    connection = connections._Connection
    for owner, name in (
        (worker, "drop_frames"),
        (guard, "drop_frames"),
        (connection, "forget"),
        (connection, "_forget_head"),
    ):
        monkeypatch.setattr(owner, name, getattr(owner, name))  # so that it is put back in the end
    leak()
    assert len(garbage_of(here)) > 1


def _fail(_: object, body: Body, *__: object) -> int:
    rows = body.octets.tobytes().decode().split("\n")  # which the frame of this call holds
    raise RuntimeError(rows[0])


def _fill_the_disk(*_: object) -> None:
    raise OSError


def _refuse(why: ProblemType) -> Callable[..., None]:
    def refuse(*_: object, **_named: object) -> None:
        raise Refused(why)

    return refuse


FAILURES = [
    (500, "panprivacy.serve.feeding.BodyFeeder.take", _fail),
    (507, "panprivacy.serve.worker.KeptEstimator.check_free", _refuse(ProblemType.disk)),
    (507, "panprivacy.estimators.base.Estimator.save", _fill_the_disk),
    (503, "panprivacy.serve.worker.Worker.submit", _refuse(ProblemType.closing)),
]


@pytest.mark.slow
@pytest.mark.parametrize(("status", "function", "fails"), FAILURES, ids=[name for _, name, _ in FAILURES])
def test_a_request_that_fails_is_no_garbage(
    here: Served, status: int, function: str, fails: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(function, fails)
    monkeypatch.setattr(refusals, "REQUESTS", [refusals.refused(str(status), status, refusals.post)] * 3)
    assert garbage_of(here) == set()
    monkeypatch.undo()

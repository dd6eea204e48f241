"""Refused requests leave nothing to Python's collector of cycles: what only it would free stays for a while."""

import gc
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import refusal_leaks
from served import Served, served

from panprivacy.audit.imaging import refusals, refused
from panprivacy.audit.imaging.refusals import Refusals
from panprivacy.serve import connections, worker
from panprivacy.serve.bodies import Body
from panprivacy.serve.config import settings_of
from panprivacy.serve.http import guard
from panprivacy.serve.refusals import Refused, Why


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Served]:
    said = tomllib.loads(refused.settings('kind = "distinct"\nids = "text"', tmp_path / "states", ""))
    with served(settings_of(said, tmp_path)) as running:
        yield running


def garbage_of(here: Served) -> set[str]:
    """Which requests are still there when all is done but the collecting of cycles: any ids of theirs."""
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    sender = Refusals(here.port, encrypted=False)
    try:
        sender.send_quickly()
        gc.collect()
        held = b"".join(_octets(thing) for found in gc.garbage for thing in (found, *gc.get_referents(found)))
    finally:
        sender.close()
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    return {name for name, ids in sender.sent if any(text in held for text in ids.tolist())}


def _octets(thing: object) -> bytes:
    if isinstance(thing, str):
        return thing.encode(errors="replace")
    return bytes(thing) if isinstance(thing, bytes | bytearray) else b""


def test_a_refused_request_is_no_garbage(here: Served) -> None:
    assert garbage_of(here) == set()


@pytest.mark.parametrize("leak", [refusal_leaks.frames_of_refusals, refusal_leaks.requests])
def test_what_refers_to_itself_is_found(
    here: Served, leak: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the test above would find it."""
    connection = connections._Connection
    for owner, name in (
        (worker, "without_frames"),
        (guard, "without_frames"),
        (connection, "forget"),
        (connection, "_forget_head"),
    ):
        monkeypatch.setattr(owner, name, getattr(owner, name))  # so that it is put back in the end
    leak()
    assert len(garbage_of(here)) > 1


def _fail(_: object, body: Body, __: object) -> int:
    rows = body.octets.tobytes().decode().split("\n")  # which the frame of this call holds
    raise RuntimeError(rows[0])


def _fill_the_disk(*_: object) -> None:
    raise OSError


def _refuse(why: Why) -> Callable[..., None]:
    def refuse(*_: object) -> None:
        raise Refused(why)

    return refuse


FAILURES = [
    (500, "panprivacy.serve.counting.Counting.take", _fail),
    (507, "panprivacy.serve.keeping.Kept.check_free", _refuse(Why.disk)),
    (507, "panprivacy.estimator.Estimator.save", _fill_the_disk),
    (503, "panprivacy.serve.worker.Worker.submit", _refuse(Why.closing)),
]


@pytest.mark.parametrize(("status", "function", "fails"), FAILURES, ids=[name for _, name, _ in FAILURES])
def test_a_request_that_fails_is_no_garbage(
    here: Served, status: int, function: str, fails: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(function, fails)
    monkeypatch.setattr(refusals, "REQUESTS", [refused.refused(str(status), status, refused.post)] * 3)
    assert garbage_of(here) == set()
    monkeypatch.undo()

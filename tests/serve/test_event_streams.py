"""New releases reach those who wait for them, and those who come back."""

import asyncio
from pathlib import Path
from typing import Any

from service_for_tests import FLU, settings_for
from starlette.requests import Request
from starlette.types import Message

from panprivacy.serve.http.stream import EventStream, ReleaseNotifier, seen_by
from panprivacy.serve.service import Service


async def read(service: Service, since: dict[str, int], enough: int, act: Any = None) -> str:
    """What a reader is sent, until it has seen enough releases, or the service stops."""
    notifier, said, gone = ReleaseNotifier(service.counters), b"", asyncio.Event()

    async def receive() -> Message:
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        nonlocal said
        said += message.get("body", b"")
        if said.count(b"event: release") >= enough:
            gone.set()

    stream = EventStream(notifier, list(service.counters.values()), since)
    reading = asyncio.create_task(stream({}, receive, send))
    while not (notifier.readers or reading.done()):
        await asyncio.sleep(0.001)
    if act is not None:
        await asyncio.to_thread(act, notifier)
    await asyncio.wait_for(reading, 60)
    assert notifier.readers == 0
    return said.decode()


def test_a_reader_hears_what_is_published_after_it_came(tmp_path: Path) -> None:
    with Service(settings_for(tmp_path, flu=FLU, cold=FLU)) as service:
        service.counter("flu").release().result()
        said = asyncio.run(read(service, {}, 1, lambda _: service.counter("cold").release().result()))
    assert said.startswith("retry: 3000\n\n")
    assert "id: flu:1,cold:1\nevent: release\ndata: {" in said
    assert '"counter": "flu"' not in said


def test_a_reader_that_comes_back_hears_what_it_missed(tmp_path: Path) -> None:
    with Service(settings_for(tmp_path)) as service:
        for _ in range(3):
            service.counter("flu").release().result()
        said = asyncio.run(read(service, {"flu": 1}, 2))
    assert [line for line in said.splitlines() if line.startswith("id:")] == ["id: flu:2", "id: flu:3"]


def test_a_reader_of_all_counters_that_comes_back_misses_nothing_of_any(tmp_path: Path) -> None:
    with Service(settings_for(tmp_path, flu=FLU, cold=FLU)) as service:
        first = asyncio.run(read(service, {}, 1, lambda _: service.counter("flu").release().result()))
        service.counter("cold").release().result()
        service.counter("flu").release().result()
        (seen,) = (line.removeprefix("id: ") for line in first.splitlines() if line.startswith("id:"))
        request = Request({"type": "http", "headers": [(b"last-event-id", seen.encode())]})
        said = asyncio.run(read(service, seen_by(request), 2))
    assert [line for line in said.splitlines() if line.startswith("id:")] == ["id: flu:2,cold:0", "id: flu:2,cold:1"]


def test_a_service_that_stops_lets_its_readers_go(tmp_path: Path) -> None:
    with Service(settings_for(tmp_path)) as service:

        async def stopped() -> str:
            loop = asyncio.get_running_loop()
            return await read(service, {}, 1, lambda notifier: loop.call_soon_threadsafe(notifier.close))

        assert "event: release" not in asyncio.run(stopped())


def test_a_reader_is_let_go_when_tokens_change_and_hears_nothing_of_later(tmp_path: Path) -> None:
    """Otherwise a token that was taken back would be heard of for as long as its connection lasts."""

    def change_tokens(notifier: ReleaseNotifier) -> None:
        notifier.dismiss()
        service.counter("flu").release().result()

    with Service(settings_for(tmp_path)) as service:
        said = asyncio.run(asyncio.wait_for(read(service, {}, 2, change_tokens), 10))
    assert "event: release" not in said

"""The process: listens, serves, and on SIGTERM lets everybody finish."""

import asyncio
import os
import signal
import socket
from collections.abc import Callable
from typing import Any

import uvicorn

from panprivacy.errors import PanPrivacyError
from panprivacy.hardening import Hardening
from panprivacy.serve.config import BadConfig, ServiceSettings, Settings
from panprivacy.serve.connections import protocol_for
from panprivacy.serve.http import Desk, make_app
from panprivacy.serve.logs import libraries_unquoted, log
from panprivacy.serve.promise import Broken, Promise
from panprivacy.serve.service import Service
from panprivacy.serve.sources import source_of
from panprivacy.state import StateFile

_BACKLOG = 2048  # connections that may wait to be taken
_GOODBYE = 0.5  # seconds for those who are done to say so
_PATIENCE = 30  # seconds for requests that are under way when the service is told to stop


def run(settings: Settings, hardening: Hardening | None, ready: Callable[[str], None]) -> None:
    """Serve until a signal ends it; `ready` is called with the address of the page."""
    check(settings)
    with libraries_unquoted():
        _run(settings, hardening, ready)


def _run(settings: Settings, hardening: Hardening | None, ready: Callable[[str], None]) -> None:
    os.environ["RUST_BACKTRACE"] = "0"  # which takes Polars long
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)  # uvicorn takes them first, and hands them on when it is done
    log("starting", counters=[counter.name for counter in settings.counters])  # the first start compiles, for a while
    with _listening(settings.service) as opened, Service(settings) as service:
        desk = Desk(service, hardening)
        _Server(_configured(desk), desk, ready).run([opened])
        log("stopping")
    log("stopped")


def check_all(settings: Settings) -> None:
    """Refuse what would keep the service from starting, states that cannot be read included; start nothing."""
    check(settings)
    problems: list[str] = []
    for counter in settings.counters:
        try:
            state = StateFile(settings.service.folder / f"{counter.name}.pp")
            if state.exists:
                state.load(counter.who.universe())
        except (PanPrivacyError, ValueError) as error:
            problems.append(f"counters.{counter.name}: {error}")
    if problems:
        raise BadConfig(problems)


def check(settings: Settings) -> None:
    """Refuse settings that would change what running counters promise, and sources that cannot be; start nothing."""
    problems: list[str] = []
    for counter in settings.counters:
        try:
            folder = settings.service.folder
            promise = Promise(folder / f"{counter.name}.json")
            promise.check(counter.name, counter.promise)
            promise.check_state(folder / f"{counter.name}.pp", listed=0)
            source_of(counter)
        except (Broken, BadConfig) as error:
            problems += str(error).splitlines()
    if problems:
        raise BadConfig(problems)


def _listening(settings: ServiceSettings) -> socket.socket:
    """The address, taken before anything is opened that would have to be closed again."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family, backlog=_BACKLOG)
    except OSError as error:
        where = f"service.host and service.port: {settings.host}, port {settings.port}"
        raise BadConfig([f"{where}: {(error.strerror or str(error)).lower()}"]) from None


def _configured(desk: Desk) -> uvicorn.Config:
    settings = desk.settings
    tls: dict[str, Any] = (
        {"ssl_certfile": settings.tls.certificate, "ssl_keyfile": settings.tls.key} if settings.tls else {}
    )
    return uvicorn.Config(
        make_app(desk),
        loop="asyncio",  # frees each piece that it has read; uvloop keeps a buffer that nobody wipes
        http=protocol_for(settings.limits),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_PATIENCE,
        **tls,
    )


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, desk: Desk, ready: Callable[[str], None]) -> None:
        super().__init__(config)
        self._desk = desk
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and sockets:
            port = sockets[0].getsockname()[1]
            self._ready(self._desk.settings.address.replace(":0/", f":{port}/"))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._desk.board.close()
        letting_go = asyncio.ensure_future(self._let_go())
        await super().shutdown(sockets)
        letting_go.cancel()

    async def _let_go(self) -> None:
        """Forget connections when nothing is under way any more: TLS would wait for its peers to say goodbye."""
        await asyncio.sleep(_GOODBYE)
        while self.server_state.tasks:
            await asyncio.sleep(_GOODBYE)
        self.server_state.connections.clear()

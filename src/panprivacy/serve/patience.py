"""Connections on which nobody asks for anything are closed: silent ones would keep others out."""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class _Patient(HttpToolsProtocol):
    """Waits `seconds` for a request with all its headers; what is asked for then takes as long as it takes."""

    seconds: float
    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._stop_waiting()
        self._waiting = self.loop.call_later(self.seconds, self._close_if_silent)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()

    def _close_if_silent(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()


def protocol_for(patience: float) -> type[asyncio.Protocol]:
    """HTTP for uvicorn, with so many seconds for the headers of a request."""

    class Patient(_Patient):
        seconds = patience

    return Patient

"""A service that listens on a port of its own, in a thread of this process: tests look into it while it runs."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import uvicorn

from panprivacy.serve.config import Settings
from panprivacy.serve.connections import protocol_for
from panprivacy.serve.http import Desk, make_app
from panprivacy.serve.service import Service


@dataclass
class Served:
    """A service, and where its page is."""

    service: Service
    port: int

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/"


@contextmanager
def served(settings: Settings, port: int = 0) -> Iterator[Served]:
    """Serve until the block ends, on any free port unless one is asked for."""
    with Service(settings) as service:
        desk = Desk(service)
        config = uvicorn.Config(
            make_app(desk),
            port=port,
            loop="asyncio",
            http=protocol_for(desk.settings.limits),
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, name="server")
        thread.start()
        try:
            while not server.started:
                time.sleep(0.01)
                assert thread.is_alive(), "the server did not start"
            yield Served(service, server.servers[0].sockets[0].getsockname()[1])
        finally:
            desk.board.close()
            server.should_exit = True
            thread.join()

"""A service that listens on a port of its own, in a thread of this process: tests look into it while it runs."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import uvicorn

from panprivacy.serve.config import Settings
from panprivacy.serve.http import AppContext, make_app
from panprivacy.serve.http.connections import protocol_for
from panprivacy.serve.service import Service


@dataclass
class Served:
    """A service, and where its page is."""

    service: Service
    port: int
    server: uvicorn.Server

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/"


@contextmanager
def served(settings: Settings, port: int = 0) -> Iterator[Served]:
    """Serve until the block ends, on any free port unless one is asked for."""
    with Service(settings) as service:
        context, tls = AppContext(service), settings.service.tls
        config = uvicorn.Config(
            make_app(context),
            port=port,
            loop="asyncio",
            http=protocol_for(context.limits),
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            ssl_certfile=tls.certificate if tls else None,
            ssl_keyfile=tls.key if tls else None,
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, name="server")
        thread.start()
        try:
            while not server.started:
                time.sleep(0.01)
                assert thread.is_alive(), "the server did not start"
            yield Served(service, server.servers[0].sockets[0].getsockname()[1], server)
        finally:
            context.notifier.close()
            server.should_exit = True
            thread.join()

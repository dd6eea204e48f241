"""What the service kept of refused requests and bad messages, put back, to be found: a function for each leak."""

import gc
from typing import Any
from urllib.parse import urlsplit

from panprivacy.serve import worker
from panprivacy.serve.http import connections, context, guard


def _keep(*_: Any) -> None:
    """In the place of what forgets."""


def _replace(owner: Any, name: str, by: Any) -> None:
    assert hasattr(owner, name), f"there is no {name} to replace"
    setattr(owner, name, by)


def frames_of_refusals() -> None:
    """Exceptions keep the calls that raised them, with the rows in their variables, until the collector comes by."""
    gc.disable()  # when it comes by is chance
    _replace(worker, "drop_frames", _keep)
    _replace(guard, "drop_frames", _keep)


def requests() -> None:
    """A connection keeps its last request, and refers to itself through it."""
    _replace(connections._Connection, "forget", _keep)
    _replace(connections._Connection, "_forget_head", _keep)


def ids_in_addresses() -> None:
    """Paths and queries of all requests, as a log in memory would keep them."""
    kept: list[bytes] = []
    forget = connections._Connection.forget

    def note(self: Any, cycle: Any) -> None:
        kept.append(cycle.scope.get("raw_path", b"") + cycle.scope.get("query_string", b""))
        forget(self, cycle)

    _replace(connections._Connection, "forget", note)


def addresses_of_transports() -> None:
    """A transport of asyncio's that is closed keeps the address of its peer, and refers to itself."""
    _replace(connections, "_forget_address", _keep)


def addresses_of_senders() -> None:
    """The limit of requests remembers senders by their address, as long as there is room."""

    class Plain:
        def __init__(self, sender: bytes, **_: Any) -> None:
            self._sender = sender

        def digest(self) -> bytes:
            return self._sender

    _replace(context, "blake2b", Plain)
    _replace(context.Rates, "forget", _keep)


def names_of_hosts() -> None:
    """The parser of addresses keeps the last ones in a cache."""
    _replace(guard, "_parse_url", urlsplit)

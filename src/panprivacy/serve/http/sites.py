"""Which sites' pages may use the service: its own alone.

A browser says in Host which name it looked up, and in Origin whose page it sends something for. A page of another site
may have its own name lead to this machine (DNS rebinding): then both are the name of that site, and not ours.
"""

from inspect import unwrap
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import Scope

from panprivacy.serve.config import ServiceSettings
from panprivacy.serve.refusals import Refused, Why

_parsed = unwrap(urlsplit)  # which keeps the last addresses that it has parsed in a cache


class Sites:
    """Knows the names of the service. An address in numbers is none that could lead elsewhere, so all are known."""

    def __init__(self, settings: ServiceSettings) -> None:
        self._named = settings.hosts
        self._known = {settings.host.lower(), "localhost", *settings.hosts}

    def check(self, scope: Scope) -> None:
        """Refuse a request for another name, or for a page of another site."""
        headers = Headers(scope=scope)
        host, origin = headers.get("host"), headers.get("origin")
        if host is not None and not self._is_ours(_name_of(f"//{host}")):
            raise Refused(Why.host)
        if origin is not None and not self._is_from(origin, host or "", scope["scheme"]):
            raise Refused(Why.cross_site)

    def _is_ours(self, name: str) -> bool:
        return name in self._known or _is_address(name)

    def _is_from(self, origin: str, host: str, scheme: str) -> bool:
        """Whether a page is from here; a proxy in front, known by `service.hosts`, may have encrypted it."""
        allowed = {scheme, "https"} if _name_of(f"//{host}") in self._named else {scheme}
        return origin.lower() in {f"{each}://{host.lower()}" for each in allowed}


def _name_of(url: str) -> str:
    try:
        return _parsed(url).hostname or ""
    except ValueError:
        return ""


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True

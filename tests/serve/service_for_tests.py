"""Services for tests: settings in few words, and a client that speaks to the application without a network."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from panprivacy.serve.config import Settings, settings_of
from panprivacy.serve.http import AppContext, make_app
from panprivacy.serve.service import Service

EVERYTHING = ("feed", "read", "release", "admin")
FLU: dict[str, Any] = {"kind": "density", "universe": 1000, "epsilon": 1.0, "releases": 3, "column": "user"}


def settings_for(folder: Path, service: dict[str, Any] | None = None, **counters: dict[str, Any]) -> Settings:
    """Settings with these counters, by default one named flu; anybody may do everything unless told otherwise."""
    said = {"anonymous": list(EVERYTHING)} | (service or {})
    tables = {key: said.pop(key) for key in ("tokens", "limits") if key in said}
    return settings_of({"service": said, "counters": counters or {"flu": FLU}, **tables}, folder)


@contextmanager
def client_of(settings: Settings) -> Iterator[TestClient]:
    """A running service, and a client of it."""
    with Service(settings) as service, client_for(service) as client:
        yield client


@contextmanager
def client_for(service: Service) -> Iterator[TestClient]:
    """A client of a service that runs."""
    with TestClient(make_app(AppContext(service)), base_url="http://127.0.0.1") as client:
        yield client

"""What the description of the service promises, the service keeps: schemathesis tries it out."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from service_for_tests import FLU, client_for, settings_for

from panprivacy.ingest.bodies import ContentType
from panprivacy.serve.http import AppContext, make_app
from panprivacy.serve.http.openapi import Counter, Counters, Health, Release, Releases, description
from panprivacy.serve.service import Service

SCHEMA = schemathesis.openapi.from_dict(description()).exclude(path_regex="stream")


@schemathesis.serializer(*(each.value for each in ContentType if each is not ContentType.json))
def as_bytes(_context: Any, value: Any) -> bytes:
    """A body as it is sent."""
    return value if isinstance(value, bytes) else str(value).encode(errors="replace")


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """An application with one counter that many releases are planned for."""
    folder = tmp_path_factory.mktemp("openapi")
    with Service(settings_for(folder, flu=FLU | {"releases": 1000, "delta": 1e-9})) as service:
        yield make_app(AppContext(service))


@pytest.mark.slow
@SCHEMA.parametrize()
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_answer_is_one_that_is_described(case: Any, app: Any) -> None:
    case.call_and_validate(app=app, base_url="http://127.0.0.1", excluded_checks=_UNFIT)


_UNFIT = [
    # A universe is a matter of values, not of shapes: what the description allows may still be refused, with 422.
    schemathesis.checks.positive_data_acceptance,
]


def test_what_is_described_is_what_is_answered(tmp_path: Path) -> None:
    with Service(settings_for(tmp_path)) as service, client_for(service) as client:
        Release.model_validate_json(client.post("/counters/flu/releases").text)
        Releases.model_validate_json(client.get("/counters/flu/releases").text)
        Counter.model_validate_json(client.get("/counters/flu").text)
        Counters.model_validate_json(client.get("/counters").text)
        Health.model_validate_json(client.get("/health").text)
        described = client.get("/openapi.json").json()
        assert described["openapi"] == "3.1.0"
        routes = {route.path for route in client.app.routes if not route.path.startswith(("/static", "/openapi"))}  # type: ignore[attr-defined]
        assert routes - {"/", "/problems"} == set(described["paths"])

"""What the service takes and answers, as OpenAPI has it."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from panprivacy import __version__
from panprivacy.serve.bodies import Form
from panprivacy.serve.http.guard import PROBLEM
from panprivacy.serve.http.shapes import COUNTER_EXAMPLE, RELEASE_EXAMPLE, SHAPES

_ALWAYS = (400, 401, 403, 421, 429, 500)
_NAMED = (*_ALWAYS, 404)
_EXAMPLES = {
    Form.ndjson: '{"user": 17}\n{"user": 42}\n',
    Form.csv: "user\n17\n42\n",
    Form.json: [17, 42],
}


def description() -> dict[str, Any]:
    """The whole description of a service; it is open to all, so it names no counter."""
    name = {
        "name": "name",
        "in": "path",
        "required": True,
        "schema": {"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]*$"},
        "example": "flu",
    }
    paths = {
        "/counters": {"get": _counters()},
        "/counters/{name}": {"parameters": [name], "get": _counter()},
        "/counters/{name}/events": {"parameters": [name], "post": _events()},
        "/counters/{name}/releases": {"parameters": [name], "get": _releases(), "post": _release()},
        "/counters/{name}/stream": {"parameters": [name], "get": _stream("readStream", _NAMED)},
        "/stream": {"get": _stream("readAllStreams", _ALWAYS)},
        "/health": {"get": _health()},
        "/metrics": {"get": _metrics()},
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "panprivacy",
            "version": __version__,
            "description": "Counts who showed up in streams of events, while its memory never holds who.",
        },
        "paths": paths,
        "components": {
            "schemas": SHAPES,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],
    }


def _counters() -> dict[str, Any]:
    example = {"counters": [COUNTER_EXAMPLE], "may": ["read"]}
    return _route("listCounters", "All counters that a token may read.", _json("Counters", example), _ALWAYS)


def _counter() -> dict[str, Any]:
    return _route("readCounter", "One counter, with its last release: free.", _json("Counter", COUNTER_EXAMPLE), _NAMED)


def _events() -> dict[str, Any]:
    action = {
        "name": "action",
        "in": "query",
        "description": "Whether the rows note that users appeared, or take them back.",
        "schema": {"enum": ["insert", "delete"], "default": "insert"},
    }
    content = {form.value: {"schema": {"type": "string"}, "example": example} for form, example in _EXAMPLES.items()}
    content[Form.json.value]["schema"] = {"type": "array", "minItems": 1}
    content[Form.arrow.value] = {"schema": {"type": "string", "format": "binary"}}
    summary = "Count the rows of a body, all of them or none; answered when they are on disk."
    refused = (*_NAMED, 408, 409, 410, 413, 415, 422, 503, 507)
    return _route("sendEvents", summary, {"204": {"description": "All rows are counted, and on disk."}}, refused) | {
        "parameters": [action],
        "requestBody": {"required": True, "content": content},
    }


def _releases() -> dict[str, Any]:
    since = {
        "name": "since",
        "in": "query",
        "description": "Only releases after the one with this id.",
        "schema": {"type": "integer", "minimum": 0, "maximum": 999_999_999},
    }
    answered = _json("Releases", {"releases": [RELEASE_EXAMPLE]})
    summary = "All releases that were published: free."
    return _route("listReleases", summary, answered, _NAMED) | {"parameters": [since]}


def _release() -> dict[str, Any]:
    level = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}
    body = {
        "required": False,
        "content": {
            "application/json": {
                "schema": {"type": "object", "properties": {"level": level}, "additionalProperties": False},
                "example": {"level": 0.95},
            }
        },
    }
    answered = _json("Release", RELEASE_EXAMPLE, status=201)
    refused = (*_NAMED, 408, 409, 410, 413, 503, 507)
    return _route("release", "Spend one planned release.", answered, refused) | {"requestBody": body}


def _stream(name: str, refused: Sequence[int]) -> dict[str, Any]:
    content = {"text/event-stream": {"schema": {"type": "string"}}}
    answered = {
        "200": {
            "description": "Server-sent events named `release`, until either side goes. Their data "
            "are JSON: `counter`, its `next` release and `budget`, and the `release`.",
            "content": content,
        }
    }
    return _route(name, "New releases, as they are published.", answered, refused)


def _health() -> dict[str, Any]:
    answered = _json("Health", {"status": "ok", "failing": [], "version": __version__, "hardening": []})
    failing = _json("Health", {"status": "failing", "failing": ["flu"], "version": __version__, "hardening": []}, 503)
    return _route("health", "Whether states reach the disk, and what hardening is in force.", answered | failing, ())


def _metrics() -> dict[str, Any]:
    content = {"text/plain": {"schema": {"type": "string"}}}
    return _route(
        "metrics", "Metrics for Prometheus.", {"200": {"description": "Metrics.", "content": content}}, _ALWAYS
    )


def _route(name: str, summary: str, answered: dict[str, Any], refused: Sequence[int]) -> dict[str, Any]:
    problem = {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    problems = {
        str(status): {"description": HTTPStatus(status).phrase, "content": problem} for status in sorted(refused)
    }
    return {"operationId": name, "summary": summary, "responses": answered | problems}


def _json(shape: str, example: Any, status: int = 200) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{shape}"}, "example": example}}
    return {str(status): {"description": HTTPStatus(status).phrase, "content": content}}

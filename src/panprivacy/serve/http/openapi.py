"""What the service takes and answers, as OpenAPI describes it; the shapes of answers are models of pydantic."""

from collections.abc import Sequence
from datetime import datetime
from http import HTTPStatus
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.json_schema import models_json_schema

from panprivacy import __version__
from panprivacy.ingest.bodies import ContentType
from panprivacy.serve.config import KINDS
from panprivacy.serve.http.guard import PROBLEM
from panprivacy.serve.service import ReadyState, SourceState
from panprivacy.serve.tokens import ROLES

_ALWAYS = (400, 401, 403, 421, 429, 500)
_NAMED = (*_ALWAYS, 404, 503)
_BODIES = {
    ContentType.ndjson: '{"user": 17}\n{"user": 42}\n',
    ContentType.csv: "user\n17\n42\n",
    ContentType.json: [17, 42],
}
_SCHEMAS = "#/components/schemas/"

# --- Shapes of answers ----------------------------------------------------------------------------------------------


class Answer(BaseModel):
    """An answer with these fields, and no others."""

    model_config = ConfigDict(extra="forbid")


class Value(Answer):
    """An estimate, its standard error and its confidence interval."""

    name: str
    unit: Literal["share", "users", "appearances"]
    value: float
    stderr: float | None
    low: float | None
    high: float | None


class ReleasePeriod(Answer):
    """The period that a release is about."""

    number: int
    until: datetime
    missed: int = Field(ge=0, description="Periods before it that were not released.")


class GroupValues(Answer):
    """The estimates of one group."""

    group: str | int
    values: list[Value]
    mostly_noise: bool = False  # older ones lack it


class Release(Answer):
    """A release that is published. Reading it again costs nothing."""

    id: int = Field(ge=1)
    at: datetime
    period: ReleasePeriod | None
    level: float
    values: list[Value]
    groups: list[GroupValues]
    epsilon_spent: float
    delta_spent: float
    mostly_noise: bool = Field(default=False, description="Whether it says hardly anything.")  # older ones lack it
    release: dict[str, Any] = Field(description="All fields of the release, as the library names them.")


class Budget(Answer):
    """What a counter may spend, and has spent."""

    epsilon: float
    delta: float
    state: float = Field(description="What the state itself could tell: spent from the start.")
    spent: float
    remaining: float
    releases: int | None
    releases_left: int | None
    releases_are: Literal["releases", "moves", "days"]


class Schedule(Answer):
    """When a counter is released."""

    every_seconds: float
    by: Literal["clock", "events"]
    late: str | None


class ColumnNames(Answer):
    """The columns that a counter reads."""

    ids: list[str]
    action: str | None
    time: str | None
    category: str | None


class Counter(Answer):
    """The public status of a counter: its settings, its budget, and the error to expect."""

    name: str
    title: str
    kind: str = Field(json_schema_extra={"enum": list(KINDS)})
    universe: int | None
    groups: list[str | int]
    budget: Budget
    error: dict[str, float | None]
    level: float
    schedule: Schedule | None
    columns: ColumnNames
    repeatable: bool
    retired: bool
    secure: bool
    next: str | None
    last: Release | None


class Counters(Answer):
    """All counters that the sender may read, and its roles."""

    counters: list[Counter]
    damaged: list[str] = Field(default=[], description="Counters that are not served: a file of them is damaged.")
    may: list[str] = Field(json_schema_extra={"items": {"enum": list(ROLES)}})


class Releases(Answer):
    """Releases of one counter, in order; if there are more, ask again since the last of these."""

    releases: list[Release]
    more: bool


class Measure(Answer):
    """A measure that hardens the process."""

    measure: str
    in_force: bool
    note: str


class Health(Answer):
    """Whether states reach the disk, and which measures are in force."""

    status: Literal["ok", "failing"]
    failing: list[str]
    version: str
    hardening: list[Measure]


class Live(Answer):
    """The process answers."""

    status: Literal["live"]


class Ready(Answer):
    """Whether all counters and sources work; the role metrics is told which do not."""

    status: Literal["ready", "not ready"]
    counters: dict[str, ReadyState] | None = None
    sources: dict[str, SourceState] | None = None


class Problem(BaseModel):
    """Problem details of RFC 9457; what was sent is never in it."""

    type: str
    title: str
    status: int
    detail: str = ""
    row: int = Field(default=1, ge=1)


class Level(Answer):
    """The body of a request for a release: the confidence level of its intervals."""

    level: float = Field(default=0.95, gt=0, lt=1)


_SHAPES = (Counters, Counter, Releases, Release, Live, Ready, Health, Problem, Level)

_RELEASE = {
    "id": 1,
    "at": "2026-01-12T00:00:00+00:00",
    "period": {"number": 0, "until": "2026-01-12T00:00:00+00:00", "missed": 0},
    "level": 0.95,
    "values": [{"name": "density", "unit": "share", "value": 0.25, "stderr": 0.01, "low": 0.23, "high": 0.27}],
    "groups": [],
    "epsilon_spent": 0.6,
    "delta_spent": 0.0,
    "mostly_noise": False,
    "release": {"density": 0.25, "number": 1},
}
_COUNTER = {
    "name": "flu",
    "title": "Patients with flu",
    "kind": "density",
    "universe": 1_000_000,
    "groups": [],
    "budget": {
        "epsilon": 1.0,
        "delta": 0.0,
        "state": 0.4,
        "spent": 0.6,
        "remaining": 0.4,
        "releases": 52,
        "releases_left": 51,
        "releases_are": "releases",
    },
    "error": {"density_stderr": 0.0013},
    "level": 0.95,
    "schedule": {"every_seconds": 604800.0, "by": "clock", "late": None},
    "columns": {"ids": ["patient"], "action": None, "time": None, "category": None},
    "repeatable": True,
    "retired": False,
    "secure": True,
    "next": "2026-01-19T00:00:00+00:00",
    "last": _RELEASE,
}

# --- Routes ---------------------------------------------------------------------------------------------------------


def description() -> dict[str, Any]:
    """The description of a service; it is open to all, so it names no counter."""
    name = _parameter("name", "path", {"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]*$"}, "The name of a counter.")
    named = {"parameters": [name | {"required": True, "example": "flu"}]}
    _, schemas = models_json_schema(
        [(shape, "validation") for shape in _SHAPES], ref_template=_SCHEMAS + "{model}", by_alias=True
    )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "panprivacy",
            "version": __version__,
            "description": "Counts who showed up in streams of events, while its memory never holds who.",
        },
        "paths": {path: (named if "{name}" in path else {}) | told for path, told in _paths().items()},
        "components": {
            "schemas": schemas["$defs"],
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],
    }


def _paths() -> dict[str, dict[str, Any]]:
    listed = _json(Counters, {"counters": [_COUNTER], "may": ["read"]})
    layout = "Bytes for `pp.gather`: public parameters, without bits, ids and releases."
    news = _text(
        "text/event-stream",
        "Server-sent events named `release`, until either side goes. Their data are JSON: `counter`, its `next` "
        "release and `budget`, and the `release`.",
    )
    ok = {"status": "ok", "failing": [], "version": __version__, "hardening": []}
    health = _json(Health, ok) | _json(Health, ok | {"status": "failing", "failing": ["flu"]}, 503)
    return {
        "/counters": _route("listCounters", "All counters that a token may read.", listed, _ALWAYS),
        "/counters/{name}": _route(
            "readCounter", "A counter, with its last release: free.", _json(Counter, _COUNTER), _NAMED
        ),
        "/counters/{name}/events": _events(),
        "/counters/{name}/layout": _route(
            "readLayout",
            "Which slot each user owns, for those who send slots.",
            _text("application/octet-stream", layout),
            (*_NAMED, 410, 507),
        ),
        "/counters/{name}/releases": _releases(),
        "/counters/{name}/stream": _route("readStream", "New releases, as they are published.", news, _NAMED),
        "/stream": _route("readAllStreams", "New releases, as they are published.", news, _ALWAYS),
        "/live": _route("live", "The process answers.", _json(Live, {"status": "live"}), ()),
        "/ready": _ready(),
        "/health": _route("health", "Whether states reach the disk, and what hardening is in force.", health, ()),
        "/metrics": _route("metrics", "Metrics for Prometheus.", _text("text/plain", "Metrics."), _ALWAYS),
    }


def _events() -> dict[str, Any]:
    actions = {"enum": ["insert", "delete"], "default": "insert"}
    action = _parameter("action", "query", actions, "Whether the rows note that users appeared, or take them back.")
    content = {each.value: {"schema": {"type": "string"}, "example": example} for each, example in _BODIES.items()}
    content[ContentType.json.value]["schema"] = {"type": "array", "minItems": 1}
    for binary in (ContentType.arrow, ContentType.slots):
        content[binary.value] = {"schema": {"type": "string", "format": "binary"}}
    summary = "Count the rows of a body, all of them or none; answered when they are on disk."
    answered, refused = {"description": "All rows are counted, and on disk."}, (408, 409, 410, 413, 415, 422, 507)
    more = {"parameters": [action], "requestBody": {"required": True, "content": content}}
    return _route("sendEvents", summary, {"204": answered}, (*_NAMED, *refused), "post", **more)


def _releases() -> dict[str, Any]:
    ids = {"type": "integer", "minimum": 0, "maximum": 999_999_999}
    since = _parameter("since", "query", ids, "Only releases after the one with this id.")
    listed = _json(Releases, {"releases": [_RELEASE], "more": False})
    summary = "Releases that were published, about 1 MiB at a time: free."
    get = _route("listReleases", summary, listed, _NAMED, parameters=[since])
    said = (
        "A text of the sender's choice. A request with the key of an earlier one gets the release of the earlier one."
    )
    key = _parameter("Idempotency-Key", "header", {"type": "string", "minLength": 1, "maxLength": 255}, said)
    body = {"required": False, "content": _json(Level, {"level": 0.95})["200"]["content"]}
    refused, more = (*_NAMED, 408, 409, 410, 413, 507), {"parameters": [key], "requestBody": body}
    released = _json(Release, _RELEASE, status=201)
    return get | _route("release", "Spend one planned release.", released, refused, "post", **more)


def _ready() -> dict[str, Any]:
    unreachable = {"state": "unreachable", "reason": "connection refused"}
    counters = {"flu": {"state": "ready", "reason": None}}
    failing = _json(Ready, {"status": "not ready", "counters": counters, "sources": {"flu": unreachable}}, 503)
    summary = "Whether all counters and sources do what they should; with the role metrics, which do not, and why."
    return _route("ready", summary, _json(Ready, {"status": "ready"}) | failing, (400, 401, 421, 429, 500))


def _parameter(name: str, place: str, schema: dict[str, Any], told: str) -> dict[str, Any]:
    return {"name": name, "in": place, "schema": schema, "description": told}


def _route(
    name: str, summary: str, answered: dict[str, Any], refused: Sequence[int], method: str = "get", **more: Any
) -> dict[str, Any]:
    problem = {PROBLEM: {"schema": {"$ref": _SCHEMAS + Problem.__name__}}}
    problems = {
        str(status): {"description": HTTPStatus(status).phrase, "content": problem} for status in sorted(refused)
    }
    return {method: {"operationId": name, "summary": summary, "responses": answered | problems, **more}}


def _json(shape: type[BaseModel], example: Any, status: int = 200) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": _SCHEMAS + shape.__name__}, "example": example}}
    return {str(status): {"description": HTTPStatus(status).phrase, "content": content}}


def _text(media_type: str, told: str) -> dict[str, Any]:
    return {"200": {"description": told, "content": {media_type: {"schema": {"type": "string"}}}}}

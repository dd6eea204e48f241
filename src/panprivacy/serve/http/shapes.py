"""The shapes of what is answered, as JSON Schema has them, each with an example."""

from typing import Any

_NUMBER = {"type": ["number", "null"]}
_TEXT = {"type": ["string", "null"]}

VALUE_EXAMPLE = {"name": "density", "unit": "share", "value": 0.25, "stderr": 0.01, "low": 0.23, "high": 0.27}
RELEASE_EXAMPLE = {
    "id": 1,
    "at": "2026-01-12T00:00:00+00:00",
    "period": {"number": 0, "until": "2026-01-12T00:00:00+00:00", "missed": 0},
    "level": 0.95,
    "values": [VALUE_EXAMPLE],
    "groups": [],
    "epsilon_spent": 0.6,
    "delta_spent": 0.0,
    "mostly_noise": False,
    "release": {"density": 0.25, "number": 1},
}
COUNTER_EXAMPLE = {
    "name": "flu",
    "title": "Patients with flu",
    "kind": "density",
    "universe": 1_000_000,
    "groups": [],
    "budget": {
        "epsilon": 1.0,
        "delta": 0.0,
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
    "last": RELEASE_EXAMPLE,
}


def _object(fields: dict[str, Any], *, optional: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    required = [name for name in fields if name not in optional]
    return {"type": "object", "properties": fields, "required": required, "additionalProperties": False} | more


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _list(of: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": of}


def _either(shape: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [shape, {"type": "null"}]}


_LABEL = {"type": ["string", "integer"]}

SHAPES: dict[str, Any] = {
    "Value": _object(
        {
            "name": {"type": "string"},
            "unit": {"enum": ["share", "users", "appearances"]},
            "value": {"type": "number"},
            "stderr": _NUMBER,
            "low": _NUMBER,
            "high": _NUMBER,
        },
        description="An estimate, its standard error and its confidence interval.",
        examples=[VALUE_EXAMPLE],
    ),
    "Release": _object(
        {
            "id": {"type": "integer", "minimum": 1},
            "at": {"type": "string", "format": "date-time"},
            "period": _either(
                _object(
                    {
                        "number": {"type": "integer"},
                        "until": {"type": "string", "format": "date-time"},
                        "missed": {"type": "integer", "minimum": 0},
                    }
                )
            ),
            "level": {"type": "number"},
            "values": _list(_ref("Value")),
            "groups": _list(_object({"group": _LABEL, "values": _list(_ref("Value"))})),
            "epsilon_spent": {"type": "number"},
            "delta_spent": {"type": "number"},
            "mostly_noise": {"type": "boolean", "description": "Whether it says hardly anything."},
            "release": {"type": "object", "description": "All fields of the release, as the library names them."},
        },
        optional=("mostly_noise",),  # releases of older versions have none
        description="A release that is published. It can be read as often as anybody likes.",
        examples=[RELEASE_EXAMPLE],
    ),
    "Counter": _object(
        {
            "name": {"type": "string"},
            "title": {"type": "string"},
            "kind": {"enum": ["density", "distinct", "counts", "actives", "retention", "continual"]},
            "universe": {"type": ["integer", "null"]},
            "groups": _list(_LABEL),
            "budget": _object(
                {
                    "epsilon": {"type": "number"},
                    "delta": {"type": "number"},
                    "spent": {"type": "number"},
                    "remaining": {"type": "number"},
                    "releases": {"type": ["integer", "null"]},
                    "releases_left": {"type": ["integer", "null"]},
                    "releases_are": {"enum": ["releases", "moves", "days"]},
                }
            ),
            "error": {"type": "object", "additionalProperties": _NUMBER},
            "level": {"type": "number"},
            "schedule": _either(
                _object({"every_seconds": {"type": "number"}, "by": {"enum": ["clock", "events"]}, "late": _TEXT})
            ),
            "columns": _object({"ids": _list({"type": "string"}), "action": _TEXT, "time": _TEXT, "category": _TEXT}),
            "repeatable": {"type": "boolean"},
            "retired": {"type": "boolean"},
            "secure": {"type": "boolean"},
            "next": _TEXT,
            "last": _either(_ref("Release")),
        },
        description="What is public about a counter: its promise, its budget, and the error to expect.",
        examples=[COUNTER_EXAMPLE],
    ),
    "Counters": _object({"counters": _list(_ref("Counter")), "may": _list({"type": "string"})}),
    "Releases": _object({"releases": _list(_ref("Release"))}),
    "Health": _object(
        {
            "status": {"enum": ["ok", "failing"]},
            "failing": _list({"type": "string"}),
            "version": {"type": "string"},
            "hardening": _list(
                _object({"measure": {"type": "string"}, "in_force": {"type": "boolean"}, "note": {"type": "string"}})
            ),
        }
    ),
    "Problem": {
        "type": "object",
        "properties": {
            "type": {"type": "string"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "detail": {"type": "string"},
            "row": {"type": "integer", "minimum": 1},
        },
        "required": ["type", "title", "status"],
        "description": "Problem details of RFC 9457; what was sent is never in it.",
    },
}
"""By their names."""

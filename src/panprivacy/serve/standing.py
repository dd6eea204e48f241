"""What is public about a counter: what it promises, what is spent and left, how far a release will be off."""

from typing import Any

from panprivacy.serve.config import CounterSettings


def standing_of(settings: CounterSettings, est: Any) -> dict[str, Any]:
    """All but what moves by itself, for JSON; reading it costs nothing."""
    columns = settings.columns
    return {
        "name": settings.name,
        "title": settings.title or settings.name,
        "kind": settings.kind,
        "universe": None if settings.of.open else est.universe.size,
        "groups": list(getattr(est, "groups", None) or ()),
        "budget": _budget(settings, est),
        "error": settings.of.error(est),
        "level": settings.level,
        "schedule": _schedule(settings),
        "columns": {
            "ids": list(columns.ids),
            "action": columns.action,
            "time": columns.time,
            "category": columns.category,
        },
        "repeatable": getattr(est, "REPEATABLE", True),
        "retired": settings.retired,
        "secure": est.secure,
    }


def _budget(settings: CounterSettings, est: Any) -> dict[str, Any]:
    budget, left = est.budget, settings.of.left(est)
    planned = getattr(budget, "releases", getattr(budget, "moves", None))
    return {
        "epsilon": est.epsilon,
        "delta": est.delta,
        "spent": budget.spent,
        "remaining": budget.remaining,
        "releases": None if left is None else planned,
        "releases_left": left,
        "releases_are": {"continual": "moves", "actives": "days"}.get(settings.kind, "releases"),
    }


def _schedule(settings: CounterSettings) -> dict[str, Any] | None:
    schedule = settings.schedule
    if schedule is None:
        return None
    by, late = "clock" if schedule.by_clock else "events", None if schedule.time is None else schedule.late
    return {"every_seconds": schedule.every / 1e6, "by": by, "late": late}

"""Plan a deployment: how many bits, how much memory, what error, before any data comes in."""

from panprivacy.plan.planning import plan
from panprivacy.plan.result import Plan

__all__ = ["Plan", "plan"]

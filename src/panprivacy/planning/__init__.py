"""Plan a deployment: how many bits, how much memory, what error, before any data comes in."""

from panprivacy.planning.planner import plan
from panprivacy.planning.result import Plan

__all__ = ["Plan", "plan"]

"""Pan-private stream statistics: count who showed up while the memory never holds who.

>>> import panprivacy as pp
>>> est = pp.Density(universe=1_000_000, epsilon=1.0)
>>> est.update_many(range(0, 1_000_000, 4))
>>> r = est.release()
>>> abs(r.density - 0.25) < 0.01
True
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from panprivacy.counts import Counts
from panprivacy.density import Density
from panprivacy.distinct import DistinctCount
from panprivacy.errors import (
    BudgetExhausted,
    CannotMerge,
    CannotPlan,
    CorruptState,
    EarlyEvent,
    LateEvent,
    NotPrivate,
    OtherUniverse,
    OutsideUniverse,
    PanPrivacyError,
)
from panprivacy.planning import CountsPlan, Plan, plan
from panprivacy.privacy.budget import Budget
from panprivacy.release import CategoryRelease, CountRelease, FrequencyRelease, MonotoneCurve, Release, monotone
from panprivacy.state import StateFile
from panprivacy.state.loading import load
from panprivacy.state.merging import merge
from panprivacy.threads import use_threads
from panprivacy.universe import Edges, Ids, Users

if TYPE_CHECKING:
    from panprivacy import audit as audit
    from panprivacy import paper as paper
    from panprivacy import theory as theory
    from panprivacy.actives import ActiveUsers
    from panprivacy.continual import Continual
    from panprivacy.folder import StateFolder
    from panprivacy.hardening import harden
    from panprivacy.planning.periods import plan_periods
    from panprivacy.release.actives import ActivesRelease
    from panprivacy.release.retention import RetentionRelease
    from panprivacy.retention import Retention
    from panprivacy.windows import Windows

__version__ = "0.1.0"

__all__ = [
    "ActiveUsers",
    "ActivesRelease",
    "Budget",
    "BudgetExhausted",
    "CannotMerge",
    "CannotPlan",
    "CategoryRelease",
    "Continual",
    "CorruptState",
    "CountRelease",
    "Counts",
    "CountsPlan",
    "Density",
    "DistinctCount",
    "EarlyEvent",
    "Edges",
    "FrequencyRelease",
    "Ids",
    "LateEvent",
    "MonotoneCurve",
    "NotPrivate",
    "OtherUniverse",
    "OutsideUniverse",
    "PanPrivacyError",
    "Plan",
    "Release",
    "Retention",
    "RetentionRelease",
    "StateFile",
    "StateFolder",
    "Users",
    "Windows",
    "harden",
    "load",
    "merge",
    "monotone",
    "plan",
    "plan_periods",
    "use_threads",
]

_MODULES_ON_DEMAND = {"audit", "paper", "theory"}
_ON_DEMAND = {
    "ActiveUsers": "panprivacy.actives",
    "ActivesRelease": "panprivacy.release.actives",
    "Continual": "panprivacy.continual",
    "Retention": "panprivacy.retention",
    "RetentionRelease": "panprivacy.release.retention",
    "StateFolder": "panprivacy.folder",
    "Windows": "panprivacy.windows",
    "harden": "panprivacy.hardening",
    "plan_periods": "panprivacy.planning.periods",
}


if not TYPE_CHECKING:  # a type checker would take every name, misspelt ones too, for one that is found here

    def __getattr__(name: str) -> Any:
        """Import the parts that few programs need when they are first used."""
        if name in _MODULES_ON_DEMAND:
            return import_module(f"panprivacy.{name}")
        if name in _ON_DEMAND:
            return getattr(import_module(_ON_DEMAND[name]), name)
        raise AttributeError(f"module 'panprivacy' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES_ON_DEMAND})

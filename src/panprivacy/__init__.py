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

from panprivacy.kernels import load_late

load_late()

if TYPE_CHECKING:
    from panprivacy import audit as audit
    from panprivacy import paper as paper
    from panprivacy import theory as theory
    from panprivacy.client import Client as Client
    from panprivacy.display import use_progress as use_progress
    from panprivacy.errors import BudgetExhausted as BudgetExhausted
    from panprivacy.errors import CannotMerge as CannotMerge
    from panprivacy.errors import CannotPlan as CannotPlan
    from panprivacy.errors import CorruptState as CorruptState
    from panprivacy.errors import EarlyEvent as EarlyEvent
    from panprivacy.errors import InvalidType as InvalidType
    from panprivacy.errors import InvalidValue as InvalidValue
    from panprivacy.errors import LateEvent as LateEvent
    from panprivacy.errors import NotPrivate as NotPrivate
    from panprivacy.errors import OtherUniverse as OtherUniverse
    from panprivacy.errors import OutsideUniverse as OutsideUniverse
    from panprivacy.errors import PanPrivacyError as PanPrivacyError
    from panprivacy.errors import ServiceUnavailable as ServiceUnavailable
    from panprivacy.estimates import CountRelease as CountRelease
    from panprivacy.estimates import Estimate as Estimate
    from panprivacy.estimates import FrequencyRelease as FrequencyRelease
    from panprivacy.estimates import MonotoneCurve as MonotoneCurve
    from panprivacy.estimates import Release as Release
    from panprivacy.estimates import monotone as monotone
    from panprivacy.estimates.actives import ActivesRelease as ActivesRelease
    from panprivacy.estimates.retention import RetentionRelease as RetentionRelease
    from panprivacy.estimators.actives import ActiveUsers as ActiveUsers
    from panprivacy.estimators.continual import Continual as Continual
    from panprivacy.estimators.counts import Counts as Counts
    from panprivacy.estimators.density import Density as Density
    from panprivacy.estimators.distinct import DistinctCount as DistinctCount
    from panprivacy.estimators.merge import merge as merge
    from panprivacy.estimators.retention import Retention as Retention
    from panprivacy.estimators.windows import Windows as Windows
    from panprivacy.folder import StateFolder as StateFolder
    from panprivacy.folder import gather as gather
    from panprivacy.memory.hardening import harden as harden
    from panprivacy.memory.threads import use_threads as use_threads
    from panprivacy.planning import Plan as Plan
    from panprivacy.planning import plan as plan
    from panprivacy.planning.advisor import Advice as Advice
    from panprivacy.planning.advisor import advise as advise
    from panprivacy.planning.periods import plan_periods as plan_periods
    from panprivacy.privacy.budget import Budget as Budget
    from panprivacy.state import StateFile as StateFile
    from panprivacy.state import load as load
    from panprivacy.universe import Edges as Edges
    from panprivacy.universe import Ids as Ids
    from panprivacy.universe import Users as Users

__version__ = "0.2.0"

_MODULES = ("audit", "paper", "theory")
_HOME = {  # each public name is imported when it is first used: kernels take a second to load
    "ActiveUsers": "estimators.actives",
    "ActivesRelease": "estimates.actives",
    "Advice": "planning.advisor",
    "Budget": "privacy.budget",
    "BudgetExhausted": "errors",
    "CannotMerge": "errors",
    "CannotPlan": "errors",
    "Client": "client",
    "Continual": "estimators.continual",
    "CorruptState": "errors",
    "CountRelease": "estimates",
    "Counts": "estimators.counts",
    "Density": "estimators.density",
    "DistinctCount": "estimators.distinct",
    "EarlyEvent": "errors",
    "Edges": "universe",
    "Estimate": "estimates",
    "FrequencyRelease": "estimates",
    "Ids": "universe",
    "InvalidType": "errors",
    "InvalidValue": "errors",
    "LateEvent": "errors",
    "MonotoneCurve": "estimates",
    "NotPrivate": "errors",
    "OtherUniverse": "errors",
    "OutsideUniverse": "errors",
    "PanPrivacyError": "errors",
    "Plan": "planning",
    "Release": "estimates",
    "Retention": "estimators.retention",
    "RetentionRelease": "estimates.retention",
    "ServiceUnavailable": "errors",
    "StateFile": "state",
    "StateFolder": "folder",
    "Users": "universe",
    "Windows": "estimators.windows",
    "advise": "planning.advisor",
    "gather": "folder",
    "harden": "memory.hardening",
    "load": "state",
    "merge": "estimators.merge",
    "monotone": "estimates",
    "plan": "planning",
    "plan_periods": "planning.periods",
    "use_progress": "display",
    "use_threads": "memory.threads",
}
__all__ = list(_HOME)

if not TYPE_CHECKING:  # a type checker would accept every name here, also misspelt ones

    def __getattr__(name: str) -> Any:
        """Import a name when it is used, and keep it."""
        if name in _MODULES:
            return import_module(f"panprivacy.{name}")
        if name not in _HOME:
            raise AttributeError(f"module 'panprivacy' has no attribute {name!r}")
        globals()[name] = found = getattr(import_module(f"panprivacy.{_HOME[name]}"), name)
        return found


def __dir__() -> list[str]:
    return sorted({*_HOME, *_MODULES, "__version__"})

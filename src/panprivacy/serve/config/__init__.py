"""The file that says what is counted, for whom, and within which limits."""

from panprivacy.serve.config.counters import CounterSettings, ScheduleSettings
from panprivacy.serve.config.reading import Settings, read_settings, settings_of
from panprivacy.serve.config.service import Limits, ServiceSettings, Tls
from panprivacy.serve.config.table import BadConfig

__all__ = [
    "BadConfig",
    "CounterSettings",
    "Limits",
    "ScheduleSettings",
    "ServiceSettings",
    "Settings",
    "Tls",
    "read_settings",
    "settings_of",
]

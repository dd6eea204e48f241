"""What a release says: estimates, their errors, how they are shown and drawn."""

from panprivacy.estimates.errors import ErrorModel
from panprivacy.estimates.estimate import Estimate, Series
from panprivacy.estimates.frequency import FrequencyRelease
from panprivacy.estimates.release import AnyRelease, Cost, CountRelease, Release
from panprivacy.estimates.smoothing import MonotoneCurve, monotone

__all__ = [
    "AnyRelease",
    "Cost",
    "CountRelease",
    "ErrorModel",
    "Estimate",
    "FrequencyRelease",
    "MonotoneCurve",
    "Release",
    "Series",
    "monotone",
]

"""Releases: what leaves, and the law of its error."""

from panprivacy.release.categories import CategoryRelease
from panprivacy.release.count import CountRelease
from panprivacy.release.curve import MonotoneCurve, monotone
from panprivacy.release.density import Release
from panprivacy.release.frequency import FrequencyRelease
from panprivacy.release.groups import GroupCount, GroupDensity
from panprivacy.release.often import GroupFrequency
from panprivacy.release.spread import Spread
from panprivacy.release.spreads import Spreads

__all__ = [
    "CategoryRelease",
    "CountRelease",
    "FrequencyRelease",
    "GroupCount",
    "GroupDensity",
    "GroupFrequency",
    "MonotoneCurve",
    "Release",
    "Spread",
    "Spreads",
    "monotone",
]

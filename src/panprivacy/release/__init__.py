"""Releases: what leaves, and the law of its error."""

from panprivacy.release.count import CountRelease
from panprivacy.release.curve import MonotoneCurve, monotone
from panprivacy.release.density import Release
from panprivacy.release.frequency import FrequencyRelease
from panprivacy.release.spread import Spread

__all__ = ["CountRelease", "FrequencyRelease", "MonotoneCurve", "Release", "Spread", "monotone"]

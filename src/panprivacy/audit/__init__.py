"""Run the shipping code under every outcome of its coins, and find the worst that anybody can learn.

`exact` enumerates small cases and proves; `sampled` runs large ones many times and can only disprove; `image` looks for
traces of users in the memory of a process and in its files.
"""

from panprivacy.audit.enumeration import Removal, exact
from panprivacy.audit.enumeration.outcomes import EveryOutcome, TooManyOutcomes
from panprivacy.audit.enumeration.search import READ, REDRAW, RELEASE
from panprivacy.audit.enumeration.wording import Result, Witness
from panprivacy.audit.memory import Imaged, image
from panprivacy.audit.sampling import Bound, sampled

__all__ = [
    "READ",
    "REDRAW",
    "RELEASE",
    "Bound",
    "EveryOutcome",
    "Imaged",
    "Removal",
    "Result",
    "TooManyOutcomes",
    "Witness",
    "exact",
    "image",
    "sampled",
]

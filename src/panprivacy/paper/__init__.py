"""The paper's algorithms exactly as it prints them, flaws included, for study and for its figures.

Digalakis, Karystinos, Garofalakis: "Improved Pan-Private Stream Density Estimation". `epsilon` is the paper's: the
budget of the state alone, where a total of ``2 * epsilon`` is claimed. ``docs/paper.md`` says where each definition,
theorem, algorithm and figure is, and what is wrong in which. Only `FixedLevelPPDS`, PPDS repaired, and the two
mechanisms of section 2.1 are private.
"""

from panprivacy.paper.continuous import Continuous
from panprivacy.paper.distinct_sampling import DistinctSampling
from panprivacy.paper.dwork import Dwork
from panprivacy.paper.fixed_level import FixedLevelPPDS
from panprivacy.paper.flaws import NotPrivateAsPrinted
from panprivacy.paper.hashing import FMHash
from panprivacy.paper.mechanisms import LaplaceMechanism, RandomizedResponse
from panprivacy.paper.optbern import OptBern
from panprivacy.paper.ppds import PPDS

__all__ = [
    "PPDS",
    "Continuous",
    "DistinctSampling",
    "Dwork",
    "FMHash",
    "FixedLevelPPDS",
    "LaplaceMechanism",
    "NotPrivateAsPrinted",
    "OptBern",
    "RandomizedResponse",
]

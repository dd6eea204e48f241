"""The paper's algorithms exactly as it prints them, flaws included, for study and for its figures.

Digalakis, Karystinos, Garofalakis: "Improved Pan-Private Stream Density Estimation". `epsilon` is the paper's: the
budget of the state alone, where a total of ``2 * epsilon`` is claimed. ``docs/explanation/paper.md`` says where each
definition, theorem, algorithm and figure is, and what is wrong in which. Only `FixedLevelPPDS`, PPDS repaired, and
the two mechanisms of section 2.1 are private.

>>> for algorithm in (Dwork, OptBern, Continuous, PPDS):
...     est = algorithm(universe=100_000, epsilon=0.5, sample=50_000)
...     est.update_many(range(25_000))
...     print(algorithm.__name__, abs(est.estimate() - 0.25) < 0.1)
Dwork True
OptBern True
Continuous True
PPDS True
"""

from panprivacy.paper.density import Dwork, OptBern
from panprivacy.paper.fixed_level import FixedLevelPPDS
from panprivacy.paper.mechanisms import Continuous, LaplaceMechanism, RandomizedResponse
from panprivacy.paper.ppds import PPDS, DistinctSampling, FMHash
from panprivacy.paper.printed import NotPrivateAsPrinted

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

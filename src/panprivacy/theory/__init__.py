"""The paper's theory as pure functions: pairs, privacy losses, errors, tail bounds and sample sizes.

Every function takes scalars or arrays, broadcast as NumPy does; scalars in, a Python number out. ``epsilon``
is the paper's: the budget of the state alone, where the printed theorems claim a total of ``2 * epsilon``.
Theorems are numbered as the paper numbers them, by section: Dwork 3.1-3.3, OptBern 4.1-4.3, PPDS 5.1-5.2.
"""

from panprivacy.theory.accuracy import discrete_laplace_variance, error_bound, mse, mse_bound, sample_size
from panprivacy.theory.pairs import actual_epsilon, dwork_pair, joint_loss, ratios, symmetric_pair, total_loss

__all__ = [
    "actual_epsilon",
    "discrete_laplace_variance",
    "dwork_pair",
    "error_bound",
    "joint_loss",
    "mse",
    "mse_bound",
    "ratios",
    "sample_size",
    "symmetric_pair",
    "total_loss",
]

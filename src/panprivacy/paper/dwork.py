"""Alg. 1: the conventional pan-private density estimator."""

from typing import Self

from panprivacy.paper import flaws, printed_pairs
from panprivacy.paper.printed import Printed
from panprivacy.paper.sampled_bits import SampledBits, sample_for
from panprivacy.privacy.coins import Coins
from panprivacy.universe import Universe


class Dwork(Printed):
    r"""The density estimator of Dwork et al. (2010), as the paper prints it.

    Every user of a random sample of m owns a bit, at first Bernoulli(1/2); an appearance redraws it as
    Bernoulli(1/2 + epsilon/4). The estimate is

        (4/epsilon) * (share of ones - 1/2) + Laplace(1/(epsilon m)).

    Parameters
    ----------
    universe
        The users there could be: a number N for ids 0..N-1, `pp.Users` or `pp.Edges`.
    epsilon
        The paper's budget, in (0, 2); the theorems ask for at most 1/2 and claim ``2 * epsilon``.
    sample
        Number of sampled users m. `for_accuracy` takes the printed inputs (alpha, beta) instead.
    coins
        The source of randomness.

    Examples
    --------
    >>> import warnings
    >>> warnings.simplefilter("ignore", flaws.NotPrivateAsPrinted)
    >>> est = Dwork(universe=100_000, epsilon=0.5, sample=50_000)
    >>> est.update_many(range(25_000))
    >>> abs(est.estimate() - 0.25) < 0.1
    True
    >>> est.claimed_epsilon
    1.0
    >>> est.known_flaws[0][-56:]
    'state and output together lose 3.829 where 1 is claimed.'

    Notes
    -----
    Alg. 1; Thm 3.1-3.3 are in `panprivacy.theory`. **Not private as printed**: see `known_flaws`, and use
    `panprivacy.Density`.
    """

    def __init__(self, universe: int | Universe, epsilon: float, sample: int, *, coins: Coins | None = None) -> None:
        pair = printed_pairs.dwork(float(epsilon))
        super().__init__(
            universe, epsilon, coins, lambda users, coins: SampledBits(users, sample, pair, float(epsilon), coins)
        )
        flaws.warn(self)

    @classmethod
    def for_accuracy(
        cls, universe: int | Universe, epsilon: float, alpha: float, beta: float, *, coins: Coins | None = None
    ) -> Self:
        """Sample m* users, for whom ``P(|estimate - density| >= alpha) <= beta`` is proved."""
        return cls(universe, epsilon, sample_for("dwork", universe, epsilon, alpha, beta), coins=coins)

    @property
    def known_flaws(self) -> tuple[str, ...]:
        return flaws.noise_too_small("dwork", self._epsilon), flaws.budget_unused(self._epsilon)

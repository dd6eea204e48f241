"""Alg. 2: the improved pan-private density estimator."""

from typing import Self

from panprivacy.paper import flaws, printed_pairs
from panprivacy.paper.printed import Printed
from panprivacy.paper.sampled_bits import SampledBits, sample_for
from panprivacy.privacy.coins import Coins
from panprivacy.universe import Universe


class OptBern(Printed):
    r"""Dwork's estimator with the pair of coins that uses all of the state's budget, as the paper prints it.

    Every user of a random sample of m owns a bit, at first Bernoulli(p_init); an appearance redraws it as
    Bernoulli(p_upd), with ``p_init = c(1 - tanh(epsilon/2))`` and ``p_upd = c(1 + tanh(epsilon/2))``. The estimate is

        (share of ones - p_init) / (p_upd - p_init) + Laplace(1/(epsilon m)).

    Parameters
    ----------
    universe
        The users there could be: a number N for ids 0..N-1, `pp.Users` or `pp.Edges`.
    epsilon
        The paper's budget; the theorems ask for at most 1/2 and claim ``2 * epsilon``.
    sample
        Number of sampled users m. `for_accuracy` takes the printed inputs (alpha, beta) instead.
    c
        Centre of the pair. The listing has 1/2; section 4.2 allows up to 4/5, **which is not private**.
    coins
        The source of randomness.

    Examples
    --------
    >>> import warnings
    >>> warnings.simplefilter("ignore", flaws.NotPrivateAsPrinted)
    >>> est = OptBern(universe=100_000, epsilon=0.5, sample=50_000)
    >>> est.update_many(range(25_000))
    >>> abs(est.estimate() - 0.25) < 0.05
    True
    >>> print(OptBern(100, 0.5, 10, c=0.8).known_flaws[0])
    c = 0.8 is above 1/2, and the state alone then loses 4.579 where 0.5 is claimed.

    Notes
    -----
    Alg. 2; Thm 4.1-4.3 are in `panprivacy.theory`. **Not private as printed**: see `known_flaws`, and use
    `panprivacy.Density`, which is this with noise of the right size.
    """

    def __init__(
        self, universe: int | Universe, epsilon: float, sample: int, c: float = 0.5, *, coins: Coins | None = None
    ) -> None:
        self._c = float(c)
        pair = printed_pairs.optbern(float(epsilon), self._c)
        super().__init__(
            universe, epsilon, coins, lambda users, coins: SampledBits(users, sample, pair, float(epsilon), coins)
        )
        flaws.warn(self)

    @classmethod
    def for_accuracy(
        cls, universe: int | Universe, epsilon: float, alpha: float, beta: float, *, coins: Coins | None = None
    ) -> Self:
        """Sample m* users, for whom ``P(|estimate - density| >= alpha) <= beta`` is proved."""
        return cls(universe, epsilon, sample_for("optbern", universe, epsilon, alpha, beta), coins=coins)

    @property
    def known_flaws(self) -> tuple[str, ...]:
        too_high = (flaws.centre_too_high(self._epsilon, self._c),) if self._c > 0.5 else ()
        return *too_high, flaws.noise_too_small("optbern", self._epsilon, self._c)

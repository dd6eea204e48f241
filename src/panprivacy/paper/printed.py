"""The common part of the printed algorithms: their verbs, their flaws in numbers, and the warning about them."""

import warnings
from abc import ABC, abstractmethod
from math import exp, inf, log, log1p, tanh
from typing import Any, ClassVar

import numpy as np

from panprivacy import theory
from panprivacy.memory.scratch import Scratch
from panprivacy.privacy import coins as coin_sources
from panprivacy.privacy.coins import Coins
from panprivacy.universe import Ids, Universe, universe_of
from panprivacy.universe.columns import batches, chunks
from panprivacy.universe.integers import Words


class Printed(ABC):
    """A density estimator as the paper prints it, flaws included: the verbs.

    A subclass defines its state, the effect of an event, its estimate, and its flaws.
    """

    alternative: ClassVar[str] = "panprivacy.Density"
    """What to use instead."""

    def __init__(self, universe: int | Universe, epsilon: float, sample: int, coins: Coins | None) -> None:
        self.universe: Universe = universe_of(universe)
        """The users there could be; the paper numbers them from 1, here they are 0..N-1."""
        self.epsilon: float = float(epsilon)
        """The paper's privacy budget: of the state alone."""
        self.sample: int = int(sample)
        """The m of the paper: how many users are sampled, or fill the set."""
        self._coins = coins or coin_sources.system

    @property
    @abstractmethod
    def known_flaws(self) -> tuple[str, ...]:
        """Flaws of the algorithm as printed, the worst first."""

    @abstractmethod
    def estimate(self) -> float:
        """The printed estimate of the density, noise included.

        It may be asked at any time, and the stream may go on after it. Asking twice spends twice: the noise is drawn
        anew, and the printed theorems cover one output.
        """

    @property
    @abstractmethod
    def state(self) -> Any:
        """Everything that the algorithm keeps, in a form that can be read and compared."""

    @abstractmethod
    def redraw(self, indices: Words, remove: bool) -> None:
        """Process insertions or deletions of the users at these positions, in order."""

    def update(self, user: Any) -> None:
        """Note that a user appeared."""
        self.redraw(np.array([self.universe.index(user)], dtype=np.uint64), remove=False)

    def remove(self, user: Any) -> None:
        """Note that a user was deleted (second remark of section 3): its state is redrawn as at the start."""
        self.redraw(np.array([self.universe.index(user)], dtype=np.uint64), remove=True)

    def update_many(self, ids: Ids) -> None:
        """Note that these users appeared, in this order; takes what `Density.update_many` takes."""
        self._redraw_many(ids, remove=False)

    def remove_many(self, ids: Ids) -> None:
        """Note that these users were deleted, in this order."""
        self._redraw_many(ids, remove=True)

    def _redraw_many(self, ids: Any, remove: bool) -> None:
        for pieces in batches(self.universe.as_column(ids)):
            known = [self.universe.indices(chunk, Scratch()) for chunk in chunks(pieces)]
            for indices in known:  # after all were looked up: a batch with a stranger changes nothing
                self.redraw(indices, remove)

    @property
    def claimed_epsilon(self) -> float:
        """The pan-privacy that the paper claims: ``2 * epsilon``."""
        return 2 * self.epsilon

    @property
    def secure(self) -> bool:
        """Whether the coins came from the operating system. It says nothing of the algorithm."""
        return self._coins.secure

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} over {self.universe.describe()}, epsilon {self.epsilon:g} as printed; "
            f"see known_flaws>"
        )


class NotPrivateAsPrinted(UserWarning):
    """The algorithm does not keep the promise that its paper makes; it is here to be studied.

    It is given once for each algorithm, and turned off like any warning:

    >>> import warnings
    >>> warnings.simplefilter("ignore", NotPrivateAsPrinted)
    """


_warned: set[type[Printed]] = set()


def warn(algorithm: Printed) -> None:
    """Warn of an algorithm's first flaw, unless that was done before; to be called by its constructor.

    The warning points at the line that called the constructor.
    """
    kind = type(algorithm)
    if kind in _warned:
        return
    warnings.warn(
        f"{kind.__name__} is not private as printed. {algorithm.known_flaws[0]} "
        f"Use it for study only, and {algorithm.alternative} for people.",
        NotPrivateAsPrinted,
        stacklevel=3,
    )
    _warned.add(kind)  # only now: a warning that was raised as an error is due again


def noise_too_small(algorithm: str, epsilon: float, c: float = 0.5) -> str:
    """The output noise of Alg. 1-3 suits a sum of ones, and is added after the sum was scaled."""
    if c == 0.5:
        bound, loss = "", float(theory.joint_loss(algorithm, epsilon))
        step = "4/(epsilon m)" if algorithm == "dwork" else "1/(m tanh(epsilon/2))"
    else:
        # A user seen as 0 who came after the reading, against one who came before it; see `theory.joint_loss`.
        p_init, p_upd = (float(p) for p in theory.symmetric_pair(epsilon, c))
        moved = exp(epsilon / (2 * c * tanh(epsilon / 2))) - 1
        bound, loss = "at least ", log((1 - p_init) / (1 - p_upd)) + log1p(p_upd * moved)
        step = "1/(2c m tanh(epsilon/2))"
    return (
        f"The output noise Laplace(1/(epsilon m)) is too small: one bit moves the estimate by {step}, not 1/m, so "
        f"state and output together lose {bound}{loss:.3f} where {2 * epsilon:g} is claimed."
    )


LEVEL_LEAKS = (
    f"The level leaks: a user who comes k times has k chances to fill the set, so some states can be reached only if "
    f"that user came, and the loss is {inf}."
)
LINEAR_HASH = (
    "The linear hash keeps an arithmetic progression of ids with stride 2**L, so a stream of every other id is "
    "estimated as 0 or 1."
)
ROUNDED_SAMPLE = (
    "The output divides by |U|/2**L, and the number of users that qualify differs from it by up to one: under a given "
    "hash with few of them, the estimate is off."
)
IDS_IN_THE_CLEAR = f"The set holds the ids of users who came, so one reading of it loses {inf}."

"""What all of the paper's algorithms have in common: the verbs, and what they say of themselves."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from typing import Any, ClassVar, Protocol

import numpy as np

from panprivacy.memory import Scratch
from panprivacy.privacy import coins as coin_sources
from panprivacy.privacy.coins import Coins
from panprivacy.universe import Ids, Universe, universe_of
from panprivacy.universe.batches import batches, chunks
from panprivacy.universe.words import Words


class Memory(Protocol):
    """What an algorithm keeps: what an event does to it, and the estimate that it gives."""

    @property
    def size(self) -> int:
        """The m of the paper: how many users are sampled, or fill the set."""

    @property
    def state(self) -> Hashable:
        """Everything that is kept, in a form that can be read and compared."""

    def redraw(self, indices: Words, remove: bool) -> None:
        """Process insertions or deletions of the users at these positions, in order."""

    def estimate(self) -> float:
        """The printed estimate of the density, noise included."""


class Printed(ABC):
    """A density estimator as the paper prints it, flaws included: the verbs, around what the algorithm keeps.

    A subclass makes the memory that the algorithm keeps (`make` is given the number of users and the coins), and says
    what is wrong with it.
    """

    alternative: ClassVar[str] = "panprivacy.Density"
    """What to use instead."""

    def __init__(
        self, universe: int | Universe, epsilon: float, coins: Coins | None, make: Callable[[int, Coins], Memory]
    ) -> None:
        self._universe = universe_of(universe)
        self._epsilon = float(epsilon)
        self._coins = coins or coin_sources.system
        self._memory = make(self._universe.size, self._coins)

    @property
    @abstractmethod
    def known_flaws(self) -> tuple[str, ...]:
        """What is wrong with the algorithm as printed, the worst first."""

    def estimate(self) -> float:
        """The printed estimate of the density, noise included.

        It may be asked at any time, and the stream may go on after it. Asking twice spends twice: the noise is drawn
        anew, and the printed theorems cover one output.
        """
        return self._memory.estimate()

    @property
    def sample(self) -> int:
        """The m of the paper: how many users are sampled, or fill the set."""
        return self._memory.size

    @property
    def state(self) -> Any:
        """Everything that the algorithm keeps, in a form that can be read and compared."""
        return self._memory.state

    # --- events -------------------------------------------------------------------------------------------------

    def update(self, user: Any) -> None:
        """Note that a user appeared."""
        self._memory.redraw(np.array([self._universe.index(user)], dtype=np.uint64), remove=False)

    def remove(self, user: Any) -> None:
        """Note that a user was deleted (second remark of section 3): its state is redrawn as at the start."""
        self._memory.redraw(np.array([self._universe.index(user)], dtype=np.uint64), remove=True)

    def update_many(self, ids: Ids) -> None:
        """Note that these users appeared, in this order; takes what `Density.update_many` takes."""
        self._redraw_many(ids, remove=False)

    def remove_many(self, ids: Ids) -> None:
        """Note that these users were deleted, in this order."""
        self._redraw_many(ids, remove=True)

    def _redraw_many(self, ids: Any, remove: bool) -> None:
        for pieces in batches(self._universe.as_column(ids)):
            known = [
                self._universe.indices(chunk, Scratch()) for chunk in chunks(pieces)
            ]  # all, before the first is used
            for indices in known:
                self._memory.redraw(indices, remove)

    # --- what it says of itself ---------------------------------------------------------------------------------

    @property
    def universe(self) -> Universe:
        """The users there could be; the paper numbers them from 1, here they are 0..N-1."""
        return self._universe

    @property
    def epsilon(self) -> float:
        """The paper's privacy budget: of the state alone."""
        return self._epsilon

    @property
    def claimed_epsilon(self) -> float:
        """The pan-privacy that the paper claims: ``2 * epsilon``."""
        return 2 * self._epsilon

    @property
    def secure(self) -> bool:
        """Whether the coins came from the operating system. It says nothing of the algorithm."""
        return self._coins.secure

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} over {self._universe.describe()}, epsilon {self._epsilon:g} as printed; "
            f"see known_flaws>"
        )

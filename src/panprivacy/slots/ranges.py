"""Ranges of slots that are released one by one: those of a group, or of the users who are asked about a category."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from panprivacy.universe.groups import Label


@dataclass(frozen=True, eq=False)
class Ranges:
    """Slots in a row: range i is ``bounds[i] .. bounds[i+1]-1``. All of it is public."""

    labels: tuple[Label, ...]
    bounds: NDArray[np.int64]
    users: NDArray[np.int64]
    """How many users own a bit in each."""
    population: NDArray[np.int64]
    """How many users the bits of each speak for."""

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def bits(self) -> NDArray[np.int64]:
        """How many bits each has."""
        return np.diff(self.bounds)

    def number(self, label: Label) -> int:
        """Which of them has this label."""
        if label not in self.labels:
            raise ValueError(f"there is no group {label!r}")
        return self.labels.index(label)

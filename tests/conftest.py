"""Settings shared by all tests: the same examples in every run."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import settings

from panprivacy import coins
from panprivacy.testing import SeededCoins

# Random examples would make a run's outcome depend on luck; a deadline would make it depend on the machine.
settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=100)
settings.load_profile("repeatable")


@pytest.fixture
def seeded() -> SeededCoins:
    """Coins that are the same in every run."""
    return SeededCoins(20_260_101)


@pytest.fixture
def repeatable_system(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytearray], None]:
    """The system's coins, fed from a seed instead of the operating system, so that no test of them fails by chance."""
    generator = np.random.default_rng(1)

    def fill(buffer: bytearray) -> None:
        buffer[:] = generator.bytes(len(buffer))

    monkeypatch.setattr(coins, "fill_from_system", fill)
    return fill

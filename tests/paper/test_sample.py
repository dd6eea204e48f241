"""Where the users of a static sample have their places, whether these are read off a table or found by bisection."""

import numpy as np
import pytest

from panprivacy.memory.scratch import Scratch
from panprivacy.paper import density
from panprivacy.paper.density import Sample, draw_sample, sampled_users
from panprivacy.slots import AllUsers
from panprivacy.testing import SeededCoins


@pytest.fixture(params=["table", "bisection"])
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(density, "_LARGEST_TABLE", 10**7 if request.param == "table" else 0)


@pytest.mark.usefixtures("_way")
@pytest.mark.parametrize("users", [[0], [9], [0, 9], [2, 3, 7]])
def test_users_have_their_rank_as_place_and_others_have_none(users: list[int]) -> None:
    found = Sample(np.array(users), 10)
    indices = np.array([9, 0, 3, 3, 7, 2, 5, 1], dtype=np.uint64)
    expected = [users.index(user) for user in indices.tolist() if user in users]
    assert found.select(indices, Scratch()).tolist() == expected
    assert found.select(indices[:0], Scratch()).tolist() == []


@pytest.mark.usefixtures("_way")
def test_a_random_sample_is_found_again() -> None:
    chosen = draw_sample(5000, 700, SeededCoins(1))
    assert chosen.select(np.arange(5000, dtype=np.uint64), Scratch()).tolist() == list(range(700))
    assert (
        chosen.select(np.array(sampled_users(chosen)[::-1], dtype=np.uint64), Scratch()).tolist()
        == list(range(700))[::-1]
    )


def test_a_sample_of_everybody_needs_no_list() -> None:
    assert isinstance(draw_sample(50, 50, SeededCoins(1)), AllUsers)

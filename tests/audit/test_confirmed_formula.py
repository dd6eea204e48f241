"""What the budget claims is exactly what can be lost: at most that, and all of it."""

from fractions import Fraction

import planted
import pytest

from panprivacy import Density, audit, theory
from panprivacy.privacy.pairs import symmetric


@pytest.mark.parametrize("deletions", [False, True])
@pytest.mark.parametrize("releases", [1, 2, 3])
@pytest.mark.parametrize(("state", "each"), [(0.5, 0.5), (1.0, 0.5), (0.2, 1.0)])
def test_the_total_is_the_formula_of_the_design(state: float, each: float, releases: int, deletions: bool) -> None:
    pair, rate = symmetric(state), Fraction(each)
    result = audit.exact(
        lambda coins: planted.Bits(1, pair, rate, coins, releases), 1, 3, releases=releases, deletions=deletions
    )

    assert result.worst_loss == pytest.approx(result.claimed, abs=1e-14)
    # The pair is rounded to 32 bits; the formula of the theory is not.
    assert result.worst_loss == pytest.approx(float(theory.total_loss(state, [each] * releases)), abs=1e-8)


def test_the_examples_of_the_design_come_out() -> None:
    one = audit.exact(lambda coins: planted.Bits(2, symmetric(0.5), Fraction(1, 2), coins), 2)
    three = audit.exact(lambda coins: planted.Bits(1, symmetric(1.0), Fraction(1, 2), coins, 3), 1, releases=3)

    assert (round(one.worst_loss, 6), round(three.worst_loss, 6)) == (0.839185, 2.265628)


@pytest.mark.slow
@pytest.mark.parametrize("deletions", [False, True])
@pytest.mark.parametrize("releases", [1, 2, 3])
def test_density_spends_its_budget_to_the_last_digit(releases: int, deletions: bool) -> None:
    result = audit.exact(
        lambda coins: Density(2, 1.0, releases=releases, coins=coins), 2, 2, releases=releases, deletions=deletions
    )

    assert result.holds
    assert result.worst_loss == pytest.approx(result.claimed, abs=1e-14)
    assert 1 - 1e-6 < result.worst_loss <= 1


@pytest.mark.slow
def test_the_share_of_the_state_is_what_the_state_loses() -> None:
    result = audit.exact(lambda coins: Density(3, 0.7, coins=coins), 3, 2, releases=0, deletions=True)

    assert result.worst_loss == Density(3, 0.7).budget.state


@pytest.mark.slow
@pytest.mark.parametrize(
    ("intrusions", "releases", "users", "events", "deletions"),
    [(1, 1, 2, 2, False), (1, 1, 2, 2, True), (1, 2, 1, 3, True), (2, 1, 1, 3, True)],
)
def test_announced_readings_cost_what_the_budget_says(
    intrusions: int, releases: int, users: int, events: int, deletions: bool
) -> None:
    result = audit.exact(
        lambda coins: Density(users, 1.0, releases=releases, intrusions=intrusions, coins=coins),
        users,
        events,
        releases=releases,
        intrusions=intrusions,
        deletions=deletions,
    )

    assert result.holds
    assert result.worst_loss == pytest.approx(result.claimed, abs=1e-14)


@pytest.mark.slow
def test_without_deletions_a_second_announced_reading_costs_less_than_booked() -> None:
    result = audit.exact(lambda coins: Density(1, 1.0, intrusions=2, coins=coins), 1, 4, intrusions=2)

    assert result.holds
    assert result.worst_loss < 0.995 * result.claimed


@pytest.mark.slow
@pytest.mark.parametrize(("users", "length"), [(1, 4), (2, 3), (4, 2)])
def test_a_longer_stream_and_more_users_lose_no_more(users: int, length: int) -> None:
    result = audit.exact(lambda coins: Density(users, 1.0, coins=coins), users, length)

    assert result.worst_loss == pytest.approx(1.0, abs=1e-6)

from decimal import Decimal
from fractions import Fraction
from math import exp, log, log1p

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from panprivacy.privacy import exact, noise, splitting
from panprivacy.privacy.budget import Split, budget_of
from panprivacy.privacy.noise import Laplace
from panprivacy.privacy.pairs import response, symmetric
from panprivacy.privacy.splitting import best_split
from panprivacy.testing import refused
from worst_case import worst_loss


def split_of(state: float, release: float, redraw: float | None = None, epsilon: float = 100.0) -> Split:
    """A split with these shares, whatever it loses."""
    flip = 0 if redraw is None else response(redraw)
    return Split(epsilon, symmetric(state), Laplace(Fraction(release)), 3, flip, 0 if redraw is None else 3)


def error(split: Split, size: int) -> float:
    """``(size*p1*p0 + Var(noise)) / (size*(p1-p0))^2`` for the pair behind all redraws."""
    pair = split.pair_after(split.intrusions)
    spread = size * float(pair.p1 * pair.p0) + split.noise.variance
    return spread / (size * pair.gap) ** 2


# --- the loss -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("state", "release", "releases", "total"), [(0.5, 0.5, 1, 0.839185), (1.0, 0.5, 3, 2.265628)])
def test_the_loss_of_state_and_releases_is_that_of_the_design(
    state: float, release: float, releases: int, total: float
) -> None:
    assert split_of(state, release).loss(releases, 0) == pytest.approx(total, abs=1e-6)


SHARES = [(0.5, 0.5, 0.7), (1.0, 0.2, 0.3), (0.3, 0.5, 0.1), (2.0, 0.01, 3.0), (0.01, 0.02, 0.005), (3.0, 1.0, 0.2)]


@pytest.mark.slow
@pytest.mark.parametrize("shares", SHARES, ids=str)
@pytest.mark.parametrize("redraws", [0, 1, 2])
@pytest.mark.parametrize("releases", [0, 1, 2])
def test_the_loss_is_the_exact_worst_case_over_every_schedule(
    shares: tuple[float, float, float], releases: int, redraws: int
) -> None:
    split = split_of(*shares)
    assert worst_loss(split, releases, redraws) == pytest.approx(split.loss(releases, redraws), abs=1e-11)


def test_the_worst_case_finds_a_formula_that_forgets_a_redraw() -> None:
    split = split_of(0.5, 0.5, 0.7)
    assert worst_loss(split, 1, 2) > split.loss(1, 1) + 0.1


def test_two_readings_without_a_redraw_between_them_are_not_covered() -> None:
    """What the guarantee leaves out: a second reading of the same stretch loses another share of the state."""
    split = split_of(0.5, 0.5)
    assert 2 * split.pair.loss > split.loss(1, 0)


@pytest.mark.slow
@settings(max_examples=20)
@given(state=st.floats(0.01, 5), release=st.floats(0.001, 3), redraw=st.floats(0.01, 5))
def test_nothing_that_happens_makes_the_loss_smaller(state: float, release: float, redraw: float) -> None:
    split = split_of(state, release, redraw)
    for releases in range(3):
        for redraws in range(3):
            here = split.exact_loss(releases, redraws)
            assert split.exact_loss(releases + 1, redraws) > here
            assert split.exact_loss(releases, redraws + 1) > here


def test_a_split_that_loses_more_than_it_was_given_cannot_exist() -> None:
    needed = split_of(0.5, 0.5).exact_loss(3, 0)
    with refused("plan-over-budget"):
        split_of(0.5, 0.5, epsilon=float(needed) - 1e-9)
    assert split_of(0.5, 0.5, epsilon=float(needed) + 1e-9).releases == 3


# --- the split ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "state", "mse"), [(1000, 0.313, 1.400e-2), (100_000, 0.378, 7.34e-5)])
def test_the_split_of_0_4_is_that_of_the_design(size: int, state: float, mse: float) -> None:
    split = best_split(0.4, size)
    assert split.pair.loss == pytest.approx(state, abs=5e-4)
    assert error(split, size) == pytest.approx(mse, rel=1e-3)


@pytest.mark.slow
@settings(max_examples=60)
@given(
    log_epsilon=st.floats(log(1e-4), log(20)),
    size=st.integers(1, 10**7),
    releases=st.integers(1, 50),
    intrusions=st.integers(0, 3),
)
def test_a_split_spends_its_epsilon_and_never_more(
    log_epsilon: float, size: int, releases: int, intrusions: int
) -> None:
    epsilon = exp(log_epsilon)
    left = (epsilon / (4 * intrusions + 4)) ** (intrusions + 1)  # about what is left of the pair behind all redraws
    if intrusions and left < 1e-8:  # 32-bit coins may not be able to tell it
        return
    split = best_split(epsilon, size, releases, intrusions)
    total = split.exact_loss(releases, intrusions)
    assert total <= exact.decimal(epsilon)
    assert total >= exact.decimal(epsilon) - Decimal("1e-6")
    assert split.loss(releases, intrusions) <= epsilon
    assert (split.releases, split.intrusions, split.epsilon) == (releases, intrusions, epsilon)


@pytest.mark.slow
@pytest.mark.parametrize("releases", [1, 7])
@pytest.mark.parametrize("size", [1, 30, 1000, 10**6])
@pytest.mark.parametrize("epsilon", [0.01, 0.4, 2.0, 10.0])
def test_no_other_split_errs_less(epsilon: float, size: int, releases: int) -> None:
    best = np.inf
    for state in np.linspace(0, epsilon, 1001)[1:-1]:
        p1 = 1 / (1 + exp(-state))
        released = log1p((exp(epsilon - state) - 1) / p1) / releases
        spread = size * p1 * (1 - p1) + noise.variance(released)
        best = min(best, spread / (size * (2 * p1 - 1)) ** 2)
    assert error(best_split(epsilon, size, releases), size) <= best * (1 + 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("intrusions", [1, 2, 4])
@pytest.mark.parametrize(("epsilon", "size"), [(0.5, 10**6), (1.0, 1000), (4.0, 20_000), (12.0, 100)])
def test_no_other_split_with_redraws_errs_less(epsilon: float, size: int, intrusions: int) -> None:
    """A grid of 100 x 100 shares; the search stops within a tenth of a per cent of the best."""
    found = best_split(epsilon, size, 1, intrusions)
    best = np.inf
    for state in np.linspace(0, epsilon, 101)[1:-1]:
        for redraw in np.linspace(0, epsilon / intrusions, 101)[1:-1]:
            rest = epsilon - state - splitting._later_redraws(state, redraw, intrusions)
            p1 = 1 / (1 + exp(-state))
            released = log1p((exp(rest) - 1) / p1) - redraw if rest > 0 else 0.0
            if released <= 0:
                continue
            for _ in range(intrusions):
                p1 = splitting._through(p1, redraw)
            best = min(best, (size * p1 * (1 - p1) + noise.variance(released)) / (size * (2 * p1 - 1)) ** 2)
    assert error(found, size) <= best * 1.001


def test_more_users_move_the_split_towards_the_state() -> None:
    shares = [best_split(1.0, size).pair.loss for size in (10, 1000, 10**5, 10**7)]
    assert shares == sorted(shares)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((0.0, 10), "epsilon-range"),
        ((-1.0, 10), "epsilon-range"),
        ((float("nan"), 10), "epsilon-range"),
        ((float("inf"), 10), "epsilon-range"),
        ((1.0, 0), "size-range"),
        ((1.0, 10, 0), "releases-range"),
        ((1.0, 10, 10**9), "releases-range"),
        ((1.0, 10, 1, -1), "intrusions-range"),
        ((1e-9, 10), "epsilon-too-small"),
        ((3e-4, 10, 1, 3), "epsilon-too-small"),
        ((2e-5, 10, 1, 1), "epsilon-too-small"),
    ],
)
def test_a_budget_that_cannot_be_split_is_refused(arguments: tuple[float, int], code: str) -> None:
    with refused(code):
        best_split(*arguments)


# --- what a user sees of it -----------------------------------------------------------------------------------------


def test_a_budget_shows_shares_spent_left_and_total() -> None:
    split = best_split(1.0, 1000, 4, 2)
    fresh, used, done = (budget_of(split, *made) for made in ((0, 0), (2, 1), (4, 2)))
    assert fresh.spent == fresh.state == split.pair.loss
    assert fresh.releases == 4
    assert fresh.redraws == 2
    assert fresh.total == used.total == done.total == done.spent <= 1.0
    assert fresh.remaining > used.remaining > done.remaining == 0
    assert used.spent + used.remaining == pytest.approx(used.total)
    for line in ("epsilon 1", "2 of 4 made", "1 of 2 made", "spent", "remaining"):
        assert line in str(used)


@pytest.mark.parametrize("epsilon", [30.0, 600.0, 1e5])
def test_a_budget_beyond_what_coins_can_use_still_holds(epsilon: float) -> None:
    split = best_split(epsilon, 1000)
    assert split.loss(1, 0) <= epsilon

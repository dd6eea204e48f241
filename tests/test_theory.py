import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest

from panprivacy import theory
from panprivacy.testing import refused

TAIL_ALGORITHMS = ["dwork", "optbern"]


def pair_of(algorithm: str, epsilon: float) -> tuple[float, float]:
    """Written out from Alg. 1-3, apart from the code under test."""
    if algorithm == "dwork":
        return 0.5, 0.5 + epsilon / 4
    return 0.5 * (1 - math.tanh(epsilon / 2)), 0.5 * (1 + math.tanh(epsilon / 2))


# Pairs


def test_dworks_ratios_are_the_printed_ones_and_leave_budget_unused() -> None:
    epsilon = np.array([0.05, 0.2, 0.5])
    zero, one = theory.ratios(theory.dwork_pair(epsilon))
    np.testing.assert_allclose(zero, 1 - epsilon / 2)
    np.testing.assert_allclose(one, 1 + epsilon / 2)
    spent = theory.actual_epsilon(theory.dwork_pair(epsilon))
    np.testing.assert_allclose(spent, -np.log(1 - epsilon / 2))
    assert np.all(spent < epsilon)


@pytest.mark.parametrize("c", [0.1, 0.5])
def test_the_symmetric_pair_spends_exactly_its_budget_up_to_one_half(c: float) -> None:
    epsilon = np.array([0.01, 0.5, 3.0])
    np.testing.assert_allclose(theory.actual_epsilon(theory.symmetric_pair(epsilon, c)), epsilon)


def test_the_symmetric_pair_is_the_printed_formula() -> None:
    p_init, p_upd = theory.symmetric_pair(0.3, 0.6)
    assert p_init == pytest.approx(0.6 * (1 - math.tanh(0.15)))
    assert p_upd == pytest.approx(0.6 * (1 + math.tanh(0.15)))


def test_a_centre_above_one_half_is_not_private() -> None:
    assert theory.actual_epsilon(theory.symmetric_pair(0.5, c=0.8)) == pytest.approx(4.58, abs=0.005)
    assert theory.actual_epsilon(theory.symmetric_pair(0.5, c=0.51)) > 0.5


# Mean squared error


def mse_by_enumeration(algorithm: str, epsilon: float, sample: int, present: int, universe: int) -> float:
    """Average over every sample of the universe and every setting of its bits, plus the printed noise."""
    p_init, p_upd = pair_of(algorithm, epsilon)
    density = present / universe
    squares = []
    for chosen in itertools.combinations(range(universe), sample):
        chances = [p_upd if user < present else p_init for user in chosen]
        for bits in itertools.product((0, 1), repeat=sample):
            weight = math.prod(p if b else 1 - p for p, b in zip(chances, bits, strict=True))
            estimate = (sum(bits) / sample - p_init) / (p_upd - p_init)
            squares.append(weight * (estimate - density) ** 2)
    return sum(squares) / math.comb(universe, sample) + 2 / (epsilon * sample) ** 2


@pytest.mark.parametrize("algorithm", ["dwork", "optbern"])
@pytest.mark.parametrize(("sample", "present", "universe"), [(1, 1, 1), (3, 2, 6), (4, 7, 7), (5, 3, 5), (2, 0, 4)])
def test_mse_equals_the_average_over_every_sample_and_every_bit(
    algorithm: str, sample: int, present: int, universe: int
) -> None:
    exact = mse_by_enumeration(algorithm, 0.4, sample, present, universe)
    assert theory.mse(algorithm, 0.4, sample, present / universe, universe) == pytest.approx(exact, rel=1e-12)


def test_mse_of_ppds_is_that_of_a_sample_of_its_qualifying_users() -> None:
    exact = mse_by_enumeration("ppds", 0.3, sample=4, present=3, universe=8)
    assert theory.mse("ppds", 0.3, None, 3 / 8, 8, level=1) == pytest.approx(exact, rel=1e-12)
    assert theory.mse("ppds", 0.3, None, 3 / 8, 8, level=1) == theory.mse("optbern", 0.3, 4, 3 / 8, 8)


def test_mse_without_a_universe_is_where_the_printed_proofs_arrive() -> None:
    epsilon, m, d = np.array([0.1, 0.5])[:, None], 1000, np.linspace(0, 1, 5)
    noise = 2 / (m * epsilon) ** 2
    np.testing.assert_allclose(theory.mse("dwork", epsilon, m, d), 4 / (m * epsilon**2) - d**2 / m + noise)
    printed = (1 / np.tanh(epsilon / 2) ** 2 - 1) / (4 * m) + d * (1 - d) / m + noise
    np.testing.assert_allclose(theory.mse("optbern", epsilon, m, d), printed)


def test_a_huge_universe_is_as_good_as_an_infinite_one() -> None:
    assert theory.mse("optbern", 0.5, 100, 0.3, 10**12) == pytest.approx(theory.mse("optbern", 0.5, 100, 0.3))


def test_the_printed_mse_bounds_are_as_printed_and_hold() -> None:
    epsilon, m = np.array([0.05, 0.2, 0.5]), 700
    np.testing.assert_allclose(theory.mse_bound("dwork", epsilon, m), 2 * (2 * m + 1) / (m**2 * epsilon**2), rtol=1e-12)
    np.testing.assert_allclose(
        theory.mse_bound("optbern", epsilon, m),
        1 / (4 * m * np.tanh(epsilon / 2) ** 2) + 2 / (m * epsilon) ** 2,
    )
    level, universe = 6, 100_000
    np.testing.assert_allclose(
        theory.mse_bound("ppds", epsilon, None, universe, level=level),
        2 ** (level - 2) / (universe * np.tanh(epsilon / 2) ** 2) + 2 ** (2 * level + 1) / (universe * epsilon) ** 2,
    )
    density = np.linspace(0, 1, 21)[:, None]
    for algorithm in TAIL_ALGORITHMS:
        bound = theory.mse_bound(algorithm, epsilon, m)
        assert np.all(theory.mse(algorithm, epsilon, m, density) <= bound * (1 + 1e-12))


def test_discrete_laplace_variance_is_the_sum_over_the_integers() -> None:
    k = np.arange(-2000, 2001)
    for epsilon in (0.05, 0.5, 3.0):
        weights = np.exp(-epsilon * np.abs(k))
        variance = (weights * k**2).sum() / weights.sum()
        assert theory.discrete_laplace_variance(epsilon) == pytest.approx(variance, rel=1e-12)


# Tail bounds and sample sizes


def three_terms(algorithm: str, epsilon: float, alpha: float, m: float) -> Callable[..., np.ndarray]:
    """The printed sum of Thm 3.3 and 4.3 as a function of delta_1 and delta_2."""
    second = epsilon**2 / 8 if algorithm == "dwork" else 2 * math.tanh(epsilon / 2) ** 2

    def bound(d1: np.ndarray, d2: np.ndarray) -> np.ndarray:
        return np.asarray(
            2 * np.exp(-2 * m * alpha**2 * (1 - d1) ** 2)
            + 2 * np.exp(-second * m * alpha**2 * d1**2 * (1 - d2) ** 2)
            + np.exp(-epsilon * alpha * m * d1 * d2)
        )

    return bound


def zoomed_minimum(function: Callable[..., np.ndarray], axes: int, points: int, rounds: int) -> float:
    """Grid over [0, 1]^axes, then finer ones around the best point of the last."""
    centre, width, best = np.full(axes, 0.5), 0.5, math.inf
    for _ in range(rounds):
        lines = [np.linspace(max(0, c - width), min(1, c + width), points) for c in centre]
        grid = np.meshgrid(*lines, indexing="ij", sparse=True)
        values = function(*grid)
        where = np.unravel_index(np.argmin(values), values.shape)
        if values[where] <= best:
            best = float(values[where])
            centre = np.array([line[i] for line, i in zip(lines, where, strict=True)])
        width *= 0.6
    return best


TAIL_CASES = [
    (epsilon, alpha, sample)
    for epsilon in (0.02, 0.2, 0.5, 1.5)
    for alpha in (0.02, 0.1, 0.5, 1.0)
    for sample in (3, 30, 1000, 30_000, 10**6)
]


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", TAIL_ALGORITHMS)
def test_error_bound_is_the_least_value_that_a_grid_can_find(algorithm: str) -> None:
    below_one = 0
    for epsilon, alpha, sample in TAIL_CASES:
        bound = theory.error_bound(algorithm, epsilon, alpha, sample)
        assert isinstance(bound, float)
        # The whole square first, so that a second, better valley could not hide from the zoom.
        found = min(1.0, zoomed_minimum(three_terms(algorithm, epsilon, alpha, sample), 2, 151, 40))
        assert bound <= found * (1 + 1e-12)
        if found > 1e-250:
            assert found == pytest.approx(bound, rel=1e-8)
        below_one += 1e-250 < bound < 1
    assert below_one >= 12


def test_error_bound_falls_as_the_sample_grows() -> None:
    for algorithm in TAIL_ALGORITHMS:
        bounds = np.asarray(theory.error_bound(algorithm, 0.5, 0.1, np.arange(1, 20_000, 97)))
        assert np.all(np.diff(bounds) <= 0)
        assert bounds[0] == 1
        assert bounds[-1] < 0.2


def sizes_of_the_paper(algorithm: str, epsilon: float, alpha: float, beta: float) -> Callable[..., np.ndarray]:
    """max(m_1, m_2, m_3) of section 3.2 as a function of delta_1..delta_4."""
    second = 8 / epsilon**2 if algorithm == "dwork" else 1 / (2 * math.tanh(epsilon / 2) ** 2)

    def size(d1: np.ndarray, d2: np.ndarray, d3: np.ndarray, d4: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            m1 = np.log(2 / (beta * d3)) / (2 * alpha**2 * (1 - d1) ** 2)
            m2 = second * np.log(2 / (beta * d4)) / (alpha**2 * d1**2 * (1 - d2) ** 2)
            m3 = np.log(1 / (beta * (1 - d3 - d4))) / (epsilon * alpha * d1 * d2)
        largest = np.maximum(np.maximum(m1, m2), m3)
        return np.asarray(np.where(np.isfinite(largest), largest, np.inf))

    return size


SIZE_CASES = [
    ("dwork", 0.5, 0.5, 0.2),
    ("dwork", 1.0, 1.0, 0.05),
    ("dwork", 1.5, 0.4, 0.6),
    ("optbern", 0.5, 0.5, 0.2),
    ("optbern", 2.0, 0.3, 0.01),
    ("optbern", 4.0, 1.0, 0.9),
]


@pytest.mark.parametrize(("algorithm", "epsilon", "alpha", "beta"), SIZE_CASES)
def test_sample_size_is_the_four_delta_minimum_of_the_paper_rounded_up(
    algorithm: str, epsilon: float, alpha: float, beta: float
) -> None:
    size = theory.sample_size(algorithm, epsilon, alpha, beta)
    found = zoomed_minimum(sizes_of_the_paper(algorithm, epsilon, alpha, beta), 4, 17, 60)
    assert size == math.ceil(found)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", TAIL_ALGORITHMS)
def test_one_user_fewer_than_the_sample_size_is_not_enough(algorithm: str) -> None:
    for epsilon, alpha, beta in itertools.product((0.05, 0.5, 1.9), (0.01, 0.1, 1.0), (1e-9, 0.05, 0.9)):
        size = int(theory.sample_size(algorithm, epsilon, alpha, beta))
        assert theory.error_bound(algorithm, epsilon, alpha, size) <= beta
        assert theory.error_bound(algorithm, epsilon, alpha, size - 1) > beta
        # By grid, a sample smaller by a tenth of a percent is not enough either.
        smaller = three_terms(algorithm, epsilon, alpha, size * 0.999 - 1)
        assert zoomed_minimum(smaller, 2, 101, 12) > beta


def test_sample_sizes_at_epsilon_one_fifth_are_known_numbers() -> None:
    assert theory.sample_size("dwork", 0.2, alpha=0.1, beta=0.05) == 86_023
    assert theory.sample_size("optbern", 0.2, alpha=0.1, beta=0.05) == 24_960


def test_optbern_needs_about_half_an_order_of_magnitude_fewer_users_than_dwork() -> None:
    epsilon = np.linspace(0.05, 0.5, 19)
    fewer = theory.sample_size("dwork", epsilon, 0.1, 0.05) / theory.sample_size("optbern", epsilon, 0.1, 0.05)
    assert np.all((fewer >= 2.9) & (fewer <= 3.9))


def test_a_sample_of_astronomical_size_is_refused() -> None:
    with refused("sample-too-large", "1e-08", "0.001", "0.05"):
        theory.sample_size("optbern", 1e-8, 0.001, 0.05)


# Losses


def laplace(distance: np.ndarray, scale: float) -> np.ndarray:
    return np.asarray(np.exp(-np.abs(distance) / scale))


def worst_ratio(algorithm: str, epsilon: float, sample: int, *, moved: bool, deletions: bool = False) -> float:
    """Compare the joint law of seen bit and printed output for every two patterns of one user's events."""
    p_init, p_upd = pair_of(algorithm, epsilon)
    step, scale = 1 / (sample * (p_upd - p_init)), 1 / (epsilon * sample)
    outputs = np.linspace(-step, 2 * step, 301)
    as_zero, as_one = laplace(outputs, scale), laplace(outputs - step, scale)
    redraw = {"insert": p_upd, "delete": p_init}
    events = ["", "insert", "delete"] if deletions else ["", "insert"]

    def law(before: str, after: str) -> np.ndarray:
        chance = redraw.get(before, p_init)
        rows = []
        for seen in (0, 1):
            final = redraw.get(after, seen)
            rows.append((chance if seen else 1 - chance) * (final * as_one + (1 - final) * as_zero))
        return np.array(rows)

    worst = 0.0
    for one, other in itertools.permutations(itertools.product(events, repeat=2), 2):
        pairs = list(zip(one, other, strict=True))
        only_added_or_removed = all(a in {"", b} for a, b in pairs) or all(b in {"", a} for a, b in pairs)
        if moved or only_added_or_removed:
            worst = max(worst, float(np.log(law(*one) / law(*other)).max()))
    return worst


@pytest.mark.parametrize("algorithm", TAIL_ALGORITHMS)
@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.5, 1.0, 1.3, 1.9])
@pytest.mark.parametrize("moved", [True, False])
def test_joint_loss_is_the_worst_over_every_pattern_seen_bit_and_output(
    algorithm: str, epsilon: float, moved: bool
) -> None:
    loss = theory.joint_loss(algorithm, epsilon, moved=moved)
    assert worst_ratio(algorithm, epsilon, 7, moved=moved) == pytest.approx(loss, rel=1e-9)


@pytest.mark.parametrize("algorithm", TAIL_ALGORITHMS)
def test_deletions_add_nothing_to_the_joint_loss_when_events_may_move(algorithm: str) -> None:
    for epsilon in (0.05, 0.5, 1.9):
        loss = theory.joint_loss(algorithm, epsilon)
        assert worst_ratio(algorithm, epsilon, 7, moved=True, deletions=True) == pytest.approx(loss, rel=1e-9)


def test_deletions_add_to_the_joint_loss_when_events_may_not_move() -> None:
    assert worst_ratio("dwork", 0.1, 7, moved=False, deletions=True) == pytest.approx(3.374, abs=5e-4)
    assert worst_ratio("optbern", 0.1, 7, moved=False, deletions=True) == pytest.approx(1.573, abs=5e-4)


def test_joint_loss_at_one_tenth_is_far_above_the_claimed_one_fifth() -> None:
    assert theory.joint_loss("dwork", 0.1) == pytest.approx(3.423, abs=5e-4)
    assert theory.joint_loss("optbern", 0.1) == pytest.approx(1.573, abs=5e-4)
    assert theory.joint_loss("dwork", 0.1, moved=False) == pytest.approx(3.372, abs=5e-4)
    assert theory.joint_loss("optbern", 0.1, moved=False) == pytest.approx(1.496, abs=5e-4)


def test_joint_loss_depends_neither_on_the_sample_nor_vanishes_with_epsilon() -> None:
    assert theory.joint_loss("optbern", 0.1, 10) == theory.joint_loss("optbern", 0.1, 10**6)
    assert worst_ratio("optbern", 0.1, 10, moved=True) == pytest.approx(worst_ratio("optbern", 0.1, 10**6, moved=True))
    assert theory.joint_loss("optbern", 1e-6) == pytest.approx(math.log((1 + math.e**2) / 2), abs=1e-5)


def test_the_level_of_ppds_leaks_without_bound() -> None:
    assert theory.joint_loss("ppds", 0.1) == math.inf


def worst_total(epsilon_state: float, releases: list[float]) -> float:
    """Compare every two patterns of insertions and deletions around the intrusion and the releases.

    A release is e^eps times likelier for a 1 or as much likelier for a 0: no other outcome exists with
    discrete Laplace noise on an integer.
    """
    p_upd = 1 / (1 + math.exp(-epsilon_state))
    actions: list[float | None] = [None, p_upd, 1 - p_upd]
    worst = 0.0
    for intrusion in range(len(releases) + 1):
        looks: list[float | None] = [*releases[:intrusion], None, *releases[intrusion:]]
        laws = []
        for pattern in itertools.product(actions, repeat=len(looks)):
            # weights[b][outcome so far]: the bit is b and the observations came out so.
            weights = np.array([[p_upd], [1 - p_upd]])
            for redraw, look in zip(pattern, looks, strict=True):
                if redraw is not None:
                    weights = np.outer([1 - redraw, redraw], weights.sum(axis=0))
                if look is None:
                    likelihood = np.array([[1.0, 0.0], [0.0, 1.0]])
                else:
                    likelihood = np.array([[1.0, math.exp(look)], [math.exp(look), 1.0]])
                weights = (weights[:, :, None] * likelihood[:, None, :]).reshape(2, -1)
            laws.append(weights.sum(axis=0))
        logs = np.log(np.array(laws))
        # The largest of any pattern over the smallest of any other, outcome by outcome.
        worst = max(worst, float((logs.max(axis=0) - logs.min(axis=0)).max()))
    return worst


@pytest.mark.parametrize(
    ("epsilon_state", "releases"),
    [(0.5, [0.5]), (1.0, [0.5, 0.5, 0.5]), (0.1, [2.0]), (3.0, [0.1, 0.4]), (0.3, [0.2, 1.0, 0.05])],
)
def test_total_loss_is_the_worst_over_every_pattern_of_insertions_and_deletions(
    epsilon_state: float, releases: list[float]
) -> None:
    assert theory.total_loss(epsilon_state, releases) == pytest.approx(worst_total(epsilon_state, releases), rel=1e-12)


def test_total_loss_has_its_known_values_and_never_exceeds_the_sum() -> None:
    assert theory.total_loss(0.5, 0.5) == pytest.approx(0.839185, abs=5e-7)
    assert theory.total_loss(1.0, [0.5, 0.5, 0.5]) == pytest.approx(2.265628, abs=5e-7)
    assert theory.total_loss(0.7, []) == pytest.approx(0.7)
    assert theory.total_loss(800.0, 900.0) == pytest.approx(1700.0)
    states = np.array([0.1, 1.0, 10.0])
    assert np.all(theory.total_loss(states, [0.5, 0.25]) < states + 0.75)


# Arguments


def test_scalars_give_python_numbers_and_arrays_broadcast() -> None:
    column = np.array([[0.1], [0.2]])
    assert type(theory.mse("dwork", 0.1, 10, 0.5)) is float
    assert type(theory.dwork_pair(0.1)[0]) is float
    assert type(theory.error_bound("dwork", 0.1, 0.1, 10)) is float
    assert type(theory.sample_size("dwork", 0.5, 0.5, 0.5)) is int
    assert type(theory.joint_loss("ppds", 0.1, 10)) is float
    assert np.shape(theory.mse("optbern", column, [10, 20, 30], 0.5, [100, 200, 300])) == (2, 3)
    assert np.shape(theory.error_bound("optbern", column, 0.1, [10, 20, 30])) == (2, 3)
    assert np.shape(theory.sample_size("optbern", column, [0.5, 0.4, 0.3], 0.1)) == (2, 3)
    assert np.shape(theory.joint_loss("optbern", column, [10, 20, 30])) == (2, 3)
    assert np.shape(theory.mse_bound("ppds", 0.1, None, 100, level=[0, 1, 2])) == (3,)
    assert np.asarray(theory.sample_size("dwork", column, 0.5, 0.1)).dtype == np.int64


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: theory.dwork_pair(2.0), ("argument-range", "epsilon = 2")),
        (lambda: theory.dwork_pair([0.1, math.nan]), ("argument-range", "epsilon = nan")),
        (lambda: theory.symmetric_pair(-1.0), ("argument-range", "epsilon = -1")),
        (lambda: theory.symmetric_pair(0.5, c=0.9), ("centre-range", "c = 0.9")),
        (lambda: theory.ratios((0.0, 0.5)), ("argument-range", "p_init = 0")),
        (lambda: theory.actual_epsilon((0.5, 1.0)), ("argument-range", "p_upd = 1 ")),
        (lambda: theory.mse("dwrok", 0.1, 10, 0.5), ("algorithm-choice", "'dwrok'")),
        (lambda: theory.mse("dwork", 0.1, 10.5, 0.5), ("argument-range", "sample = 10.5")),
        (lambda: theory.mse("dwork", 0.1, None, 0.5), ("sample-missing",)),
        (lambda: theory.mse("dwork", 0.1, 10, 1.5), ("argument-range", "density = 1.5")),
        (lambda: theory.mse("dwork", 0.1, 10, 0.5, 9), ("sample-range",)),
        (lambda: theory.mse("dwork", 0.1, 10, 0.5, level=1), ("level-without-ppds",)),
        (lambda: theory.mse("ppds", 0.1, None, 0.5, 100), ("ppds-sample",)),
        (lambda: theory.mse("ppds", 0.1, 10, 0.5, 100, level=1), ("ppds-sample",)),
        (lambda: theory.mse("ppds", 0.1, None, 0.5, 100, level=7), ("level-range", "level = 7")),
        (lambda: theory.error_bound("ppds", 0.1, 0.1, 10), ("no-tail-bound",)),
        (lambda: theory.error_bound("dwork", 0.1, 0.0, 10), ("argument-range", "alpha = 0")),
        (lambda: theory.sample_size("dwork", 0.1, 0.1, 1.0), ("argument-range", "beta = 1")),
        (lambda: theory.joint_loss("optbern", 0.1, 0), ("argument-range", "sample = 0")),
        (lambda: theory.total_loss(0.5, [0.5, 0.0]), ("argument-range", "release_epsilons = 0")),
        (lambda: theory.total_loss(0.0, 0.5), ("argument-range", "epsilon_state = 0")),
        (lambda: theory.discrete_laplace_variance(0.0), ("argument-range", "epsilon = 0 ")),
    ],
)
def test_a_wrong_argument_is_named_with_what_was_expected(call: Callable[[], object], named: tuple[str, ...]) -> None:
    with refused(*named):
        call()

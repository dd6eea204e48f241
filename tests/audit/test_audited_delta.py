"""The delta that the auditor finds, against sums that share none of its shortcuts, and the bugs that it must find."""

from fractions import Fraction
from itertools import product
from math import exp, fsum, prod
from typing import Any

import planted
import pytest
from whole_runs import all_runs, law_of, without

from panprivacy import Density, audit
from panprivacy.audit.enumeration.delta import Contrast, contrast_of, divergence, region
from panprivacy.audit.enumeration.loss import Hidden, Weights
from panprivacy.audit.enumeration.outcomes import Noised, RealLaplace
from panprivacy.estimators.continual import Continual
from panprivacy.privacy import gaussian
from panprivacy.privacy.coins import ONE, Coins
from panprivacy.privacy.noise import Gaussian, Laplace, Noise
from panprivacy.privacy.pairs import Pair, symmetric
from panprivacy.testing import gaussian_noise, observed_of, refused

pytestmark = pytest.mark.filterwarnings("ignore::panprivacy.checks.LargeDelta")

SQUARE = Fraction(3, 2)
FAR = 12  # twelve units are ten widths of that noise


def plain_worst_delta(make: Any, users: int, length: int, releases: int, epsilon: float) -> float:
    """The largest sum over outputs, for all pairs of streams, and for what is seen without noise one by one."""
    runs = sorted(set(all_runs(users, length, releases, ("update",))))
    laws = {run: law_of(make, run) for run in runs}
    worst = 0.0
    for a, b in product(runs, repeat=2):
        if a != b and any(without(a, user) == without(b, user) for user in range(users)):
            worst = max(worst, delta_between(laws[a], laws[b], epsilon))
    return worst


def bell(x: float) -> float:
    whole = fsum(exp(-(y**2) / (2 * float(SQUARE))) for y in range(-40, 41))
    return exp(-(x**2) / (2 * float(SQUARE))) / whole


BELL = {x: bell(x) for x in range(-FAR - 4, FAR + 5)}


def delta_between(a: Any, b: Any, epsilon: float) -> float:
    terms = []
    for seen in a:
        numbers = len(next(iter(a[seen])))
        for point in product(range(-FAR, FAR + 3), repeat=numbers):
            f, g = (
                fsum(
                    float(weight) * prod(BELL[o - int(v)] for o, v in zip(point, values, strict=True))
                    for values, weight in law.get(seen, {}).items()
                )
                for law in (a, b)
            )
            terms.append(max(f - exp(epsilon) * g, 0.0))
    return fsum(terms)


@pytest.mark.slow
@pytest.mark.parametrize(("users", "length", "releases"), [(2, 1, 1), (1, 2, 1), (1, 1, 2)])
@pytest.mark.parametrize("pair", [symmetric(0.8), Pair(ONE // 8, ONE // 3)])
def test_it_agrees_with_whole_runs_of_all_pairs_of_streams(users: int, length: int, releases: int, pair: Pair) -> None:
    def make(coins: Coins) -> planted.GaussianBits:
        return planted.GaussianBits(users, pair, SQUARE, coins, (1.5, 0.5))

    found = audit.exact(make, users, length, releases=releases)

    plain = plain_worst_delta(make, users, length, releases, 1.5)
    assert found.worst_delta == pytest.approx(plain, rel=1e-9)
    assert found.worst_delta >= plain


def one_law(noise: Noise, *masses: tuple[tuple[int, ...], int]) -> Weights:
    law = Weights(sum(share for _, share in masses))
    for values, share in masses:
        law.add(HIDDEN.setdefault((values, noise), Hidden(tuple(Noised(Fraction(v), noise) for v in values))), share)
    return law


HIDDEN: dict[Any, Hidden] = {}


def summed(a: Weights, b: Weights, epsilon: float) -> float:
    contrast, share, _ = contrast_of(a, b)
    return float(share * contrast.whole) * divergence(contrast, epsilon)


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 4.0])
@pytest.mark.parametrize("noise", [Gaussian(Fraction(2)), Gaussian(Fraction(40)), Laplace(Fraction(1, 2))])
def test_the_divergence_of_one_number_is_the_sum_that_defines_it(noise: Noise, epsilon: float) -> None:
    reach = range(-130, 131)

    def height(x: int) -> float:
        return exp(
            -(x**2) / (2 * float(noise.square)) if isinstance(noise, Gaussian) else -float(noise.epsilon) * abs(x)
        )

    whole = fsum(height(x) for x in reach)
    plain = fsum(max(height(x) - exp(epsilon) * height(x - 1), 0.0) for x in reach) / whole
    found = summed(one_law(noise, ((0,), 1)), one_law(noise, ((1,), 1)), epsilon)

    assert plain <= found <= plain * (1 + 1e-9) + 1e-15


@pytest.mark.parametrize("releases", [2, 3])
def test_numbers_that_move_alike_are_their_sum_and_nothing_is_lost(releases: int) -> None:
    """The same laws, once with a value that keeps the auditor from adding the numbers up."""
    noise = Gaussian(Fraction(2))
    none, all_of_them = (0,) * releases, (1,) * releases
    apart = (0,) * (releases - 1) + (1,)
    a = one_law(noise, (none, 10**15 - 1), (apart, 1)), one_law(noise, (none, 1))
    b = one_law(noise, (all_of_them, 10**15 - 1), (apart, 1)), one_law(noise, (all_of_them, 1))

    assert len(contrast_of(a[0], b[0])[2].told) == 2
    assert len(contrast_of(a[1], b[1])[2].told) == 1
    assert summed(a[0], b[0], 1.0) == pytest.approx(summed(a[1], b[1], 1.0), rel=1e-8)


def test_numbers_that_tell_nothing_are_left_out() -> None:
    noise = Gaussian(Fraction(2))
    alone = summed(one_law(noise, ((4,), 1)), one_law(noise, ((5,), 1)), 1.0)

    beside = summed(one_law(noise, ((7, 4, 9), 1)), one_law(noise, ((7, 5, 9), 1)), 1.0)

    assert beside == alone


def test_what_is_impossible_under_one_law_counts_in_full() -> None:
    law = one_law(Gaussian(Fraction(2)), ((0,), 1), ((1,), 2))
    contrast, share, _ = contrast_of(law, None)

    assert float(share * contrast.whole) * divergence(contrast, 5.0) == pytest.approx(1.0, rel=1e-9)


def test_noise_on_real_numbers_has_no_sum_over_outputs() -> None:
    law = Weights(1)
    law.add(Hidden((Noised(Fraction(1), RealLaplace(Fraction(1))),)), 1)

    with pytest.raises(NotImplementedError, match="real numbers"):
        contrast_of(law, one_law(Gaussian(Fraction(2)), ((0,), 1)))


def test_too_many_outputs_are_refused_in_words() -> None:
    noise = Gaussian(Fraction(10**6))
    a, b = one_law(noise, ((0, 1), 1), ((1, 0), 1)), one_law(noise, ((1, 1), 1))

    with refused("too-many-outputs"):
        summed(a, b, 1.0)


def test_the_set_that_witnesses_is_named_by_its_threshold() -> None:
    noise = Gaussian(Fraction(4))
    contrast, _, place = contrast_of(one_law(noise, ((3, 5), 1)), one_law(noise, ((2, 4), 1)))
    found = region(contrast, 1.0)

    assert found is not None
    # ln of the ratio at a sum z is (z - 8 + 1) / 4.
    assert found.least_sum is not None
    assert found.least_sum + sum(place.moved) == 12
    assert found.most_sum is None
    assert found.a - exp(1.0) * found.b == pytest.approx(contrast.whole * divergence(contrast, 1.0) / 2, rel=1e-9)


def test_a_contrast_that_tells_nothing_has_no_region() -> None:
    noise = Gaussian(Fraction(4))

    assert region(contrast_of(one_law(noise, ((3,), 1)), one_law(noise, ((3,), 1)))[0], 0.5) is None
    assert isinstance(contrast_of(one_law(noise, ((3,), 1)), one_law(noise, ((3,), 1)))[0], Contrast)


# --- what ships -------------------------------------------------------------------------------------------------------


def density(coins: Coins, kind: type[Density] = Density, **more: Any) -> Density:
    with gaussian_noise():
        return kind(2, 3.0, delta=1e-3, coins=coins, **more)


@pytest.mark.slow
@pytest.mark.parametrize(("releases", "slack"), [(1, 8), (2, 20), pytest.param(3, 25, marks=pytest.mark.slow)])
def test_density_keeps_its_delta_and_does_not_overstate_it_by_far(releases: int, slack: int) -> None:
    """The moment of the reading is fixed here: that it may depend on the releases is part of what is claimed."""
    result = audit.exact(lambda coins: density(coins, releases=releases), 2, 2, releases=releases)

    assert result.holds
    assert result.claimed_delta / slack < result.worst_delta < result.claimed_delta
    assert result.claimed - 0.5 < result.worst_loss < result.claimed


@pytest.mark.slow
def test_an_announced_reading_keeps_the_delta() -> None:
    result = audit.exact(lambda coins: density(coins, intrusions=1), 2, 1, intrusions=1)

    assert result.holds
    assert result.worst_delta > result.claimed_delta / 100


def test_the_witness_shows_the_delta_and_the_set() -> None:
    result = audit.exact(density, 2, 1)
    witness = result.witness

    assert witness is not None
    shown = witness.probability_a - exp(result.claimed) * witness.probability_b
    assert shown == pytest.approx(result.worst_delta, rel=1e-6)
    assert str(result) == (
        "worst delta 0.000164 at epsilon 2.965608, claimed 0.001: the claim holds (at delta 0.001, epsilon 2.678911)\n"
        "Streams that differ in the events of user 0:\n"
        "  A: state read, 0 appears, release\n"
        "  B: 0 appears, state read, release\n"
        "Seen: state table.words=00; released >= 7, or 1 more such\n"
        "Moment: read after 0 events of A and 1 of B\n"
        "Probability: 0.00130708 under A, 5.89127e-05 under B"
    )
    assert witness.others == ("state table.words=01; released >= 8",)


def test_a_result_with_a_delta_is_plain_data() -> None:
    told = audit.exact(density, 2, 1).as_dict()

    assert told["claimed_delta"] == 1e-3
    assert told["worst_delta"] < 1e-3
    assert told["holds"] is True


def test_the_loss_that_is_found_is_where_the_delta_is_met() -> None:
    def make(coins: Coins, epsilon: float, delta: float) -> planted.GaussianBits:
        return planted.GaussianBits(1, symmetric(0.5), Fraction(2), coins, (epsilon, delta))

    loss = audit.exact(lambda coins: make(coins, 1.0, 0.01), 1, 1).worst_loss

    assert audit.exact(lambda coins: make(coins, loss, 0.01), 1, 1).holds
    assert not audit.exact(lambda coins: make(coins, loss - 1e-4, 0.01), 1, 1).holds


def test_gaussian_noise_without_a_delta_is_refused() -> None:
    class Pure(planted.GaussianBits):
        claimed_delta = 0.0

    with refused("no-bound"):
        audit.exact(lambda coins: Pure(1, symmetric(0.5), Fraction(2), coins, (5.0, 0.0)), 1, 1)


def test_what_is_left_out_inside_the_state_is_added_to_the_delta() -> None:
    class Keeps(planted.GaussianBits):
        kept = 0

        def update(self, user: int) -> None:
            super().update(user)
            self.kept = self.coins.noisy_inside(0, Gaussian(Fraction(4)))

    result = audit.exact(lambda coins: Keeps(1, symmetric(0.1), Fraction(100), coins, (30.0, 1e-2)), 1, 1, releases=0)
    beyond = 2 * fsum(exp(-(x**2) / 8) for x in range(7, 60)) / fsum(exp(-(x**2) / 8) for x in range(-60, 61))

    assert result.reach == 6
    assert result.worst_delta >= beyond


# --- planted bugs -----------------------------------------------------------------------------------------------------


def bits(kind: type[planted.GaussianBits], releases: int = 1, state: float = symmetric(0.8).loss) -> Any:
    """Bits of epsilon 0.8 with noise of square 4, and the claim that the proof allows."""
    said = state + gaussian.loss(Fraction(4), releases, 1e-4), 1e-4
    return lambda coins: kind(2, symmetric(0.8), Fraction(4), coins, said)


@pytest.mark.slow
def test_what_has_no_bug_passes() -> None:
    assert audit.exact(bits(planted.GaussianBits), 2, 2).holds
    assert audit.exact(bits(planted.GaussianBits, 2), 2, 2, releases=2).holds


def test_a_square_that_is_30_percent_too_small_is_found() -> None:
    result = audit.exact(lambda coins: density(coins, planted.LessGaussianNoise), 2, 1)

    assert not result.holds
    assert "DOES NOT HOLD" in str(result)


def test_an_accounting_without_the_share_of_the_state_is_found() -> None:
    assert not audit.exact(bits(planted.GaussianBits, state=0.0), 2, 2).holds


def test_a_delta_that_is_claimed_ten_times_too_small_is_found() -> None:
    assert not audit.exact(lambda coins: density(coins, planted.ClaimsATenth), 2, 1).holds


def test_noise_that_is_used_again_is_found() -> None:
    result = audit.exact(bits(planted.ReusesItsNoise, 2), 2, 2, releases=2)

    assert not result.holds
    assert result.worst_delta > 0.1


@pytest.mark.parametrize("kind", [planted.CountsEvents, planted.OneCoinForTheTable, planted.TellsTheParity])
def test_what_rules_a_stream_out_shows_in_the_delta_too(kind: type[Density]) -> None:
    result = audit.exact(lambda coins: density(coins, kind), 2, 2)

    assert not result.holds
    assert result.worst_delta > 0.1


@pytest.mark.slow
def test_where_nothing_tells_more_than_epsilon_the_delta_is_what_was_not_followed() -> None:
    def make(coins: Coins) -> Continual:
        with gaussian_noise():
            observer = Continual(1, 20.0, step=1.0, moves=1, delta=1e-3, observations=1, coins=coins)
        observed_of(observer).drift_test.bar = 1
        return observer

    result = audit.exact(make, users=1, length=1)
    assert result.holds
    assert result.witness is None
    assert 0 < result.worst_delta < 2e-4
    assert "followed up to 6" in str(result)

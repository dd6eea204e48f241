"""PPDS, as Alg. 3 prints it."""

import math
from collections.abc import Callable
from random import Random
from typing import Literal

import numpy as np
import pytest
from exact_laws import SILENT, law, outputs
from simulated import DENSITIES, USERS, estimates

from checks import assert_binomial, assert_variance
from panprivacy import audit, theory
from panprivacy.paper import PPDS, FMHash, OptBern
from panprivacy.paper.ppds import LevelledSet
from panprivacy.privacy.coins import ONE, Coins, Flips
from panprivacy.testing import SeededCoins, refused

pytestmark = pytest.mark.filterwarnings(SILENT)

PLAIN = FMHash(multiplier=1, offset=0, bits=2)  # levels of 0, 1, 2, 3: 2, 0, 1, 0
ODD = FMHash(multiplier=3, offset=3, bits=2)  # 0, 1, 0, 2
HASHES = pytest.mark.parametrize("hashing", [PLAIN, ODD], ids=["plain", "odd"])


# The hash


def test_the_hash_counts_trailing_zeros_and_gives_zero_the_highest_level() -> None:
    plain = FMHash(1, 0, 5)
    assert [plain(u) for u in (12, 1, 16, 0)] == [2, 0, 4, 5]
    users = np.arange(32)
    for hashing in (plain, FMHash(multiplier=21, offset=17, bits=5), FMHash(2**44 - 1, 2**43 + 5, 44)):
        assert hashing.levels(users).tolist() == [hashing(u) for u in range(32)]


def test_half_of_the_users_map_to_level_0_a_quarter_to_level_1_and_so_forth() -> None:
    levels = FMHash(multiplier=77, offset=123, bits=10).levels(np.arange(1024))
    assert np.bincount(levels).tolist() == [512, 256, 128, 64, 32, 16, 8, 4, 2, 1, 1]


def test_a_drawn_hash_has_the_fewest_bits_and_an_odd_multiplier_any_of_them_equally_likely() -> None:
    found = law(lambda coins: FMHash.drawn(5, coins))
    assert found == {FMHash(a, b, 3): found[FMHash(1, 0, 3)] for a in (1, 3, 5, 7) for b in range(8)}
    assert [FMHash.drawn(n, SeededCoins(1)).bits for n in (1, 2, 3, 4, 5, 100_000)] == [1, 1, 2, 2, 3, 17]


# The listing


class OneByOne(Coins):
    """Flips that come out the same whether they are asked for one by one or many at a time, and are counted."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self.used = 0

    def below(self, threshold: int, n: int) -> Flips:
        self.used += n
        return np.array([self._random.getrandbits(32) < threshold for _ in range(n)], dtype=np.bool_)

    def randbelow(self, n: int) -> int:
        raise AssertionError(f"nothing but flips is needed, not one of {n}")


class Listing:
    """Alg. 3, line by line."""

    def __init__(self, universe: int, sample: int, hashing: FMHash, pair: tuple[int, int], coins: Coins) -> None:
        self.m, self.hash, self.coins = sample, hashing, coins
        self.p_init, self.p_upd = pair
        self.members: set[int] = set()
        self.level = 0
        for u in range(universe):
            if self.hash(u) >= self.level and coins.flip(self.p_init):
                self.members.add(u)
            self.check()

    def check(self) -> None:
        if len(self.members) >= self.m:
            for v in list(self.members):
                if self.hash(v) <= self.level:
                    self.members.remove(v)
            self.level += 1

    def process(self, user: int, p: int) -> None:
        if user in self.members:
            if not self.coins.flip(p):  # "with probability 1 - p"
                self.members.remove(user)
        else:
            if self.hash(user) >= self.level and self.coins.flip(p):
                self.members.add(user)
            self.check()


@pytest.mark.parametrize("pair", ["optbern", "dwork"])
@pytest.mark.parametrize(("universe", "sample"), [(1, 1), (7, 1), (40, 3), (300, 20), (300, 301), (1000, 64)])
def test_every_state_is_that_of_the_listing_under_the_same_coins(
    universe: int, sample: int, pair: Literal["optbern", "dwork"]
) -> None:
    generator = np.random.default_rng(universe + sample)
    for seed in range(20):
        mine, theirs = OneByOne(seed), OneByOne(seed)
        hashing = FMHash.drawn(universe, SeededCoins(seed))
        est = PPDS(universe, 0.5, sample, pair, hashing=hashing, coins=mine)
        coins = est._pair.coins
        listing = Listing(universe, sample, hashing, (coins.absent, coins.present), theirs)
        for _ in range(6):
            batch = generator.integers(0, universe, generator.integers(1, 2 * universe + 1))
            remove = bool(generator.integers(2))
            (est.remove_many if remove else est.update_many)(batch)
            for user in batch.tolist():
                listing.process(user, coins.absent if remove else coins.present)
            assert est.state == (hashing, listing.level, tuple(sorted(listing.members)))
            assert mine.used == theirs.used  # not a coin more than the listing flips


def test_the_estimate_is_the_printed_formula_with_the_printed_noise() -> None:
    for state, value, scale in outputs(lambda coins: PPDS(4, 0.5, 2, hashing=PLAIN, coins=coins)):
        share = 2**state.level * len(state.users) / 4
        assert value == pytest.approx((share - 0.5 + 0.5 * math.tanh(0.25)) / math.tanh(0.25))
        assert scale == pytest.approx(2**state.level / (0.5 * 4))
    for state, value, _ in outputs(lambda coins: PPDS(4, 0.5, 2, "dwork", hashing=PLAIN, coins=coins)):
        assert value == pytest.approx(4 / 0.5 * (2**state.level * len(state.users) / 4 - 0.5))


# Initialisation


def initial(init: Literal["scan", "shortcut"], sample: int, hashing: FMHash) -> Callable[[Coins], object]:
    return lambda coins: PPDS(4, 0.5, sample, init=init, hashing=hashing, coins=coins).state


@HASHES
@pytest.mark.parametrize("sample", [1, 2, 3, 4, 5])
def test_scan_and_shortcut_have_exactly_the_same_law(sample: int, hashing: FMHash) -> None:
    assert law(initial("scan", sample, hashing)) == law(initial("shortcut", sample, hashing))


def test_a_fixed_number_of_inserted_users_would_be_another_law() -> None:
    """The shortcut with exactly p_init * |U| users, as the paper words it."""

    def fixed(coins: Coins) -> object:
        chosen = LevelledSet(PLAIN, 3)
        chosen.fill(coins.subset(4, 2), 4)
        return chosen.state

    assert law(fixed) != law(initial("scan", 3, PLAIN))


def test_a_level_for_the_whole_subset_at_once_would_be_another_law() -> None:
    """A planted bug: the level may rise only once at each user, so the last one can leave the set full."""

    def at_once(coins: Coins) -> object:
        chosen = np.flatnonzero(coins.below(absent(), 4))
        level = 0
        while np.count_nonzero(ODD.levels(chosen) >= level) >= 1:
            level += 1
        return (ODD, level, tuple(chosen[ODD.levels(chosen) >= level].tolist()))

    assert law(at_once) != law(initial("scan", 1, ODD))


def absent() -> int:
    return PPDS(1, 0.5, 1)._pair.coins.absent


@pytest.mark.slow
def test_the_shortcut_agrees_with_the_scan_on_many_users_too() -> None:
    """False alarm: 1e-6 for each of two comparisons of proportions, 400 runs."""
    levels = {}
    for init in ("scan", "shortcut"):
        runs = [PPDS(3000, 0.5, 100, init=init, coins=SeededCoins(run)) for run in range(400)]
        levels[init] = sum(est.state.level for est in runs)
        sizes = [len(est.state.users) / 100 for est in runs]
        assert 0.3 < np.mean(sizes) < 0.9
    assert_binomial(levels["scan"], levels["scan"] + levels["shortcut"], 0.5)


# Where it meets OptBern


def test_a_set_that_never_fills_is_optbern_with_every_user_sampled() -> None:
    def ppds(coins: Coins) -> object:
        est = PPDS(3, 0.5, 4, hashing=FMHash(1, 0, 2), coins=coins)
        est.update_many([0, 2, 0])
        est.remove(2)
        return est.state.users

    def optbern(coins: Coins) -> object:
        est = OptBern(3, 0.5, 3, coins=coins)
        est.update_many([0, 2, 0])
        est.remove(2)
        return tuple(user for user, bit in enumerate(est.state.bits) if bit)

    assert law(ppds) == law(optbern)
    by_count = {
        kind: {(round(value, 12), round(scale, 12)) for _, value, scale in outputs(make)}
        for kind, make in (
            ("ppds", lambda coins: PPDS(3, 0.5, 4, hashing=FMHash(1, 0, 2), coins=coins)),
            ("optbern", lambda coins: OptBern(3, 0.5, 3, coins=coins)),
        )
    }
    assert by_count["ppds"] == by_count["optbern"]


def test_a_set_as_large_as_the_universe_still_rises_if_every_coin_says_yes() -> None:
    found = law(lambda coins: PPDS(3, 0.5, 3, hashing=FMHash(1, 0, 2), coins=coins).state.level)
    assert float(found[1]) == pytest.approx((absent() / ONE) ** 3)


# Errors


@pytest.mark.slow
def test_on_a_sparse_stream_it_errs_less_than_optbern_with_as_large_a_set() -> None:
    """False alarm: 1e-6 for the error of its level; the level itself is certain here."""
    errors, made = estimates(lambda coins: PPDS(USERS, 0.2, 1000, coins=coins), "zipf")
    assert {est.state.level for est in made} == {6}
    expected = float(theory.mse("ppds", 0.2, None, DENSITIES["zipf"], USERS, level=6))
    optbern = float(theory.mse("optbern", 0.2, 1000, DENSITIES["zipf"], USERS))
    assert_variance(errors, expected)
    assert expected < 0.65 * optbern
    assert np.mean(errors**2) < optbern
    with pytest.raises(AssertionError):  # from errors that are exactly as expected: no matter of luck
        assert_variance(errors / np.sqrt(np.mean(errors**2) / expected) * 1.3, expected)


@pytest.mark.slow
def test_a_stream_of_every_other_id_is_estimated_as_nobody_or_everybody() -> None:
    """The linear hash keeps an arithmetic progression; the truth is one half. False alarm: 2e-7."""
    found = []
    for run in range(40):
        est = PPDS(100_000, 2.0, 1000, coins=SeededCoins(run))
        est.update_many(np.arange(0, 100_000, 2))
        found.append(est.estimate())
    assert all(min(abs(x), abs(x - 1)) < 0.3 for x in found)
    assert 4 < sum(x > 0.5 for x in found) < 36


# What is wrong with it


@HASHES
def test_its_level_leaks_without_bound(hashing: FMHash) -> None:
    found = audit.exact(lambda coins: PPDS(4, 0.1, 2, hashing=hashing, coins=coins), users=4, length=2)
    assert found.worst_loss == math.inf


def test_one_appearance_of_one_user_can_be_certain() -> None:
    """The shortest case: level 1 means that the only user was once in the set, and only an event takes it out."""
    top = FMHash(multiplier=1, offset=0, bits=1)

    def reachable(times: int) -> set[object]:
        def run(coins: Coins) -> object:
            est = PPDS(1, 0.1, 1, hashing=top, coins=coins)
            est.update_many([0] * times)
            return est.state

        return set(law(run))

    assert reachable(0) == {(top, 0, ()), (top, 1, (0,))}
    assert reachable(1) - reachable(0) == {(top, 1, ())}


def test_a_set_that_never_fills_loses_what_optbern_loses() -> None:
    found = audit.exact(lambda coins: PPDS(2, 0.1, 3, hashing=FMHash(1, 0, 1), coins=coins), users=2, length=2)
    assert found.worst_loss == pytest.approx(theory.joint_loss("optbern", 0.1))


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"sample": 0}, "sample-range"),
        ({"pair": "laplace"}, "pair-choice"),
        ({"init": "later"}, "init-choice"),
    ],
)
def test_what_is_not_in_the_listing_is_refused(arguments: dict[str, object], code: str) -> None:
    with refused(code):
        PPDS(10, 0.5, **{"sample": 5, **arguments})  # type: ignore[arg-type]

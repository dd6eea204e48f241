"""Plans with groups of users and categories of events: what is promised of each is what the built estimator does.

Misses of each group are binomial with the planned probability, and refused in a two-sided test at 1e-6 for each.
"""

from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy import stats

import panprivacy as pp
from command_line import invoke
from panprivacy.errors import CannotPlan, InvalidType, InvalidValue
from panprivacy.planning.law import Design, worst_case
from panprivacy.planning.periods import plan_periods
from panprivacy.testing import SeededCoins, refused, slots_of, split_of

FALSE_ALARM = 1e-6
REGIONS = {"north": 4_000, "south": 1_000, "west": 1_010}


def laws_of(est: Any) -> list[Design]:
    """The law of each group or category of an estimator as it was built."""
    ranges, split = slots_of(est).ranges, split_of(est)
    columns = zip(ranges.bits.tolist(), ranges.users.tolist(), ranges.population.tolist(), strict=True)
    return [Design(split.pair_after(split.intrusions), *each, split.noise) for each in columns]


@pytest.mark.slow
def test_each_group_of_the_built_estimator_has_the_planned_error() -> None:
    planned = pp.plan(epsilon=1.5, groups=REGIONS)
    est: Any = planned.build()
    assert est.groups == tuple(REGIONS)
    assert split_of(est) == planned.split
    for row, law in zip(planned.groups, laws_of(est), strict=True):
        assert row.users == REGIONS[str(row.group)]
        assert row.stderr == pytest.approx(est.density_stderr_at(0.5, row.group))
        assert worst_case(law, Fraction(str(row.alpha))).probability <= planned.beta
    assert planned.alpha == max(row.alpha for row in planned.groups)


@pytest.mark.slow
def test_the_least_epsilon_is_one_with_which_every_group_keeps_to_alpha() -> None:
    planned = pp.plan(alpha=0.05, groups=REGIONS)
    risks = [worst_case(law, Fraction(1, 20)).probability for law in laws_of(planned.build())]
    assert max(risks) <= planned.beta
    assert max(risks) == pytest.approx(planned.probability)
    with refused("cannot-plan", f"{planned.epsilon:g}"):
        pp.plan(epsilon=planned.epsilon - 0.01, alpha=0.05, groups=REGIONS)


@pytest.mark.slow
def test_groups_that_are_hardly_larger_than_the_smallest_keep_to_alpha_too() -> None:
    # counts are whole numbers: the group that errs most need not be the smallest
    sizes = {str(users): users for users in range(600, 640, 5)}
    planned = pp.plan(epsilon=1.0, groups=sizes)
    assert planned.alpha == max(row.alpha for row in planned.groups)


@pytest.mark.slow
def test_the_smallest_sample_is_told_with_which_every_category_keeps_to_alpha() -> None:
    planned = pp.plan(200_000, 2.0, alpha=0.04, categories=["flu", "cold", "measles"])
    assert planned.sample is not None
    est = planned.build(coins=SeededCoins(2))
    assert est.groups == ("flu", "cold", "measles")
    assert split_of(est) == planned.split
    for law in laws_of(est):  # a key gives a category a few users more or fewer than are expected
        assert worst_case(law, Fraction(1, 25)).probability < 1.1 * planned.beta
    with pytest.raises(CannotPlan):
        pp.plan(200_000, 2.0, alpha=0.04, categories=["flu", "cold", "measles"], memory=planned.memory * 9 // 10)


@pytest.mark.slow
@pytest.mark.parametrize("seen", [0.3, 0.5])
def test_groups_and_categories_miss_as_often_as_planned_and_a_wrong_scale_would_show(seen: float) -> None:
    groups = pp.plan(epsilon=2.0, groups=REGIONS, releases=2)
    categories = pp.plan(3_000, 2.0, categories=["flu", "cold"], other=True)
    runs, coins, random = 700, SeededCoins(7), np.random.default_rng(7)
    for planned in (groups, categories):
        assert planned.universe is not None
        errors: list[list[float]] = []
        for _ in range(runs):
            est = planned.build(coins=coins)
            bounds = np.append(0, np.cumsum([row.users for row in planned.groups]))
            if planned is groups:
                for start, end in pairwise(bounds):
                    est.update_many(np.arange(start, start + round(seen * (end - start))))
            else:
                came = random.permutation(planned.universe.size)[: round(seen * planned.universe.size)]
                for name in ("flu", "cold", "something else"):
                    est.update_many(came, name)
            errors.append([abs(row.raw_density - seen) for row in est.release().groups])
        for row, column in zip(planned.groups, np.array(errors).T, strict=True):
            missed = int((column >= row.alpha).sum())
            assert stats.binomtest(missed, runs, planned.beta, alternative="greater").pvalue > FALSE_ALARM
            wrong = int((1.4 * column >= row.alpha).sum())  # errors 40 % larger
            assert stats.binomtest(wrong, runs, planned.beta, alternative="greater").pvalue < FALSE_ALARM


def test_counts_retention_and_actives_are_planned_by_group() -> None:
    often = pp.plan(epsilon=1.0, groups=REGIONS, up_to=4)
    est = often.build()
    assert split_of(est) == often.split
    assert [row.group for row in often.groups] == list(est.groups)
    assert often.stderr == max(row.stderr for row in often.groups)
    released = est.release()
    for row, found in zip(often.groups, released.groups, strict=True):
        assert row.stderr == pytest.approx(max(found.at_least_stderr), rel=0.02)
    back = plan_periods("Retention", None, 2.0, groups=REGIONS)
    assert split_of(back.build()) == back.split
    large = {name: 10 * users for name, users in REGIONS.items()}  # a day has about as many users of a group as another
    active = plan_periods("ActiveUsers", None, 4.0, span="7d", groups=large)
    built = active.build(start="2026-01-05")
    for row in active.groups:
        assert row.stderr == pytest.approx(built.stderr_at(0.5, row.group), rel=0.1)


def test_the_groups_of_listed_users_are_planned_for_without_a_word() -> None:
    listed = pp.Users(["ada", "grace", "mary", "rosalind"], groups=["x", "x", "y", "y"])
    planned = pp.plan(listed, 9.0)
    assert [(row.group, row.users) for row in planned.groups] == [("x", 2), ("y", 2)]
    assert planned.build().groups == ("x", "y")
    assert split_of(planned.build()) == planned.split


@pytest.mark.slow
def test_an_error_is_told_of_every_one_of_very_many_groups_and_is_never_understated() -> None:
    sizes = {f"g{i}": 600 + 7 * i for i in range(120)}
    planned = pp.plan(epsilon=3.0, groups=sizes)
    told = {row.group: row.alpha for row in planned.groups}
    assert len(told) == 120
    assert told["g0"] == pytest.approx(planned.alpha, rel=0.02)
    laws = laws_of(planned.build())
    for number in (0, 1, 59, 60, 61, 119):
        risk = worst_case(laws[number], Fraction(str(told[f"g{number}"]))).probability
        assert risk <= 1.02 * planned.beta


@pytest.mark.parametrize(
    ("wish", "code"),
    [
        ({"universe": 5_000, "groups": REGIONS}, "groups-length"),
        ({"groups": {"north": 0}}, "groups-number"),
        ({"groups": {}}, "groups-number"),
        ({"categories": ["a", "b"], "count": 1000}, "plan-groups"),
        ({"groups": REGIONS, "memory": "16 B"}, "groups-and-sample"),
        ({"groups": REGIONS, "categories": ["a"]}, "groups-and-categories"),
        ({"universe": 2, "categories": ["a", "b", "c"]}, "too-many-categories"),
        ({"universe": 10, "other": True}, "other-without-categories"),
        ({"universe": 3, "groups": ["a", "b"]}, "groups-length"),
    ],
)
def test_nonsense_about_groups_is_refused_with_what_is_wrong(wish: dict[str, Any], code: str) -> None:
    with pytest.raises((InvalidValue, InvalidType)) as refused:
        pp.plan(epsilon=1.0, **wish)
    assert refused.value.code == code


@pytest.mark.slow
def test_the_shell_lists_the_error_of_each_group(tmp_path: Any) -> None:
    asked = invoke(["plan", "--groups", "north=4000,south=1000,west=1010", "-e", "1.5"])
    planned = pp.plan(epsilon=1.5, groups=REGIONS)
    assert asked.stdout.splitlines() == planned.lines()
    assert [line.partition(":")[0] for line in asked.stdout.splitlines()[1:]] == list(REGIONS)
    members = tmp_path / "members.csv"
    members.write_text("id,region\n" + "".join(f"{i},{'north' if i % 3 else 'south'}\n" for i in range(900)))
    counted = invoke(["plan", "--groups", f"{members}:region", "-e", "2", "--csv"])
    header, *rows = (line.split(",") for line in counted.stdout.splitlines())
    found = {row[0]: int(row[header.index("users")]) for row in rows}
    assert found == {"south": 300, "north": 600}
    wrong = invoke(["plan", "--groups", "north,south", "-e", "2"])
    assert wrong.exit_code == 2
    assert "north=40000,south=20000" in wrong.stderr

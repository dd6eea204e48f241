"""Crossings of more than two features, and users who act as one."""

from typing import Any

from panprivacy.actives import ActiveUsers
from panprivacy.audit.crossings import holders
from panprivacy.audit.crossings.cells import Cell, refused
from panprivacy.audit.crossings.columns import DELTA
from panprivacy.audit.crossings.measuring import Scenario, measure, refusal
from panprivacy.audit.crossings.repeating import windows
from panprivacy.audit.crossings.rows import KINDS, Row
from panprivacy.counts import Counts
from panprivacy.density import Density
from panprivacy.privacy.coins import Coins
from panprivacy.testing import SeededCoins
from panprivacy.universe import Users


def _by_category(holder: Any) -> Cell:
    """A `Counts` with categories, in a holder."""

    def make(coins: Coins) -> Any:
        return holders.ByCategory(holder(Row(Counts).build(coins, universe=2, categories=KINDS), coins), *KINDS)

    return measure(make, Scenario(range(1), 2, verbs=("update", "update_other")))


def _counts_in_folder(**options: Any) -> Cell:
    events = Scenario(range(1), 2)
    return measure(lambda coins: holders.InFolder(Row(Counts).build(coins, **options), coins), events)


def _groups_in_windows() -> Cell:
    listed = Users(["user0", "user1"], groups=list(KINDS))
    options = {"universe": listed, "delta": DELTA, "epsilon": 4.0}
    scenario = Scenario(["user0"], 1, releases=1, readings=0)
    return measure(lambda coins: holders.InWindows(holders.Maker(Row(Density).build, coins, **options), 1, 0), scenario)


def _groups_of_actives() -> Cell:
    listed = Users(["user0", "user1"], groups=list(KINDS))
    error = refusal(lambda: Row(ActiveUsers).build(SeededCoins(0), universe=listed, delta=DELTA))
    assert error is not None, "an ActiveUsers took groups"
    return refused(error)


def _alone(releases: int, **options: Any) -> Cell:
    scenario = Scenario(range(1), 1, releases=releases)
    return measure(lambda coins: holders.Alone(Row(Density).build(coins, releases=releases, **options)), scenario)


def _together(**options: Any) -> Cell:
    scenario = Scenario(range(2), 2 if not options else 1, together=2)
    return measure(lambda coins: holders.Together(Row(Density).build(coins, universe=2, **options), 2), scenario)


MORE: dict[str, Any] = {
    "StateFolder x Counts x categories": lambda: _by_category(holders.InFolder),
    "state file x Counts x categories": lambda: _by_category(holders.InFile),
    "StateFolder x Counts x groups": lambda: _counts_in_folder(universe=2, groups=list(KINDS)),
    "StateFolder x Counts x delta": lambda: _counts_in_folder(delta=DELTA, epsilon=8.0),
    "Windows x Density x groups x delta, unread": _groups_in_windows,
    "Windows x Density x 2 releases x delta, read once": lambda: windows(Row(Density), 2, 1, DELTA, releases=2),
    "Windows x Density x 2 releases x delta, unread": lambda: windows(Row(Density), 2, 0, DELTA, releases=2),
    "ActiveUsers x groups x delta x 2 cycles": _groups_of_actives,
    "Density x 3 releases x delta 1e-5 x epsilon 12": lambda: _alone(releases=3, delta=1e-5, epsilon=12.0),
    "Density, 2 users who act as one": _together,
    "Density, delta, 2 users who act as one": lambda: _together(delta=DELTA, epsilon=3.0),
}
"""Crossings beyond pairs, by their names."""

"""What is stated too low where two features meet is found by the crossing that they share."""

from copy import copy
from typing import Any

import pytest

from panprivacy.audit.crossings import COLUMNS, DELTA, MORE, Cell, Row, Scenario, measure, windows
from panprivacy.audit.holders import InWindows, LosingShards, Maker
from panprivacy.estimators.counts import Counts
from panprivacy.estimators.density import Density
from panprivacy.estimators.windows import Windows
from panprivacy.folder import StateFolder
from panprivacy.privacy import composition, exact, gaussian
from panprivacy.privacy.budget import Split
from panprivacy.privacy.noise import Gaussian, Laplace
from panprivacy.testing import ledger_of, split_of


def unread_of_one_count(split: Split, draws: int = 1) -> float:
    """What windows of a `Counts` were once said to lose by their releases: as if one user moved one count by 1."""
    if isinstance(split.noise, Gaussian):
        return gaussian.loss(split.noise.square, draws * split.releases, split.delta)
    released = exact.decimal(split.releases * split.noise.epsilon)
    if split.releases > 1:
        return exact.round_up(released)
    present, absent = (exact.log_mixture(p, released) for p in (split.pair.p1, split.pair.p0))
    return exact.round_up(exact.add(present, -absent))


@pytest.fixture
def _one_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(composition, "unread_laplace", lambda split, _: exact.decimal(unread_of_one_count(split)))
    monkeypatch.setattr(composition, "_unread_gaussian", unread_of_one_count)


@pytest.mark.slow
@pytest.mark.usefixtures("_one_count")
@pytest.mark.parametrize("feature", ["2 windows, read once", "2 windows, unread"])
def test_windows_that_forget_that_a_user_moves_two_counts_are_found(feature: str) -> None:
    assert COLUMNS[feature](Row(Counts)).found > 1.05 * COLUMNS[feature](Row(Counts)).epsilon
    assert COLUMNS[feature](Row(Density)).holds


@pytest.mark.slow
@pytest.mark.usefixtures("_one_count")
def test_with_a_delta_they_are_found_too() -> None:
    def cell(epsilon: float) -> Cell:
        make = Row(Counts).build
        return measure(
            lambda coins: InWindows(Maker(make, coins, delta=DELTA, epsilon=epsilon), 1, 0),
            Scenario(range(1), 2, readings=0),
        )

    found = [cell(epsilon) for epsilon in (6.0, 7.0, 8.0, 9.0)]
    assert all(one.delta == DELTA for one in found)
    assert any(one.found > 1.2 * DELTA for one in found)


@pytest.mark.slow
def test_a_folder_that_forgets_that_a_user_moves_two_counts_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    change = StateFolder._change

    def with_half_the_noise(self: Any, act: Any) -> Any:
        def do(est: Any) -> Any:
            split = split_of(est)
            ledger_of(est).split = forged = copy(split)
            object.__setattr__(forged, "noise", Laplace(split.sensitivity * split.noise.epsilon))
            try:
                return act(est)
            finally:
                ledger_of(est).split = split

        return change(self, do)

    monkeypatch.setattr(StateFolder, "_change", with_half_the_noise)
    cell = COLUMNS["state folder"](Row(Counts))
    assert not cell.holds
    assert cell.found > 1.05 * cell.epsilon
    assert COLUMNS["state folder"](Row(Density)).holds


class SettingAside(LosingShards):
    """The planted leak: a lost shard is found again, and set aside beside the folder."""

    def release(self) -> Any:
        lost = next(content for name, content in sorted(self._files.items()) if "shard" in name)
        released = super().release()
        self._files["aside.pp"] = lost
        return released


@pytest.mark.slow
def test_a_lost_shard_that_is_set_aside_is_one_more_reading() -> None:
    def make(coins: Any) -> Any:
        return SettingAside(Row(Density).build(coins, universe=2, releases=2), coins)

    assert not measure(make, Scenario(range(2), 3, releases=2)).holds


@pytest.mark.slow
def test_windows_whose_users_own_a_bit_in_every_category_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: an event counts in the category of its user, whichever it is in, and once more as another's."""
    update = Windows.update

    def twice(self: Any, user: Any, category: Any, **options: Any) -> None:
        for each in (user, 1 - user):
            update(self, each, category, **options)

    monkeypatch.setattr(Windows, "update", twice)
    assert not MORE["Windows x Density x categories, read once"]().holds


@pytest.mark.slow
def test_windows_that_state_the_delta_of_one_of_them_for_two_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside an epsilon that is just large enough for two deltas, one of them does not do."""
    stated = [3.0]
    monkeypatch.setattr(Windows, "loss", lambda self, windows=1, *, readings=None: stated[0])  # noqa: ARG005
    monkeypatch.setattr(Windows, "delta", lambda self, windows=1, *, readings=None: windows * DELTA)  # noqa: ARG005
    while not (cell := windows(Row(Density), 2, 1, DELTA)).holds:
        stated[0] += 0.05
    assert cell.found > 1.2 * DELTA

    monkeypatch.setattr(Windows, "delta", lambda self, windows=1, *, readings=None: DELTA)  # noqa: ARG005
    assert not windows(Row(Density), 2, 1, DELTA).holds


def test_two_users_who_act_as_one_lose_more_than_one_of_them() -> None:
    cell = MORE["Density, 2 users who act as one"]()
    assert cell.epsilon / 2 * 1.9 < cell.found <= cell.epsilon
